"""tools/gpu_check.py, where there is no GPU."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

TOOL = Path(__file__).parents[2] / "tools" / "gpu_check.py"


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_it_says_so_in_a_line() -> None:
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no GPU here; --device cpu tries the checks on the processor\n"
