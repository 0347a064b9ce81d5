"""Collects the pages of the documentation site: python docs/stage_site.py FOLDER

The pages of docs/ are Markdown that a code host shows as it is, with links to source files beside them. In
FOLDER they become the input of MkDocs (mkdocs.yml): each page where the site has it, and each file that a
page links to: source code as a page with numbered lines, notebooks as pages with their outputs, pictures as
they are. So a site needs no code host, and shows the source of its own version.
A link to a file that does not exist ends the command with one line for each.

`--site` is where the sites of all versions are: the menu of versions is written there.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "dragoman" / "__init__.py"
PLACES = {
    "README.md": "overview.md",
    "README_zh.md": "zh.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
}
"""Where the site has pages of the repository's root."""
HEADS = {
    "docs/index.md": "---\nhide: [navigation, toc]\n---\n\n",
    "README_zh.md": "---\ntitle: 简体中文\n---\n\n",
}
"""What the site needs at the top of a page, and a code host would show."""
CODE = "source"
"""The part of the site that holds source files."""
FENCE = re.compile(r"(^(`{3,})[^\n]*\n.*?^\2$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?:#(?P<fragment>[^)\s]*))?(?=\))")
COPIED = {".png", ".svg"}

API_INTRODUCTION = """\
# Python API

Every public name of the package `dragoman`. They are imported on first use, so that `import dragoman` is
quick. What is imported from deeper modules may change between versions without notice.
"""


def stage(folder: Path) -> list[str]:
    """Write the site's pages into `folder`, which is emptied before. Return a line for each broken link."""
    shutil.rmtree(folder, ignore_errors=True)
    waiting = [ROOT / name for name in PLACES] + sorted((ROOT / "docs").glob("*.md"))
    waiting += sorted(ROOT.glob("recipes/*/README.md")) + sorted(ROOT.glob("notebooks/*.ipynb"))
    done, broken = set(waiting), []
    while waiting:
        source = waiting.pop()
        linked, missing = write_page(source, folder / site_path(source))
        broken += missing
        waiting += linked - done
        done |= linked
    write(folder / "api.md", api_page(PACKAGE))
    shutil.copytree(ROOT / "docs" / "style", folder / "style")
    return broken


def site_path(path: Path) -> PurePosixPath:
    """Return where the site has the file or folder `path` of the repository."""
    inner = PurePosixPath(path.relative_to(ROOT).as_posix())
    if str(inner) in PLACES:
        return PurePosixPath(PLACES[str(inner)])
    if inner.parts[0] == "docs" and path.suffix in {".md", *COPIED}:
        return inner.relative_to("docs")
    if path.is_dir():
        return CODE / inner / "index.md"
    if inner.name == "README.md":
        return inner.with_name("index.md")
    if path.suffix in {".md", *COPIED}:
        return inner
    return (
        inner.with_suffix(".md")
        if path.suffix == ".ipynb"
        else CODE / inner.with_name(f"{inner.name.lstrip('.')}.md")
    )


def write_page(source: Path, target: Path) -> tuple[set[Path], list[str]]:
    """Write a file or folder of the repository. Return what it links to, and a line for each broken link."""
    if source.suffix in COPIED:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return set(), []
    if source.is_dir():
        text = listing(source)
    elif source.suffix == ".ipynb":
        text = notebook_page(json.loads(source.read_text(encoding="utf-8")))
    elif source.suffix == ".md":
        text = HEADS.get(source.relative_to(ROOT).as_posix(), "") + source.read_text(encoding="utf-8")
    else:
        write(target, code_page(source))
        return set(), []
    text, linked, missing = with_site_links(text, source)
    write(target, text)
    return linked, missing


