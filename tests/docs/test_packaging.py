"""What a user installs: the lowest versions that are promised, and a source distribution that is whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_constraints_lowest_has_the_lower_bound_of_every_core_dependency() -> None:
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins == [one.replace(">=", "==") for one in project["dependencies"]]


def test_a_source_distribution_has_every_file_of_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
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
