"""Are small faults in the code noticed? Mutants of six areas, each against the tests that reach it.

    python tests/mutants.py tests/mutants.json --reach build/reach.json --name before

A mutant is one operator, constant or condition changed inside a function: "killed" if a test fails,
"survived" if none does. "timeout", "broken" (it cannot be imported) and "gone" (the code is another today)
are no kills. The 120 of the list were drawn once; each run tries the same ones again and writes another
column.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dragoman"
AREAS = {
    "decoding": "decoding/*.py",
    "batching": "data/*batching.py",
    "updates": "training/updates/*.py",
    "files": "files.py",
    "batcher": "serving/batching.py",
    "protection": "predict/protection.py",
}
TESTS = ("tests/unit", "tests/properties", "tests/references")
SWAPS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: (" in ", " not in "), ast.NotIn: ("not in", "in"),
    ast.Is: (" is ", " is not "), ast.IsNot: ("is not", "is"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
SECONDS = 400
"""Of all tests of a mutant, on two busy cores: a mutant that takes longer is a timeout."""
KEYS = ("function", "expression", "old", "new", "number")
"""What a mutant is found again by."""


class Mutant(NamedTuple):
    """A change of the text between two offsets of a file."""

    file: str
    function: str
    expression: str
    """The text of the line that is changed."""
    old: str
    new: str
    number: int
    """Among equal changes of equal expressions in the function."""
    start: int
    end: int


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions and methods below `tree` with their names; what is nested in one belongs to it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{name}{node.name}.")


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one in order, but for what is no matter of tests: messages, types, assertions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Assert | ast.Raise | ast.JoinedStr | ast.arguments | ast.AnnAssign):
            yield child
            yield from parts(child)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file, in the order of its text."""
    content, name = path.read_bytes(), path.relative_to(PACKAGE).as_posix()
    lines = content.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    seen: Counter[tuple[str, ...]] = Counter()

    def span(node: ast.expr) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
        return starts[node.lineno - 1] + node.col_offset, starts[end_line - 1] + end_column

    def changes(node: ast.AST) -> Iterator[tuple[int, int, str]]:
        operations: list[tuple[ast.expr, ast.AST, ast.expr]] = []
        if isinstance(node, ast.Compare):
            operations = list(zip([node.left, *node.comparators], node.ops, node.comparators, strict=False))
        elif isinstance(node, ast.BinOp):
            operations = [(node.left, node.op, node.right)]
        elif isinstance(node, ast.BoolOp):
            operations = [(a, node.op, b) for a, b in pairwise(node.values)]
        for left, operator, right in operations:
            old, new = SWAPS.get(type(operator), ("", ""))
            first = span(left)[1]
            place = content[first : span(right)[0]].decode().find(old)
            if old and place >= 0:
                yield first + place, first + place + len(old), new
        if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield *span(node), str(not node.value if isinstance(node.value, bool) else node.value + 1)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
            yield *span(node.func), NAMES[node.func.id]
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            first, last = span(node.test)
            yield first, last, f"(not ({content[first:last].decode()}))"

    for function, tree in functions(ast.parse(content)):
        for node in parts(tree):
            for start, end, new in changes(node):
                line = lines[content[:start].count(b"\n")].decode().strip()
                key = (function, line, content[start:end].decode(), new)
                yield Mutant(name, *key, seen[key], start, end)
                seen[key] += 1


