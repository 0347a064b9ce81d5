"""What must be fast to import does not import what is slow."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["dragoman", "dragoman.config", "dragoman.errors", "dragoman.runs"])
def test_importing_does_not_import_torch(module: str) -> None:
    code = f"import sys, {module}; print(*{{'torch', 'numpy', 'tokenizers', 'sacrebleu'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_translating_does_not_import_a_compiler(tiny_run: Path) -> None:
    """PyTorch's takes more than a second, and what is done on the meta device may ask for it."""
    code = (
        "import sys; from dragoman.predict.translator import Translator; "
        "Translator.load(sys.argv[1]).translate(['red cat']); "
        "print(*{'torch._dynamo', 'sympy', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, tiny_run], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
