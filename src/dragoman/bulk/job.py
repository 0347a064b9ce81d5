"""A file translation: how its lines are read in chunks, and its model, settings and output format."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from dragoman.bulk.output import Dropped, Output
from dragoman.config import TranslationConfig
from dragoman.data.readers.files import ReadOffset, compressed, open_lines
from dragoman.errors import DataError
from dragoman.hardware import prepare_for_translating
from dragoman.predict.loading import model_hash
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.processes import Tick
from dragoman.runs import Run

CHUNK_LINES = 4096
"""Lines per chunk: enough to batch sentences of similar length, few enough to redo after a crash."""


class Chunk(NamedTuple):
    """Consecutive lines of a file."""

    first_number: int
    """Number of the first line, counted from 1."""
    lines: list[str]
    n_bytes: int
    """Bytes of the stored file that have been read up to the end of the chunk."""
    digest: str
    """Hash of all lines from the first of the file to the last of the chunk."""


class Done(NamedTuple):
    """The result of a chunk."""

    first_number: int
    n_lines: int
    """Lines of the chunk; the output may have fewer."""
    n_bytes: int
    data: bytes
    """The output as one compressed frame; b"" if all lines were skipped."""
    counts: Mapping[str, int]
    """Number of skipped lines, by reason."""
    digest: str = ""
    """The digest of the chunk."""
    problem: str = ""
    """Error message for the user; "" = no error."""


def read_chunks(
    path: Path,
    *,
    encoding: str = "utf-8",
    n_done: int = 0,
    digest: str = "",
    chunk_lines: int = CHUNK_LINES,
) -> Iterator[Chunk]:
    """Cut a text file into chunks, from line `n_done` + 1 on. `digest` is that of the lines before it.

    Raises:
        DataError: the file cannot be read, is damaged or is not in its `encoding`, or other lines are done
            than those.
    """
    position = ReadOffset()
    lines = open_lines(path, encoding=encoding, position=position)
    yield from cut(
        lines, name=str(path), position=position, n_done=n_done, digest=digest, chunk_lines=chunk_lines
    )


def cut(
    lines: Iterator[str],
    *,
    name: str,
    position: ReadOffset,
    n_done: int = 0,
    digest: str = "",
    chunk_lines: int = CHUNK_LINES,
) -> Iterator[Chunk]:
    """Cut `lines` into chunks, from line `n_done` + 1 on. `digest` is that of the lines before it.

    `name` is that of the input in messages, `position` how far it has been read.

    Raises:
        DataError: other lines are done than those; and whatever reading a line raises.
    """
    read = hashlib.blake2b(digest_size=16)

    def chunk_of(n: int) -> list[str]:
        chunk = list(islice(lines, n))
        read.update("".join(f"{line}\n" for line in chunk).encode())
        return chunk

    n_lines = 0
    while n_lines < n_done and (chunk := chunk_of(min(chunk_lines, n_done - n_lines))):
        n_lines += len(chunk)
    if n_lines < n_done or (n_done and read.hexdigest() != digest):
        raise DataError(
            f"{name}: its first {n_done:,} lines have changed since they were translated; restore them, or "
            "delete the .journal and .partial of the output to start over"
        )
    while chunk := chunk_of(chunk_lines):
        yield Chunk(n_lines + 1, chunk, position.n_bytes, read.hexdigest())
        n_lines += len(chunk)


IN_PARTS = "in parts"
"""Key of the number of lines that were split, in the counts of a translation."""


@dataclass(frozen=True)
class Job:
    """A file to translate into another one. It is sent to worker processes, which load the weights."""

    run: Path
    source: Path
    out: Path
    """Source and output are compressed according to their suffixes."""
    output: Output
    search: Mapping[str, Any] = field(default_factory=dict)
    """Settings of [search] that differ from the run's own, such as {"beam_size": 1}; None = the run's own."""
    device: str = "auto"
    precision: str = "auto"
    skip_long: bool = False
    """Whether lines longer than the model accepts are skipped and counted; otherwise they are split."""
    encoding: str = "utf-8"
    """Encoding of the input; the output is in UTF-8."""
    to: str | None = None
    """Target language, or direction, of a run with several: see `Translator.towards`."""
    ensemble: tuple[Path, ...] = ()
    """Runs with the same vocabulary that translate together with `run`."""
    noun: ClassVar[str] = "sentences"
    """The unit of progress messages."""

    @property
    def runs(self) -> tuple[Path, ...]:
        """All runs of the ensemble, or the one."""
        return (self.run, *self.ensemble)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that are read, apart from the runs."""
        return (self.source,)

    def size(self) -> int:
        """Return the stored bytes of the file that progress is measured by; 0 = unknown."""
        return self.source.stat().st_size

    def chunks(self, *, n_done: int = 0, digest: str = "", chunk_lines: int = CHUNK_LINES) -> Iterator[Chunk]:
        """Cut the input into chunks; parameters and errors are those of `stream.cut`."""
        return read_chunks(
            self.source, encoding=self.encoding, n_done=n_done, digest=digest, chunk_lines=chunk_lines
        )

    def resolved(self) -> Job:
        """Return the same job with absolute paths of what is read."""
        run, *ensemble = (Run.open(path).path.resolve() for path in self.runs)
        return replace(self, run=run, ensemble=tuple(ensemble), source=self.source.resolve())

    def remarks(self, counts: Mapping[str, int], *, n_lines: int) -> list[str]:
        """Describe skipped and exceptional lines, by the `counts` of all chunks."""
        rest = dict(counts)
        remarks = []
        if n_split := rest.pop(IN_PARTS, 0):
            remarks.append(f"longer than the model accepts, and translated in parts: {n_split:,} lines")
        if rest:
            remarks.append(f"without translation, or skipped: {by_reason(rest, n_lines=n_lines)}")
        return remarks

    def open(self, *, device: str | None = None) -> Callable[[Chunk, Tick], Done]:
        """Load the weights; return what makes the output of a chunk. `device`: instead of the job's own."""
        return ChunkTranslator(self, device=device)

    def translator(self, *, device: str | None = None) -> Translator:
        """Load the weights, for the job's direction. `device`: instead of the job's own."""
        prepare_for_translating()
        whole = Translator.load(self.runs, device=device or self.device, precision=self.precision)
        return whole.towards(self.to)

    def config(self) -> TranslationConfig:
        """Return the run's configuration with the job's search settings.

        Raises:
            ConfigError: a search setting is unknown or wrong, or the run does not translate into the
                language of the job.
            RunError: the run is missing, or a classifier.
        """
        config = translation_config(Run.open(self.run))
        config = config.towards(config.direction(self.to))
        search = config.search.changed(self.search, where=f"translating with {self.run}")
        return config.model_copy(update={"search": search})

    def described(self) -> dict[str, Any]:
        """Return all that the output depends on, except the input, as a JSON value.

        Raises:
            ConfigError: a search setting is unknown or wrong.
            RunError: a run is missing, a classifier, or has no weights yet.
        """
        return {
            "model": model_hash(*map(Run.open, self.runs)),
            "search": self.config().search.model_dump(),
            "device": self.device,
            "precision": self.precision,
            "skip_long": self.skip_long,
            "output": dict(self.output.described()),
            **({} if self.encoding == "utf-8" else {"encoding": self.encoding}),
            **({} if self.to is None else {"to": self.to}),
        }


