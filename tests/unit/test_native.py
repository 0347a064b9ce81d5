"""The library of compiled searches: built by an installation, chosen by the processor, and done without."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_platform
from zipfile import ZipFile

import pytest

from dragoman import native as module
from dragoman.native import LIBRARY, SOURCE, VARIANTS, Native, native
from dragoman.predict.translator import Translator

ROOT, TESTS = Path(__file__).parents[2], Path(__file__).parent
SEARCHES = [
    TESTS / name for name in (
        "model/test_compiled.py", "model/test_transformer.py", "predict/test_shortlist.py",
        "decoding/test_compiled_beam.py", "decoding/test_greedy_and_beam.py",
    )
]  # fmt: skip
"""Tests of compiled searches."""
NEEDED = {
    "any": "",
    "avx2": "avx2 fma f16c bmi2",
    "avx2_vnni": "avx2 fma f16c bmi2 avx_vnni",
    "avx512": "avx2 fma f16c bmi2 avx512f avx512bw avx512dq avx512vl avx512_vnni",
    "avx512_bf16": "avx2 fma f16c bmi2 avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16",
    "dotprod": "asimddp",
}
"""Features of a processor, as Linux calls them, of each variant."""
needs_compiled = pytest.mark.skipif(bool(native().reason), reason=native().reason)
needs_setuptools = pytest.mark.skipif(not SOURCE.exists(), reason="is no checkout")


def fresh() -> Native:
    """What a new process would be given."""
    return native.__wrapped__()


@needs_compiled
@pytest.mark.skipif(sys.platform != "linux", reason="says elsewhere what the processor can do")
def test_a_processor_has_the_variants_whose_instructions_linux_knows_of() -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    features = next(line.split(":")[1].split() for line in lines if line.startswith(("flags", "Features")))
    expected = [name for name in VARIANTS if {*NEEDED[name].split()} <= {*features}]
    assert list(native().variants) == expected
    assert str(native()) == f"compiled, with {expected[0]}"


@needs_compiled
def test_the_switch_takes_a_variant_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.SWITCH, "any")
    assert fresh().variants == ("any",)
    monkeypatch.setenv(module.SWITCH, "of another processor")
    assert fresh().variants == native().variants
    monkeypatch.setenv(module.SWITCH, "0")
    assert fresh() == Native(None, "DRAGOMAN_NATIVE=0")
    assert str(fresh()) == "by PyTorch (DRAGOMAN_NATIVE=0)"


def test_without_a_whole_library_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, source = tmp_path / "libdragoman.so", tmp_path / "native.c"
    monkeypatch.setattr(module, "LIBRARY", library)
    monkeypatch.setattr(module, "SOURCE", source)
    missing = "installed without a C compiler; install GCC or Clang, then dragoman again"
    assert fresh() == Native(None, missing)
    library.write_bytes(b"half")
    os.utime(library, (0, 0))
    assert "libdragoman.so" in fresh().reason
    source.touch()
    assert fresh() == Native(None, f"{library} is missing or older than native.c; run make native")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build of the library reads, and a compiler that makes the same of every source."""
    package = tmp_path / "src" / "dragoman"
    package.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for source in (SOURCE, SOURCE.with_name("native_variants.c"), SOURCE.with_name("__init__.py")):
        shutil.copy(source, package)
    (tmp_path / "fake.sh").write_text(
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && printf made > "$2"; shift; done'
    )
    return tmp_path


def setup(checkout: Path, *command: str, compiler: str) -> subprocess.CompletedProcess[str]:
    """Run a command of setup.py."""
    environment = {**os.environ, "CC": compiler}
    whole = [sys.executable, "-W", "ignore", "setup.py", "--quiet", *command]
    return subprocess.run(whole, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


@needs_setuptools
@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "system", "warning"),
    [
        ("sh fake.sh", get_platform().replace("-", "_"), ""),
        ("/nowhere/cc", "any", "no compiled library, searches will be slower: "),
        ("false", "any", "no compiled library, searches will be slower: "),
    ],
)
def test_a_wheel_is_of_its_system_or_without_a_compiler_pure(
    checkout: Path, compiler: str, system: str, warning: str
) -> None:
    earlier = checkout / "build" / "lib" / "dragoman" / LIBRARY.name
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"of an earlier build")
    done = setup(checkout, "bdist_wheel", compiler=compiler)
    assert done.returncode == 0, done.stderr
    assert warning in done.stderr
    (wheel,) = (checkout / "dist").iterdir()
    assert wheel.name.split("-", 2)[2] == f"py3-none-{system}.whl"
    names = ZipFile(wheel).namelist()
    assert (f"dragoman/{LIBRARY.name}" in names) == (not warning)
    assert "dragoman/native.c" not in names  # by whose age a checkout's library is judged


@needs_setuptools
@pytest.mark.slow
def test_a_library_takes_its_place_when_it_is_whole(checkout: Path) -> None:
    library = checkout / "src" / "dragoman" / LIBRARY.name
    assert setup(checkout, "build_native", "--inplace", compiler="sh fake.sh").returncode == 0
    assert library.read_bytes() == b"made"
    assert setup(checkout, "build_native", "--inplace", compiler="false").returncode != 0
    assert library.read_bytes() == b"made"
    assert [path.name for path in library.parent.glob("*.so")] == [library.name]


@needs_setuptools
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.nightly
@pytest.mark.parametrize("level", ["-O1", "-O3"])
def test_the_source_compiles_without_a_warning(
    checkout: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warnings about what may happen at run time need optimisation, of which a little finds nearly all."""
    monkeypatch.setenv("DRAGOMAN_NATIVE_FLAGS", f"{level} -Wall -Wextra -Werror")
    done = setup(checkout, "build_native", "--inplace", compiler="gcc")
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A variant that is not the best of this processor; what is loaded next is that one."""
    if request.param not in native().variants[1:]:
        pytest.skip("is the best of this processor, or of another one")
    monkeypatch.setenv(module.SWITCH, request.param)
    native.cache_clear()
    yield request.param
    monkeypatch.undo()
    native.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_translations_are_the_same_with_every_variant(
    precision: str, variant: str, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, found = ["red cat", "", "big old house", "small bird river tree"], []
    for switch in ("", variant):
        monkeypatch.setenv(module.SWITCH, switch)
        native.cache_clear()
        translator = Translator.load(tiny_run, device="cpu", precision=precision)
        found.append(translator.translate(texts, beam_size=4, n_best=4))
    for wide, narrow in zip(*found, strict=True):
        assert [one.text for one in narrow.alternatives] == [one.text for one in wide.alternatives]
        scores = [one.score for one in wide.alternatives]
        assert [one.score for one in narrow.alternatives] == pytest.approx(scores, rel=1e-4)


@pytest.mark.nightly
def test_all_searches_are_tested_with_every_variant(variant: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "compiled", *SEARCHES]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
