"""docs/commands.md says what the command line says."""

import re
import runpy
from pathlib import Path

from typer.testing import CliRunner

from dragoman.cli import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert runpy.run_path(str(DOCS / "generate_commands.py"))["page"]() == PAGE, (
        "run python docs/generate_commands.py"
    )


def test_every_command_of_the_help_has_a_section() -> None:
    listed = re.findall(
        r"^  ([a-z-]+) ", CliRunner().invoke(app, ["--help"]).stdout.partition("Commands:")[2], re.MULTILINE
    )
    assert listed
    sections = re.findall(r"^## `dragoman ([a-z-]+)`$", PAGE, re.MULTILINE)
    assert sections == listed


def test_every_option_of_a_command_is_in_its_table() -> None:
    section = PAGE.partition("## `dragoman translate`")[2].partition("\n## ")[0]
    options = set(re.findall(r"--[a-z][\w-]*", CliRunner().invoke(app, ["translate", "--help"]).stdout))
    assert options <= set(re.findall(r"--[a-z][\w-]*", section))
