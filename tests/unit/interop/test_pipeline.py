"""`pipeline(...)`: the calls of the removed TranslationPipeline, and what they were answered with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest
import torch

import dragoman
from dragoman import Classifier, Translator
from dragoman.config import SearchConfig
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.interop.generation import RENAMED, search_settings
from dragoman.interop.pipeline import (
    TextClassificationPipeline,
    TranslationPipeline,
    clean_up,
    cut_to_fit,
    pipeline,
)
from dragoman.predict.translator import Translation
from dragoman.text.tokenizer import BOS_ID, EOS_ID

TEXTS = ["the red cat", "a big house", "the old dog sees a small bird", "", "river"]


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def classifier(tiny_classifier_run: Path) -> Classifier:
    return Classifier.load(tiny_classifier_run, device="cpu", precision="fp32")


@pytest.fixture
def translate(translator: Translator) -> TranslationPipeline:
    made = pipeline("translation", model=translator)
    assert isinstance(made, TranslationPipeline)
    return made


@pytest.fixture
def classify(classifier: Classifier) -> TextClassificationPipeline:
    made = pipeline("sentiment-analysis", model=classifier)
    assert isinstance(made, TextClassificationPipeline)
    return made


def texts_of(translator: Translator, **settings: Any) -> list[str]:
    return [translation.text for translation in translator.translate(TEXTS, **settings)]


def test_the_shapes_of_the_removed_class(translate: TranslationPipeline, translator: Translator) -> None:
    """As in transformers 4, tests/pipelines/test_pipelines_translation.py, run_pipeline_test."""
    expected = [{"translation_text": text} for text in texts_of(translator)]
    assert translate(TEXTS[0]) == expected[:1]
    assert translate([TEXTS[0]]) == expected[:1]
    assert translate(TEXTS) == expected
    assert translate(tuple(TEXTS)) == expected
    assert translate([]) == []


def test_lists_in_a_list_are_a_list_each(translate: TranslationPipeline) -> None:
    """As in transformers 4.57 for one text each; of several in an inner list it gives the first alone."""
    one, two, three = ([record] for record in translate(TEXTS[:3]))
    assert translate([[TEXTS[0]], [TEXTS[1]]]) == [one, two]
    assert translate([TEXTS[0], [TEXTS[1], TEXTS[2]]]) == [one, two + three]
    assert list(translate(texts for texts in [[TEXTS[0]], [TEXTS[1]]])) == [one, two]


def test_more_positional_arguments_are_ignored_and_told(translate: TranslationPipeline) -> None:
    with pytest.warns(
        UserWarning, match="1 more positional arguments are ignored; give several texts as a l"
    ):
        assert translate(TEXTS[0], TEXTS[1]) == translate(TEXTS[0])


@pytest.mark.parametrize("given", [None, 3, b"x", {}, {"text": "the red cat"}])
def test_what_is_no_text_and_no_collection_is_refused(translate: TranslationPipeline, given: object) -> None:
    with pytest.raises(DataError, match=f"the input is a {type(given).__name__}; give a text, a list of"):
        translate(given)


def test_a_pipeline_says_where_its_model_is(
    translate: TranslationPipeline, classify: TextClassificationPipeline
) -> None:
    assert translate.device == classify.device == torch.device("cpu")


def test_several_translations_of_a_text_are_a_list_each(
    translate: TranslationPipeline, translator: Translator
) -> None:
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
def test_what_is_iterated_over_gives_a_list_each(translate: TranslationPipeline) -> None:
    from transformers.pipelines.pt_utils import KeyDataset

    expected = [[one] for one in translate(TEXTS)]
    rows = [{"en": text, "de": ""} for text in TEXTS]
    inputs: list[Any] = [
        (text for text in TEXTS),
        iter(TEXTS),
        KeyDataset(rows, "en"),
        dict.fromkeys(TEXTS).keys(),
    ]
    for given in inputs:
        for batch_size in (None, 1, 2, 100):
            if not isinstance(given, (GeneratorType, type(iter([])))) or batch_size is None:
                found = translate(given, batch_size=batch_size)
                assert isinstance(found, GeneratorType)
                assert list(found) == expected


def test_a_dataset_of_the_package_datasets_is_read(translate: TranslationPipeline) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"en": TEXTS})
    assert list(translate(rows["en"])) == [[one] for one in translate(TEXTS)]


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_a_generator_is_read_no_further_than_it_must(
    translate: TranslationPipeline, batch_size: int | None
) -> None:
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


def test_arguments_of_the_maker_hold_for_every_call_and_those_of_a_call_go_before(
    translator: Translator,
) -> None:
    made = pipeline("translation", model=translator, num_beams=1, num_return_sequences=1)
    assert made(TEXTS) == [{"translation_text": text} for text in texts_of(translator, beam_size=1)]
    assert len(made(TEXTS[0], num_beams=3, num_return_sequences=2)) == 2


def test_tokens_are_those_of_the_search(translate: TranslationPipeline, translator: Translator) -> None:
    for record, text in zip(translate(TEXTS, return_tensors=True), texts_of(translator), strict=True):
        assert record.keys() == {"translation_token_ids"}
        ids = record["translation_token_ids"]
        assert ids.dtype == torch.int64
        assert (int(ids[0]), int(ids[-1])) == (BOS_ID, EOS_ID)
        assert translator.tokenizers.tgt.decode(ids.tolist()) == text
    assert translate(TEXTS[0], return_text=False)[0].keys() == {"translation_text"}
    assert translate(TEXTS[0], return_text=True)[0].keys() == {"translation_text"}


def test_tokens_of_a_text_in_parts_are_those_of_its_parts(translator: Translator) -> None:
    whole = translator.translate([" ".join(["the red cat ."] * 300)], beam_size=1, max_length_factor=0.1)[0]
    assert len(whole.parts) > 1
    assert whole.ids == (tuple(i for part in whole.parts for i in part.ids[0]),)


@pytest.mark.parametrize(("argument", "n_more"), [("max_length", 2), ("max_new_tokens", 1)])
def test_a_length_counts_start_and_end_as_generate_does(
    translate: TranslationPipeline, argument: str, n_more: int
) -> None:
    for n_tokens in (1, 2, 5):
        lengths = [
            len(record["translation_token_ids"])
            for record in translate(TEXTS, return_tensors=True, **{argument: n_tokens + n_more})
        ]
        assert max(lengths) <= n_tokens + 2
        assert min(lengths) >= 2
    with pytest.raises(ConfigError, match=f"{argument} = {n_more}: leaves no room for a token"):
        translate(TEXTS, **{argument: n_more})


def test_a_text_that_is_cut_is_what_the_model_reads_and_no_more(
    translate: TranslationPipeline, translator: Translator
) -> None:
    long = " ".join(["the red cat"] * 300)
    cut = cut_to_fit(translator, long)
    tokenizer, limit = translator.tokenizers.src, translator.max_positions - 1
    assert tokenizer.normalise(long).startswith(cut)
    assert limit - 3 <= len(tokenizer.encode(cut)) <= limit
    assert cut_to_fit(translator, "the red cat") == "the red cat"
    short = {"num_beams": 1, "max_length": 6}
    assert translate(long, truncation=True, **short) == translate(cut, **short)
    assert translate(long, truncation=False, **short) == translate(long, **short) != translate(cut, **short)


def test_a_text_is_cut_with_the_reserved_token_of_its_direction(
    tiny_many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_parts: list[int] = []
    translate = Translator.translate

    def counted(self: Translator, *arguments: Any, **settings: Any) -> list[Translation]:
        found = translate(self, *arguments, **settings)
        n_parts.extend(len(translation.parts) for translation in found)
        return found

    monkeypatch.setattr(Translator, "translate", counted)
    many = Translator.load(tiny_many, device="cpu", precision="fp32")
    asked = {"src_lang": "en", "tgt_lang": "de", "num_beams": 1, "max_length": 6}
    texts = [" ".join([word] * 600) for word in ("cat", "dog", "red")]
    pipeline("translation", model=many)(texts, truncation=True, **asked)
    assert n_parts == [0] * len(texts)


def test_samples_are_drawn_and_can_be_repeated(
    translate: TranslationPipeline, translator: Translator
) -> None:
    asked = {"do_sample": True, "num_return_sequences": 4, "temperature": 2.0, "seed": 7}
    drawn = translate(TEXTS[0], **asked)
    assert drawn == translate(TEXTS[0], **asked)
    expected = translator.translate(TEXTS[:1], method="sampling", n_best=4, temperature=2.0, seed=7)[0]
    assert [record["translation_text"] for record in drawn] == [a.text for a in expected.alternatives]


def test_spaces_are_cleaned_up_as_transformers_does(translate: TranslationPipeline) -> None:
    from transformers import PreTrainedTokenizerFast

    texts = [
        "a . b ! c , d ?",
        "it 's do n't I 'm we 've you 're",
        "the ' word ' n't",
        "plain",
        " 's .'s ' .' ",
    ]
    for text in texts:
        assert clean_up(text) == PreTrainedTokenizerFast.clean_up_tokenization(None, text)
    assert clean_up("a .") == "a."
    records = translate(TEXTS, clean_up_tokenization_spaces=True)
    assert records == [{"translation_text": clean_up(r["translation_text"])} for r in translate(TEXTS)]


def test_every_argument_of_generate_that_there_is_means_a_setting() -> None:
    own = SearchConfig()
    for theirs, ours in RENAMED.items():
        assert search_settings({theirs: 3}, own) == {ours: 3}
    for name in SearchConfig.model_fields:
        if name not in ("temperature", "top_k", "top_p"):
            assert search_settings({name: 3}, own) == {name: 3}
    assert search_settings({"early_stopping": True, "repetition_penalty": 1.0}, own) == {}
    assert search_settings({"do_sample": False}, own) == {"method": "beam"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_beam": 4}, "num_beam is not an argument; did you mean num_beams?"),
        ({"zzz": 4}, "zzz is not an argument; there are num_beams, num_return_sequences,"),
        ({"repetition_penalty": 1.3}, "repetition_penalty = 1.3: is not to be had here; leave it away"),
        ({"min_length": 5}, "min_length = 5: is not to be had here"),
        ({"temperature": 0.5}, "temperature is for samples; give do_sample=True with it"),
        ({"do_sample": True, "num_beams": 4}, "do_sample with num_beams: samples have no beams"),
        ({"max_length": 9, "max_new_tokens": 9}, "max_length and max_new_tokens: give one of them"),
        ({"num_beams": 0}, "pipeline: beam_size = 0: input should be greater than or equal to 1"),
        ({"batch_size": 0}, "batch_size = 0: give a number from 1 on"),
        ({"src_lang": "fr"}, "fr: the model translates en → de"),
        ({"tgt_lang": "fr_XX"}, "fr_XX: the model translates en → de"),
    ],
)
def test_what_is_not_to_be_had_is_refused_at_once(
    translate: TranslationPipeline, translator: Translator, arguments: dict[str, Any], message: str
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
    assert made.task == "translation_en_to_de"
    assert made(TEXTS[0], src_lang="en_XX", tgt_lang="de-DE") == pipeline(model=translator)(TEXTS[0])
    with pytest.raises(ConfigError, match="fr: the model translates en → de"):
        pipeline("translation_en_to_fr", model=translator)


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        ("summarization", {}, "'summarization' is not a task here; there are \"translation\""),
        ("translation", {"model": None}, "names no model; give model= a run's folder"),
        (
            "text-classification",
            {},
            "text-classification is not what the model is for; it translates en → de",
        ),
        ("translation", {"tokenizer": "t5-small"}, "tokenizer: a model brings its own; leave it away"),
        ("translation", {"framework": "tf"}, "framework = 'tf': there is \"pt\""),
        (
            "translation",
            {"device": 0},
            "the model is loaded already; device, dtype and revision are for a path",
        ),
    ],
)
def test_a_pipeline_that_cannot_be_made(
    translator: Translator, task: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        pipeline(task, **{"model": translator, **arguments})
    assert message in str(refused.value)


def test_inputs_that_are_no_texts_are_counted(translate: TranslationPipeline) -> None:
    with pytest.raises(DataError, match="input 2 is not a text but a int"):
        translate(["a", 3])
    with pytest.raises(DataError, match=r"input 3 is not a text but a dict; for a data set give KeyDataset"):
        list(translate(iter(["a", "b", {"en": "c", "de": "d"}])))
    assert translate({"text": "the cat"}.values()) is not None


def test_a_path_loads_as_load_does(tiny_run: Path, translator: Translator) -> None:
    made = pipeline(model=str(tiny_run), device=-1, torch_dtype=torch.float32, use_fast=True, device_map=None)
    assert made.task == "translation"
    assert made(TEXTS) == [{"translation_text": text} for text in texts_of(translator)]
    assert dragoman.pipeline is pipeline
    with pytest.raises(ConfigError, match=r"dtype = torch\.int8: there are torch\.float32"):
        pipeline(model=tiny_run, dtype=torch.int8)
    with pytest.raises(RunError, match="no-such-folder: is no name of the hub; write user/model"):
        pipeline(model="no-such-folder")


def structure(value: Any) -> Any:
    """What is in what, without the values."""
    if isinstance(value, dict):
        return sorted(value)
    return [structure(item) for item in value] if isinstance(value, (list, GeneratorType)) else value


@pytest.mark.parametrize("made_with", [{}, {"top_k": None}, {"top_k": 1}])
def test_classifications_have_the_shapes_of_transformers(
    classifier: Classifier, made_with: dict[str, Any]
) -> None:
    theirs = transformers_classifier(**made_with)
    ours = pipeline("text-classification", model=classifier, **made_with)
    texts = ["a good cat", "an awful dog"]
    for called_with in ({}, {"top_k": 1}, {"top_k": 2}, {"top_k": None}):
        for inputs in (texts[0], texts[:1], texts):
            assert structure(ours(inputs, **called_with)) == structure(theirs(inputs, **called_with))
        assert structure(list(ours((t for t in texts), **called_with))) == structure(
            list(theirs((t for t in texts), **called_with))
        )


def transformers_classifier(**arguments: Any) -> Any:
    """A classifier of transformers with two labels and random weights."""
    import tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
    from transformers import pipeline as their_pipeline

    words = tokenizers.models.WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]")
    config = BertConfig(
        vocab_size=2, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
    )
    return their_pipeline(
        "text-classification",
        model=BertForSequenceClassification(config),
        tokenizer=PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer(words), pad_token="[PAD]", unk_token="[UNK]"
        ),
        device="cpu",
        **arguments,
    )


def test_scores_of_labels_are_the_calibrated_probabilities(
    classify: TextClassificationPipeline, classifier: Classifier
) -> None:
    texts = ["a good cat", "an awful dog"]
    expected = classifier.classify(texts)
    for record, one in zip(classify(texts, truncation=True), expected, strict=True):
        assert record == {"label": one.label, "score": pytest.approx(one.probabilities[one.label])}
    for records, one in zip(classify(texts, top_k=None), expected, strict=True):
        assert {r["label"]: r["score"] for r in records} == pytest.approx(one.probabilities)
    logits = classifier.logits(texts[:1]).values[0]
    raw = {r["label"]: r["score"] for r in classify(texts[0], top_k=None, function_to_apply="none")}
    assert [raw[label] for label in classifier.labels] == pytest.approx(logits.tolist())
    odds = {r["label"]: r["score"] for r in classify(texts[0], top_k=None, function_to_apply="sigmoid")}
    assert [odds[label] for label in classifier.labels] == pytest.approx(1 / (1 + 2.718281828459045**-logits))
    assert classify({"text": texts[0]}) == classify(texts[0])[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 5}, "max_length is not an argument; there are top_k, return_all_scores"),
        ({"top_k": 0}, "top_k = 0: give a number from 1 on, or None for all labels"),
        ({"function_to_apply": "tanh"}, "function_to_apply = 'tanh': is not"),
    ],
)
def test_what_a_classifier_has_not_is_refused(
    classify: TextClassificationPipeline, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        classify("a", **arguments)
    assert message in str(refused.value)
