"""tools/gpu_check.py, where there is no GPU."""

from __future__ import annotations

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


@pytest.mark.nightly
def test_checks_that_crash_hang_or_fail_are_told_apart_and_leave_the_others(tmp_path: Path) -> None:
    """Each in a process of its own, as the tool runs them."""
    tool = tmp_path / "tool.py"
    checks = """
@check("sound")
def _(place): place.at_most("difference", 0.5, 1.0)
@check("wrong")
def _(place): place.at_most("difference", 2.0, 1.0)
@check("missing")
def _(place): raise SkipError("for two GPUs")
@check("crashing")
def _(place): os.kill(os.getpid(), signal.SIGSEGV)
@check("hanging")
def _(place): time.sleep(600)

if __name__ == "__main__":
"""
    source = TOOL.read_text(encoding="utf-8").replace('\nif __name__ == "__main__":\n', checks)
    tool.write_text(source, encoding="utf-8")
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
from pathlib import Path; import tool
limits = {{"sound": 60, "wrong": 60, "missing": 60, "crashing": 60, "hanging": 8, "late": 0}}
for name, limit in limits.items():
    outcome = tool.run_alone(name, "cpu", Path({str(tmp_path)!r}), limit=limit)
    print(outcome.name, outcome.status, outcome.reason, sep="; ")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    sound, wrong, missing, crashing, hanging, late = done.stdout.splitlines()
    assert (sound, wrong, missing) == ("sound; PASS; ", "wrong; FAIL; ", "missing; SKIP; for two GPUs")
    assert crashing.startswith("crashing; FAIL; exit code -11; it last wrote: ")
    assert hanging.startswith("hanging; FAIL; not done after 8 s")
    assert late.startswith("late; FAIL; no time is left")
