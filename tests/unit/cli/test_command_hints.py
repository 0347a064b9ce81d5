"""Commands that messages name work in the shell in which the program was called."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commands import error_of
from dragoman.cli.app import as_called, command_line

ROOT = Path(__file__).parents[3]


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment `my env/bin` that has dragoman, pip and python, and is not on the PATH."""
    programs = tmp_path / "my env" / "bin"
    programs.mkdir(parents=True)
    for name in ("dragoman", "pip", "python"):
        (programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "argv", ["my env/bin/dragoman", "compare", "run"])
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    return programs


def test_a_program_that_the_shell_does_not_find_is_named_with_its_path(called: Path) -> None:
    assert as_called("try: dragoman classify run") == "try: 'my env/bin/dragoman' classify run"
    assert error_of("compare", "run").endswith("for a single one say: 'my env/bin/dragoman' report RUN")
    assert command_line() == "dragoman compare run"
    assert shlex.split(command_line("show", Path("my run"))) == ["dragoman", "show", "my run"]
    for text in ("runs/dragoman show", "python -m dragoman show", "the dragoman shows"):
        assert as_called(text) == text, "this is no command of ours"
    found = shlex.split(as_called("pip install 'dragoman[plots]'"))
    assert found == [str(called / "python"), "-m", "pip", "install", "-e", f"{ROOT}[plots]"]


def test_a_program_on_the_path_is_named_alone(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(called))
    for argv in ("my env/bin/dragoman", str(called / "dragoman")):
        monkeypatch.setattr(sys, "argv", [argv])
        text = "dragoman show run; pip install 'dragoman[plots]'"
        assert as_called(text) == text.replace("'dragoman[plots]'", f"-e '{ROOT}[plots]'")
        with monkeypatch.context() as installed:
            installed.setattr(sys.modules["dragoman.cli.app"], "__file__", "/lib/dragoman/cli/app.py")
            assert as_called(text) == text


def test_a_module_is_named_with_the_typed_python(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/dragoman/__main__.py", "show"])
    monkeypatch.setattr(sys, "orig_argv", ["bin/python3", "-m", "dragoman", "show"])
    assert as_called("dragoman data check a.tsv") == "bin/python3 -m dragoman data check a.tsv"


def test_a_usage_error_names_the_program_as_it_was_called(tmp_path: Path) -> None:
    script = tmp_path / "dragoman"
    script.write_text(f"#!{sys.executable}\nfrom dragoman.cli import main\nmain()\n", encoding="utf-8")
    script.chmod(0o755)
    done = subprocess.run([script, "show", "--wrong"], capture_output=True, text=True, check=False)
    assert f"Try '{script} show --help'" in done.stderr.replace(" -h'", " --help'")
