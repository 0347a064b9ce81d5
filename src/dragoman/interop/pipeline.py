"""`pipeline("translation", model=…)`, as Hugging Face's transformers had it until its version 5.

A text or a list of texts is answered with a list. A generator or a data set is answered with a generator,
which reads as it goes and keeps the order.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import torch

from dragoman.config import SearchConfig
from dragoman.errors import ConfigError, DataError
from dragoman.hub import folder_of
from dragoman.interop.huggingface import TYPICAL_PENALTY
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translator
from dragoman.runs import Run

READ_AHEAD = 2_000
"""Texts of a data set that are read at once, so that texts of a length can be translated together."""

TRANSLATION = re.compile(r"translation(?:_([A-Za-z]+)_to_([A-Za-z]+))?")
CLASSIFICATION = ("text-classification", "sentiment-analysis")

PRECISIONS = {"None": "auto", "float32": "fp32", "bfloat16": "bf16"}
"""The precision that a type means, those of torch without the word."""

IGNORED = (
    "device_map", "early_stopping", "num_workers", "padding", "trust_remote_code", "truncation", "use_cache",
    "use_fast",
)  # fmt: skip
"""Arguments that change nothing: no code of a model is run, and a text may be of any length."""

RENAMED = {
    "num_beams": "beam_size",
    "num_return_sequences": "n_best",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "num_beam_groups": "diversity_groups",
    "batch_size": "batch_sentences",
}
"""Arguments that are settings of [search] by other names."""

LENGTHS = {"max_length": 2, "max_new_tokens": 1}
"""Arguments for the longest translation, and how many of its start and end tokens they count."""

ONLY_FOR: Mapping[str, Mapping[str, float]] = {
    "beam": {"beam_size": 1},
    "sampling": {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
}
"""Settings of [search] that one method alone reads, and the values that ask for nothing."""

Answer: TypeAlias = Callable[[list[str]], list[Any]]
"""The result for each text."""


def pipeline(
    task: str | None = None,
    model: str | Path | Translator | Classifier | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
    device: int | str | torch.device | None = None,
    dtype: object = None,
    torch_dtype: object = None,
    **arguments: Any,
) -> TranslationPipeline | TextClassificationPipeline:
    """Return a callable that translates or classifies.

    `task` is "translation", "translation_en_to_de", "text-classification" or "sentiment-analysis"; None: what
    the model is for. `model` is the folder of a run, its name on the hub, or what is loaded already.
    `arguments` are those of its calls, for all of them. A `device` that is a number is a GPU, -1 the CPU.

    ConfigError: unknown task or argument, or not the model's task. Others: as `Translator.load` and
    `Classifier.load`.
    """
    if task is not None and task not in CLASSIFICATION and not TRANSLATION.fullmatch(task):
        named = '"translation", "translation_en_to_de", "text-classification" and "sentiment-analysis"'
        raise ConfigError(f"pipeline: unknown task {task!r}; choose {named}")
    if model is None:
        raise ConfigError("pipeline: no model; give model= a run's folder, or its name on the hub")
    if not isinstance(model, (Translator, Classifier)):
        run = Run.open(folder_of(model, revision=revision, token=token))
        if isinstance(device, int):
            device = f"cuda:{device}" if device >= 0 else "cpu"
        precision = str(torch_dtype if dtype is None else dtype).removeprefix("torch.")
        load = Translator.load if run.config.task == "translation" else Classifier.load
        model = load(run.path, device=str(device or "auto"), precision=PRECISIONS.get(precision, precision))
        report = run.read_json("report.json") if (run.path / "report.json").exists() else {}
        is_marian = (report.get("imported") or {}).get("format") == "marian"
        if is_marian and isinstance(model, Translator):  # its penalty is a number of `generate`
            arguments.setdefault("length_penalty", model.config.search.length_penalty)
    elif any(value is not None for value in (revision, token, device, dtype, torch_dtype)):
        raise ConfigError("pipeline: the model is loaded already; device, dtype and revision are for a path")
    if task is not None and isinstance(model, Translator) != (task not in CLASSIFICATION):
        raise ConfigError(f"pipeline: {task} is not the task of this model, which is {model.config.task}")
    if isinstance(model, Translator):
        return TranslationPipeline(model, task or "translation", arguments)
    return TextClassificationPipeline(model, arguments)


class TranslationPipeline:
    """Texts to translations, as the removed class of this name gave them: [{"translation_text": …}]."""

    def __init__(self, translator: Translator, task: str, arguments: Mapping[str, Any]) -> None:
        """ConfigError: unknown argument, or the model does not translate between the languages of `task`."""
        self.translator, self.arguments = translator, arguments
        languages = TRANSLATION.fullmatch(task)
        assert languages is not None
        self.translator = self._between(*languages.groups())
        self._answering(arguments)

    def __call__(self, inputs: Any, **arguments: Any) -> Any:
        """Translate a text or a list of texts to a list; for other iterables, yield the results one by one.

        Each is a list of {"translation_text": …}, one for each of `num_return_sequences`; of a list of
        texts with one translation each, these alone. Arguments are those of `generate`, and `batch_size`,
        `src_lang` and `tgt_lang`.

        ConfigError: unknown argument. DataError: an input is not a text.
        """
        merged = {**self.arguments, **arguments}
        results = _results(inputs, self._answering(merged), merged.get("batch_size"))
        if isinstance(inputs, str):
            return results[0]
        is_flat = isinstance(results, list) and all(len(result) == 1 for result in results)
        return [result[0] for result in results] if is_flat else results

    def _answering(self, arguments: Mapping[str, Any]) -> Answer:
        """Return the function for these arguments. ConfigError: unknown argument."""
        translator = self._between(arguments.get("src_lang"), arguments.get("tgt_lang"))
        options = {name: value for name, value in arguments.items() if name not in ("src_lang", "tgt_lang")}
        settings = search_settings(options, translator.config.search)
        return lambda texts: [
            [{"translation_text": alternative.text} for alternative in translation.alternatives]
            for translation in translator.translate(texts, **settings)
        ]

    def _between(self, src: str | None, tgt: str | None) -> Translator:
        """Return the translator between two languages, one of which may be all that a model of several needs.

        ConfigError: the model translates between others; codes of another length say nothing of that.
        """
        if len(self.translator.directions) > 1 and (src or tgt):
            return self.translator.towards(f"{src}-{tgt}" if src and tgt else tgt)
        config = self.translator.config
        for requested, language in zip((src, tgt), config.languages, strict=True):
            codes = [re.split("[-_]", code)[0].lower() for code in (requested or language, language)]
            if len(codes[0]) == len(codes[1]) and codes[0] != codes[1]:
                raise ConfigError(f"pipeline: {requested}: the model translates {config.subject}")
        return self.translator


class TextClassificationPipeline:
    """Texts to labels, as transformers' class of this name gives them: [{"label": …, "score": …}]."""

    def __init__(self, classifier: Classifier, arguments: Mapping[str, Any]) -> None:
        """ConfigError: unknown argument."""
        self.classifier, self.arguments = classifier, arguments
        self._answering(arguments)

    def __call__(self, inputs: Any, **arguments: Any) -> Any:
        """Return the label of a text or of a list of texts as a list; for other iterables, yield them.

        Scores are the calibrated probabilities. `top_k` is how many labels each text has, None: all.

        ConfigError: unknown argument. DataError: an input is not a text.
        """
        merged = {**self.arguments, **arguments}
        results = _results(inputs, self._answering(merged), merged.get("batch_size"))
        return results[0] if isinstance(inputs, str) and "top_k" in arguments else results

    def _answering(self, arguments: Mapping[str, Any]) -> Answer:
        """Return the function for these arguments. ConfigError: unknown argument."""
        check_known(arguments, ("top_k", "batch_size"))
        for name in ("top_k", "batch_size"):
            value = arguments.get(name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigError(f"pipeline: {name} = {value!r}: give a number from 1 on")
        top_k, classifier = arguments.get("top_k", 1), self.classifier

        def answer(texts: list[str]) -> list[Any]:
            logits = classifier.logits(texts).values
            scores = classifier.labelling.probabilities(logits, temperature=classifier.temperature)
            results = []
            for row in scores.tolist():
                ranked = sorted(zip(classifier.labels, row, strict=True), key=lambda pair: -pair[1])
                results.append([{"label": label, "score": score} for label, score in ranked[:top_k]])
            return results if "top_k" in arguments else [result[0] for result in results]

        return answer


def _results(inputs: Any, answer: Answer, batch_size: int | None) -> Any:
    """Return the results of a text or of a list of texts as a list; of other iterables, a generator.

    Of a generator no more is read than is worked on at once: it may wait for the result of the text before.
    DataError: it is neither, or an input is not a text.
    """
    if isinstance(inputs, str):
        return answer([inputs])
    if isinstance(inputs, (list, tuple)):
        return answer(_texts(inputs, 0))
    if isinstance(inputs, dict) or not (hasattr(inputs, "__iter__") or hasattr(inputs, "__getitem__")):
        kind = type(inputs).__name__
        raise DataError(
            f"pipeline: the input is a {kind}; give a text, a list of texts, or a data set of texts"
        )
    return _stream(iter(inputs), answer, READ_AHEAD if isinstance(inputs, Sized) else batch_size or 1)


def _stream(items: Iterator[Any], answer: Answer, n_at_once: int) -> Iterator[Any]:
    """Yield a result for each item, in order; `n_at_once` are read and answered together."""
    n_read = 0
    while bucket := list(islice(items, n_at_once)):
        yield from answer(_texts(bucket, n_read))
        n_read += len(bucket)


def _texts(inputs: Sequence[Any], n_before: int) -> list[str]:
    """Return the inputs, all of them texts. DataError: one is not; it is counted from 1."""
    for number, text in enumerate(inputs, start=n_before + 1):
        if not isinstance(text, str):
            raise DataError(
                f"pipeline: input {number} is not a text but a {type(text).__name__}; for a data set give "
                'KeyDataset(dataset, "column"), or (row["column"] for row in dataset)'
            )
    return list(inputs)


def search_settings(arguments: Mapping[str, Any], defaults: SearchConfig) -> dict[str, Any]:
    """Translate arguments of `generate` to settings of [search]; other settings are those of `defaults`.

    All tokens are computed, as there, unless the shortlist is asked for.

    ConfigError: an argument is unknown or of a wrong value, or two conflict.
    """
    check_known(arguments, (*RENAMED, "do_sample", *LENGTHS, *SearchConfig.model_fields))
    used = {name: value for name, value in arguments.items() if value is not None and name not in IGNORED}
    settings = {"shortlist": False, **{RENAMED.get(name, name): value for name, value in used.items()}}
    if isinstance(settings.get("length_penalty"), int | float):
        settings["length_penalty"] /= TYPICAL_PENALTY
    if (sampled := settings.pop("do_sample", None)) is not None:
        settings["method"] = "sampling" if sampled else "beam"
    for name, n_counted in LENGTHS.items():  # max_new_tokens goes before, as in transformers
        if (length := settings.pop(name, None)) is not None:
            if not isinstance(length, int) or length <= n_counted:
                raise ConfigError(f"pipeline: {name} = {length!r}: give a number above {n_counted}")
            settings |= {"max_length_factor": 1e-9, "max_length_extra": length - n_counted}
    method = defaults.changed(settings, where="pipeline").method
    for name, nothing in ONLY_FOR["sampling" if method == "beam" else "beam"].items():
        if settings.get(name, nothing) != nothing:
            raise ConfigError(
                f'pipeline: {name} has no effect on method = "{method}"; omit it, or set do_sample'
            )
    return settings


def check_known(arguments: Mapping[str, Any], options: tuple[str, ...]) -> None:
    """ConfigError: an argument is neither in `options` nor ignored."""
    for name in arguments:
        if name not in (*options, *IGNORED):
            near = difflib.get_close_matches(name, options, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(options)}"
            raise ConfigError(f"pipeline: unknown argument {name}; {hint}")
