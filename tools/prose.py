"""Find words that readers stumble over in code, messages, help, pages and notebooks.

    python tools/prose.py            # print each line with such a word or variable; exit code 1 if any
    python tools/prose.py FOLDER     # of another git repository

The style is that of CONTRIBUTING.md. A line that must hold such a word, as in a quotation, carries
"prose: ok" with the reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

WORDS = {
    r"anew": "again, or from the start",
    r"whoever": "a reader, a caller, users who …",
    r"so many": "the number: N, this many, up to N",
    r"as ever": "as before, unchanged",
    r"in vain": "without result",
    r"(?:leave|leaves|left|leaving) away": "leave out, omit",
    r"(?<!there )(?:is|are|was|were) (?-i:none)": "there is no …, not a …, unknown …",
    r"there is to be": "should be, must be",
    r"_?(?:heed|heeds|heeded)": "handle, follow",
    r"_?(?:mourn|mourns|mourned)": "on_exit, reap",
    r"_?(?:bury|buries|buried)": "reap, remove",
    r"_?(?:obey|obeys|obeyed)": "follow, apply, handle",
    r"obeyed_by_nobody": "escape_control_characters",
    r"_?carr(?:y|ied)_out": "run",
}
PATTERN = re.compile(r"(?<![A-Za-z])(?:" + "|".join(WORDS) + r")(?![A-Za-z])", re.IGNORECASE)
SUFFIXES = {".py", ".md", ".toml", ".ipynb", ".html", ".js", ".yaml", ".service", ".txt", ""}
SKIPPED = (
    "tools/prose.py",
    "constraints",
    "CHANGELOG.md",
    "src/dragoman/data/phrasebook/",
    "tests/fixtures/",
)
PRONOUNS = {"found", "own", "there", "left", "wanted", "known", "given", "others", "said"}
"""Names of variables that do not say what they hold."""
SHORT = 3  # lines: a variable that lives longer is a noun


class Pronoun(NamedTuple):
    """A variable of a function whose name is a pronoun."""

    line: int
    function: str
    name: str
    n_lines: int
    """From its first line to its last."""


def main() -> None:
    """Print each line that holds such a word, and what to write in its place."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    lines = [*stumbles(root), *long_lived_pronouns(root)]
    for line in lines:
        print(line)
    sys.exit(1 if lines else 0)


def stumbles(root: Path, *folders: str) -> Iterator[str]:
    """Yield `file:line: word (better: …)` for each line with such a word in a tracked text file of `root`."""
    command = ["git", "ls-files", *folders]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = root / name
        is_skipped = name.startswith(SKIPPED) or "/results/" in name or path.suffix not in SUFFIXES
        if is_skipped or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = PATTERN.search(line)
            if found and "prose: ok" not in line:
                yield f"{name}:{number}: {found[0]!r} (better: {_better(found[0])})"


def long_lived_pronouns(root: Path) -> Iterator[str]:
    """Yield `file:line: name (better: …)` for each pronoun in src/ that lives longer than `SHORT` lines."""
    for path in sorted((root / "src").rglob("*.py")):
        for pronoun in pronouns(path):
            if pronoun.n_lines > SHORT:
                where = f"{path.relative_to(root).as_posix()}:{pronoun.line}: {pronoun.function}"
                yield f"{where}: {pronoun.name!r} (better: a noun that says what it holds)"


def pronouns(path: Path) -> Iterator[Pronoun]:
    """Yield the variables and parameters of each function of a file that are called by a pronoun."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ):
        lines: dict[str, list[int]] = {}
        bound = set()
        for node in ast.walk(function):
            if isinstance(node, ast.arg) and node.arg in PRONOUNS:
                lines.setdefault(node.arg, []).append(node.lineno)
                bound.add(node.arg)
            elif isinstance(node, ast.Name) and node.id in PRONOUNS:
                lines.setdefault(node.id, []).append(node.lineno)
                if isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
        for name in sorted(bound):
            first, last = min(lines[name]), max(lines[name])
            yield Pronoun(first, function.name, name, last - first + 1)


def _better(word: str) -> str:
    return next(better for pattern, better in WORDS.items() if re.fullmatch(pattern, word, re.IGNORECASE))


if __name__ == "__main__":
    main()
