"""docs/commands.md says what the command line says."""

import re
import runpy
from pathlib import Path

from typer.testing import CliRunner

from dragoman.cli import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "generate_commands.py"))["page"]()
    assert page == PAGE, "run python docs/generate_commands.py"


def test_every_command_of_the_help_has_a_section() -> None:
    _, _, commands = CliRunner().invoke(app, ["--help"]).stdout.partition("Start:")
    listed = re.findall(r"^  ([a-z-]+) ", commands, re.MULTILINE)
    assert listed[0] == "demo"
    sections = re.findall(r"^## `dragoman ([a-z-]+)`$", PAGE, re.MULTILINE)
    assert sorted(sections) == sorted(listed)


def test_a_help_names_no_type_cuts_no_line_and_needs_no_repository() -> None:
    for name in ["", *re.findall(r"^## `dragoman ([a-z -]+)`$", PAGE, re.MULTILINE)]:
        usage, _, text = CliRunner().invoke(app, [*name.split(), "--help"]).stdout.partition("\n\n")
        assert usage.replace("root", "dragoman", 1).startswith(f"Usage: dragoman {name}".strip())
        assert not re.search(
            r"<(?:str|int|float|path|list)|[{}]|docs/|[a-z](?:\.\.\.|…)$", usage + text, re.MULTILINE
        ), name
