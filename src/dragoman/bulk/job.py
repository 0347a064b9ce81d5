"""What is to be done with an input, as data that travels to workers: a model, a request, and an output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from dragoman.bulk.input import AS_THEY_COME, CHUNK_LINES, SOON, Chunk, Input
from dragoman.bulk.output import Dropped, Output, SyntheticPairs, as_line
from dragoman.config import TranslationConfig
from dragoman.data.readers.files import compressed
from dragoman.errors import DataError
from dragoman.hardware import prepare_for_translating
from dragoman.predict.alignment import pharaoh
from dragoman.predict.flow import Flow, TranslationRequest, aligned, translated
from dragoman.predict.loading import model_hash
from dragoman.predict.model import translation_config
from dragoman.predict.results import Link, Translation
from dragoman.predict.threads import finish
from dragoman.predict.translator import Translator
from dragoman.processes import Tick
from dragoman.runs import Run

IN_PARTS, UNTRANSLATED, UNALIGNED, TERMS = "in parts", "untranslated", "unaligned", "terms"
"""Keys in the counts of a translation: of lines, and of chunks in which terms of the glossary occurred."""
COUNTED = {
    IN_PARTS: "longer than the model accepts, and translated in parts",
    UNTRANSLATED: "left untranslated, for no candidate keeps their protected text",
    UNALIGNED: "too long for the model to align their words",
}


class Done(NamedTuple):
    """The result of a chunk."""

    data: bytes
    """The output; with a journal, one compressed frame, or b"" if all lines were skipped."""
    counts: Mapping[str, int]
    """Number of skipped and exceptional lines, by reason."""
    remarks: Sequence[tuple[int, str]] = ()
    """What is to be said of single lines, with their numbers; with a journal they are counted."""
    links: str = ""
    """The lines of --pharaoh."""


@dataclass(frozen=True)
class ModelSpec:
    """Which model to load, in whatever process. An ensemble has the settings of `run`."""

    run: Path
    ensemble: tuple[Path, ...] = ()
    """Runs with the same vocabulary that translate together with `run`."""
    to: str | None = None
    """Target language, or direction, of a run with several: see `TranslationModel.towards`."""
    device: str = "auto"
    precision: str = "auto"

    @property
    def runs(self) -> tuple[Path, ...]:
        """All runs of the ensemble, or the one."""
        return (self.run, *self.ensemble)

    def config(self) -> TranslationConfig:
        """Return the configuration of the run, for its direction.

        Raises:
            ConfigError: the run does not translate into this language.
            RunError: the run is missing, or a classifier.
        """
        config = translation_config(Run.open(self.run))
        return config.towards(config.direction(self.to))

    @cached_property
    def translator(self) -> Translator:
        """The model, loaded when it is first needed."""
        prepare_for_translating()
        translator = Translator.load(self.runs, device=self.device, precision=self.precision)
        return translator.towards(self.to)

    def described(self) -> dict[str, Any]:
        """Return all that its output depends on. RunError: a run is missing, or has no weights yet."""
        return {
            "model": model_hash(*map(Run.open, self.runs)),
            "device": self.device,
            "precision": self.precision,
            **({} if self.to is None else {"to": self.to}),
        }


@dataclass(frozen=True)
class Job:
    """A translation of an input into an output. It is sent to worker processes, which load the weights."""

    model: ModelSpec
    input: Input
    out: Path | None = None
    """Compressed according to its suffix; None = stdout."""
    output: Output = as_line
    request: TranslationRequest = field(default_factory=TranslationRequest)
    skip_long: bool = False
    """Whether lines longer than the model accepts are skipped and counted; otherwise they are split."""
    align: bool = False
    """Whether `output` is given the links of words."""
    pharaoh: Path | None = None
    """A second output: the links of words of each line."""
    noun: ClassVar[str] = "sentences"
    """The unit of progress messages."""

    @property
    def has_journal(self) -> bool:
        """Whether the output survives a kill: that of a file of lines into one other file."""
        is_alone = self.input.ending is None and self.pharaoh is None
        return self.out is not None and is_alone and not self.input.is_stream

    def chunk_lines(self, n_workers: int) -> int:
        """Return the number of lines per chunk for this number of workers."""
        if self.has_journal:
            return CHUNK_LINES
        is_shown_at_once = self.input.is_stream and self.input.ending is None and n_workers == 1
        return AS_THEY_COME if is_shown_at_once else SOON

    def framed(self, text: str) -> bytes:
        """Return a part of the output as it is stored."""
        return compressed(text.encode(), self.out.name if self.out and self.has_journal else "")

    def remarks(self, counts: Mapping[str, int], *, n_lines: int) -> list[str]:
        """Describe skipped and exceptional lines, by the `counts` of all chunks."""
        rest = {reason: n for reason, n in counts.items() if reason != TERMS}
        remarks = [f"{words}: {n:,} lines" for reason, words in COUNTED.items() if (n := rest.pop(reason, 0))]
        if rest:
            remarks.append(f"without translation, or skipped: {by_reason(rest, n_lines=n_lines)}")
        return remarks

    def open(self) -> Callable[[Chunk, Tick], Done]:
        """Load the weights; return what makes the output of a chunk.

        It tells how many more lines are done now and then. DataError: a character has more tokens than the
        model accepts, or a term cannot be met.
        """
        translator = self.model.translator

        def work(chunk: Chunk, tick: Tick) -> Done:
            n_told = 0

            def progress(n_lines: int) -> None:
                nonlocal n_told
                tick(n_lines - n_told)
                n_told = n_lines

            return self._done(chunk, translator, progress)

        return work

    def _done(self, chunk: Chunk, translator: Translator, progress: Callable[[int], None]) -> Done:
        """Translate a chunk; `progress` receives the number of lines that are translated."""
        request, texts = self.request, chunk.lines
        if self.skip_long:
            limit = translator.config.model.max_positions
            rows = translator.tokenizers.src.encode_batch(texts)
            texts = ["" if len(ids) >= limit else text for ids, text in zip(rows, texts, strict=True)]
        try:
            translations, every = finish(self._flow(chunk, translator, texts), progress)
        except DataError as error:
            raise DataError(f"{self.input.name}: {error}") from error
        counts: Counter[str] = Counter()
        written, linked, remarks = [], [], []
        for i, translation in enumerate(translations):
            links = None if every is None else every[i]
            if self.pharaoh and links is not None:
                linked.append(f"{pharaoh(links, translation.source, translation.text)}\n")
            for reason, remark in _exceptions(translation, links, limit=translator.max_positions):
                if self.has_journal:
                    counts[reason] += 1
                else:
                    remarks.append((chunk.first_number + i, remark))
            shown = translation._replace(
                source=chunk.lines[i], alternatives=translation.alternatives[: request.n_best]
            )
            line = self.output(shown, translator.tokenizers, links if self.align else None)
            if texts[i] != chunk.lines[i]:
                counts["sentences too long for the model"] += 1
            elif isinstance(line, Dropped):
                counts[line.reason] += 1
            if not isinstance(line, Dropped):
                written.append(f"{line}\n")
        if request.glossary is not None:
            counts[TERMS] = int(any(map(request.glossary.required, texts)))
        data = self.framed("".join(written)) if written else b""
        return Done(data, dict(counts), remarks, "".join(linked))

    def _flow(
        self, chunk: Chunk, translator: Translator, texts: Sequence[str]
    ) -> Flow[tuple[list[Translation], list[list[Link]] | None]]:
        """Return the translations of the lines of a chunk, and the links of their words."""
        number = chunk.first_number
        if chunk.tags is not None:
            tagged = chunk.tags.translations(translator, texts, self.request, first_number=number)
            return (yield from tagged), None
        translations = yield from translated(translator, texts, self.request, first_number=number)
        if not (self.align or self.pharaoh):
            return translations, None
        return translations, (yield from aligned(translator, translations))

    def described(self) -> dict[str, Any]:
        """Return all that the output depends on, except the input, as a JSON value.

        Raises:
            ConfigError: a search setting is unknown or wrong.
            RunError: a run is missing, a classifier, or has no weights yet.
        """
        search, request, output = self.model.config().search, self.request, self.output
        changed = search.changed(request.search(search), where=f"translating with {self.model.run}")
        rarer = {
            "encoding": "" if self.input.encoding == "utf-8" else self.input.encoding,
            "glossary": request.glossary and request.glossary.fingerprint,
            "protected": request.protection and list(request.protection.patterns),
            "n_best": request.n_best if request.protection else 0,
            "align": self.align,
        }
        return {
            **self.model.described(),
            "search": changed.model_dump(),
            "skip_long": self.skip_long,
            "output": asdict(output) if isinstance(output, SyntheticPairs) else {"lines": output.__name__},
            **{name: value for name, value in rarer.items() if value},
        }


def by_reason(counts: Mapping[str, int], *, n_lines: int) -> str:
    """Describe lines counted by reason: "3 of 100: 1 too long, 2 empty"."""
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()))
    return f"{sum(counts.values()):,} of {n_lines:,}: {reasons}"


def _exceptions(
    translation: Translation, links: list[Link] | None, *, limit: int
) -> Iterator[tuple[str, str]]:
    """Yield why a line is an exception: its key in the counts, and what is said of it alone."""
    if translation.outcome == "untranslated":
        yield UNTRANSLATED, ": left untranslated; no candidate keeps its protected text"
    if n_parts := len(translation.parts):
        yield IN_PARTS, f" is longer than the model's {limit} tokens: translated in {n_parts} parts"
    if links is not None and translation.text.strip() and not links:
        yield UNALIGNED, ": is too long for the model to align its words"
