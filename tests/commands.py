"""Commands as users type them, run in this process: what they print, and how they end."""

from typer.testing import CliRunner, Result

from dragoman.cli import app


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
