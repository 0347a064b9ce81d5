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
from dragoman.predict.translator import Translator
from dragoman.runs import Run

READ_AHEAD = 2_000
"""Texts of a data set that are read at once, so that texts of a length can be translated together."""

TRANSLATION = re.compile(r"translation(?:_([A-Za-z]+)_to_([A-Za-z]+))?")

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

Answer: TypeAlias = Callable[[list[str]], list[list[dict[str, str]]]]
"""The translations of each text."""


def pipeline(
    task: str | None = None,
    model: str | Path | Translator | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
    device: int | str | torch.device | None = None,
    dtype: object = None,
    torch_dtype: object = None,
    **arguments: Any,
) -> TextPipeline:
    """Return a callable that translates.

    `task` is "translation" or, with languages, "translation_en_to_de". `model` is the folder of a run, its
    name on the hub, or what is loaded already. `arguments` are those of its calls, for all of them. A
    `device` that is a number is a GPU, -1 the CPU.

    ConfigError: unknown task or argument, or not the model's task. Others: as `Translator.load`.
    """
    languages = TRANSLATION.fullmatch(task or "translation")
    if languages is None:
        named = '"translation" or "translation_en_to_de"; Classifier.load(RUN).classify(texts) gives labels'
        raise ConfigError(f"pipeline: unknown task {task!r}; choose {named}")
    if not isinstance(model, (str, Path, Translator)):
        raise ConfigError("pipeline: no translator; give model= a run's folder, or its name on the hub")
    if not isinstance(model, Translator):
        run = Run.open(folder_of(model, revision=revision, token=token))
        if isinstance(device, int):
            device = f"cuda:{device}" if device >= 0 else "cpu"
        precision = str(torch_dtype if dtype is None else dtype).removeprefix("torch.")
        precision = PRECISIONS.get(precision, precision)
        model = Translator.load(run.path, device=str(device or "auto"), precision=precision)
        report = run.read_json("report.json") if (run.path / "report.json").exists() else {}
        if (report.get("imported") or {}).get("format") == "marian":  # its penalty is one of `generate`
            arguments.setdefault("length_penalty", model.config.search.length_penalty)
    elif any(value is not None for value in (revision, token, device, dtype, torch_dtype)):
        raise ConfigError("pipeline: the model is loaded already; device, dtype and revision are for a path")
    return TextPipeline(_between(model, *languages.groups()), arguments)


class TextPipeline:
    """Texts to results of the shape that pipelines of transformers gave: {"translation_text": …}."""

    def __init__(self, model: Translator, arguments: Mapping[str, Any]) -> None:
        """ConfigError: unknown argument."""
        self.model, self.arguments = model, arguments
        self._answering(arguments)

    def __call__(self, inputs: Any, **arguments: Any) -> Any:
        """Return the results of a text or of a list of texts as a list; for other iterables, yield them.

        A text has a list of translations, one for each of `num_return_sequences`; in a list of texts with one
        each, these alone. Arguments are those of `generate`, and `batch_size`, `src_lang` and `tgt_lang`. A
        generator is read no further than is worked on at once: it may wait for the result of the text before.

        ConfigError: unknown argument. DataError: an input is not a text.
        """
        merged = {**self.arguments, **arguments}
        answer = self._answering(merged)
        if isinstance(inputs, str):
            return answer([inputs])[0]
        if isinstance(inputs, (list, tuple)):
            results = answer(_texts(inputs, 0))
            is_flat = all(len(result) == 1 for result in results)
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
    options = (*RENAMED, "do_sample", *LENGTHS, *SearchConfig.model_fields)
    for name in arguments:
        if name not in (*options, *IGNORED):
            near = difflib.get_close_matches(name, options, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(options)}"
            raise ConfigError(f"pipeline: unknown argument {name}; {hint}")
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
