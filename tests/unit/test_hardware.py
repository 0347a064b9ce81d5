"""What is found out about the machine, and the advice that follows from it."""

import json
import re
import subprocess
import sys
from itertools import count

import pytest
import torch
from typer.testing import CliRunner

from dragoman import hardware
from dragoman.cli import app
from dragoman.cli.show import advice
from dragoman.hardware import has_bf16, matrix_ceiling

SOUND = {
    **hardware.environment(), "n_cores": 4, "n_threads": 4, "has_bf16": True, "memory": 8 << 30,
    "free_memory": 6 << 30, "free_disk": 50 << 30, "gpus": [], "ceilings": {"fp32": 1e11, "bf16": 2e11},
}  # fmt: skip


def test_each_lack_has_its_advice() -> None:
    assert advice(SOUND) == []
    for name, value, expected in (
        ("n_threads", 1, "uses 1 of 4 cores.*--processes 4"),
        ("n_threads", 8, "more threads than cores"),
        ("ceilings", {"fp32": 1e11, "bf16": 5e10}, 'precision = "fp32"'),
        ("has_bf16", False, 'precision = "bf16"'),
        ("free_memory", 1 << 30, "smaller training.batch_tokens"),
        ("free_disk", 1 << 30, "training.max_disk_gb"),
    ):
        (line,) = advice(SOUND | {name: value})
        assert re.search(expected, line)


SHAPES = """
import resource, torch
from dragoman.hardware import remember_few_shapes

def held():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

remember_few_shapes()
torch.set_num_threads(1)
weights = torch.randn(64, 64).bfloat16()
for n in range(1, 600):
    torch.randn(n, 64).bfloat16() @ weights
    if n == 100:
        before = held()
print(held() - before)
"""


@pytest.mark.skipif(not has_bf16(torch.device("cpu")), reason="this processor does not multiply in bf16")
def test_products_of_ever_new_shapes_do_not_take_ever_more_memory() -> None:
    """500 of them: 270 MiB by default, less than one as we have it."""
    done = subprocess.run([sys.executable, "-c", SHAPES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 30


def test_a_processor_is_named_with_its_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    amd = "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx\n\nmodel\t\t: 3\n"
    arm = "model name\t: ARMv7 Processor rev 3\nFeatures\t: neon\n"
    other, epyc = "BogoMIPS\t: 50.00\nFeatures\t: asimd bf16\n", "AMD EPYC (family 26, model 2)"
    named = (amd, epyc, "avx"), (arm, "ARMv7 Processor rev 3", "neon"), (other, "", "bf16")
    for cpuinfo, name, flag in named:
        monkeypatch.setattr(hardware, "_text", lambda path, text=cpuinfo: text if "cpuinfo" in path else "")
        found, flags = hardware.processor()
        assert found == name
        assert flag in flags


def test_a_slow_machine_is_not_measured_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: next(seconds))
    assert matrix_ceiling(torch.float32, n=64) == 2 * 8**3, "a product of 8 x 8 takes a second"
    assert next(seconds) == 18, "no larger one is tried"


def test_the_command_shows_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "look_around", lambda: SOUND | {"n_threads": 1})
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0
    assert "4, of which PyTorch uses 1" in done.stdout
    assert "fp32 0.10, bf16 0.20 TFLOP/s on the processor" in done.stdout
    assert "→ PyTorch uses 1 of 4 cores" in done.stdout
    facts = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert facts["n_cores"] == 4
    assert len(facts["advice"]) == 1


@pytest.mark.slow
def test_this_machine_is_looked_at() -> None:
    machine = hardware.look_around()
    assert json.loads(json.dumps(machine)) == machine
    assert machine["n_cores"] >= 1
    assert 0 < machine["free_memory"] <= machine["memory"]
    assert set(machine["ceilings"]) == {"fp32", "bf16"}
