"""`dragoman translate`: line in, line out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.translating import (
    Align,
    AsDocument,
    Consensus,
    Extras,
    Pharaoh,
    Protect,
    ProtectPattern,
    link_record,
    pharaoh_line,
    read_text,
    translate_document_text,
)
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.predict.alignment import Link
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
        Path | None, typer.Option(help="Write here instead of to stdout, when all is done.")
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
    document: AsDocument = False,
    protect: Protect = None,
    protect_pattern: ProtectPattern = None,
    align: Align = False,
    pharaoh: Pharaoh = None,
    mbr: Consensus = False,
) -> None:
    """Translate sentences: one line in, one line out.

    An empty line stays empty. What arrives through a pipe is translated as it comes. A line with more tokens
    than the model accepts is translated in parts. With --document, a line may hold several sentences.
    """
    if n_best > 1 and not (json_ or mbr):
        raise ConfigError("--n-best is for --json and --mbr; without them a line has one translation")
    extras = Extras.parse(
        document=document, align=align, pharaoh=pharaoh, protect=protect, patterns=protect_pattern,
        consensus=mbr, as_json=json_,
    )  # fmt: skip
    chunks = iter(()) if document else stdin_chunks() if file == "-" else file_chunks(file)
    translator = load_translator(run, device=device, precision=precision, batch_sentences=batch_sentences)
    if n_best > 1 and beam_size is None:
        beam_size = max(n_best, translator.config.search.beam_size)
    n_candidates = extras.n_candidates(n_best, beam_size or translator.config.search.beam_size)

    def search(
        texts: Sequence[str], *, first_number: int = 1, progress: Callable[[int], None] | None = None
    ) -> list[Translation]:
        try:
            return translator.translate(
                texts,
                beam_size=beam_size,
                length_penalty=length_penalty,
                n_best=n_candidates,
                first_number=first_number,
                progress=progress,
            )
        except DataError as error:
            raise DataError(f"{'stdin' if file == '-' else file}: {error}") from None

    written: list[str] = []
    aligned: list[str] = []
    n_lines = 0
    if document:
        written.append(translate_document_text(translator, read_text(file), extras, search))
    for chunk in chunks:
        numbers = range(n_lines + 1, n_lines + 1 + len(chunk))
        n_lines += len(chunk)
        translations = extras.translate(
            translator, chunk, search=partial(search, first_number=numbers[0]), lines=numbers
        )
        if extras.wants_links:
            links = extras.links(translator, translations, lines=numbers)
            aligned += [pharaoh_line(*pair) for pair in zip(links, translations, strict=True)]
        if json_:
            shown = [t._replace(alternatives=t.alternatives[:n_best]) for t in translations]
            each = links if align else [None] * len(shown)
            written += [f"{as_json(t, found)}\n" for t, found in zip(shown, each, strict=True)]
        else:
            written += [f"{t.text}\n" for t in translations]
        if out is None:
            sys.stdout.write("".join(written))
            sys.stdout.flush()
            written.clear()
    write_results(out, written)
    if pharaoh is not None:
        write_results(pharaoh, aligned)


def write_results(path: Path | None, pieces: Sequence[str]) -> None:
    """Writes text to a file, whole or not at all, or to stdout."""
    if path is None:
        sys.stdout.write("".join(pieces))
        sys.stdout.flush()
    else:
        from dragoman.runs import write_atomically

        write_atomically(path, "".join(pieces).encode())


def load_translator(
    run: Path, *, device: str, precision: str, batch_sentences: int | None = None
) -> Translator:
    """The translator in the folder `run`. ConfigError: `precision` is none that there is."""
    from dragoman.predict.translator import Translator

    if precision not in ("auto", "fp32", "bf16"):
        raise ConfigError(f'--precision {precision}: is not a precision; there are "auto", "fp32" and "bf16"')
    translator = Translator.load(run, device=device, precision=precision)
    if batch_sentences is not None:
        config = translator.config
        search = config.search.model_copy(update={"batch_sentences": batch_sentences})
        translator.config = config.model_copy(update={"search": search})
    return translator


def as_json(translation: Translation, links: Sequence[Link] | None = None) -> str:
    """A translation as one line of JSON, with the links between its words if there are any to show."""
    record: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "score": translation.score,
        "alternatives": [{"translation": a.text, "score": a.score} for a in translation.alternatives],
    }
    if links is not None:
        record["alignment"] = [link_record(link) for link in links]
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