def with_site_links(text: str, source: Path) -> tuple[str, set[Path], list[str]]:
    """Point the links of a page of the repository at the site's pages, outside code blocks.

    Returns the text, the files that are linked, and a line for each link that leads nowhere.
    """
    base = source if source.is_dir() else source.parent
    here = site_path(source).parent
    linked: set[Path] = set()
    missing: list[str] = []

    def in_site(link: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", link["target"]):
            return link[0]
        path = Path(os.path.normpath(base / link["target"]))
        if not path.exists() or not path.is_relative_to(ROOT):
            missing.append(f"{source.relative_to(ROOT)}: {link[0]} leads to no file of the repository")
            return link[0]
        linked.add(path)
        anchor = f"#{link['fragment']}" if link["fragment"] else ""
        return os.path.relpath(site_path(path), here).replace(os.sep, "/") + anchor

    pieces = FENCE.split(text)  # text, a fence, its backticks, text, …
    pieces[0::3] = [LINK.sub(in_site, piece) for piece in pieces[0::3]]
    del pieces[2::3]
    return "".join(pieces), linked, missing


def code_page(path: Path) -> str:
    """Return a page that shows a source file; line 90 has the anchor L90, as on a code host."""
    code = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    lines = highlight(code, lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    numbered = "\n".join(f'<span id="L{n}">{line}</span>' for n, line in enumerate(lines, 1))
    return (
        f"{hidden_title(path)}\n"
        f'<div class="highlight source"><pre tabindex="0"><code>{numbered}</code></pre></div>\n'
    )


def hidden_title(path: Path) -> str:
    """Return the head of a page that search leaves out, for a file or folder."""
    name = path.relative_to(ROOT).as_posix()
    return f"---\ntitle: {name}\nhide: [navigation, toc]\nsearch:\n  exclude: true\n---\n\n# `{name}`\n"


def listing(folder: Path) -> str:
    """Return a page with a link to each file that is shown, and to each folder with a README.md."""
    paths = [path / "README.md" if path.is_dir() else path for path in sorted(folder.iterdir())]
    shown = [path for path in paths if path.name[0] not in "._" and path.is_file()]
    names = [path.relative_to(folder).as_posix() for path in shown]
    links = "\n".join(f"- [{name.removesuffix('/README.md')}]({name})" for name in names)
    return f"{hidden_title(folder)}\n{links}\n"


def notebook_page(notebook: dict[str, Any]) -> str:
    """Return a notebook with its outputs as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(output_text, cell["outputs"])]
    return "\n\n".join(parts) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """Return one output of a cell: a table, a picture or text, the richest form that it has."""
    data = {kind: "".join(content) for kind, content in output.get("data", {}).items()}
    if "text/html" in data:
        table = data["text/html"].replace("<th></th>", "<td></td>")  # a heading needs a text
        return f'<div class="output" tabindex="0">{table}</div>'
    if "image/png" in data:
        picture = data["image/png"].replace("\n", "")
        return f"![The figure that the cell above draws](data:image/png;base64,{picture})"
    if "text/markdown" in data:
        return data["text/markdown"]
    text = data.get("text/plain") or "".join(output.get("text", []))
    return f"```text\n{text.rstrip()}\n```"


def api_page(module: Path) -> str:
    """Return the page of the API: a heading and the docstrings, by mkdocstrings, of every public name."""
    names = next(
        ast.literal_eval(node.value)
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "_HOME"
    )
    return "\n".join([API_INTRODUCTION, *(f"::: dragoman.{name}\n" for name in names)])


def list_versions(site: Path) -> None:
    """Write the menu of versions, this one and those in `site`, and a page that opens the newest."""
    version = re.findall(r'^__version__ = "(.*)"$', PACKAGE.read_text(encoding="utf-8"), re.MULTILINE)[0]
    others = {folder.name for folder in site.glob("*/") if (folder / "objects.inv").exists()}
    versions = sorted(
        others | {version}, key=lambda name: [int(n) for n in re.findall(r"\d+", name)], reverse=True
    )
    menu = [{"version": name, "title": name, "aliases": []} for name in versions]
    write(site / "versions.json", json.dumps(menu))
    newest = f"{versions[0]}/"
    moved = f'<meta http-equiv="refresh" content="0; url={newest}"><a href="{newest}">Dragoman</a>'
    write(site / "index.html", f'<!doctype html><html lang="en"><title>Dragoman</title>{moved}</html>\n')


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", type=Path, help="Folder of the built sites, one for each version.")
    given = parser.parse_args()
    if given.site is not None:
        list_versions(given.site)
    sys.exit("\n".join(stage(given.folder)) or 0)
