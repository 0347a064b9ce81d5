"""Every search over a model: prefixes, phrases, samples, coverage and ensembles, from text to text."""

import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import SearchConfig, TokenizerConfig
from dragoman.data.batching import pad
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.phrases import ExactPhrase
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.model.copies import inference_copy
from dragoman.model.incremental import IncrementalDecoder
from dragoman.predict.attention import attention_maps
from dragoman.predict.engine import SearchInput, longest_translation
from dragoman.predict.inflection import WrittenTokens
from dragoman.predict.torch_engine import TorchEngine, engine_of
from dragoman.predict.translator import Translator
from dragoman.text.spans import encode_phrase
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, TokenizerPair, train_tokenizer

TEXTS = ["red cat", "big old house", "", "small bird river tree", "blue dog"]


@pytest.fixture(scope="module")
def ensemble(translator: Translator) -> Translator:
    """The run's model and another one."""
    torch.manual_seed(7)
    other = inference_copy(translator.model, torch.float32)
    for parameter in other.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    return Translator.of([translator.model, other], translator.tokenizers, translator.config)


def sentences(translator: Translator, **options: object) -> list[SearchInput]:
    sources = translator.tokenizers.src.encode_batch([text for text in TEXTS if text])
    return [SearchInput([*ids, EOS_ID], number=i, **options) for i, ids in enumerate(sources)]  # type: ignore[arg-type]


SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 4},
    "diverse": {"beam_size": 4, "diversity_groups": 2, "n_best": 3},
    "sampling": {"method": "sampling", "n_best": 3, "temperature": 0.7, "top_k": 50, "top_p": 0.95},
    "no repetition": {"beam_size": 3, "n_best": 3, "no_repeat_ngram": 1},
    "coverage": {"beam_size": 3, "n_best": 3, "coverage_penalty": 0.3},
}
Settings = dict[str, object]
every_search = pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)


# The decoder's attention


def test_attention_is_the_mean_over_the_heads_of_the_last_layer(translator: Translator) -> None:
    maps = attention_maps(translator, "red cat", "rot Katze groß")
    expected = maps.cross.weights[-1].mean(axis=0)  # (T, S)
    short, long = (translator.tokenizers.src.encode(text) for text in ("red cat", "small bird river tree"))
    src = pad([[*short, EOS_ID], [*long, EOS_ID]])
    decoder = IncrementalDecoder(translator.model, src, src != PAD_ID, keep_attention=True)
    tokens = [BOS_ID, *translator.tokenizers.tgt.encode("rot Katze groß")]
    rows = []
    for t, token in enumerate(tokens):
        parents = torch.tensor([0, 0, 1] if t == 1 else [0, 1, 2] if t else [0, 1])
        decoder(torch.full((len(parents),), token), parents)
        assert torch.allclose(decoder.attention.sum(dim=1), torch.ones(len(parents)))
        rows.append(decoder.attention[0])
    found = torch.stack(rows)
    assert torch.allclose(found[:, : len(short) + 1], torch.tensor(expected), atol=1e-5)
    assert not found[:, len(short) + 1 :].any(), "padding is not attended to"


def test_attention_is_not_kept_unless_it_is_asked_for(translator: Translator) -> None:
    src = pad([[5, EOS_ID]])
    decoder = IncrementalDecoder(translator.model, src, src != PAD_ID)
    decoder(torch.tensor([BOS_ID]), torch.tensor([0]))
    assert not decoder.attention.numel()


def test_the_coverage_penalty_is_that_of_the_attention_while_it_is_written(translator: Translator) -> None:
    beta, alpha = 0.3, 1.5
    short = {"max_length_factor": 0.1, "max_length_extra": 2}  # so that much is left uncovered
    search = SearchConfig(beam_size=4, n_best=4, length_penalty=alpha, coverage_penalty=beta, **short)
    batch = sentences(translator)
    for sentence, hypotheses in zip(batch, translator.engine.search(batch, search), strict=True):
        src = pad([sentence.source])
        for ids, log_prob, score in hypotheses:
            decoder = IncrementalDecoder(translator.model, src, src != PAD_ID, keep_attention=True)
            covered = torch.zeros(src.shape[1])
            for token in (BOS_ID, *ids):
                decoder(torch.tensor([token]), torch.tensor([0]))
                covered += decoder.attention[0]
            term = beta * sum(math.log(min(a, 1.0)) for a in covered[:-1].tolist())  # not the end token
            assert term < 0
            assert score == pytest.approx(log_prob / ((5 + len(ids) + 1) / 6) ** alpha + term, rel=1e-4)


# Constraints


