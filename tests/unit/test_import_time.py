"""What must be fast to import does not import what is slow."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["dragoman", "dragoman.config", "dragoman.errors", "dragoman.runs"])
def test_importing_does_not_import_torch(module: str) -> None:
    code = f"import sys, {module}; print(*{{'torch', 'numpy', 'tokenizers', 'sacrebleu'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
