"""Workflows, forms and the tools of a release: commands that exist, Pythons and systems that are promised."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

pytest.importorskip("yaml")

import yaml
from test_packaging import project, pythons

import image_build
import image_check
import release_check
from commands import succeed
from dragoman.serving.access import Keys, make_key
from services import service_in_thread

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


def test_what_the_classifiers_promise_is_tested() -> None:
    matrix = WORKFLOWS["checks.yml"]["jobs"]["quick"]["strategy"]["matrix"]
    assert matrix["python"] == pythons()
    systems = re.findall(r"Operating System :: (.*)", "\n".join(project()["classifiers"]))
    assert sorted(matrix["system"]) == sorted(SYSTEMS[name] for name in systems)


def test_every_workflow_may_only_read_and_every_job_ends() -> None:
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job in workflow["jobs"].values():
            assert "timeout-minutes" in job or "uses" in job, name


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
    programs = (
        "actionlint bash docker dragoman echo gh git make mv python python3 sudo test touch .venv/bin/pip"
    )
    assert words[0] in (*programs.split(), ".venv/bin/python") or words[0].startswith(("digest=", "IMAGE="))


def test_tests_that_run_without_extras_are_there() -> None:
    for line in (ROOT / "tests" / "core.txt").read_text().split():
        assert (ROOT / line).is_file(), line


def test_forms_ask_for_what_doctor_prints() -> None:
    for name in ("ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/idea.yml", "pull_request_template.md"):
        assert "`dragoman doctor`" in (ROOT / ".github" / name).read_text(encoding="utf-8")


def test_the_readme_begins_with_training_translating_and_evaluating() -> None:
    assert [words[1] for words in release_check.first_commands()] == ["train", "translate", "evaluate"]


def test_the_check_of_an_image_wants_a_translation_and_a_key(tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.toml", "smoke")
    with service_in_thread([image_check.RUN], keys=Keys.load(tmp_path / "keys.toml")) as (port, _):
        assert image_check.translate(f"http://127.0.0.1:{port}", key)
        with pytest.raises(HTTPError, match="403"):
            image_check.translate(f"http://127.0.0.1:{port}", "wrong")
    with service_in_thread([image_check.RUN]) as (port, _), pytest.raises(OSError, match="without a key"):
        image_check.translate(f"http://127.0.0.1:{port}", key)


def test_an_image_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\necho 1200000000\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", ["image_check", "image", "--most-gb", "1", "--engine", str(program)])
    with pytest.raises(SystemExit, match="too large"):
        image_check.main()


def fake(folder: Path, name: str, script: str) -> None:
    """Write a program for PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_step_that_lacks_its_programs_is_skipped_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["release_check", "--only", "image", "--only", "workflows"])
    with pytest.raises(SystemExit, match="False"):
        release_check.main()
    image, workflows = capsys.readouterr().out.splitlines()
    assert re.match(r"SKIP .* cannot try here: no Docker, and no podman and no mmdebstrap", image)
    assert re.match(r"SKIP .* cannot try here: neither actionlint nor npm", workflows)


def test_workflows_are_linted_and_a_finding_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    fake(tmp_path, "actionlint", f'echo "$@" > {tmp_path}/given')
    assert release_check.check_workflows(tmp_path) == f"{len(WORKFLOWS)} workflows, actionlint"
    given = (tmp_path / "given").read_text().split()
    assert {Path(name).name for name in given} == set(WORKFLOWS)
    fake(tmp_path, "actionlint", "echo unknown permission; exit 1")
    with pytest.raises(release_check.StepError, match="unknown permission"):
        release_check.check_workflows(tmp_path)


def test_docker_builds_the_image_if_it_answers_and_podman_if_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setattr(sys, "argv", ["image_build", "--most-gb", "1"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(image_build, "BASE", tmp_path / "build" / "base.tar")
    for name in ("docker", "podman", "python"):
        fake(tmp_path, name, f'echo {name} "$@" >> {log}')
    fake(tmp_path, "mmdebstrap", 'for last; do :; done; touch "$last"')
    image_build.main()
    build, check = [line for line in log.read_text().splitlines() if line != "docker info"]
    assert build == f"docker build --file deploy/Dockerfile --tag {image_build.NAME} ."
    assert check.endswith(f"image_check.py {image_build.NAME} --most-gb 1.0")

    log.unlink()
    fake(tmp_path, "docker", "exit 1")
    image_build.main()
    made, build, check = log.read_text().splitlines()
    assert made == f"podman import --quiet {image_build.BASE} docker.io/library/python:3.11-slim"
    assert build.startswith("podman build --isolation=chroot --pull=never ")
    assert check.endswith("--engine podman")


def test_podman_keeps_its_images_in_the_folder_and_takes_wheels_from_another(tmp_path: Path) -> None:
    named = image_build.podman_settings(tmp_path)
    assert f'graphroot = "{tmp_path}/store"' in Path(named["CONTAINERS_STORAGE_CONF"]).read_text()
    limits = re.findall(r'"(\w+)=(\d+):\2"', Path(named["CONTAINERS_CONF"]).read_text())
    assert [name for name, _ in limits] == ["nofile", "nproc"]
    assert all(0 < int(value) <= image_build.LIMIT for _, value in limits)
    given = image_build.podman_options(tmp_path, tmp_path / "wheels")
    assert f"--volume={tmp_path}/wheels:/wheels:ro" in given
    assert "/wheels" in (tmp_path / "pip.conf").read_text()
    assert not any("wheels" in option for option in image_build.podman_options(tmp_path, None))


def test_the_largest_image_is_the_same_in_the_workflow_and_the_release_check() -> None:
    kinds = WORKFLOWS["images.yml"]["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert {kind["kind"]: kind["gb"] for kind in kinds}["cpu"] == release_check.MOST_GB


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="is itself a source distribution")
@pytest.mark.slow
def test_an_sdist_with_a_time_has_the_same_bytes_again(tmp_path: Path) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    for name in ("one", "two"):
        tree = tmp_path / name / "tree"
        release_check.copy_of_the_commit(tree)
        command = [sys.executable, "-W", "ignore", "-c", build, str(tmp_path / name)]
        subprocess.run(
            command,
            cwd=tree,
            check=True,
            capture_output=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        )
    one, two = (release_check.digest(next((tmp_path / name).glob("*.tar.gz"))) for name in ("one", "two"))
    assert one == two
