"""How large the house is: the figures by which a change of its structure is judged.

    python tools/house.py                    # the table for this tree
    python tools/house.py --json before.json # kept, to compare with
    python tools/house.py --against before.json
    python tools/house.py --tests            # counts test cases as well, which takes half a minute
    python tools/house.py --ceilings         # the ledger; exit code 1 if a figure is over its ceiling
    python tools/house.py --lower            # lower the ceilings of tools/ceilings.toml to what is reached

Everything is counted from the sources, so that a bare checkout will do (Python 3.11 or later). The calls
from `dragoman translate` to the search are the exception: they are counted on the stack of a running command,
if the package is installed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import starmap
from pathlib import Path
from typing import Any

import tomllib

from prose import pronouns, stumbles

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dragoman"
CEILINGS = ROOT / "tools" / "ceilings.toml"
TASK_BRANCH = re.compile(r"\btask\s*(?:==|!=)\s*[\"']|\bassert [\w.]*task\b")
SMALL = 40  # lines; a smaller module wants a reason
LONG = 60  # lines of a function, its docstring left out
NOT_MANUALS = {"commands.md", "configuration.md", "licences.md", "decisions.md", "notebook.md"}
"""Pages that a script writes, and the project's memory."""


def main() -> None:
    """Print the table, beside an earlier one on request; or the ledger."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--against", type=Path, help="print the figures of this file beside today's")
    parser.add_argument("--tests", action="store_true", help="count the test cases, too")
    parser.add_argument(
        "--ceilings", action="store_true", help="print the ledger; exit code 1 if it is not held"
    )
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to today's figures")
    options = parser.parse_args()
    if options.lower:
        lower_ceilings()
    if options.ceilings or options.lower:
        sys.exit(print_ledger())
    figures = measure() | calls_to_the_search() | (test_cases() if options.tests else {})
    before = json.loads(options.against.read_text()) if options.against else {}
    width = max(map(len, figures))
    for name, value in figures.items():
        earlier = f"{before[name]:>10,}" if name in before else " " * 10 * bool(before)
        print(f"{name:<{width}}  {earlier}  {value:>10,}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def measure() -> dict[str, int]:
    """Each figure by its name."""
    sources = python_files(PACKAGE)
    n_lines = {path: source.count("\n") for path, source in sources.items()}
    kinds = sum((lines_by_kind(source) for source in sources.values()), Counter[str]())
    n_commands, n_options = commands_and_options(sources)
    return {
        "lines of Python in src/dragoman": sum(n_lines.values()),
        **{f"  of which {kind}": kinds[kind] for kind in ("docstrings", "imports", "empty")},
        "Python files in src/dragoman": len(sources),
        f"modules under {SMALL} lines, without __init__": sum(
            n < SMALL for path, n in n_lines.items() if path.name not in ("__init__.py", "__main__.py")
        ),
        "commands": n_commands,
        "options": n_options,
        "class names defined twice": len(class_names_defined_twice(sources)),
        "errors raised `from None`": sum(source.count("from None") for source in sources.values()),
        "functions with a pronoun as a variable": sum(1 for path in sources for _ in pronouns(path)),
        "branches on the task outside the task packages": sum(starmap(_task_branches, sources.items())),
        "import circles": len(import_circles(sources)),
        "private functions used once": private_functions_used_once(sources),
        f"functions over {LONG} lines": sum(n > LONG for source in sources.values() for n in lengths(source)),
        "lines of C": lines_of(*PACKAGE.rglob("*.c")),
        "lines of the page": lines_of(*(PACKAGE / "serving" / "page").rglob("*")),
        "lines of tools": lines_of(*python_files(ROOT / "tools")),
        "lines of benchmarks": lines_of(*python_files(ROOT / "benchmarks")),
        "lines of tests": lines_of(*python_files(ROOT / "tests")),
        "lines of docs in menus": lines_of(*pages_in_menus()),
        "lines with words that readers stumble over": sum(1 for _ in stumbles(ROOT)),
    }


def python_files(folder: Path) -> dict[Path, str]:
    """Return the text of each Python file below `folder`."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}


def lines_of(*paths: Path) -> int:
    """Count the lines of text files, folders left out."""
    return sum(path.read_bytes().count(b"\n") for path in paths if path.is_file())


