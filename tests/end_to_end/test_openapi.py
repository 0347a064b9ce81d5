"""/openapi.json describes the service, and the service keeps to it whatever it is sent (schemathesis)."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis")


from services import named, running, service_of

SETTINGS = """\
[generation]
deterministic = true
max-examples = 3
database = "none"

[checks]
# A language that is not there, or texts over a limit, are refused although their form is right.
positive_data_acceptance.expected-statuses = ["2xx", "400", "403", "404", "413"]
"""


@pytest.fixture(scope="module")
def url(tiny_run: Path, tiny_classifier_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running service of a translator and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    runs = [named(tiny_run, folder, "translator"), named(tiny_classifier_run, folder, "classifier")]
    with running(service_of(runs, "limits.characters=300", "limits.beam_size=4")) as found:
        yield found


@pytest.fixture(scope="module")
def operations(url: str) -> dict[str, Any]:
    """What there is, as "POST /v1/translate" and the like."""
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def test_every_route_and_what_may_go_wrong_is_described(operations: dict[str, Any]) -> None:
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    assert all(name.isidentifier() for name in ids)
    for name, operation in operations.items():
        assert operation["summary"]
        assert operation["description"].endswith(".")
        assert operation["tags"]
        statuses = operation["responses"].keys()
        assert "422" not in statuses
        if name.startswith("POST "):
            assert {"200", "400", "401", "403", "413", "429", "503", "504"} <= statuses
        for status, response in operation["responses"].items():
            if status.startswith(("4", "5")):
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}


def test_every_example_of_a_json_body_is_answered(url: str, operations: dict[str, Any]) -> None:
    components = httpx.get(f"{url}/openapi.json").json()["components"]["schemas"]
    n_examples = 0
    for name, operation in operations.items():
        content = operation.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {"examples": []})
        schema = components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        for example in schema["examples"]:
            n_examples += 1
            answer = httpx.post(f"{url}{name.removeprefix('POST ')}", json=example)
            assert answer.status_code == 200, f"{name} {json.dumps(example)}: {answer.text}"
    assert n_examples > 4


@pytest.mark.nightly
def test_every_answer_is_as_described_whatever_is_asked(url: str, tmp_path: Path) -> None:
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", settings, "run"]
    options = ["--no-color", "--phases", "examples,coverage,fuzzing"]
    done = subprocess.run(
        [*command, f"{url}/openapi.json", *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Tested: " in done.stdout
