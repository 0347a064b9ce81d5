"""Workflows, forms and the tools of a release: commands that exist, Pythons and systems that are promised."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

import yaml
from test_packaging import project, pythons

import release_check
from commands import succeed

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").iterdir()}
SYSTEMS = {
    "POSIX :: Linux": "ubuntu-latest",
    "MacOS": "macos-latest",
    "Microsoft :: Windows": "windows-latest",
}


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step of each job, with the names of both."""
    for name, workflow in WORKFLOWS.items():
        for job, content in workflow["jobs"].items():
            yield from ((f"{name}, {job}", step) for step in content.get("steps", []))


COMMANDS = sorted({line for _, step in steps() for line in step.get("run", "").splitlines()})


@pytest.mark.slow
@pytest.mark.parametrize("schema", release_check.SCHEMAS)
def test_files_for_the_code_host_are_valid(schema: str) -> None:
    files = sorted(ROOT.glob(release_check.SCHEMAS[schema]))
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_the_classifiers_promise_is_tested_with_few_rights_and_an_end() -> None:
    matrix = WORKFLOWS["checks.yml"]["jobs"]["quick"]["strategy"]["matrix"]
    assert matrix["python"] == pythons()
    systems = re.findall(r"Operating System :: (.*)", "\n".join(project()["classifiers"]))
    assert sorted(matrix["system"]) == sorted(SYSTEMS[name] for name in systems)
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job in workflow["jobs"].values():
            assert "timeout-minutes" in job or "uses" in job, name
    kinds = WORKFLOWS["images.yml"]["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert {kind["kind"]: kind["gb"] for kind in kinds}["cpu"] == release_check.MOST_GB


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_workflow_names_what_is_there(command: str) -> None:
    words = shlex.split(command, comments=True)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    if words[0] == "make":
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in words[1:])
    for word in words:
        if word.startswith(("tools/", ".ci/", "deploy/", "@tests/")):
            assert (ROOT / word.removeprefix("@")).is_file(), word
    if words[0] == "dragoman":
        succeed(*words[1:], "--help")


def test_tests_that_run_without_extras_are_there() -> None:
    for line in (ROOT / "tests" / "core.txt").read_text().split():
        assert (ROOT / line).is_file(), line


def test_the_readme_begins_with_training_and_evaluating() -> None:
    assert [words[1] for words in release_check.first_commands()] == ["train", "evaluate", "translate"]


@pytest.mark.nightly
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="is itself a source distribution")
@pytest.mark.slow
def test_an_sdist_with_a_time_has_the_same_bytes_again(tmp_path: Path) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    for name in ("one", "two"):
        tree = tmp_path / name / "tree"
        release_check.copy_of_the_commit(tree)
        command = [sys.executable, "-W", "ignore", "-c", build, str(tmp_path / name)]
        subprocess.run(
            command, cwd=tree, check=True, capture_output=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        )  # fmt: skip
    one, two = (release_check.digest(next((tmp_path / name).glob("*.tar.gz"))) for name in ("one", "two"))
    assert one == two
