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
) -> TextPipeline:
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
    if isinstance(model, Translator) and (languages := TRANSLATION.fullmatch(task or "translation")):
        model = _between(model, *languages.groups())
    return TextPipeline(model, arguments)


class TextPipeline:
    """Texts to results of the shape that pipelines of transformers give.

    A translation is {"translation_text": …}, a label {"label": …, "score": …}, its calibrated probability.
    """

    def __init__(self, model: Translator | Classifier, arguments: Mapping[str, Any]) -> None:
        """ConfigError: unknown argument."""
        self.model, self.arguments = model, arguments
        self._answering(arguments)

    def __call__(self, inputs: Any, **arguments: Any) -> Any:
        """Return the results of a text or of a list of texts as a list; for other iterables, yield them.

        A text has a list of translations, one for each of `num_return_sequences`; in a list of texts with one
        each, these alone. Arguments are those of `generate`, and `batch_size`, `src_lang` and `tgt_lang`. Of
        labels `top_k` says how many each text has, None: all. Of a generator no more is read than is worked
        on at once: it may wait for the result of the text before.

        ConfigError: unknown argument. DataError: an input is not a text.
        """
        merged = {**self.arguments, **arguments}
        answer, translates = self._answering(merged), isinstance(self.model, Translator)
        if isinstance(inputs, str):
            results = answer([inputs])
            return results[0] if translates or "top_k" in arguments else results
        if isinstance(inputs, (list, tuple)):
            results = answer(_texts(inputs, 0))
            is_flat = translates and all(len(result) == 1 for result in results)
            return [result[0] for result in results] if is_flat else results
        if isinstance(inputs, dict) or not (hasattr(inputs, "__iter__") or hasattr(inputs, "__getitem__")):
            kind = type(inputs).__name__
            raise DataError(
                f"pipeline: the input is a {kind}; give a text, a list of texts, or a data set of texts"
            )
        n_at_once = READ_AHEAD if isinstance(inputs, Sized) else merged.get("batch_size") or 1
        return _stream(iter(inputs), answer, n_at_once)

    def _answering(self, arguments: Mapping[str, Any]) -> Answer:
        """Return the function for these arguments. ConfigError: unknown argument."""
        if isinstance(self.model, Classifier):
            return _labels(self.model, arguments)
        translator = _between(self.model, arguments.get("src_lang"), arguments.get("tgt_lang"))
        options = {name: value for name, value in arguments.items() if name not in ("src_lang", "tgt_lang")}
        settings = search_settings(options, translator.config.search)
        return lambda texts: [
            [{"translation_text": alternative.text} for alternative in translation.alternatives]
            for translation in translator.translate(texts, **settings)
        ]


def _between(translator: Translator, src: str | None, tgt: str | None) -> Translator:
    """Return the translator between two languages, one of which may be all that a model of several needs.

    ConfigError: the model translates between others; codes of another length say nothing of that.
    """
    if len(translator.directions) > 1 and (src or tgt):
        return translator.towards(f"{src}-{tgt}" if src and tgt else tgt)
    config = translator.config
    for requested, language in zip((src, tgt), config.languages, strict=True):
        codes = [re.split("[-_]", code)[0].lower() for code in (requested or language, language)]
        if len(codes[0]) == len(codes[1]) and codes[0] != codes[1]:
            raise ConfigError(f"pipeline: {requested}: the model translates {config.subject}")
    return translator


def _labels(classifier: Classifier, arguments: Mapping[str, Any]) -> Answer:
    """Return the function from texts to labels: one, or a list if `top_k` is given. ConfigError: as above."""
    check_known(arguments, ("top_k", "batch_size"))
    for name in ("top_k", "batch_size"):
        value = arguments.get(name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ConfigError(f"pipeline: {name} = {value!r}: give a number from 1 on")

    def answer(texts: list[str]) -> list[Any]:
        logits = classifier.logits(texts).values
        scores = classifier.labelling.probabilities(logits, temperature=classifier.temperature)
        results = []
        for row in scores.tolist():
            ranked = sorted(zip(classifier.labels, row, strict=True), key=lambda pair: -pair[1])
            results.append([{"label": label, "score": score} for label, score in ranked])
        if "top_k" in arguments:
            return [result[: arguments["top_k"]] for result in results]
        return [result[0] for result in results]

    return answer


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