@pytest.mark.slow
@every_search
def test_every_alternative_begins_with_its_prefix(translator: Translator, settings: Settings) -> None:
    prefixes = ["groß Haus", "", "rot", "alt alt", "Hund"]
    translations = translator.translate(TEXTS, prefixes=prefixes, **settings)
    for prefix, translation in zip(prefixes, translations, strict=True):
        for text, score in translation.alternatives:
            assert text.startswith(prefix) or not translation.source
            assert score > -math.inf
    plain = translator.translate(TEXTS, **settings)
    assert translations[1].text == plain[1].text, "one without a prefix is translated as before"
    assert translations[2].text == ""


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_alternative_holds_its_phrases_as_whole_words(translator: Translator, beam_size: int) -> None:
    required = [["Katze"], ["groß Haus", "alt"], ["Hund"], [], ["Zebra", "über"]]
    translations = translator.translate(TEXTS, required=required, beam_size=beam_size, n_best=beam_size)
    for phrases, translation in zip(required, translations, strict=True):
        for text, score in translation.alternatives:
            words = [re.search(rf"(?<!\w){phrase}(?!\w)", text) for phrase in phrases]
            assert all(words) or not translation.source
            assert score > -math.inf
    plain = translator.translate(TEXTS, beam_size=beam_size, n_best=beam_size)
    assert translations[3].text == plain[3].text, "one without phrases is translated as before"


def test_prefix_and_phrases_make_room_for_themselves(translator: Translator) -> None:
    config = SearchConfig(max_length_factor=0.1, max_length_extra=2)
    assert longest_translation(SearchInput([5, 6, EOS_ID]), config, limit=99) == 2
    sentence = SearchInput([5, 6, EOS_ID], prefix=[1] * 10, required=[ExactPhrase((4, 5)), ExactPhrase((6,))])
    assert longest_translation(sentence, config, limit=99) == 10 + 3 + 2
    assert longest_translation(sentence, config, limit=14) == 14
    prefix, phrase = "rot " * 20, "Hund Katze Haus"
    n_needed = sum(len(translator.tokenizers.tgt.encode(text)) for text in (prefix, phrase))
    assert n_needed > longest_translation(sentences(translator)[0], translator.config.search, limit=512)
    found = translator.translate(["red cat"], prefixes=[prefix], required=[[phrase]], beam_size=2)[0].text
    assert found.startswith(prefix.strip())
    assert phrase in found


def test_blocking_writes_no_ngram_twice(translator: Translator) -> None:
    for n in (1, 2):
        for settings in ({"beam_size": 3, "n_best": 3}, {"method": "sampling", "n_best": 5}):
            search = SearchConfig(no_repeat_ngram=n, **settings)  # type: ignore[arg-type]
            for hypotheses in translator.engine.search(sentences(translator), search):
                for ids, *_ in hypotheses:
                    ngrams = list(zip(*(ids[i:] for i in range(n)), strict=False))
                    assert len(set(ngrams)) == len(ngrams)


def test_continuing_tokens_are_those_that_lengthen_a_word() -> None:
    texts = ["Hunde Hund rot Haus und Hundehaus 123, vier!"] * 9
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=320))
    continuing = WrittenTokens.of(tokenizer).continuing
    pieces = {token.piece: token.id for text in texts for token in tokenizer.tokens(text)}
    for piece, i in pieces.items():
        assert (i in continuing) == piece[0].isalnum(), piece
    assert not any(ids[0] in continuing for ids in map(tokenizer.encode, texts[0].split()))
    words = train_tokenizer(texts, TokenizerConfig(kind="words"))
    assert WrittenTokens.of(words).continuing == frozenset()
    characters = train_tokenizer(texts, TokenizerConfig(kind="characters"))
    letters = {characters.encode(letter)[0] for letter in "Hundrotas123vie"}
    assert letters <= WrittenTokens.of(characters).continuing
    assert characters.encode("!")[0] not in WrittenTokens.of(characters).continuing


def test_a_phrase_of_a_script_without_spaces_brings_no_space() -> None:
    tokenizer = train_tokenizer(["我们去银行。", "银行在河边。", "a, b"] * 5, TokenizerConfig(vocab_size=330))
    ids = encode_phrase(tokenizer, "银行")
    assert tokenizer.decode([*tokenizer.encode("我们去"), *ids]) == "我们去银行"
    assert encode_phrase(tokenizer, "a") == tokenizer.encode("a")
    assert encode_phrase(tokenizer, "  ") == []


# Samples and ensembles


def test_a_sample_follows_from_seed_and_number_whatever_else_is_in_the_batch(translator: Translator) -> None:
    settings = {"method": "sampling", "n_best": 2, "seed": 3}
    together = translator.translate(TEXTS, **settings, first_number=11)
    for i, text in enumerate(TEXTS):
        assert translator.translate([text], **settings, first_number=11 + i)[0].text == together[i].text
    other = translator.translate(TEXTS, **{**settings, "seed": 4}, first_number=11)
    assert [t.text for t in other] != [t.text for t in together]


