import weakref
from pathlib import Path

import pytest
import torch

from dragoman.errors import ConfigError, DataError
from dragoman.hardware import choose_device, choose_dtype, has_bf16
from dragoman.predict.inflection import Inflectable
from dragoman.predict.translator import Translator
from dragoman.text.alterations import in_capitals, in_title_case

SENTENCES = ["red cat", "big old house", "", "small bird river tree", "blue dog", " "]


def test_sentences_keep_their_order_and_empty_ones_stay_empty(translator: Translator) -> None:
    translations = translator.translate(SENTENCES)
    assert [t.source for t in translations] == SENTENCES
    assert [t.text for t in translations if not t.source.strip()] == ["", ""]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translating_together_equals_one_by_one(translator: Translator, beam_size: int) -> None:
    together = translator.translate(SENTENCES, beam_size=beam_size)
    alone = [translator.translate([text], beam_size=beam_size)[0] for text in SENTENCES]
    assert [t.text for t in together] == [t.text for t in alone]
    assert [t.score for t in together] == pytest.approx([t.score for t in alone], rel=1e-4, abs=1e-6)


def test_n_best_are_alternatives_in_order_of_score(translator: Translator) -> None:
    translation = translator.translate(["red cat"], beam_size=3, n_best=3)[0]
    scores = [alternative.score for alternative in translation.alternatives]
    assert 1 < len(scores) <= 3
    assert scores == sorted(scores, reverse=True)
    assert (translation.text, translation.score) == translation.alternatives[0]


def test_a_character_too_long_is_named(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "max_positions", 4)
    message = "sentence 12: the character '𐍈' alone has more tokens than the 4 of a part"
    with pytest.raises(DataError, match=message):
        translator.translate(["a", "𐍈 fox"], first_number=11)


def test_bf16_translates_like_fp32_nearly_always(tiny_run: Path, translator: Translator) -> None:
    rounded = Translator.load(tiny_run, precision="bf16").translate(["red cat"])[0]
    assert rounded.score == pytest.approx(translator.translate(["red cat"])[0].score, rel=0.1)


def test_a_device_that_does_not_exist_or_is_not_supported_is_named() -> None:
    for name in ("gpu", "mps", "meta", "xla", "cuda:", "cuda:x", "cpu:1", ""):
        message = f'device = "{name}": is not supported; use "auto", "cpu", "cuda" or "cuda:1"'
        with pytest.raises(ConfigError, match=message):
            choose_device(name)
    beyond = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(ConfigError, match=rf'device = "{beyond}": this machine has \d+ CUDA devices'):
        choose_device(beyond)


def test_auto_precision_is_bf16_exactly_where_the_processor_has_it() -> None:
    cpu = torch.device("cpu")
    assert choose_dtype("auto", cpu) == (torch.bfloat16 if has_bf16(cpu) else torch.float32)
    assert [choose_dtype(name, cpu) for name in ("fp32", "bf16")] == [torch.float32, torch.bfloat16]
    with pytest.raises(ConfigError, match=r"^precision int4: is not one of"):
        choose_dtype("int4", cpu)


WITHOUT_LETTERS = ["12345", ".", "—", "😀 ", "€ 12.50", "\u200b", "1\t2", "*  *  *", "7" * 9000]


@pytest.mark.parametrize("text", WITHOUT_LETTERS)
def test_text_without_a_letter_is_copied_unless_more_is_required(translator: Translator, text: str) -> None:
    copy = text.replace("\t", " ")  # no control character is written
    for settings in ({}, {"n_best": 3, "beam_size": 3}, {"method": "sampling"}):
        red, found = translator.translate(["red", text], **settings)
        assert (found.source, [each.text for each in found.alternatives]) == (text, [copy])
        assert red == translator.translate(["red"], **settings)[0]
    text, copy = text[:9], copy[:9]
    assert translator.translate([text], prefixes=["rot"])[0].text.startswith("rot")
    assert "rot" in translator.translate([text], required=[["rot"]])[0].text


def test_text_in_capitals_is_translated_as_usual_text_and_written_in_capitals(translator: Translator) -> None:
    texts = ["Red cat", "Big old house", "Small bird", "Big old house tree river"]
    read = [translator.transformations.read(text.upper()).text for text in texts]
    usual = [t.text for t in translator.translate(read)]
    assert [t.text for t in translator.translate([text.upper() for text in texts])] == [
        in_capitals(text, "de") for text in usual
    ]
    (title,) = translator.translate([texts[3].title()], n_best=2)
    assert title.text == in_title_case(usual[3], "de")
    assert title.source == texts[3].title()
    as_it_is = translator.translate([texts[1].upper()], recase=False)[0]
    assert as_it_is.score != translator.translate([texts[1].upper()])[0].score
    (forced,) = translator.translate([texts[1].upper()], required=[["rot"]])
    assert "ROT" in forced.text.split()
    begun = translator.translate([texts[1].upper()], prefixes=["ro"])[0].text
    assert begun.startswith("ro"), "a prefix is written as it is given"


def test_a_model_goes_with_the_last_who_holds_it(tiny_run: Path) -> None:
    """Without waiting for the garbage collector, which does not know what a GPU's memory is worth."""
    translator = Translator.load(tiny_run)
    translator.translate(["a house"], required=[[Inflectable("Haus")]])
    weights = weakref.ref(translator.model)
    del translator
    assert weights() is None
