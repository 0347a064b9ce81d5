"""docs/licences.md has every dependency, with the licence that the installed package states."""

import re
import runpy
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "generate_licences.py"))
ROWS = dict(re.findall(r"^\| (\S+) \| (.+) \| .+ \|$", SCRIPT["PAGE"].read_text("utf-8"), re.MULTILINE))


def is_installed(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("extra", SCRIPT["direct"]())
def test_every_dependency_has_a_row(extra: str) -> None:
    names = {canonicalize_name(one.name) for one in SCRIPT["direct"]()[extra] if one.marker is None}
    assert names
    assert names <= ROWS.keys()


@pytest.mark.parametrize("name", [name for name in ROWS if is_installed(name)])
def test_a_row_says_what_the_installed_package_says(name: str) -> None:
    assert SCRIPT["licence"](name) == ROWS[name], "run python docs/generate_licences.py"


def test_every_licence_is_known_and_lets_others_be_used_with_it() -> None:
    """Weak copyleft (MPL) is of files; strong copyleft would bind programs that use Dragoman."""
    assert "not stated" not in ROWS.values()
    assert not [name for name, licence in ROWS.items() if re.search(r"\bA?GPL|SSPL", licence)]