def pages_in_menus() -> list[Path]:
    """Return the pages of docs/ in a menu of the site but for `NOT_MANUALS`."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    names = set(re.findall(r"[\w/-]+\.md", menu)) - NOT_MANUALS
    return [path for name in sorted(names) if (path := ROOT / "docs" / name).is_file()]


def print_ledger() -> int:
    """Print each row of the ledger, and what is wrong with it; return the exit code."""
    ledger = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))
    rows, counts = [*ledger["lines"], *ledger["figures"]], counted(ledger)
    print(" " * 46 + "".join(f"{column:>9}" for column in ("start", "now", "allowed", "house", "end")))
    for row in rows:
        cells = (row["start"], counts[row["name"]], row["allowed"], row["house"], row["end"])
        print(f"{row['name']:<46}" + "".join(f"{cell:>9,}" for cell in cells))
    over = {row["name"]: excess for row in rows if (excess := counts[row["name"]] - row["allowed"]) > 0}
    problems = [
        *(f"{name}: {excess:,} over its ceiling; make room" for name, excess in over.items()),
        *(f"src/dragoman/{name}: no row of tools/ceilings.toml counts it" for name in uncounted(ledger)),
        *raised(ledger, earlier_ledgers()),
    ]
    print(*problems, sep="\n", end="\n" * bool(problems), file=sys.stderr)
    return int(bool(problems))


def counted(ledger: dict[str, Any]) -> dict[str, int]:
    """Return today's count of each row by its name."""
    figures: dict[str, int] = dict.fromkeys((row["name"] for row in ledger["lines"]), 0) | measure()
    for path, source in python_files(PACKAGE).items():
        if name := row_of(ledger, path):
            figures[name] += source.count("\n")
    return figures


def row_of(ledger: dict[str, Any], path: Path) -> str | None:
    """Return the name of the row that counts a file: the one with the longest path that fits it."""
    name = path.relative_to(PACKAGE).as_posix()
    fitting = {
        place: row["name"]
        for row in ledger["lines"]
        for place in row["paths"]
        if (name.startswith(place) if place != "." else "/" not in name)
    }
    return fitting[max(fitting, key=len)] if fitting else None


def uncounted(ledger: dict[str, Any]) -> list[str]:
    """Return the files that no row counts."""
    return [p.relative_to(PACKAGE).as_posix() for p in python_files(PACKAGE) if row_of(ledger, p) is None]


def earlier_ledgers() -> dict[str, dict[str, Any]]:
    """Return the ledgers of the last two commits that git knows, by commit."""
    ledgers = {}
    for commit in ("HEAD", "HEAD~1"):
        command = ["git", "show", f"{commit}:tools/ceilings.toml"]
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            ledgers[commit] = tomllib.loads(shown.stdout)
    return ledgers


def raised(ledger: dict[str, Any], earlier: dict[str, dict[str, Any]]) -> list[str]:
    """Name each ceiling that is higher than in an earlier ledger, unless the sum of lines has fallen."""
    messages = []
    for commit, before in earlier.items():
        has_fallen = sum_of_lines(ledger) < sum_of_lines(before)
        ceilings = {row["name"]: row["allowed"] for row in (*before["lines"], *before["figures"])}
        for row in ledger["figures"] if has_fallen else [*ledger["lines"], *ledger["figures"]]:
            was = ceilings.get(row["name"])
            if was is not None and row["allowed"] > max(was, row["end"]):
                messages.append(f"{row['name']}: its ceiling was {was:,} in {commit}; it may only fall")
    return messages


def sum_of_lines(ledger: dict[str, Any]) -> int:
    """Return the sum of the ceilings of the rows of lines."""
    return sum(row["allowed"] for row in ledger["lines"])


def lower_ceilings() -> None:
    """Lower each ceiling that is above today's count to that count."""
    text = CEILINGS.read_text(encoding="utf-8")
    ledger = tomllib.loads(text)
    counts = counted(ledger)
    for row in (*ledger["lines"], *ledger["figures"]):
        block = rf'(name = "{re.escape(row["name"])}"\n(?:.+\n)*?allowed = )\d+'
        text = re.sub(block, rf"\g<1>{min(row['allowed'], counts[row['name']])}", text)
    CEILINGS.write_text(text, encoding="utf-8")


def commands_and_options(sources: dict[Path, str]) -> tuple[int, int]:
    """Count the commands, those of groups one by one, and the options: typer's, and fields with a text."""
    n_commands = n_options = 0
    for path, source in sources.items():
        in_cli = path.relative_to(PACKAGE).parts[0] == "cli"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
                described = node.slice.elts[1] if isinstance(node.slice, ast.Tuple) else node.slice
                n_options += isinstance(described, ast.Constant)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.Option":
                n_options += 1
            elif in_cli and isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
                n_commands += len(node.value.keys) * (ast.unparse(node.target) == "COMMANDS")
            elif in_cli and isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_app.command"):
                n_commands += 1  # of a group
    return n_commands, n_options