@pytest.mark.slow
@every_search
def test_an_ensemble_of_one_model_twice_is_that_model(
    translator: Translator, tiny_run: Path, settings: Settings
) -> None:
    twice = Translator.load([tiny_run, tiny_run], device="cpu", precision="fp32")
    expected = translator.translate(TEXTS, **settings)
    found = twice.translate(TEXTS, **settings)
    assert [t.text for t in found] == [t.text for t in expected]
    assert [t.score for t in found] == pytest.approx([t.score for t in expected], rel=1e-4)


def test_an_ensemble_is_none_of_its_members(translator: Translator, ensemble: Translator) -> None:
    batch, search = sentences(translator), SearchConfig()
    alone, both = (
        [hypotheses[0].log_prob for hypotheses in each.engine.search(batch, search)]
        for each in (translator, ensemble)
    )
    assert alone != pytest.approx(both, rel=1e-3)


def test_runs_with_other_vocabularies_are_no_ensemble(tiny_run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_run, tmp_path / "other")
    shutil.rmtree(other / "tokenizer")
    pair = TokenizerPair.train([("ox", "Ochse")] * 5, TokenizerConfig(vocab_size=300))
    pair.save(other / "tokenizer")
    with pytest.raises(RunError, match=r"other: its source vocabulary is not that of .*run, so that they"):
        Translator.load([tiny_run, other])
    with pytest.raises(RunError, match="an ensemble of no runs"):
        Translator.load([])


# The log-probability of what is found


@pytest.mark.slow
@every_search
@pytest.mark.parametrize("which", ["translator", "ensemble"])
def test_forced_scoring_finds_the_log_probability_of_the_search(
    which: str, settings: dict[str, object], request: pytest.FixtureRequest
) -> None:
    """With phrases, a prefix, and without; teacher forcing knows none of them."""
    translator: Translator = request.getfixturevalue(which)
    engine = engine_of(*translator.models)
    tgt = translator.tokenizers.tgt
    plain = sentences(translator)
    variants = [plain, sentences(translator, prefix=tgt.encode("rot"))]
    search = SearchConfig().changed(settings, where="test")
    if search.method == "beam" and search.diversity_groups == 1:
        variants.append(sentences(translator, required=[ExactPhrase(tuple(tgt.encode("Hund")))]))
    for variant in variants:
        for sentence, hypotheses in zip(variant, engine.search(variant, search), strict=True):
            assert hypotheses
            sources = [sentence.source] * len(hypotheses)
            scored = TorchEngine(*translator.models).score(sources, [h.ids for h in hypotheses])
            expected = [math.fsum(values) for values in scored]
            assert [h.log_prob for h in hypotheses] == pytest.approx(expected, rel=1e-4, abs=1e-4)


# Settings and mistakes


def test_settings_of_a_call_are_those_of_the_run_with_others_in_their_place(translator: Translator) -> None:
    seen: list[SearchConfig] = []

    class Watching:
        longest, n_threads = 100, 1

        def search(self, sentences: list[SearchInput], settings: SearchConfig) -> list[list[Hypothesis]]:
            seen.append(settings)
            return [[Hypothesis((), 0.0, 0.0)] for _ in sentences]

    other = Translator(Watching(), translator.tokenizers, translator.config)  # type: ignore[arg-type]
    own = translator.config.search
    other.translate(["red"], beam_size=None, length_penalty=0.3, no_repeat_ngram=2)
    assert seen == [own.model_copy(update={"length_penalty": 0.3, "no_repeat_ngram": 2})]


def test_what_does_not_fit_a_smaller_beam_becomes_one_unless_it_is_asked_for() -> None:
    run = SearchConfig(beam_size=6, n_best=4, diversity_groups=3)
    narrow = run.changed({"beam_size": 2}, where="x")
    assert (narrow.n_best, narrow.diversity_groups) == (1, 1)
    with pytest.raises(ConfigError, match=r"x: beam_size = 2 cannot be split into diversity_groups = 3"):
        run.changed({"beam_size": 2, "diversity_groups": 3}, where="x")
    drawn = run.changed({"method": "sampling", "n_best": 50}, where="x")
    assert (drawn.n_best, drawn.diversity_groups) == (50, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_sise": 3}, r"translate: beam_sise is not a setting; did you mean beam_size\?"),
        ({"beam_size": 0}, r"translate: beam_size = 0: input should be greater than or equal to 1"),
        ({"temperature": 1e-60}, r"temperature = 1e-60: input should be greater than or equal to 0.001"),
        ({"top_p": 1.5}, r"top_p = 1.5: input should be less than or equal to 1"),
        ({"method": "magic"}, r"method = 'magic': input should be 'beam' or 'sampling'"),
        ({"method": "sampling", "coverage_penalty": 0.1}, r'coverage_penalty is for method = "beam"'),
        ({"method": "sampling", "required": [["Hund"]]}, r'required phrases need method = "beam"'),
        ({"beam_size": 4, "diversity_groups": 2, "required": [["Hund"]]}, r"set diversity_groups = 1"),
    ],
)
def test_impossible_settings_are_refused(translator: Translator, settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate(["red cat"], **settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefixes": ["a", "b"]}, r"prefixes must be a list with one entry for each of the 1 sentences"),
        ({"prefixes": "a"}, r"prefixes must be a list"),
        ({"required": []}, r"required must be a list with one entry for each of the 1 sentences"),
        ({"required": ["Hund"]}, r"sentence 7: required must be a list of phrases, such as \['Hund'\]"),
        ({"required": [[" "]]}, r"sentence 7: a required phrase is empty; leave it away"),
        ({"required": [["Hund " * 600]]}, r"sentence 7: its prefix and required phrases have \d+ tokens and"),
        ({"prefixes": ["Hund " * 600]}, r"the model writes at most 511; give shorter ones"),
    ],
)
def test_what_a_translation_cannot_hold_is_refused(
    translator: Translator, options: Settings, message: str
) -> None:
    assert translator.config.model.max_positions == 512
    with pytest.raises(DataError, match=message):
        translator.translate(["red cat"], first_number=7, **options)


