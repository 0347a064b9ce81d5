"""`dragoman translate`: line in, line out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.bulk import RayAddress, Workers, carry_out
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.predict.translator import Translation, Translator

CHUNK = 1000
"""Lines of a file that are translated before the first of them is written."""

RunPath = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
BeamSize = Annotated[
    int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.", show_default="the run's")
]
LengthPenalty = Annotated[
    float | None, typer.Option(min=0.0, help="0 favours short translations.", show_default="the run's")
]
BatchSentences = Annotated[
    int | None, typer.Option(min=1, help="Sentences searched at once.", show_default="the run's")
]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16, or what the processor has.")]


def register(app: typer.Typer) -> None:
    app.command()(translate)


def translate(
    run: RunPath,
    file: Annotated[
        str, typer.Argument(help="Sentences, one a line; - is stdin. May end in .gz, .xz or .zst.")
    ] = "-",
    out: Annotated[
        Path | None, typer.Option(help="Write here instead of to stdout; .gz, .xz and .zst are compressed.")
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object a line: source, translation, score, alternatives.")
    ] = False,
    n_best: Annotated[int, typer.Option(min=1, help="Alternatives in --json, best first.")] = 1,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    batch_sentences: BatchSentences = None,
    device: Device = "auto",
    precision: Precision = "auto",
    workers: Workers = 1,
    ray: RayAddress = None,
    skip_long: Annotated[
        bool,
        typer.Option("--skip-long", help="Leave lines that are too long for the model empty; count them."),
    ] = False,
) -> None:
    """Translate sentences: one line in, one line out.

    An empty line stays empty. What arrives through a pipe is translated as it comes. From a file into
    another one (--out) the text may be of any size, and the same command continues after a kill.
    """
    if n_best > 1 and not json_:
        raise ConfigError("--n-best is for --json; without it every line has one translation")
    from dragoman.bulk.job import Job
    from dragoman.bulk.output import Lines
    from dragoman.data.readers.files import find_file

    beam_size = beam_for(run, beam_size, n_best=n_best)
    if out is not None and file != "-":
        overrides = search_overrides(
            beam_size=beam_size,
            length_penalty=length_penalty,
            n_best=n_best,
            batch_sentences=batch_sentences,
        )
        write = as_json if json_ else as_line
        check_precision(precision)
        job = Job(run, find_file(file), out, Lines(write), overrides, device, precision, skip_long)
        carry_out(job, n_workers=workers, ray=ray)
        return
    if workers > 1 or ray is not None or skip_long:
        raise ConfigError("--workers, --ray and --skip-long are for a file and --out FILE")
    chunks = stdin_chunks() if file == "-" else file_chunks(file)
    translator = load_translator(run, device=device, precision=precision, batch_sentences=batch_sentences)
    lines: list[str] = []
    n_lines = 0
    for chunk in chunks:
        try:
            translations = translator.translate(
                chunk,
                beam_size=beam_size,
                length_penalty=length_penalty,
                n_best=n_best,
                first_number=n_lines + 1,
            )
        except DataError as error:
            raise DataError(f"{'stdin' if file == '-' else file}: {error}") from None
        n_lines += len(chunk)
        written = [as_json(t) if json_ else t.text for t in translations]
        if out is None:
            sys.stdout.write("".join(f"{line}\n" for line in written))
            sys.stdout.flush()
        else:
            lines += written
    if out is not None:
        from dragoman.runs import write_atomically

        write_atomically(out, "".join(f"{line}\n" for line in lines).encode())


def beam_for(run: Path, beam_size: int | None, *, n_best: int) -> int | None:
    """A beam that has room for `n_best` alternatives, where none is asked for; None is the run's own."""
    from dragoman.predict.translator import translation_config
    from dragoman.runs import Run

    if n_best == 1 or beam_size is not None:
        return beam_size
    return max(n_best, translation_config(Run.open(run)).search.beam_size)


def search_overrides(**settings: float | str | None) -> tuple[str, ...]:
    """Settings of [search] as overrides of a configuration, those that are None left away."""
    return tuple(f"search.{name}={value}" for name, value in settings.items() if value is not None)


def check_precision(precision: str) -> None:
    """ConfigError: `precision` is none that there is."""
    if precision not in ("auto", "fp32", "bf16"):
        raise ConfigError(f'--precision {precision}: is not a precision; there are "auto", "fp32" and "bf16"')


def load_translator(
    run: Path, *, device: str, precision: str, batch_sentences: int | None = None
) -> Translator:
    """The translator in the folder `run`. ConfigError: `precision` is none that there is."""
    from dragoman.predict.translator import Translator

    check_precision(precision)
    translator = Translator.load(run, device=device, precision=precision)
    if batch_sentences is not None:
        config = translator.config
        search = config.search.model_copy(update={"batch_sentences": batch_sentences})
        translator.config = config.model_copy(update={"search": search})
    return translator


def as_line(translation: Translation) -> str:
    """The translation alone."""
    return translation.text


def as_json(translation: Translation) -> str:
    """A translation as one line of JSON."""
    record: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "score": translation.score,
        "alternatives": [{"translation": a.text, "score": a.score} for a in translation.alternatives],
    }
    return json.dumps(record, ensure_ascii=False)


def file_chunks(name: str) -> Iterator[list[str]]:
    """The lines of a file, many at once, so that sentences of a length can be searched together.

    DataError: it is missing, or not UTF-8.
    """
    from dragoman.data.readers.files import find_file, open_lines

    lines = open_lines(find_file(name))
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def stdin_chunks() -> Iterator[list[str]]:
    """The lines of stdin, those at once that are there. DataError: one is not UTF-8."""
    stream = sys.stdin.buffer
    blocks = iter(lambda: stream.read1(1 << 16) if isinstance(stream, BufferedReader) else stream.read(), b"")
    return line_chunks(blocks, name="stdin")


def line_chunks(blocks: Iterable[bytes], *, name: str) -> Iterator[list[str]]:
    """The lines that each block of bytes completes, without "\\n" or "\\r\\n"; only "\\n" ends a line."""
    n_lines, unfinished = 0, b""
    for block in blocks:
        *lines, last = block.split(b"\n")
        unfinished = unfinished + lines[0] if lines else unfinished + last
        if lines:
            yield _decode([unfinished, *lines[1:]], name=name, n_before=n_lines)
            n_lines, unfinished = n_lines + len(lines), last
    if unfinished:
        yield _decode([unfinished], name=name, n_before=n_lines)


def _decode(lines: list[bytes], *, name: str, n_before: int) -> list[str]:
    """The lines as text; a byte order mark before the first one is left away."""
    texts = []
    for number, line in enumerate(lines, start=n_before + 1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: is not UTF-8 (byte {error.start + 1}); convert the text to UTF-8"
            ) from None
        texts.append(text.removeprefix("\ufeff") if number == 1 else text)
    return texts
