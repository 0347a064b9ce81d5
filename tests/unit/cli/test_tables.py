"""Tables on the terminal: what others wrote is text in them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dragoman.cli import app
from dragoman.data import catalog
from dragoman.data.catalog.sources import Listing

HOSTILE = "[/b] [red]x[/red]"


def test_names_of_a_source_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    class Source:
        def listing(self, name: str) -> Listing:
            return Listing(("name", ">pairs"), [(HOSTILE, "1"), ("es\x1b[2J", "2")], [])

    monkeypatch.setattr(catalog, "source_of", lambda name: Source())
    result = CliRunner().invoke(app, ["data", "list", "opus:en-pl"])
    assert result.exit_code == 0, result.output
    assert HOSTILE in result.stdout
    assert r"es\x1b[2J" in result.stdout
