"""What is carried over stands in a translation, however bad the model is: its weights here are random."""

from pathlib import Path

import pytest
import torch

from dragoman.config import ModifiersConfig
from dragoman.model.kernels import FAST
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.scoring import score_pairs
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.text.slots import SLOTS
from dragoman.text.tokenizer import EOS_ID, TokenizerPair

TEXTS = [
    "red cat at 14:30 and 25",
    "small bird",
    "",
    "{name} has www.a.de and <b>99</b>",
    "cat " + " ".join(map(str, range(10, 10 + 2 * len(SLOTS)))),
]


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    """A model with slots, which has learnt nothing."""
    plain = Translator.load(tiny_run, precision="fp32")
    return with_random_weights(plain, plain.tokenizers.with_slots())


def with_random_weights(plain: Translator, pair: TokenizerPair) -> Translator:
    torch.manual_seed(1)
    model = Seq2SeqTransformer(
        plain.model.config,
        src_vocab_size=pair.src.vocab_size,
        tgt_vocab_size=pair.tgt.vocab_size,
        kernels=FAST,
    )
    config = plain.config.model_copy(update={"modifiers": ModifiersConfig(slots=0.5)})
    return Translator.of([model.requires_grad_(False)], pair, config)


def expected(text: str) -> list[str]:
    return {
        TEXTS[0]: ["14:30", "25"],
        TEXTS[3]: ["{name}", "www.a.de", "<b>", "99", "</b>"],
        TEXTS[4]: text.split()[1 : 1 + len(SLOTS)],
    }.get(text, [])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_translation_holds_what_is_carried_over(translator: Translator, beam_size: int) -> None:
    found = translator.translate(TEXTS, beam_size=beam_size)
    for translation in found:
        assert [s for s in expected(translation.source) if s not in translation.text] == []
        assert not set(translation.text) & set(SLOTS)


def test_a_run_that_was_not_trained_with_slots_does_not_use_those_of_its_vocabulary(
    translator: Translator,
) -> None:
    config = translator.config.model_copy(update={"modifiers": ModifiersConfig()})
    other = Translator.of([translator.model], translator.tokenizers, config)
    (sentence,) = other.inputs(TEXTS[:1], None, None, first_number=1)
    assert not sentence.spans
    assert other.tokenizers.has_slots
    assert not set(other.translate(TEXTS[:1])[0].text) & set(SLOTS)


def test_scoring_reads_texts_as_they_are(translator: Translator) -> None:
    """With slots, what a search reads is another sequence, of another probability."""
    target = "rot Katze 14:30 25"
    src, tgt = translator.tokenizers.src.encode(TEXTS[0]), translator.tokenizers.tgt.encode(target)
    (scored,) = score_pairs(translator, TEXTS[:1], [target])
    (log_probs,) = TorchEngine(*translator.models).score([[*src, EOS_ID]], [tgt])
    assert scored.log_prob == pytest.approx(sum(log_probs))


def test_all_texts_are_translated_as_alone(translator: Translator) -> None:
    together = [t.text for t in translator.translate(TEXTS)]
    assert together == [translator.translate([text])[0].text for text in TEXTS]


def test_a_prefix_may_hold_some_of_it(translator: Translator) -> None:
    (found,) = translator.translate(TEXTS[:1], prefixes=["at 25 o"])
    assert found.text.startswith("at 25 o")
    assert "14:30" in found.text


def test_what_a_required_phrase_holds_is_written_by_it(translator: Translator) -> None:
    (found,) = translator.translate(TEXTS[:1], required=[["at 25"]])
    assert "at 25" in found.text
    assert "14:30" in found.text


def test_drawn_translations_and_groups_of_a_beam_are_not_forced(translator: Translator) -> None:
    for settings in ({"method": "sampling"}, {"diversity_groups": 3}):
        (found,) = translator.translate(TEXTS[:1], **settings)
        assert not set(found.text) & set(SLOTS)


def test_a_text_that_slots_make_too_long_is_translated_in_parts(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Translator.load(tiny_run, precision="fp32")
    pair = plain.tokenizers.extended([("cat 😀", "Katze 😀")] * 9, 20)  # an emoji is one token
    translator = with_random_weights(plain, pair.with_slots())
    text = "red cat 😀 😀 😀"
    n_tokens = len(pair.src.encode(text)) + 1
    monkeypatch.setattr(Translator, "max_positions", n_tokens)
    (found,) = translator.translate([text])
    assert len(found.parts) > 1, "a slot is two"
    assert "".join(part.source for part in found.parts) == text
