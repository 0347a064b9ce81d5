"""`pipeline(...)`: the calls of the removed TranslationPipeline, and what they were answered with."""

import collections
from collections.abc import Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest
import torch

import dragoman
from dragoman import Translator
from dragoman.config import SearchConfig
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.interop.huggingface import generation_config
from dragoman.interop.importing import import_model
from dragoman.interop.pipeline import LENGTHS, RENAMED, pipeline, search_settings
from dragoman.predict.model import translation_config
from foreign_models import write_marian

TEXTS = ["the red cat", "a big house", "the old dog sees a small bird", "", "river"]


@pytest.fixture
def translate(translator: Translator) -> Any:
    return pipeline("translation", model=translator)


def texts_of(translator: Translator, **settings: Any) -> list[str]:
    return [translation.text for translation in translator.translate(TEXTS, **settings)]


def test_the_shapes_of_the_removed_class(translate: Any, translator: Translator) -> None:
    """As in transformers 4, tests/pipelines/test_pipelines_translation.py, run_pipeline_test."""
    expected = [{"translation_text": text} for text in texts_of(translator)]
    assert translate(TEXTS[0]) == expected[:1]
    assert translate([TEXTS[0]]) == expected[:1]
    assert translate(TEXTS) == expected
    assert translate(tuple(TEXTS)) == expected
    assert translate([]) == []


def test_several_translations_of_a_text_are_a_list_each(translate: Any, translator: Translator) -> None:
    asked = {"num_beams": 4, "num_return_sequences": 3}
    expected = [
        [{"translation_text": alternative.text} for alternative in translation.alternatives]
        for translation in translator.translate(TEXTS[:2], beam_size=4, n_best=3)
    ]
    assert [len(one) for one in expected] == [3, 3]
    assert translate(TEXTS[:2], **asked) == expected
    assert translate(TEXTS[0], **asked) == expected[0]
    assert list(translate(iter(TEXTS[:2]), **asked)) == expected


