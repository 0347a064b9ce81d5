"""How large the house is: the figures by which a change of its structure is judged.

    python tools/house.py                    # the table for this tree
    python tools/house.py --json before.json # kept, to compare with
    python tools/house.py --against before.json
    python tools/house.py --tests            # counts test cases as well, which takes half a minute

Everything is counted from the sources, except the calls between `dragoman translate` and the search: they are
counted on the stack of a running command.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from prose import stumbles

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dragoman"
TASK_PACKAGES = ("tasks/",)
TASK_BRANCH = re.compile(r"\btask\s*(?:==|!=)\s*[\"']|\bassert [\w.]*task\b")
SMALL = 40  # lines; a smaller module wants a reason


def main() -> None:
    """Print the table, beside an earlier one on request."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--against", type=Path, help="print the figures of this file beside today's")
    parser.add_argument("--tests", action="store_true", help="count the test cases, too")
    options = parser.parse_args()
    figures = measure() | (test_cases() if options.tests else {})
    before = json.loads(options.against.read_text()) if options.against else {}
    width = max(map(len, figures))
    for name, value in figures.items():
        earlier = f"{before[name]:>10,}" if name in before else " " * 10 * bool(before)
        print(f"{name:<{width}}  {earlier}  {value:>10,}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def measure() -> dict[str, int]:
    """Each figure by its name."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    n_lines = {path: source.count("\n") for path, source in sources.items()}
    branches = [_task_branches(path, source) for path, source in sources.items()]
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    n_calls, n_files = calls_to_the_search()
    kinds = sum((lines_by_kind(source) for source in sources.values()), Counter[str]())
    return {
        "lines of Python in src/dragoman": sum(n_lines.values()),
        **{f"  of which {kind}": kinds[kind] for kind in ("docstrings", "imports", "empty")},
        "Python files in src/dragoman": len(sources),
        f"modules under {SMALL} lines, without __init__": sum(
            n < SMALL for path, n in n_lines.items() if path.name not in ("__init__.py", "__main__.py")
        ),
        "branches on the task outside the task packages": sum(branches),
        "files with such a branch": sum(n > 0 for n in branches),
        "import circles": len(import_circles(sources)),
        "calls from `dragoman translate` to the search": n_calls,
        "files these calls lie in": n_files,
        "private functions used once": private_functions_used_once(sources),
        "lines of tests": sum(source.count("\n") for source in tests),
        "lines with words that readers stumble over": sum(1 for _ in stumbles(ROOT)),
    }


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
    inside = path.relative_to(PACKAGE).as_posix().startswith(TASK_PACKAGES)
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


STACK = """
import contextlib, io, json, pathlib, sys, threading, traceback
import dragoman, dragoman.cli, dragoman.decoding.greedy
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


def calls_to_the_search() -> tuple[int, int]:
    """Count the calls, and their files, from the command `dragoman translate` down to the search."""
    run = next(ROOT.glob("tests/compatibility/*/translation"))
    command = [sys.executable, "-c", STACK, str(run)]
    done = subprocess.run(command, input="Hello.\n", capture_output=True, text=True, check=True)
    calls = [(file, name) for file, name in json.loads(done.stdout) if not name.startswith("<")]
    return len(calls), len({file for file, _ in calls})


def test_cases() -> dict[str, int]:
    """The number of test cases that pytest collects."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {"test cases": sum("::" in line for line in done.stdout.splitlines())}


if __name__ == "__main__":
    main()
