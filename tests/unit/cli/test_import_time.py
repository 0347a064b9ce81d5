"""What must be fast to import does not import what is slow."""

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = ("torch", "numpy", "rich", "pydantic", "tokenizers", "sacrebleu", "matplotlib")


def imported(*arguments: str) -> tuple[set[str], str]:
    """The packages that a Python with these arguments imports, and what it prints."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}, done.stdout


def test_help_imports_nothing_slow() -> None:
    modules, said = imported("-m", "dragoman", "--help")
    assert said.startswith(f"Usage: {sys.executable} -m dragoman [OPTIONS] COMMAND")
    assert "dragoman.cli" in modules
    assert not modules & set(SLOW)


@pytest.mark.slow
def test_settings_and_runs_import_no_torch() -> None:
    modules, _ = imported("-c", "import dragoman, dragoman.config, dragoman.errors, dragoman.runs")
    assert "dragoman.runs" in modules
    assert not modules & (set(SLOW) - {"pydantic"})


@pytest.mark.slow
def test_translating_does_not_import_a_compiler(tiny_run: Path) -> None:
    """PyTorch's takes more than a second, and what is done on the meta device may ask for it."""
    code = "from dragoman.predict.translator import Translator; Translator.load({!r}).translate(['red cat'])"
    modules, _ = imported("-c", code.format(str(tiny_run)))
    assert "dragoman.predict.translator" in modules
    assert not modules & {"torch._dynamo", "sympy", "transformers"}
