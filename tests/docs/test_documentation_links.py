"""The links of README and docs lead somewhere, and the lines they name hold what they promise."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "update_lines.py"))
PAGES = SCRIPT["pages"]()

LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

every_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def links(page: Path) -> list[tuple[str, str, str]]:
    """Text, path and fragment of each link within the repository."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = [(link["text"], *link["target"].partition("#")) for link in LINK.finditer(text)]
    return [(name, path, fragment) for name, path, _, fragment in found if "://" not in path]


def anchors(page: Path) -> set[str]:
    """The headings of `page` as they are written in addresses."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    missing = [path for _, path, _ in links(page) if path and not (page.parent / path).exists()]
    assert not missing


@every_page
def test_every_link_to_a_section_finds_its_heading(page: Path) -> None:
    for _, path, fragment in links(page):
        target = page.parent / path if path else page
        if fragment and target.suffix == ".md":
            assert fragment in anchors(target), f"{path}#{fragment}"


@every_page
def test_every_line_that_is_linked_holds_the_name_of_its_link(page: Path) -> None:
    for text, path, fragment in links(page):
        if fragment.startswith("L"):
            line = (page.parent / path).read_text(encoding="utf-8").splitlines()[int(fragment[1:]) - 1]
            name = text.strip("`").rpartition(".")[2]
            assert re.search(rf"\b{re.escape(name)}\b", line), f"{path}#{fragment} holds {line!r}, not {name}"


@every_page
def test_line_numbers_are_those_of_the_definitions(page: Path) -> None:
    assert SCRIPT["updated"](page) == page.read_text(encoding="utf-8"), "run python docs/update_lines.py"


def test_every_link_to_a_line_can_be_updated() -> None:
    for page in PAGES:
        n_lines = sum(fragment.startswith("L") for _, _, fragment in links(page))
        assert n_lines == len(SCRIPT["LINE_LINK"].findall(page.read_text(encoding="utf-8"))), page.name


@every_page
def test_every_name_that_python_examples_import_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    if not hasattr(module, alias.name):  # then it is a module of the package
                        importlib.import_module(f"{node.module}.{alias.name}")


@every_page
def test_every_make_target_and_script_in_a_command_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in "".join(commands).splitlines():
        if match := re.match(r"make ([\w-]+)", command):
            assert match[1] in targets
        if match := re.match(r"\S*python (\S+\.py)", command):
            assert (ROOT / match[1]).is_file()
