"""What a user installs: one version everywhere, lowest versions that hold, a whole source distribution."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import dragoman

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def pythons() -> list[str]:
    """The Pythons of the classifiers, lowest first."""
    return [found for line in project()["classifiers"] for found in re.findall(r":: (3\.\d+)$", line)]


def test_the_version_has_an_entry_with_its_date_a_citation_and_golden_runs() -> None:
    version, date = re.findall(r"^## \[(\d\S+)\] - (\S+)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    assert version == dragoman.__version__
    assert f"\nversion: {version}\ndate-released: {date}\n" in read("CITATION.cff")
    assert f"dragoman-{version}-py3-none-linux_x86_64.whl" in read("docs/operating.md")
    minor = version.rpartition(".")[0]
    kept = {path.name for path in (ROOT / "tests" / "compatibility" / minor).iterdir()}
    assert kept == {"translation", "classification"}


@pytest.mark.parametrize("python", pythons())
def test_constraints_lowest_pins_each_core_dependency_once_for_every_python(python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    lines = [line for line in read("constraints-lowest.txt").splitlines() if not line.startswith("#")]
    pins = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate(environment)]
    wanted = [Requirement(line) for line in project()["dependencies"]]
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate(environment)]
    assert [pin.name for pin in pins] == [one.name for one in wanted]
    for pin, one in zip(pins, wanted, strict=True):
        (exact,) = pin.specifier
        assert one.specifier.contains(exact.version)
        if python == pythons()[0]:  # newer ones may have no wheels of it
            assert Version(exact.version) == Version(next(iter(one.specifier)).version)


def test_a_source_distribution_has_every_file_of_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    if not (ROOT / ".git").exists():
        pytest.skip("is itself a source distribution")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for name in files:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / "copy" / name)
    build = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=tmp_path / "copy", check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert files - packed == set()
