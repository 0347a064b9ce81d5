"""Tables on the terminal: what others wrote is text in them."""

import pytest
from typer.testing import CliRunner

from dragoman.cli import app
from dragoman.data.catalog import opus

HOSTILE = "[/b] [red]x[/red]"


def test_names_of_a_source_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [opus.Release(corpus, "v1", 1, 1024, "") for corpus in (HOSTILE, "es\x1b[2J")]
    monkeypatch.setattr(opus, "releases", lambda name: found)
    result = CliRunner().invoke(app, ["data", "list", "opus:en-pl"])
    assert result.exit_code == 0, result.output
    assert HOSTILE in result.stdout
    assert r"es\x1b[2J" in result.stdout
