"""No input is overwritten, pipes are files, streams may be closed, and Ctrl-C is a line."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer

import dragoman.cli
from commands import error_of, succeed
from dragoman.__main__ import main
from dragoman.cli.app import errors_as_exit_codes, give_back_ctrl_c
from dragoman.data.readers.files import find_file, open_lines
from dragoman.processes import without_ctrl_c
from tiny import TINY
from waiting import LONGEST

LINES = ["red cat", "blue dog"]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sentences in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@contextmanager
def pipe(path: Path, content: str) -> Iterator[Path]:
    """A pipe that gives `content` once."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=[content], daemon=True)
    writer.start()
    yield path
    writer.join(LONGEST)
    assert not writer.is_alive(), "the pipe was read"


# --- no input is overwritten ------------------------------------------------------------------------------


def into(file: Any, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """A command that writes into `file`, in a process of its own."""
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    return subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=False)


SUBTITLES = "1\n00:00:01,000 --> 00:00:02,000\nred cat\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "RUN", "in.txt", "--out", "in.txt"],
        ["translate", "RUN", "in.txt", "--out", "link"],
        ["translate", "RUN", "in.srt", "--out", "in.srt"],
        ["translate", "RUN", "in.txt", "--out-dir", "."],
        ["translate", "RUN", "in.txt", "--pharaoh", "in.txt"],
        ["translate", "RUN", "in.txt", "--glossary", "glossary", "--out", "glossary"],
        ["translate", "RUN", "in.txt", "--out", "RUN/model.safetensors"],
        ["backtranslate", "RUN", "in.tsv", "--out", "in.tsv"],
        ["classify", "CLASSIFIER", "in.txt", "--out", "in.txt"],
        ["evaluate", "RUN", "--src", "in.txt", "--ref", "in.tsv", "--out", "in.tsv"],
        ["evaluate", "RUN", "--out", "test.en"],
        ["evaluate", "CLASSIFIER", "--file", "in.tsv", "--no-baseline", "--out", "in.tsv"],
        ["show", "schedule", "--recipe", "recipe.svg", "--out", "recipe.svg"],
    ],
    ids=" ".join,
)
def test_no_command_overwrites_what_it_reads(
    text: Path, tiny_run: Path, tiny_classifier_run: Path, arguments: list[str]
) -> None:
    folder = text.parent
    runs = {"RUN": tiny_run, "CLASSIFIER": tiny_classifier_run}
    for name, run in runs.items():
        if any(name in argument for argument in arguments):
            shutil.copytree(run, folder / name)
    (folder / "in.srt").write_text(SUBTITLES)
    (folder / "in.tsv").write_text("positive\tred cat\nnegative\tblue dog\n")
    (folder / "glossary").write_text("red\trot\n")
    (folder / "recipe.svg").write_text("")
    (folder / "link").hardlink_to(text)
    (folder / "test.en").symlink_to(tiny_run.parent / "test.en")
    before = files_of(folder)
    error = error_of(*arguments, stdin="")
    assert "which would be lost; name another output" in error
    assert files_of(folder) == before


def test_stdout_is_an_output_too(text: Path, tiny_run: Path) -> None:
    with text.open("ab") as file:
        done = into(file, "translate", tiny_run, "in.txt")
    assert (done.returncode, text.read_text().splitlines()) == (1, LINES)
    assert done.stderr == b"error: stdout: is the input in.txt, which would be lost; name another output\n"


# --- what stands for an output ----------------------------------------------------------------------------


def test_a_hyphen_is_stdout(
    text: Path, tiny_run: Path, tiny_classifier_run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text.with_suffix(".srt").write_text(SUBTITLES)
    for arguments in (
        ["translate", tiny_run, "in.txt"],
        ["translate", tiny_run, "in.srt"],
        ["classify", tiny_classifier_run, "in.txt"],
    ):
        expected = succeed(*arguments).stdout
        assert succeed(*arguments, "--out", "-").stdout == expected
    assert sorted(path.name for path in text.parent.iterdir()) == ["in.srt", "in.txt"]
    backtranslate = ["backtranslate", tiny_run, "in.txt", "--max-ratio", 0, "--tag", "", "--out"]
    for out in ("-", "out.tsv"):
        succeed(*backtranslate, out)
    assert capfd.readouterr().out == Path("out.tsv").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "--out", "-"], "--out -: stdin and stdout are not possible here; give a path"),
        (["train", "--out", ""], "--out: is empty; give a path"),
        (["translate", "r", "--ensemble", ""], "--ensemble: is empty; give a path"),
        (["classify", ""], "run: is empty; give a path"),
        (["compare", "r", "s", "--latex", ""], "--latex: needs the name of a file"),
        (["data", "check", ""], "the name of a file is empty; give its path"),
        (["data", "check", "https://h/a.tsv"], "https://h/a.tsv: has to be on this machine; download it, or"),
        (["train", "--src", "a", "--tgt", "b", "--out", "s3://b/r"], "--out s3://b/r: has to be on this"),
        (["translate", "r", "--top-p", "nan"], "--top-p nan: is not a finite number; give a finite"),
    ],
)  # fmt: skip
def test_values_that_are_none_are_refused(text: Path, arguments: list[str], complaint: str) -> None:
    assert error_of(*arguments).removeprefix("error: ").startswith(complaint)
    assert list(text.parent.iterdir()) == [text]


