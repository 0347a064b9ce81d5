"""DRAGOMAN_DEBUG=1 shows a maintainer the cause of an error, below the one line that its user gets."""

from pathlib import Path

import pytest

from commands import dragoman, error_of
from tiny import damaged_run


def test_a_wrapped_cause_is_printed_on_request(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = damaged_run(tiny_run, tmp_path / "run")
    monkeypatch.setenv("DRAGOMAN_DEBUG", "0")
    assert error_of("translate", run, stdin="red cat\n").startswith("error: ")
    monkeypatch.setenv("DRAGOMAN_DEBUG", "1")
    result = dragoman("translate", run, stdin="red cat\n")
    line, *below = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.startswith("error: ")
    assert below[0] == "Traceback (most recent call last):"
    cause = next(i for i, text in enumerate(below) if text.startswith("safetensors"))
    link = below.index("The above exception was the direct cause of the following exception:")
    assert cause < link < len(below) - 1
    assert below[-1].startswith("dragoman.errors.RunError: ")