def test_words_that_the_model_cannot_write_are_refused(translator: Translator) -> None:
    texts = ["rot Katze", "groß Haus", "red cat", "big house"]
    words = train_tokenizer(texts, TokenizerConfig(kind="words"))
    other = Translator.of([translator.model], TokenizerPair(words, words), translator.config)
    with pytest.raises(DataError, match=r"sentence 1: its prefix has a word that is not in the model's voc"):
        other.translate(["red cat"], prefixes=["Zebra"])
    with pytest.raises(DataError, match=r"sentence 1: the required phrase 'ein Zebra' has a word that is n"):
        other.translate(["red cat"], required=[["ein Zebra"]])


# Values


SAMPLED = {"method": "sampling", "n_best": 2}
WIDE = {"beam_size": 4, "n_best": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        *({**SAMPLED, name: value} for name, value in [
            ("temperature", 0.001), ("temperature", 1000.0), ("top_p", 1e-6), ("top_k", 10_000_000),
            ("seed", 2**63 - 1), ("length_penalty", 10.0),
        ]),
        *({**WIDE, name: value} for name, value in [
            ("length_penalty", 10.0), ("coverage_penalty", 1000.0), ("no_repeat_ngram", 100_000),
            ("max_length_factor", 1e-9), ("batch_sentences", 25_000),
        ]),
        {**WIDE, "diversity_groups": 2, "diversity_penalty": 1000.0},
    ],
    ids=str,
)  # fmt: skip
def test_settings_at_their_bounds_give_translations(translator: Translator, settings: Settings) -> None:
    found = translator.translate(TEXTS, first_number=2**62, **settings)
    for translation in found:
        assert len(translation.alternatives) == (settings["n_best"] if translation.source else 1)
        assert all(math.isfinite(alternative.score) for alternative in translation.alternatives)


def test_the_lowest_temperature_and_the_smallest_nucleus_are_greedy(translator: Translator) -> None:
    expected = [t.text for t in translator.translate(TEXTS, beam_size=1)]
    for setting in ({"temperature": 0.001}, {"top_p": 1e-6}):
        assert [t.text for t in translator.translate(TEXTS, method="sampling", **setting)] == expected


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([None], {}, "sentence 1: is of type NoneType, and not a string"),
        (["red", b"cat"], {"first_number": 7}, "sentence 8: is of type bytes, and not a string"),
        (["red", ["cat"]], {}, "sentence 2: is of type list, and not a string"),
        (None, {}, "give a list of sentences, not a value of type NoneType"),
        (b"red", {}, "give a list of sentences, not a value of type bytes"),
        ({"red": "cat"}, {}, "give a list of sentences, not a value of type dict"),
        ("red", {}, "translate takes a list of sentences; for a single one write translate([text])"),
        (["red"], {"first_number": -1}, "first_number = -1: is not a whole number from 0 on"),
        (["red"], {"first_number": 1.5}, "first_number = 1.5: is not a whole number from 0 on"),
        (["red"], {"prefixes": [None]}, "prefix 1: is of type NoneType, and not a string"),
        (["red"], {"prefixes": 5}, "prefixes must be a list with one entry for each of the 1 sentences"),
        (["red"], {"required": [None]}, "sentence 1: required must be a list of phrases, such as [None]"),
        (["red"], {"required": [[3]]}, "sentence 1, required phrase 1: is of type int, and not a string"),
    ],
)
def test_what_is_no_text_is_refused(
    translator: Translator, texts: Any, options: Settings, message: str
) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        translator.translate(texts, **options)