# --- pipes are files --------------------------------------------------------------------------------------


def test_a_pipe_is_read_like_a_file(text: Path, tiny_run: Path) -> None:
    expected, content = succeed("translate", tiny_run, text).stdout, text.read_text()
    with pipe(text.with_name("stdout"), content) as source:
        assert succeed("translate", tiny_run, source).stdout == expected
    with pipe(text.with_name("file"), content) as source:  # may be killed and continued, so it is copied
        succeed("translate", tiny_run, source, "--out", "out.txt")
    assert Path("out.txt").read_text() == expected
    with pipe(text.with_name("document"), content) as source:
        assert succeed("translate", tiny_run, source, "--document").stdout == expected


def test_a_pipe_may_be_read_several_times_and_has_a_format(tmp_path: Path) -> None:
    with pipe(tmp_path / "a.tsv", "x\ty\n") as source:
        first, second = find_file(str(source)), find_file(str(source))
        assert first.suffix == ".tsv"
        assert list(open_lines(first)) == list(open_lines(second)) == ["x\ty"]


def test_pipes_are_corpora(text: Path, tiny_run: Path) -> None:
    texts = [(tiny_run.parent / f"train.{lang}").read_text() for lang in ("en", "de")]
    settings = [f"--set={override}" for override in TINY]
    with pipe(text.with_name("a.en"), texts[0]) as a, pipe(text.with_name("b.de"), texts[1]) as b:
        succeed("train", "--src", a, "--tgt", b, "--out", "run", *settings)
    assert Path("run/model.safetensors").exists()


# --- streams that are closed or full ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_help_that_cannot_be_written_is_a_line(redirection: str, reason: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m dragoman --help {redirection}', sys.executable],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: output: {reason}; check the path, rights and space\n"


# --- Ctrl-C -----------------------------------------------------------------------------------------------


def test_nothing_is_imported_before_ctrl_c_is_a_line() -> None:
    code = "import sys; there = {*sys.modules}; import dragoman.__main__; print(*{*sys.modules} - there)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {*found.split()} <= {"dragoman", "dragoman.__main__", "__future__"}


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(dragoman.cli, "main", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    for rank in ("0", "1"):  # of processes that train together one speaks
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(typer.Exit) as exit_, errors_as_exit_codes():
            raise KeyboardInterrupt
        assert exit_.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n" * 2
    give_back_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL, "a second one does not disturb the end"
    signal.signal(signal.SIGINT, before)


def test_workers_are_born_deaf_to_ctrl_c() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    command = [sys.executable, "-c", code]
    with without_ctrl_c():
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"True\n"
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"


# --- what a command that fails leaves behind --------------------------------------------------------------


def files_of(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["translate", "RUN", "nul.txt", "--protect", "all", "--out-dir", "new/de"], "holds a NUL byte"),
        (["translate", "RUN", "nul.txt", "--out-dir", "new/de"], "holds a NUL byte"),
        (["translate", "RUN", "in.txt", "--out-dir", "in.txt"], "--out-dir in.txt: is not a folder"),
        (["translate", "RUN", "in.txt", "--encoding", "caf\udce9"], "caf\\udce9: is unknown; try cp1252"),
        (["score", "in.txt", "in.txt", "--tgt-lang", "--json"], "--tgt-lang --json: is not a language code"),
        (["show", "RUN", "--plot"], "is damaged or cut short"),
        (
            ["train", "--tsv", "caf\udce9.tsv", "--src-lang", "en", "--tgt-lang", "de", "--out", "new"],
            "is not valid UTF-8; rename the file",
        ),
    ],
    ids=ascii,
)
def test_a_failure_changes_nothing(text: Path, tiny_run: Path, arguments: list[str], complaint: str) -> None:
    folder = text.parent
    shutil.copytree(tiny_run, folder / "RUN", ignore=shutil.ignore_patterns("*.svg"))
    if "--plot" in arguments:
        (folder / "RUN" / "model.safetensors").write_bytes(bytes(100))
    (folder / "nul.txt").write_bytes(b"a\0b\n")
    (folder / "caf\udce9.tsv").write_text("red cat\trot Katze\n" * 50)
    before = files_of(folder)
    assert complaint in error_of(*arguments)
    assert files_of(folder) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_unprintable_scores_are_not_kept(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run", ignore=shutil.ignore_patterns("scores.json"))
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = into(full, "evaluate", tmp_path / "run")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(b"error: output: No space left on device")
    assert not (tmp_path / "run" / "scores.json").exists()


def test_settings_are_checked_before_a_model_is_loaded(
    text: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = "dragoman.predict.translator.Translator.load"
    monkeypatch.setattr(load, lambda *_, **__: pytest.fail("is loaded"))
    error = error_of("translate", tiny_run, "in.txt", "--temperature", "1e308")
    assert error.startswith("error: translate: temperature = 1e+308: ")
