"""Pages that are generated say what the code, the command line and the installed packages say."""

import re
import runpy
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from dragoman.cli import app
from dragoman.config import parse_config
from dragoman.errors import ConfigError

DOCS = Path(__file__).resolve().parents[2] / "docs"
LICENCES = runpy.run_path(str(DOCS / "generate_licences.py"))
ROWS = dict(re.findall(r"^\| (\S+) \| (.+) \| .+ \|$", LICENCES["PAGE"].read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", ["commands", "configuration"])
def test_the_page_is_up_to_date(name: str) -> None:
    script = f"generate_{name}.py"
    kept = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(DOCS / script))["page"]() == kept, f"run python docs/{script}"


def test_a_help_names_no_type_cuts_no_line_and_needs_no_repository() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    for name in ["", *re.findall(r"^## `dragoman ([a-z -]+)`$", page, re.MULTILINE)]:
        usage, _, text = CliRunner().invoke(app, [*name.split(), "--help"]).stdout.partition("\n\n")
        assert usage.replace("root", "dragoman", 1).startswith(f"Usage: dragoman {name}".strip())
        assert not re.search(
            r"<(?:str|int|float|path|list)|[{}]|docs/|[a-z](?:\.\.\.|…)$", usage + text, re.MULTILINE
        ), name


def test_the_message_about_a_misspelt_setting_is_as_printed() -> None:
    settings = {"name": "x", "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"]}}
    with pytest.raises(ConfigError) as error:
        parse_config(settings, overrides=["training.learing_rate=1e-3"])
    message = str(error.value).removeprefix("--set: ")
    assert message in (DOCS / "configuration.md").read_text(encoding="utf-8")


def test_every_dependency_has_the_licence_that_the_installed_package_states() -> None:
    """Weak copyleft (MPL) is of files; strong copyleft would bind programs that use Dragoman."""
    for requirements in LICENCES["direct"]().values():
        names = {canonicalize_name(one.name) for one in requirements if one.marker is None}
        assert names <= ROWS.keys()
    for name, licence in ROWS.items():
        assert not re.search(r"\bA?GPL|SSPL|not stated", licence), name
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        assert LICENCES["licence"](name) == licence, "run python docs/generate_licences.py"
