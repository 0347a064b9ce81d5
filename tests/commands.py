"""Commands as users type them, run in this process: what they print, and how they end."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.cli import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of its own, in which every test of a module works that imports this."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)
    return tmp_path


def dragoman(*arguments: object, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def succeed(*arguments: object, stdin: bytes | str | None = None) -> Result:
    result = dragoman(*arguments, stdin=stdin)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def error_of(*arguments: object, stdin: bytes | str | None = None, silent: bool = True) -> str:
    """The one line that a user's mistake is answered with, the last on stderr; `silent`: none on stdout."""
    result = dragoman(*arguments, stdin=stdin)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert not silent or result.stdout == ""
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.stderr.splitlines()[-1:] == errors, "the error is one line, the last one"
    return errors[0]