def by_reason(counts: Mapping[str, int], *, n_lines: int) -> str:
    """Describe lines counted by reason: "3 of 100: 1 too long, 2 empty"."""
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()))
    return f"{sum(counts.values()):,} of {n_lines:,}: {reasons}"


class ChunkTranslator:
    """A job with its weights in memory: takes chunks of lines, returns their output."""

    def __init__(self, job: Job, *, device: str | None = None) -> None:
        """Load the run. `device`: instead of the job's own."""
        self.job = job
        self.translator = job.translator(device=device)
        self.translator.config = job.config()

    def __call__(self, chunk: Chunk, tick: Tick) -> Done:
        """Translate a chunk; `tick` receives the number of lines translated since its last call.

        Raises:
            DataError: a single character has more tokens than the model accepts.
        """
        too_long = self._too_long(chunk.lines) if self.job.skip_long else frozenset()
        texts = ["" if i in too_long else line for i, line in enumerate(chunk.lines)]
        try:
            translations = self.translator.translate(
                texts, first_number=chunk.first_number, progress=as_steps(tick)
            )
        except DataError as error:
            raise DataError(f"{self.job.source}: {error}") from error
        counts: Counter[str] = Counter()
        written = []
        for i, translation in enumerate(translations):
            line: str | Dropped
            if i in too_long:
                counts["sentences too long for the model"] += 1
                if not self.job.output.line_for_line:
                    continue
            restored = translation._replace(source=chunk.lines[i])
            counts.update([IN_PARTS] if restored.parts else [])
            line = self.job.output(restored, self.translator.tokenizers)
            if isinstance(line, Dropped):
                counts[line.reason] += 1
            else:
                written.append(f"{line}\n")
        data = compressed("".join(written).encode(), self.job.out.name) if written else b""
        return Done(chunk.first_number, len(chunk.lines), chunk.n_bytes, data, dict(counts), chunk.digest)

    def _too_long(self, lines: list[str]) -> frozenset[int]:
        limit = self.translator.config.model.max_positions
        rows = self.translator.tokenizers.src.encode_batch(lines)
        return frozenset(i for i, ids in enumerate(rows) if len(ids) >= limit)  # and the end token


def as_steps(tick: Tick) -> Callable[[int], None]:
    """Return a callback that takes a running total of lines and passes each increase to `tick`."""
    n_told = 0

    def progress(n_lines: int) -> None:
        nonlocal n_told
        tick(n_lines - n_told)
        n_told = n_lines

    return progress
