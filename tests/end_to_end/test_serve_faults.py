"""A reduced benchmarks/serve_faults.py: whatever is done to a service, it goes on and answers no 500."""

import asyncio
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

PATIENCE, SECONDS = 0.8, 8.0
"""What the service gives a slow client, and a request: enough for good ones on a loaded machine."""


@pytest.fixture(scope="module")
def script() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield runpy.run_path(str(BENCHMARKS / "serve_faults.py"))
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def faults(script: dict[str, Any], tiny_run: Path) -> Iterator[Any]:
    with script["running"](str(tiny_run), *script["settings"](PATIENCE, SECONDS)) as service:
        yield script["Faults"](service, 0.02, patience=PATIENCE, seconds=SECONDS)


FAULTS = {
    "malformed requests": {"200", "400", "403", "404", "405", "408", "413", "415", "416", "421", "431"},
    "clients that leave": {"left"},
    "surprising texts": {"200", "504"},
    "kill -9 of a worker under load": {"200", "none"},
}
"""Faults, and how they may be answered."""


@pytest.mark.parametrize(("name", "answers"), FAULTS.items())
def test_a_fault_harms_only_who_makes_it(
    script: dict[str, Any], faults: Any, name: str, answers: set[str]
) -> None:
    _, _, statuses, n_errors, n_crashes, _, failed, *_ = asyncio.run(script["suffer"](faults, name))
    assert {part.split(" × ")[1] for part in statuses.split(", ")} <= answers
    assert (n_errors, n_crashes) == (0, 0), faults.service.log.read_text()[-3000:]
    if "kill" not in name:
        assert failed.startswith("0 of "), "another client was not answered"


def test_documents_that_swell_are_answered_or_refused(script: dict[str, Any], faults: Any) -> None:
    tiny = script["Faults"](faults.service, 0.0001)
    for name in script["DOCUMENTS"]:
        row = asyncio.run(script["swell"](tiny, name, pause=0.0))
        assert row[2] in ("200", "400", "413"), row
