"""Points every link such as [`MultiHeadAttention`](../src/dragoman/model/layers.py#L74) at its line again.

    python docs/update_lines.py          # rewrites the pages whose line numbers have moved

A link's text is the name that is defined on the line: a class, a function, a constant, or
`Class.method`. tests/docs/test_documentation_links.py fails until the numbers are right.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE_LINK = re.compile(r"\[`(?P<name>[\w.]+)`\]\((?P<path>[^)#\s]+\.py)#L(?P<line>\d+)\)")


def pages() -> list[Path]:
    """Return the pages that a reader meets."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def definitions(path: Path) -> dict[str, int]:
    """Return the line of each name that the module `path` defines, in dots: "Class.method"."""
    return dict(_definitions(ast.parse(path.read_text(encoding="utf-8")).body, prefix=""))


def updated(page: Path) -> str:
    """Return the text of `page` with the lines of today.

    KeyError: a name is no longer where its link says.
    """

    def today(link: re.Match[str]) -> str:
        line = definitions(page.parent / link["path"])[link["name"]]
        return f"[`{link['name']}`]({link['path']}#L{line})"

    return LINE_LINK.sub(today, page.read_text(encoding="utf-8"))


def _definitions(body: list[ast.stmt], *, prefix: str) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield prefix + node.name, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, prefix=f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id, node.lineno
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node.lineno


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    for page in pages():
        text = updated(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"updated {page.relative_to(ROOT)}")
