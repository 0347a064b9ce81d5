"""Compiled searches on every processor, ARM in an emulator: the same steps, and sums of levels to the bit."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model import compiled
from dragoman.model.compiled import ZERO, Kind
from dragoman.model.kernels import FAST
from dragoman.native import LIBRARY, SOURCE, SWITCH, VARIANTS, Native, native
from native_calls import Calls, one_product
from sharing import made_once
from small_models import compiled_steps, random_ids, small_model

ROOT = Path(__file__).parents[2]
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
FLAGS = os.environ.get("DRAGOMAN_NATIVE_FLAGS", "").split()
"""Of the compiler; see `make sanitize`."""
PROCESSORS = {"any": "cortex-a53", "dotprod": "cortex-a76"}
"""Of each variant, one that has its instructions and, of the first, no others."""
needs_compiled = pytest.mark.skipif(bool(native().reason), reason=native().reason)


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str | Path]]:
    """The command that carries out calls on a processor, less the variant."""
    missing = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
    if missing or not SOURCE.exists():
        pytest.skip(f"no {' and no '.join(missing)} (apt install gcc-aarch64-linux-gnu qemu-user)")

    def build(folder: Path) -> None:
        environment = {**os.environ, "CC": COMPILER}
        setup = [sys.executable, "setup.py", "--quiet", "build_native", "--build-lib", str(folder)]
        subprocess.run(setup, cwd=ROOT, env=environment, check=True)
        driver = [ROOT / "tests" / "native_calls.c", "-o", folder / "native_calls", "-ldl"]
        subprocess.run([COMPILER, *FLAGS, "-Wall", "-Wextra", "-Werror", *driver], check=True)

    folder = made_once(tmp_path_factory, "aarch64", build)
    program = [folder / "native_calls", folder / "dragoman" / LIBRARY.name]
    return lambda processor: [EMULATOR, "-cpu", processor, "-L", "/usr/aarch64-linux-gnu", *program]


@pytest.mark.nightly
def test_a_processor_without_dot_products_does_not_run_them(
    emulated: Callable[[str], list[str | Path]], tmp_path: Path
) -> None:
    command = [*emulated(PROCESSORS["any"]), "dotprod", tmp_path, tmp_path]
    assert subprocess.run(command, check=False).returncode == 3


@needs_compiled
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
@pytest.mark.parametrize("variant", PROCESSORS)
def test_steps_are_those_of_this_processor(
    norm: str, activation: str, kind: Kind, variant: str,
    emulated: Callable[[str], list[str | Path]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    model = small_model(FAST, d_model=36, n_heads=3, d_ff=52, norm=norm, activation=activation)
    src, tgt, rows = random_ids(9, 5), random_ids(9, 6), torch.arange(9).flip(0)
    src[1, 3:] = 0

    def steps() -> list[np.ndarray]:
        step = compiled_steps(model, src, src != 0, kind=kind)
        return [step(tgt[:, t], rows).numpy().copy() for t in range(6)]

    expected, calls = np.stack(steps()), Calls(shift_of(variant))
    monkeypatch.setattr(compiled, "native", lambda: Native(calls.library, ""))
    monkeypatch.setattr(compiled._Packer, "pointer", lambda _, x: calls.keep(x))
    steps()
    computed = np.stack(calls.run(emulated(PROCESSORS[variant]), variant, tmp_path))
    difference = np.abs(computed - expected)
    # A sum between two levels may be rounded to either of them, if seldom.
    assert np.median(difference) < 1e-5
    assert difference.max() < (0.3 if kind == "int8" else 1e-4)


def shift_of(variant: str) -> int:
    return ZERO if variant == "dotprod" else 0


PRODUCTS = [(4, 17, 1), (36, 70, 5), (64, 2, 13), (128, 130, 6)]
"""Inputs, outputs and rows of products, which end blocks in all ways."""


def assert_exact(compute: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    """Differences of log-probabilities are those of the sums."""
    generator = np.random.default_rng(1)
    for n_in, n_out, n_rows in PRODUCTS:
        levels, weight = (generator.integers(-127, 128, (n, n_in), np.int8) for n in (n_rows, n_out))
        levels[0], weight[0], weight[1] = 127, 127, -127  # no sum is larger
        sums = levels.astype(int) @ weight.T.astype(int)
        log_probs = compute(levels, weight).astype(float)
        assert (np.rint(log_probs - log_probs[:, :1]) == sums - sums[:, :1]).all()


@needs_compiled
@pytest.mark.parametrize("variant", VARIANTS)
def test_sums_of_levels_are_exact(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if variant not in native().variants:
        pytest.skip("is for another processor")
    monkeypatch.setenv(SWITCH, variant)
    library = native.__wrapped__().library
    assert library is not None
    assert_exact(lambda levels, weight: one_product(library, lambda x: int(x.ctypes.data), levels, weight))


@pytest.mark.nightly
@pytest.mark.parametrize("variant", PROCESSORS)
def test_sums_of_levels_are_exact_on_arm(
    variant: str, emulated: Callable[[str], list[str | Path]], tmp_path: Path
) -> None:
    def compute(levels: np.ndarray, weight: np.ndarray) -> np.ndarray:
        calls = Calls(shift_of(variant))
        one_product(calls.library, calls.keep, levels, weight)
        return calls.run(emulated(PROCESSORS[variant]), variant, tmp_path)[0]

    assert_exact(compute)
