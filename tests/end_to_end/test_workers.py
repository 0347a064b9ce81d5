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
    "lines": ("lines.en", ["--glossary", "terms.tsv", "--inflect", "--protect", "all", "--ensemble", "RUN",
                           "--skip-long", "--json", "--align", "--n-best", "3", "--pharaoh", "links"]),
    "sampling": ("lines.en", ["--method", "sampling", "--seed", "7"]),
    "page": ("page.html", ["--protect", "numbers", "--glossary", "terms.tsv"]),
    "letter": ("letter.docx", []),
}  # fmt: skip


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


@pytest.mark.parametrize("kind", KINDS)
def test_n_workers_write_what_one_writes(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, short_chunks: None, kind: str
) -> None:
    """To a file; letters to stdout."""
    name, options = KINDS[kind]
    out = Path(f"out{Path(name).suffix}")
    command = ["translate", tiny_run, name, *(str(tiny_run) if o == "RUN" else o for o in options)]
    monkeypatch.setattr(running, "in_order", far_away)
    results = []
    for n_workers in (1, 2):
        done = succeed(*command, "--workers", n_workers, *([] if kind == "letter" else ["--out", out]))
        links = Path("links").read_text(encoding="utf-8") if "links" in options else ""
        said = [line for line in done.stderr.splitlines() if not line.startswith("out.")]
        results.append((done.stdout_bytes if kind == "letter" else out.read_bytes(), links, said))
    if kind == "letter":  # a zip file holds the time
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


@pytest.mark.parametrize("victim", ["parent", pytest.param("worker", marks=pytest.mark.nightly)])
def test_a_translation_with_a_glossary_continues_after_a_kill(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    Path("lines.en").write_text("".join(f"{line}\n" for line in LINES * 4), encoding="utf-8")
    translate = ["translate", str(tiny_run), "lines.en", "--glossary", "terms.tsv"]
    n_workers = [] if victim == "parent" else ["--workers", "2"]
    journal = Path("out.journal")
    command = [sys.executable, "-c", PROGRAM, *translate, "--out", "out", *n_workers]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: journal.exists() and json.loads(journal.read_bytes())["n_lines"] >= 4)
        os.kill(process.pid if victim == "parent" else worker_of(process.pid), signal.SIGKILL)
        said = process.communicate()[1]
    if victim == "worker":
        assert process.returncode == 1
        assert "died, killed by SIGKILL" in said
        assert "what was finished is kept, and the same command continues" in said
    assert not Path("out").exists()
    monkeypatch.setattr(job, "CHUNK_LINES", 2)
    Path("terms.tsv").write_text("cat\tVogel\n", encoding="utf-8")
    refusal = error_of(*translate, "--out", "out")
    assert "was begun with other settings (the glossary has other terms); use the same ones" in refusal
    Path("terms.tsv").write_text("cat\tHund\nold house\tBaum\n", encoding="utf-8")
    assert " of them earlier; " in succeed(*translate, "--out", "out").stderr
    succeed(*translate, "--out", "whole")
    assert Path("out").read_bytes() == Path("whole").read_bytes()


def worker_of(pid: int) -> int:
    """The first worker of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(
        int(c) for c in children if b"multiprocessing-fork" in Path(f"/proc/{c}/cmdline").read_bytes()
    )