def reach(tests: Sequence[str]) -> dict[str, list[str]]:
    """Run `tests` under coverage; return those that reach each "FILE:FUNCTION", the quickest first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = "".join(f"  src/dragoman/{pattern}\n" for pattern in AREAS.values())
        settings = f"[run]\ndata_file = {folder}/data\ndynamic_context = test_function\ninclude =\n{files}"
        (folder / "settings").write_text(settings, encoding="utf-8")
        command = ["-m", "coverage", "run", f"--rcfile={folder}/settings", "-m", "pytest", "-q", *tests]
        options = ["-p", "no:cacheprovider", "-m", "not nightly and not browser"]
        command = [sys.executable, *command, *options, f"--junitxml={folder}/times"]
        subprocess.run(command, cwd=ROOT, check=False)
        seconds: Counter[str] = Counter()
        for case in ElementTree.parse(folder / "times").iter("testcase"):
            test = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}"
            seconds[test] += float(case.get("time", 0))
        data = CoverageData(f"{folder}/data")
        data.read()
        tests_of: dict[str, set[str]] = defaultdict(set)
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file) or {}
            path = Path(file)
            for function, tree in functions(ast.parse(path.read_bytes())):
                body = tree.body  # type: ignore[attr-defined]
                for line in range(body[0].lineno, tree.end_lineno + 1):  # type: ignore[attr-defined]
                    named = {".".join(c.split(".")[-2:]) for c in contexts.get(line, ()) if c}
                    tests_of[f"{path.relative_to(PACKAGE).as_posix()}:{function}"] |= named
    found = sorted((name, tests) for name, tests in tests_of.items() if tests)
    return {name: sorted(tests, key=lambda test: seconds[test]) for name, tests in found}


def outcome(row: Mapping[str, Any], reached: Mapping[str, Sequence[str]]) -> str:
    """Return what becomes of a mutant: "killed by TEST", or "survived" and so on."""
    path = PACKAGE / row["file"]
    mutants = mutants_of(path) if path.exists() else ()
    same = [mutant for mutant in mutants if all(getattr(mutant, key) == row[key] for key in KEYS)]
    if not same:
        return "gone"
    files = {file.stem: file for folder in TESTS for file in (ROOT / folder).rglob("test_*.py")}
    sources = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    tests = [test.split(".") for test in reached.get(f"{row['file']}:{row['function']}", ())]
    nodes = [f"{files[name]}::{test}" for name, test in tests if f"def {test}(" in sources.get(name, "")]
    if not nodes:
        return "unreached"
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(PACKAGE, f"{name}/dragoman", ignore=shutil.ignore_patterns("__pycache__"))
        content, mutant = path.read_bytes(), same[0]
        changed = content[: mutant.start] + mutant.new.encode() + content[mutant.end :]
        (Path(name) / "dragoman" / row["file"]).write_bytes(changed)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *nodes]
        environment = {**os.environ, "PYTHONPATH": name, "OMP_NUM_THREADS": "1", "TMPDIR": name}
        try:
            options = {"cwd": ROOT, "env": environment, "timeout": SECONDS}
            done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        except subprocess.TimeoutExpired:
            return "timeout"
    failed = re.findall(r"^(?:FAILED|ERROR) \S*/(\w+\.py\S*)", done.stdout, re.MULTILINE)
    if done.returncode == 1 and "ImportError" not in done.stdout:
        return f"killed by {failed[0] if failed else 'a test'}"
    return "survived" if done.returncode == 0 else "broken"


def main() -> None:
    """Run the mutants of a list."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("list", type=Path, help="JSON")
    help_of_reach = "JSON of the tests by function; made if not there"
    parser.add_argument("--reach", type=Path, required=True, help=help_of_reach)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--name", default="outcome", help="the column of the list that this run writes")
    options = parser.parse_args()
    if options.name in ("area", "file", *KEYS):
        parser.error(f"--name {options.name}: is what a mutant is found by; name the column otherwise")
    if not options.reach.exists():
        options.reach.write_text(json.dumps(reach(TESTS), indent=1) + "\n", encoding="utf-8")
    reached = json.loads(options.reach.read_text(encoding="utf-8"))
    rows = json.loads(options.list.read_text(encoding="utf-8"))
    with ThreadPoolExecutor(options.processes) as pool:
        for row, result in zip(rows, pool.map(lambda row: outcome(row, reached), rows), strict=True):
            row[options.name] = result
            print(row["file"], row["function"], f"{row['old']!r} → {row['new']!r}:", result, flush=True)
            options.list.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(Counter(row[options.name].split()[0] for row in rows))


if __name__ == "__main__":
    main()