def class_names_defined_twice(sources: dict[Path, str]) -> dict[str, list[str]]:
    """Return the files of each class name that more than one file defines."""
    files: dict[str, set[str]] = defaultdict(set)
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                files[node.name].add(path.relative_to(PACKAGE).as_posix())
    return {name: sorted(paths) for name, paths in sorted(files.items()) if len(paths) > 1}


def lines_by_kind(source: str) -> Counter[str]:
    """Count the lines that are docstrings, imports or empty; those within a docstring count as its own."""
    kind: dict[int, str] = {n: "empty" for n, line in enumerate(source.splitlines(), 1) if not line.strip()}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            name = "imports"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            name = "docstrings"
        else:
            continue
        kind |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return Counter(kind.values())


def _task_branches(path: Path, source: str) -> int:
    inside = path.relative_to(PACKAGE).parts[0] == "tasks"
    return 0 if inside else sum(bool(TASK_BRANCH.search(line)) for line in source.splitlines())


def import_circles(sources: dict[Path, str]) -> list[list[str]]:
    """Return the groups of modules that import one another, imports inside functions included."""
    modules = {_module(path): path for path in sources}
    imports = {name: _imported(sources[path], set(modules)) - {name} for name, path in modules.items()}
    reach: dict[str, set[str]] = {}
    for start in imports:
        seen: set[str] = set()
        waiting = list(imports[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(imports[name])
        reach[start] = seen
    circles = {frozenset(b for b in reach[a] if a in reach[b]) for a in imports if a in reach[a]}
    return sorted(sorted(circle) for circle in circles)


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(source: str, modules: set[str]) -> set[str]:
    """Return the modules that `source` imports from; those that only type checkers import do not count."""
    found: set[str] = set()
    tree = ast.parse(source)
    unread = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in unread:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found |= {inner if inner in modules else node.module} & modules
    return found - {"dragoman"}


def private_functions_used_once(sources: dict[Path, str]) -> int:
    """Return the number of private top-level functions with a single use in their module."""
    once = 0
    for source in sources.values():
        names = Counter(re.findall(r"\b_\w+\b", source))
        tops = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        once += sum(name.startswith("_") and names[name] == 2 for name in tops)
    return once


def lengths(source: str) -> list[int]:
    """Return the lines of each function, its docstring left out."""
    functions = (
        n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [
        (node.end_lineno or 0)
        - node.lineno
        + 1
        - len((ast.get_docstring(node, clean=False) or "").splitlines())
        for node in functions
    ]


STACK = """
import contextlib, io, json, pathlib, sys, threading, traceback
import dragoman, dragoman.cli, dragoman.decoding.search
package = pathlib.Path(dragoman.__file__).parent
calls = []

def record(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "greedy_search" and not calls:
        frames = [frame for frame, _ in traceback.walk_stack(frame)]
        if threading.current_thread() is not threading.main_thread():  # batches are searched in threads
            waiting = sys._current_frames()[threading.main_thread().ident]
            frames += [frame for frame, _ in traceback.walk_stack(waiting)]
        codes = [frame.f_code for frame in frames]
        ours = [c for c in codes if package in pathlib.Path(c.co_filename).parents]
        calls.extend((c.co_filename, c.co_name) for c in ours)

sys.setprofile(record)
threading.setprofile(record)
sys.argv = ["dragoman", "translate", sys.argv[1], "--beam-size", "1"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    dragoman.cli.main()
sys.setprofile(None)
command = [file.endswith("cli/translate.py") and name == "translate" for file, name in calls].index(True)
print(json.dumps(calls[: command + 1]))
"""


def calls_to_the_search() -> dict[str, int]:
    """Count the calls, and their files, from the command `dragoman translate` down to the search.

    An empty table where the package or the runs of tests/ are missing.
    """
    runs = sorted(ROOT.glob("tests/compatibility/*/translation"))[-1:]
    command = [sys.executable, "-c", STACK, *map(str, runs)]
    done = subprocess.run(command, input="Hello.\n", capture_output=True, text=True, check=False)
    if done.returncode:
        print("calls to the search are not counted: the package is not installed here", file=sys.stderr)
        return {}
    calls = [(file, name) for file, name in json.loads(done.stdout) if not name.startswith("<")]
    return {
        "calls from `dragoman translate` to the search": len(calls),
        "files these calls lie in": len({file for file, _ in calls}),
    }


def test_cases() -> dict[str, int]:
    """The number of test cases that pytest collects."""
    options = ["-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, *options], cwd=ROOT, capture_output=True, text=True, check=True)
    return {"test cases": sum("::" in line for line in done.stdout.splitlines())}


if __name__ == "__main__":
    main()
