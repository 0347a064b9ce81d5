"""DRAGOMAN_DEBUG=1 shows a maintainer the cause of an error, below the one line that its user gets."""

from pathlib import Path

import pytest

from commands import dragoman
from tiny import damaged_run


@pytest.mark.parametrize("value", ["", "0"])
def test_an_error_is_one_line(
    value: str, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_DEBUG", value)
    result = dragoman("translate", damaged_run(tiny_run, tmp_path / "run"), stdin="red cat\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_wrapped_cause_is_printed_on_request(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_DEBUG", "1")
    result = dragoman("translate", damaged_run(tiny_run, tmp_path / "run"), stdin="red cat\n")
    line, *below = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.startswith("error: ")
    assert below[0] == "Traceback (most recent call last):"
    cause = next(i for i, text in enumerate(below) if text.startswith("safetensors"))
    link = below.index("The above exception was the direct cause of the following exception:")
    assert cause < link < len(below) - 1
    assert below[-1].startswith("dragoman.errors.RunError: ")
