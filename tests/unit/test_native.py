"""Compiled code: built once, kept, and done without where it cannot be had."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import native as module
from dragoman.native import Native, native
from dragoman.predict.translator import Translator

TESTS = Path(__file__).parent
SEARCHES = [
    TESTS / name for name in (
        "model/test_compiled.py", "model/test_transformer.py", "predict/test_shortlist.py",
        "decoding/test_compiled_beam.py", "decoding/test_greedy_and_beam.py",
    )
]  # fmt: skip
"""Tests of compiled searches."""
EVERY = (*module.AVX2, *module.AVX512, "avx512_vnni")
VECTORS = ("AVX-512", "AVX2", "the vectors of any processor")
needs_compiled = pytest.mark.skipif(bool(native().reason), reason=native().reason)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled code, in which there is none; what is compiled is not optimised, to be quick."""
    monkeypatch.setattr(module, "FLAGS", ("-O0", *module.FLAGS[1:]))
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


def fresh() -> Native:
    """What a new process would be given."""
    return native.__wrapped__()


@pytest.mark.slow
@needs_compiled
def test_it_is_compiled_once_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fresh().library is not None
    (made,) = cache.iterdir()
    monkeypatch.setattr(module, "_compile", None)  # not to be called again
    assert fresh().library is not None
    assert made.stat().st_mode & 0o077 == 0
    monkeypatch.undo()
    monkeypatch.setenv("DRAGOMAN_CACHE", str(cache.parent))
    monkeypatch.setattr(module, "FLAGS", ("-O0", *module.FLAGS[1:], "-g"))
    cached = cache / module._name(module._flags(module._features()))
    cached.write_bytes(b"half")
    assert fresh().library is not None, "what is damaged is compiled again"
    assert cached.stat().st_size > 10_000
    assert len(list(cache.iterdir())) == 2, "other flags are another library"


@pytest.mark.slow
@needs_compiled
def test_what_others_can_write_is_not_loaded(cache: Path) -> None:
    assert fresh().library is not None
    (made,) = cache.iterdir()
    made.chmod(0o777)
    assert fresh() == Native(None, f"{made}: others can write it; delete it")
    made.chmod(0o700)
    cache.chmod(0o777)
    assert fresh() == Native(None, f"{cache}: others can write it; delete it")


@needs_compiled
def test_a_damaged_library_is_done_without(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = native().library
    assert library is not None
    whole = Path(library._name).read_bytes()
    for damaged in (b"", whole[:1000], whole[:-1], whole[:5000] + b"?" + whole[5001:]):

        def damage(_: list[str], __: list[str], there: Path, damaged: bytes = damaged) -> None:
            there.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
            there.write_bytes(damaged)
            there.chmod(0o700)

        monkeypatch.setattr(module, "_compile", damage)
        there = fresh()
        assert there.library is None
        assert there.reason.endswith(": is damaged; delete it")
        for file in cache.iterdir():
            file.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="there is none elsewhere")
def test_without_a_compiler_there_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_features", lambda: frozenset(module.AVX2))
    for compiler, reason in {
        "/nowhere/cc": "there is no C compiler; install gcc",
        "false": "false does not compile native.c: ",
    }.items():
        monkeypatch.setenv("CC", compiler)
        assert fresh() == Native(None, reason)
        assert not cache.exists() or not list(cache.iterdir())


def test_a_processor_has_the_widest_vectors_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for features, switch, expected in (
        ({"sse2"}, "", []),
        ({*module.AVX2, "avx_vnni"}, "", [*(f"-m{name}" for name in module.AVX2), "-mavxvnni"]),
        ({*EVERY}, "", [*(f"-m{name}" for name in module.AVX512), "-mavx512vnni"]),
        ({*EVERY}, "avx2", [f"-m{name}" for name in module.AVX2]),
        ({*EVERY}, "any", []),
    ):
        monkeypatch.setenv(module.SWITCH, switch)
        assert module._flags(frozenset(features)) == [*module.FLAGS, *expected]


@needs_compiled
def test_it_says_what_computes_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    widest = str(fresh()).removeprefix("compiled, with ")
    assert widest in VECTORS
    monkeypatch.setenv(module.SWITCH, "0")
    assert str(fresh()) == "by PyTorch (DRAGOMAN_NATIVE=0)"
    monkeypatch.delenv(module.SWITCH)
    monkeypatch.setenv("DRAGOMAN_CACHE", __file__)  # a folder that cannot be written
    assert fresh().library is None


@pytest.fixture(params=["avx2", "any"])
def narrower(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The value of the switch for vectors that are narrower than this processor's widest ones."""
    monkeypatch.setenv(module.SWITCH, request.param)
    if str(fresh()) == str(native()):
        pytest.skip("the processor has no wider vectors")
    monkeypatch.delenv(module.SWITCH)
    yield request.param
    monkeypatch.undo()
    native.cache_clear()


@needs_compiled
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_translations_are_the_same_with_narrower_vectors(
    precision: str, narrower: str, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, found = ["red cat", "", "big old house", "small bird river tree"], []
    for switch in ("", narrower):
        monkeypatch.setenv(module.SWITCH, switch)
        native.cache_clear()
        translator = Translator.load(tiny_run, device="cpu", precision=precision)
        found.append(translator.translate(texts, beam_size=4, n_best=4))
    for wide, narrow in zip(*found, strict=True):
        assert [one.text for one in narrow.alternatives] == [one.text for one in wide.alternatives]
        scores = [one.score for one in wide.alternatives]
        assert [one.score for one in narrow.alternatives] == pytest.approx(scores, rel=1e-4)


@needs_compiled
@pytest.mark.nightly
def test_narrower_vectors_give_what_the_widest_do(narrower: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests of compiled searches, with the narrower vectors."""
    monkeypatch.setenv(module.SWITCH, narrower)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "compiled", *SEARCHES]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout


@needs_compiled
@pytest.mark.slow
def test_what_is_built_into_an_installation_needs_no_compiler(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = module.build(tmp_path / "compiled")
    assert len(made) == len(set(made)) == 7
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "compiled", *made)} == {0o755}
    monkeypatch.setattr(module, "BUILT", tmp_path / "compiled")
    monkeypatch.setattr(module, "_compile", None)  # not to be called
    assert fresh().library is not None
    assert not cache.exists()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.nightly
@pytest.mark.parametrize("level", ["-O1", "-O3"])
def test_the_source_compiles_without_a_warning(level: str, tmp_path: Path) -> None:
    """Warnings about what may happen at run time need optimisation, of which a little finds nearly all."""
    for features in [each for needed, more in module.HELPFUL.items() for each in (needed, (*needed, *more))]:
        # The last level counts.
        command = ["gcc", *module._flags(frozenset(features)), level, "-Wall", "-Wextra", "-Werror"]
        command += [str(module.SOURCE), "-o", str(tmp_path / "made")]
        assert subprocess.run(command, check=False).returncode == 0
