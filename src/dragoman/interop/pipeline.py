"""`pipeline("translation", model=…)` as Hugging Face's transformers had it until its version 5.

The same calls give the same shapes: a text or a list is answered with a list; a generator, a data set or what
else can be iterated over with a generator, which reads as it goes and keeps the order.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from dragoman.errors import ConfigError, DataError
from dragoman.hub import folder_of
from dragoman.interop.generation import search_settings, unknown
from dragoman.metrics.classification import softmax
from dragoman.model.transformer import Transformer
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translation, Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import BOS_ID, EOS_ID

READ_AHEAD = 20
"""Batches of a data set that are read at once, so that texts of a length can go together."""

TRANSLATION = re.compile(r"translation(?:_([A-Za-z]+)_to_([A-Za-z]+))?")
CLASSIFICATION = ("text-classification", "sentiment-analysis")

PRECISIONS = {"None": "auto", "auto": "auto", "float32": "fp32", "bfloat16": "bf16"}
"""Names of types, those of torch without the word, and the precision that they mean."""

Answer: TypeAlias = Callable[[list[str]], list[Any]]
"""The result for each text."""


def pipeline(
    task: str | None = None,
    model: str | Path | Translator | Classifier | None = None,
    *,
    tokenizer: object = None,
    revision: str | None = None,
    token: str | None = None,
    device: int | str | torch.device | None = None,
    device_map: object = None,
    dtype: object = None,
    torch_dtype: object = None,
    engine: str = "native",
    framework: str | None = None,
    trust_remote_code: bool | None = None,
    use_fast: bool | None = None,
    **arguments: Any,
) -> TranslationPipeline | TextClassificationPipeline:
    """Return a callable that translates or classifies.

    `task` is "translation", "translation_en_to_de", "text-classification" or "sentiment-analysis"; None: what
    the model is for. `model` is the folder of a run, its name on the hub, or what is loaded already.
    `arguments` are those of its calls, for all of them. `device_map`, `use_fast` and `trust_remote_code` are
    taken for the sake of the calls there are, and choose nothing: no code of a model is ever run.

    ConfigError: unknown task or argument, or not the model's task. Others: as `Translator.load` and
    `Classifier.load`.
    """
    if task is not None and task not in CLASSIFICATION and not TRANSLATION.fullmatch(task):
        named = '"translation", "translation_en_to_de", "text-classification" and "sentiment-analysis"'
        raise ConfigError(f"pipeline: {task!r} is not a task here; there are {named}")
    if model is None:
        raise ConfigError("pipeline: names no model; give model= a run's folder, or its name on the hub")
    if tokenizer is not None and tokenizer != model:
        raise ConfigError("pipeline: tokenizer: a model brings its own; leave it away")
    if framework not in (None, "pt"):
        raise ConfigError(f'pipeline: framework = {framework!r}: there is "pt"')
    del device_map, trust_remote_code, use_fast
    if not isinstance(model, (Translator, Classifier)):
        folder = folder_of(model, revision=revision, token=token)
        precision = _precision(torch_dtype if dtype is None else dtype)
        model = _load(folder, device=_device(device), precision=precision, engine=engine)
    elif any(value is not None for value in (revision, token, device, dtype, torch_dtype)):
        raise ConfigError("pipeline: the model is loaded already; device, dtype and revision are for a path")
    translates = isinstance(model, Translator)
    task = task or ("translation" if translates else CLASSIFICATION[0])
    if translates != (task not in CLASSIFICATION):
        raise ConfigError(f"pipeline: {task} is not what the model is for; it {_purpose(model)}")
    if isinstance(model, Translator):
        return TranslationPipeline(model, task, arguments)
    return TextClassificationPipeline(model, task, arguments)


class Pipeline(ABC):
    """What both have in common: inputs of every shape, read as they are needed."""

    def __init__(
        self, model: Transformer, task: str, arguments: Mapping[str, Any], *, default_batch: int
    ) -> None:
        """`arguments` are those of every call; `default_batch` texts are worked on at once.

        ConfigError: unknown argument.
        """
        self.task = task
        self.arguments = dict(arguments)
        self._model = model
        self._default_batch = default_batch
        self._prepare({})

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._model.device

    def _prepare(self, arguments: Mapping[str, Any]) -> tuple[Answer, int | None]:
        """Return the function for these arguments, and its batch size. ConfigError: unknown argument."""
        given = {**self.arguments, **arguments}
        given.pop("num_workers", None)
        batch_size = given.pop("batch_size", None)
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ConfigError(f"pipeline: batch_size = {batch_size!r}: give a number from 1 on")
        return self._answering(given, batch_size), batch_size

    @abstractmethod
    def _answering(self, arguments: dict[str, Any], batch_size: int | None) -> Answer:
        """Return the function from texts to results for these arguments. ConfigError: unknown argument."""

    def _each(self, items: Sequence[Any], n_before: int, answer: Answer) -> list[Any]:
        """Return the result for each item. DataError: one is not a text."""
        return answer(_texts(items, n_before))

    def _stream(self, inputs: Any, answer: Answer, batch_size: int | None) -> Iterator[Any]:
        """Yield a result for each input, in order.

        What has a length is read in buckets; of what has none, as much as is translated at once, and without
        a batch size one: more may not come before the result of the first has gone somewhere.
        """
        if isinstance(inputs, (dict, bytes)) or not isinstance(inputs, (Iterable, Sized)):
            raise DataError(
                f"pipeline: the input is a {type(inputs).__name__}; give a text, a list of texts, or a data "
                "set that yields texts"
            )
        n_at_once = batch_size or 1
        if isinstance(inputs, Sized):
            n_at_once = READ_AHEAD * (batch_size or self._default_batch)
        data: Any = inputs  # KeyDataset, as every data set of torch, cannot be iterated over
        items = iter(data if isinstance(data, Iterable) else (data[i] for i in range(len(data))))

        def results() -> Iterator[Any]:
            n_read = 0
            while bucket := list(islice(items, n_at_once)):
                yield from self._each(bucket, n_read, answer)
                n_read += len(bucket)

        return results()


class TranslationPipeline(Pipeline):
    """Texts to translations, as the removed class of this name gave them: [{"translation_text": …}]."""

    def __init__(self, translator: Translator, task: str = "translation", arguments: Mapping[str, Any] = {}):
        self.translator = translator
        languages = TRANSLATION.fullmatch(task)
        assert languages is not None
        if any(languages.groups()):
            self.translator = self._between(*languages.groups())
        batch = translator.config.search.batch_sentences
        super().__init__(translator.model, task, arguments, default_batch=batch)

    def __call__(self, inputs: Any, *ignored: Any, **arguments: Any) -> Any:
        """Translate a text or a list of texts to a list; for other iterables, yield the results one by one.

        Each is a list of {"translation_text": …}, one for each of `num_return_sequences`; of a list of
        texts with one translation each, these alone; a list in the list has those of all its texts. Other
        positional arguments are ignored, with a warning. With `return_tensors` they are
        {"translation_token_ids": …}, a tensor from the start token to the end token. `truncation` cuts
        what is too long for the model, which is translated in parts without it. Other arguments are those
        of `generate` (interop/generation.py), and `batch_size`, `src_lang`, `tgt_lang` and
        `clean_up_tokenization_spaces`.

        ConfigError: unknown argument. DataError: an input is not a text.
        """
        answer, batch_size = self._prepare(arguments)
        if ignored:
            warnings.warn(
                f"pipeline: {len(ignored)} more positional arguments are ignored; "
                "give several texts as a list",
                stacklevel=2,
            )
        if isinstance(inputs, str):
            return answer([inputs])[0]
        if isinstance(inputs, (list, tuple)):
            results = self._each(inputs, 0, answer)
            is_flat = all(isinstance(text, str) for text in inputs) and all(len(r) == 1 for r in results)
            return [result[0] for result in results] if is_flat else results
        return self._stream(inputs, answer, batch_size)

    def _each(self, items: Sequence[Any], n_before: int, answer: Answer) -> list[Any]:
        """Return the translations for each item: of a text, or of all texts of a list."""
        groups = [item if isinstance(item, (list, tuple)) else [item] for item in items]
        found = iter(answer(_texts([*chain(*groups)], n_before)))
        return [[record for _ in group for record in next(found)] for group in groups]

    def _answering(self, arguments: dict[str, Any], batch_size: int | None) -> Answer:
        translator = self._between(arguments.pop("src_lang", None), arguments.pop("tgt_lang", None))
        as_ids = bool(arguments.pop("return_tensors", None))
        arguments.pop("return_text", None)  # without effect, as in transformers 4.57
        without_spaces = bool(arguments.pop("clean_up_tokenization_spaces", None))
        cut = arguments.pop("truncation", None) not in (None, False, "do_not_truncate")
        own = self.translator.config.search
        settings = search_settings(arguments, own)
        own.changed(settings, where="pipeline")
        if batch_size is not None:
            settings["batch_sentences"] = batch_size

        def records(found: Translation) -> list[dict[str, Any]]:
            if as_ids:
                return [{"translation_token_ids": torch.tensor([BOS_ID, *ids, EOS_ID])} for ids in found.ids]
            texts = [alternative.text for alternative in found.alternatives]
            return [{"translation_text": clean_up(text) if without_spaces else text} for text in texts]

        def answer(texts: list[str]) -> list[Any]:
            texts = [cut_to_fit(translator, text) for text in texts] if cut else texts
            return [records(found) for found in translator.translate(texts, **settings)]

        return answer

    def _between(self, src: str | None, tgt: str | None) -> Translator:
        """Return the translator between two languages, one of which may be all that a model of several needs.

        ConfigError: the model translates between others; codes of another length say nothing of that.
        """
        if len(self.translator.directions) > 1 and (src or tgt):
            return self.translator.towards(f"{src}-{tgt}" if src and tgt else tgt)
        for asked, there in zip((src, tgt), self.translator.config.languages, strict=True):
            codes = [re.split("[-_]", code)[0].lower() for code in (asked or there, there)]
            if len(codes[0]) == len(codes[1]) and codes[0] != codes[1]:
                raise ConfigError(f"pipeline: {asked}: the model translates {self.translator.config.subject}")
        return self.translator


class TextClassificationPipeline(Pipeline):
    """Texts to labels, as transformers' class of this name gives them: [{"label": …, "score": …}]."""

    def __init__(
        self, classifier: Classifier, task: str = CLASSIFICATION[0], arguments: Mapping[str, Any] = {}
    ):
        self.classifier = classifier
        super().__init__(classifier.model, task, arguments, default_batch=100)

    def __call__(self, inputs: Any, **arguments: Any) -> Any:
        """Return the label of a text or of a list of texts as a list, of anything else one after another.

        `top_k` is how many labels each text has (None: all), `function_to_apply` "softmax" (by default: the
        calibrated probabilities), "sigmoid" or "none". Texts may be of any length: `truncation` cuts nothing.

        ConfigError: unknown argument. DataError: an input is not a text.
        """
        answer, batch_size = self._prepare(arguments)
        if isinstance(inputs, (str, dict)):
            result = self._each([inputs], 0, answer)[0]
            return [result] if "top_k" not in arguments and isinstance(inputs, str) else result
        if isinstance(inputs, (list, tuple)):
            return self._each(inputs, 0, answer)
        return self._stream(inputs, answer, batch_size)

    def _answering(self, arguments: dict[str, Any], batch_size: int | None) -> Answer:
        known = ("top_k", "return_all_scores", "function_to_apply", "truncation", "padding")
        for name in arguments:
            if name not in known:
                raise ConfigError(unknown(name, known))
        top_k = arguments.get("top_k", 1)
        if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
            raise ConfigError(f"pipeline: top_k = {top_k!r}: give a number from 1 on, or None for all labels")
        function = arguments.get("function_to_apply") or "default"
        if function not in ("default", "softmax", "sigmoid", "none"):
            raise ConfigError(
                f'pipeline: function_to_apply = {function!r}: is not "softmax", "sigmoid" or "none"'
            )
        listed = "top_k" in arguments
        if not listed and arguments.get("return_all_scores"):
            top_k, listed = None, True

        def answer(texts: list[str]) -> list[Any]:
            logits = self.classifier.logits(texts).values
            if function == "none":
                scores = logits
            elif function == "sigmoid":
                scores = 1 / (1 + np.exp(-logits))
            elif function == "softmax":
                scores = softmax(logits, temperature=self.classifier.temperature)
            else:
                labelling, temperature = self.classifier.labelling, self.classifier.temperature
                scores = labelling.probabilities(logits, temperature=temperature)
            results: list[Any] = []
            for row in scores.tolist():
                ranked = sorted(zip(self.classifier.labels, row, strict=True), key=lambda pair: -pair[1])
                records = [{"label": label, "score": score} for label, score in ranked[:top_k]]
                results.append(records if listed else records[0])
            return results

        return answer


