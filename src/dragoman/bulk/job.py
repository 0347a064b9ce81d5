"""Description of a file translation: input, model, settings and output format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.bulk.output import Dropped, Output
from dragoman.bulk.stream import Chunk, Done, Tick
from dragoman.config import TranslationConfig, parse_section
from dragoman.data.readers.files import compressed, hash_file, hash_strings
from dragoman.errors import DataError
from dragoman.hardware import prepare_for_translating
from dragoman.predict.translator import Translator, translation_config
from dragoman.runs import Run

IN_PARTS = "in parts"
"""Under which lines are counted that were translated in parts."""


@dataclass(frozen=True)
class Job:
    """A file that is translated into another one. It is sent to other processes, which load the weights."""

    run: Path
    source: Path
    out: Path
    """Both are compressed as their names say."""
    output: Output
    overrides: tuple[str, ...] = ()
    """Settings of the run's [search] that are to be others, such as "search.beam_size=1"."""
    device: str = "auto"
    precision: str = "auto"
    skip_long: bool = False
    """Sentences longer than the model accepts are counted and have no translation, or come in parts."""
    encoding: str = "utf-8"
    """That of the input; the output is in UTF-8."""

    def config(self) -> TranslationConfig:
        """The run's configuration with the overrides. RunError: it is a classifier. ConfigError: bad ones."""
        settings = translation_config(Run.open(self.run)).model_dump()
        where = f"translating with {self.run}"
        return parse_section(TranslationConfig, settings, overrides=self.overrides, where=where)

    def described(self) -> dict[str, Any]:
        """All that the output depends on, the input aside, as JSON has it.

        RunError: the run is a classifier, is missing, or has no weights yet. ConfigError: an override is not
        a setting.
        """
        run = Run.open(self.run)
        if not run.weights_path.exists():
            run.load_weights()  # complains
        tokenizer = sorted(path for path in run.tokenizer_folder.rglob("*") if path.is_file())
        return {
            "model": hash_strings(*map(hash_file, [run.weights_path, *tokenizer])),
            "search": self.config().search.model_dump(),
            "device": self.device,
            "precision": self.precision,
            "skip_long": self.skip_long,
            "output": dict(self.output.described()),
            **({} if self.encoding == "utf-8" else {"encoding": self.encoding}),
        }


class ChunkTranslator:
    """A job with its weights in memory: chunks in, their output out."""

    def __init__(self, job: Job, *, device: str | None = None) -> None:
        """`device` goes before the job's own."""
        prepare_for_translating()
        self.job = job
        self.translator = Translator.load(job.run, device=device or job.device, precision=job.precision)
        self.translator.config = job.config()

    def __call__(self, chunk: Chunk, tick: Tick) -> Done:
        """What becomes of a chunk.

        DataError: a character alone has more tokens than the model accepts.
        """
        too_long = self._too_long(chunk.lines) if self.job.skip_long else frozenset()
        texts = ["" if i in too_long else line for i, line in enumerate(chunk.lines)]
        try:
            translations = self.translator.translate(
                texts, first_number=chunk.first_number, progress=_steps(tick)
            )
        except DataError as error:
            raise DataError(f"{self.job.source}: {error}") from None
        counts: Counter[str] = Counter()
        written = []
        for i, translation in enumerate(translations):
            line: str | Dropped
            if i in too_long:
                counts["sentences too long for the model"] += 1
                if not self.job.output.line_for_line:
                    continue
            found = translation._replace(source=chunk.lines[i])
            counts.update([IN_PARTS] if found.parts else [])
            line = self.job.output(found, self.translator.tokenizers)
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


def _steps(tick: Tick) -> Callable[[int], None]:
    """A function that is told how many lines are translated in all, and tells `tick` how many more."""
    n_told = 0

    def progress(n_lines: int) -> None:
        nonlocal n_told
        tick(n_lines - n_told)
        n_told = n_lines

    return progress