@pytest.mark.slow
def test_what_is_iterated_over_gives_a_list_each(translate: Any) -> None:
    from transformers.pipelines.pt_utils import KeyDataset

    expected = [[one] for one in translate(TEXTS)]
    rows = [{"en": text, "de": ""} for text in TEXTS]
    for batch_size in (None, 1, 2, 100):
        for given in (iter(TEXTS), KeyDataset(rows, "en"), dict.fromkeys(TEXTS).keys()):
            found = translate(given, batch_size=batch_size)
            assert isinstance(found, GeneratorType)
            assert list(found) == expected


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_a_generator_is_read_no_further_than_it_must(translate: Any, batch_size: int | None) -> None:
    n_read = 0

    def texts() -> Iterator[str]:
        nonlocal n_read
        while True:
            n_read += 1
            yield "the red cat"

    found = translate(texts(), batch_size=batch_size)
    assert n_read == 0
    for _ in range(4):
        next(found)
    size = batch_size or 1
    assert n_read == -(-4 // size) * size


def test_arguments_of_the_maker_hold_for_each_call_and_its_own_go_before(translator: Translator) -> None:
    made = pipeline("translation", model=translator, num_beams=1, num_return_sequences=1)
    assert made(TEXTS) == [{"translation_text": text} for text in texts_of(translator, beam_size=1)]
    assert len(made(TEXTS[0], num_beams=3, num_return_sequences=2)) == 2


def test_every_argument_of_generate_that_there_is_means_a_setting() -> None:
    own, plain = SearchConfig(beam_size=6), {"shortlist": False}
    for theirs, ours in {**RENAMED, **{name: name for name in ("seed", "coverage_penalty")}}.items():
        assert search_settings({theirs: 3}, own) == plain | {ours: 3}
    for name, n_counted in LENGTHS.items():
        longest = {"max_length_factor": 1e-9, "max_length_extra": 5}
        assert search_settings({name: 5 + n_counted}, own) == plain | longest
    assert search_settings({"early_stopping": True, "truncation": True, "num_beams": None}, own) == plain
    for is_drawn, method in ((False, "beam"), (True, "sampling")):
        assert search_settings({"do_sample": is_drawn}, own) == plain | {"method": method}


def test_a_length_penalty_is_generate_s_and_weighs_twenty_tokens_as_ours_does() -> None:
    """The slopes of both at 20 tokens: of p log(length), and of alpha log((5 + length) / 6)."""
    search = SearchConfig(length_penalty=0.7)
    theirs = generation_config(search, collections.defaultdict(int))["length_penalty"]
    assert theirs / 20 == pytest.approx(0.7 / 25)
    assert search_settings({"length_penalty": theirs}, search)["length_penalty"] == pytest.approx(0.7)


@pytest.mark.slow
def test_an_imported_marian_has_the_penalty_that_it_had(tmp_path: Path) -> None:
    run = import_model(write_marian(tmp_path / "opus"), tmp_path / "run")
    penalty = translation_config(run).search.length_penalty
    expected = Translator.load(run.path).translate(TEXTS, length_penalty=penalty * 25 / 20)
    made = pipeline("translation", model=run.path)
    assert [one["translation_text"] for one in made(TEXTS)] == [each.text for each in expected]
    assert made.arguments["length_penalty"] == penalty > 0


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_beam": 4}, "unknown argument num_beam; did you mean num_beams?"),
    ({"zzz": 4}, "unknown argument zzz; choose from num_beams, num_return_sequences,"),
    ({"temperature": 0.5}, 'temperature has no effect on method = "beam"; omit it, or set do_sample'),
    ({"do_sample": True, "num_beams": 4}, 'beam_size has no effect on method = "sampling"'),
    ({"max_new_tokens": 1}, "max_new_tokens = 1: give a number above 1"),
    ({"num_beams": 0}, "pipeline: beam_size = 0: input should be greater than or equal to 1"),
    ({"src_lang": "fr"}, "fr: the model translates en → de"),
    ({"tgt_lang": "fr_XX"}, "fr_XX: the model translates en → de"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_an_argument_that_cannot_be_followed_is_refused_at_once(
    translate: Any, translator: Translator, arguments: dict[str, Any], message: str
) -> None:
    for ask in (
        lambda: translate(TEXTS, **arguments),
        lambda: translate(iter(TEXTS), **arguments),  # before anything is read
        lambda: pipeline("translation", model=translator, **arguments),
    ):
        with pytest.raises(ConfigError) as refused:
            ask()
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)


def test_languages_may_be_named_in_the_task_and_in_other_codes(translator: Translator) -> None:
    made = pipeline("translation_en_to_de", model=translator, src_lang="eng_Latn", tgt_lang="deu_Latn")
    assert made(TEXTS[0], src_lang="en_XX", tgt_lang="de-DE") == pipeline(model=translator)(TEXTS[0])


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        ("summarization", {}, "unknown task 'summarization'; choose \"translation\""),
        ("translation", {"model": None}, "no translator; give model= a run's folder"),
        ("translation_en_to_fr", {}, "fr: the model translates en → de"),
        ("translation", {"device": 0}, "the model is loaded already; device, dtype and revision are for a"),
    ],
)
def test_a_pipeline_that_cannot_be_made(
    translator: Translator, task: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        pipeline(task, **{"model": translator, **arguments})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"text": "the red cat"}, "the input is a dict; give a text, a list of texts"),
        (["a", 3], "input 2 is not a text but a int"),
        (iter(["a", "b", {"en": "c"}]), "input 3 is not a text but a dict; for a data set give KeyDataset"),
    ],
)
def test_inputs_that_are_no_texts_are_refused(translate: Any, inputs: Any, message: str) -> None:
    with pytest.raises(DataError) as refused:
        list(translate(inputs))
    assert message in str(refused.value)


def test_a_path_loads_as_load_does(tiny_run: Path, translator: Translator) -> None:
    made = pipeline(model=str(tiny_run), device=-1, torch_dtype=torch.float32, use_fast=True, device_map=None)
    assert made(TEXTS) == [{"translation_text": text} for text in texts_of(translator)]
    assert dragoman.pipeline is pipeline
    with pytest.raises(ConfigError, match=r"precision float64: is not one of"):
        pipeline(model=tiny_run, dtype=torch.float64)
    with pytest.raises(RunError, match="no-such-folder: is no name of the hub; write user/model"):
        pipeline(model="no-such-folder")