def cut_to_fit(translator: Translator, text: str) -> str:
    """Return as much of the beginning of `text` as the model reads."""
    tokenizer, limit = translator.tokenizers.src, translator.max_positions - 1
    kept = limit
    while len(tokenizer.encode(text)) > limit:  # cut text may have other tokens than in the whole
        text = tokenizer.normalise(text)[: tokenizer.tokens(text)[kept - 1].end]
        kept -= 1
    return text


def clean_up(text: str) -> str:
    """`text` without the spaces that English puts nowhere: before . ? ! , and inside contractions."""
    for spaced in (" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"):
        if spaced == " n't":
            text = text.replace(" ' ", "'")
        text = text.replace(spaced, spaced[1:])
    return text


def _texts(inputs: Sequence[Any], n_before: int) -> list[str]:
    """Return the inputs, all of them texts. DataError: one is not; it is counted from 1."""
    texts = []
    for number, given in enumerate(inputs, start=n_before + 1):
        text = given.get("text") if isinstance(given, dict) and given.keys() == {"text"} else given
        if not isinstance(text, str):
            raise DataError(
                f"pipeline: input {number} is not a text but a {type(given).__name__}; for a data set give "
                'KeyDataset(dataset, "column"), or (row["column"] for row in dataset)'
            )
        texts.append(text)
    return texts


def _load(folder: Path, *, device: str, precision: str, engine: str) -> Translator | Classifier:
    if Run.open(folder).config.task == "translation":
        return Translator.load(folder, device=device, precision=precision, engine=engine)
    if engine != "native":
        raise ConfigError(f"pipeline: engine = {engine!r} is for translators; leave it out")
    return Classifier.load(folder, device=device, precision=precision)


def _purpose(model: Translator | Classifier) -> str:
    return f"translates {model.config.subject}" if isinstance(model, Translator) else "classifies texts"


def _device(device: int | str | torch.device | None) -> str:
    """Return a device as Dragoman names it; numbers are those of GPUs, -1 the processor."""
    if device is None:
        return "auto"
    if isinstance(device, int):
        return f"cuda:{device}" if device >= 0 else "cpu"
    return str(device)


def _precision(dtype: object) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in PRECISIONS:
        raise ConfigError(f'pipeline: dtype = {dtype}: there are torch.float32, torch.bfloat16 and "auto"')
    return PRECISIONS[name]
