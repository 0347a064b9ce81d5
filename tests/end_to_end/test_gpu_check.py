"""tools/gpu_check.py, where there is no GPU."""

import pytest
import torch

import gpu_check


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_it_says_so_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == 1
    assert capsys.readouterr() == ("", "error: no GPU here; --device cpu tries the checks on the processor\n")
