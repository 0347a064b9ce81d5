"""The files in deploy/ fit each other and the command line: checked without the engines they are for."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

pytest.importorskip("fastapi")
pytest.importorskip("yaml")

import yaml

from dragoman.cli import app
from dragoman.serving.connections import LAST_SECONDS
from dragoman.serving.settings import LimitsConfig, load_settings
from services import service_in_thread
from waiting import LONGEST

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
OPERATING = (ROOT / "docs/operating.md").read_text(encoding="utf-8")


def options(arguments: list[str]) -> dict[str, Any]:
    """What the command line makes of arguments to `dragoman serve`; a mistake in them is an error."""
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return dict(command.make_context("serve", list(arguments)).params)


def instructions(path: Path) -> list[tuple[str, str]]:
    """Those of a Dockerfile: their names, and what they say, on one line each."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]  # type: ignore[misc]


def test_the_dockerfile_copies_all_that_docker_is_sent() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert rules[0] == "*"
    assert {"**/__pycache__", "**/*.egg-info", "**/runs"} <= {*rules}
    copied = set()
    known = {"FROM", "ARG", "ENV", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
             "ENTRYPOINT", "CMD"}  # fmt: skip
    found = instructions(DEPLOY / "Dockerfile")
    assert {name for name, _ in found} <= known
    stages = [text.split() for name, text in found if name == "FROM"]
    for name, text in found:
        if name != "COPY":
            continue
        *sources, _ = text.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in [stage[-1] for stage in stages[:-1]]
            continue
        assert all((ROOT / source).exists() for source in sources), sources
        copied |= {source.partition("/")[0] for source in sources}
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    declared = {text.partition("=")[0] for name, text in found if name == "ARG"}
    assert set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "Dockerfile").read_text())) <= declared
    last = found[max(i for i, (name, _) in enumerate(found) if name == "FROM") :]
    assert ("USER", "10001:10001") in last
    assert not any("pip" in text for _, text in last), "nothing is installed where it runs"


def test_the_image_runs_a_command_that_there_is_and_asks_for_keys() -> None:
    found = dict(instructions(DEPLOY / "Dockerfile"))
    assert json.loads(found["ENTRYPOINT"]) == ["dragoman", "serve"]
    given = options(json.loads(found["CMD"]))
    assert given["host"] == "0.0.0.0"
    assert given["keys"] is not None
    assert str(given["port"]) == found["EXPOSE"]
    assert load_settings(None, given["set_"]).log_format == "json"
    for text in (OPERATING, (DEPLOY / "Dockerfile").read_text()):  # a file by itself would stay the old one
        mounted = re.findall(r'--volume "\$PWD/(\S+?):(\S+?):ro"', text)
        assert not any(source.endswith(".toml") for source, _ in mounted)


def test_the_check_of_the_image_tells_a_service_that_answers_from_none(tiny_run: Path) -> None:
    _, _, check = dict(instructions(DEPLOY / "Dockerfile"))["HEALTHCHECK"].partition(" CMD ")
    command = json.loads(check)
    assert command[0] == "python"
    assert "127.0.0.1:8000/health" in command[2]

    def outcome(port: int) -> int:
        program = [sys.executable, "-c", command[2].replace(":8000", f":{port}")]
        return subprocess.run(program, capture_output=True, timeout=LONGEST, check=False).returncode

    with service_in_thread([tiny_run]) as (port, _):
        assert outcome(port) == 0
    assert outcome(port) != 0


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string((DEPLOY / "dragoman.service").read_text())
    return parsed


def test_the_unit_starts_a_command_that_there_is_and_reloads_it() -> None:
    service = unit()["Service"]
    program, serve, *arguments = service["ExecStart"].split()
    assert (program.rsplit("/", 1)[1], serve) == ("dragoman", "serve")
    given = options(arguments)
    assert given["keys"] == Path("${CREDENTIALS_DIRECTORY}/keys.toml")
    assert service["LoadCredential"].split(":")[0] == "keys.toml"
    assert load_settings(None, given["set_"]).log_format == "json"
    assert service["ExecReload"] == "kill -HUP $MAINPID"
    # A credential is copied at the start: nothing may say that a reload reads new keys.
    assert "systemctl restart dragoman" in (DEPLOY / "dragoman.service").read_text()
    (row,) = [line for line in OPERATING.splitlines() if line.startswith("| under systemd |")]
    assert "restart" in row
    assert "Not after a reload" in row
    limits = LimitsConfig()
    assert int(service["TimeoutStopSec"]) > limits.file_seconds + LAST_SECONDS
    assert int(service["LimitNOFILE"]) >= 2 * limits.connections + 64


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_no_mistake_in_the_unit_and_little_that_it_could_do(tmp_path: Path) -> None:
    copy = tmp_path / "dragoman.service"
    text = (DEPLOY / "dragoman.service").read_text()
    copy.write_text(text.replace("/opt/dragoman/bin/dragoman", sys.executable))
    analyze = ["systemd-analyze", "--no-pager"]
    verify = [*analyze, "verify", "--man=no", copy]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    security = [*analyze, "security", "--offline=true", copy]
    done = subprocess.run(security, capture_output=True, text=True, check=False)
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    if exposure is None:
        pytest.skip(f"this systemd-analyze cannot say: {done.stderr}")
    assert float(exposure[1]) < 2, done.stdout  # of 10; a unit without any of it has 9.6


def manifests() -> dict[str, dict[str, Any]]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {manifest["kind"]: manifest for manifest in found}


def test_the_manifests_fit_together_and_fit_the_command(tmp_path: Path) -> None:
    found = manifests()
    assert set(found) == {
        "PersistentVolumeClaim", "ConfigMap", "Service", "PodDisruptionBudget", "Deployment",
    }  # fmt: skip
    deployment = found["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels

    given = options(container["args"])
    (port,) = container["ports"]
    assert given["port"] == port["containerPort"]
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert given["workers"] == int(container["resources"]["limits"]["cpu"])
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    for path in (given["runs"][0], given["keys"], given["settings"]):
        assert mounts["/" + path.parts[1]]["readOnly"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == set(volumes)
    claim = volumes["runs"]["persistentVolumeClaim"]["claimName"]
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]
    config = found["ConfigMap"]
    assert volumes["settings"]["configMap"]["name"] == config["metadata"]["name"]

    settings = tmp_path / given["settings"].name
    settings.write_text(config["data"][settings.name])
    limits = load_settings(settings).limits
    assert volumes["tmp"]["emptyDir"]["sizeLimit"] == "64Mi"
    assert limits.kept_bytes < 64 << 20
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > pause + limits.file_seconds + LAST_SECONDS


def test_kubernetes_asks_what_is_answered_without_a_key_and_the_pod_has_no_rights() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [probe["path"] for probe in probes] == ["/health", "/health", "/ready"]
    user = dict(instructions(DEPLOY / "Dockerfile"))["USER"].split(":")[0]
    assert str(pod["securityContext"]["runAsUser"]) == user
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
