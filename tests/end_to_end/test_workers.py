"""Whatever is translated, and however: N workers write what one writes, and a kill costs no line."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docx
import pytest

from commands import error_of, succeed
from commands import folder as folder
from dragoman.bulk import job, running
from dragoman.bulk.input import Chunk
from tiny import WORDS
from waiting import until

LINES = [f"{a} {b} {c} 1{n}" for n, a in enumerate(WORDS) for b, c in (("cat", "house"), ("old", "tree"))]
CUE = "{0}\n00:00:{0:02},000 --> 00:00:{0:02},900\nThe <i>{1}</i>. A dog!\n"
SUBTITLES = "\n".join(CUE.format(n, line) for n, line in enumerate(LINES, 1))
PAGE = "".join(f"<p>The <b>{line}</b> in <a href='x'>{n}</a> houses.</p>\n" for n, line in enumerate(LINES))
KINDS = {
    "glossary": ("lines.en", ["--glossary", "terms.tsv", "--inflect"]),
    "protection": ("lines.en", ["--protect", "all", "--protect-pattern", "c.t"]),
    "ensemble": ("lines.en", ["--ensemble", "RUN"]),
    "alignment": ("lines.en", ["--json", "--align"]),
    "links": ("lines.en", ["--pharaoh", "links"]),
    "n-best": ("lines.en", ["--json", "--n-best", "3"]),
    "sampling": ("lines.en", ["--method", "sampling", "--seed", "7"]),
    "too long": ("lines.en", ["--skip-long", "--glossary", "terms.tsv"]),
    "subtitles": ("film.srt", []),
    "page": ("page.html", ["--protect", "numbers", "--glossary", "terms.tsv"]),
    "letter": ("letter.docx", []),
}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """The inputs, and what stands beside them."""
    lines = [*LINES, "", "dog " * 600]
    Path("lines.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("terms.tsv").write_text("cat\tHund\nold house\tBaum\n", encoding="utf-8")
    Path("film.srt").write_text(SUBTITLES, encoding="utf-8")
    Path("page.html").write_text(PAGE, encoding="utf-8")
    document = docx.Document()
    for line in LINES:
        document.add_paragraph(f"The {line}. ").add_run("A big dog!").bold = True
    content = io.BytesIO()
    document.save(content)
    Path("letter.docx").write_bytes(content.getvalue())


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SOON", 5)
    monkeypatch.setattr(job, "CHUNK_LINES", 5)


def far_away(open_: Callable[[int], Any], chunks: Iterator[Chunk], **options: Any) -> Iterator[Any]:
    """What `processes.in_order` does, without processes: what they need to know travels all the same."""
    work = pickle.loads(pickle.dumps(open_))(0)
    for chunk in chunks:
        yield pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(chunk)), options["tick"])))


def runs_of(letter: bytes) -> list[tuple[str, bool | None]]:
    """The text of a Word document, and what of it is bold."""
    return [(r.text, r.bold) for p in docx.Document(io.BytesIO(letter)).paragraphs for r in p.runs]


@pytest.mark.parametrize(
    ("kind", "to_stdout"), [*((kind, False) for kind in KINDS), ("glossary", True), ("letter", True)]
)
def test_n_workers_write_what_one_writes(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, short_chunks: None, kind: str, to_stdout: bool
) -> None:
    name, options = KINDS[kind]
    out = Path(f"out{Path(name).suffix}")
    command = ["translate", tiny_run, name, *(str(tiny_run) if o == "RUN" else o for o in options)]
    results = []
    for n_workers in (1, 2):
        monkeypatch.setattr(running, "in_order", far_away)
        done = succeed(*command, "--workers", n_workers, *([] if to_stdout else ["--out", out]))
        links = Path("links").read_text(encoding="utf-8") if "links" in options else ""
        said = [line for line in done.stderr.splitlines() if not line.startswith("out.")]
        results.append((done.stdout_bytes if to_stdout else out.read_bytes(), links, said))
    if name == "letter.docx":  # a zip file holds the time
        results = [(runs_of(written), *rest) for written, *rest in results]
    assert results[0] == results[1]
    assert results[0][0]


def test_real_workers_take_a_glossary_and_share_a_document(tiny_run: Path, short_chunks: None) -> None:
    command = ["translate", tiny_run, "film.srt", "--glossary", "terms.tsv"]
    assert succeed(*command, "--workers", 2).stdout_bytes == succeed(*command).stdout_bytes


def test_lines_of_stdin_go_to_several_workers(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, short_chunks: None
) -> None:
    monkeypatch.setattr(running, "in_order", far_away)
    expected = succeed("translate", tiny_run, "lines.en").stdout
    lines = Path("lines.en").read_bytes()
    assert succeed("translate", tiny_run, "--workers", 2, stdin=lines).stdout == expected


PROGRAM = """
import sys
from dragoman.bulk import job
from dragoman.cli import main
job.CHUNK_LINES = 2
main()
"""


def test_a_translation_with_a_glossary_continues_after_a_kill(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lines.en").write_text("".join(f"{line}\n" for line in LINES * 4), encoding="utf-8")
    translate = ["translate", str(tiny_run), "lines.en", "--glossary", "terms.tsv"]
    journal = Path("out.journal")
    command = [sys.executable, "-c", PROGRAM, *translate, "--out", "out"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        until(lambda: journal.exists() and json.loads(journal.read_bytes())["n_lines"] >= 4)
        os.kill(process.pid, signal.SIGKILL)
    assert not Path("out").exists()
    monkeypatch.setattr(job, "CHUNK_LINES", 2)
    Path("terms.tsv").write_text("cat\tVogel\n", encoding="utf-8")
    refusal = error_of(*translate, "--out", "out")
    assert "was begun with other settings (the glossary has other terms); use the same ones" in refusal
    Path("terms.tsv").write_text("cat\tHund\nold house\tBaum\n", encoding="utf-8")
    assert " of them earlier; " in succeed(*translate, "--out", "out").stderr
    succeed(*translate, "--out", "whole")
    assert Path("out").read_bytes() == Path("whole").read_bytes()
