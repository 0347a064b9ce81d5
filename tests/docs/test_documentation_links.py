"""The links of README and docs lead somewhere, and the lines they name hold what they promise."""

import ast
import importlib
import importlib.util
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "update_lines.py"))
PAGES = SCRIPT["pages"]()

LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


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


def every_link() -> Iterator[tuple[Path, str, str, str]]:
    """Each link of each page: the page, the link's text, path and fragment."""
    for page in PAGES:
        yield from ((page, *link) for link in links(page))


def test_every_relative_link_leads_to_a_file() -> None:
    assert not [
        f"{page.name}: {path}"
        for page, _, path, _ in every_link()
        if path and not (page.parent / path).exists()
    ]


def test_every_link_to_a_section_finds_its_heading() -> None:
    for page, _, path, fragment in every_link():
        target = page.parent / path if path else page
        if fragment and target.suffix == ".md":
            assert fragment in anchors(target), f"{page.name}: {path}#{fragment}"


def test_every_line_that_is_linked_holds_the_name_of_its_link() -> None:
    for page, text, path, fragment in every_link():
        if fragment.startswith("L"):
            line = (page.parent / path).read_text(encoding="utf-8").splitlines()[int(fragment[1:]) - 1]
            name = text.strip("`").rpartition(".")[2]
            found = re.search(rf"\b{re.escape(name)}\b", line)
            assert found, f"{page.name}: {path}#{fragment} holds {line!r}, not {name}"


def test_line_numbers_are_those_of_the_definitions() -> None:
    old = [page.name for page in PAGES if SCRIPT["updated"](page) != page.read_text(encoding="utf-8")]
    assert not old, "run python docs/update_lines.py"


def test_every_link_to_a_line_can_be_updated() -> None:
    for page in PAGES:
        n_lines = sum(fragment.startswith("L") for _, _, fragment in links(page))
        assert n_lines == len(SCRIPT["LINE_LINK"].findall(page.read_text(encoding="utf-8"))), page.name


def test_every_name_that_python_examples_import_exists() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                package = (node.module or "").partition(".")[0]
                if package != "dragoman" and importlib.util.find_spec(package) is None:
                    continue  # a package that is not installed here; the tests of its page need it
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    if not hasattr(module, alias.name):  # then it is a module of the package
                        importlib.import_module(f"{node.module}.{alias.name}")


def test_every_make_target_and_script_in_a_command_exists() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in "".join(commands).splitlines():
        if match := re.match(r"make ([\w-]+)", command):
            assert match[1] in targets, command
        if match := re.match(r"\S*python (\S+\.py)", command):
            assert (ROOT / match[1]).is_file(), command
