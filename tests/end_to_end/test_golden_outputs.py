"""A kept run answers as it did when its outputs were recorded, however the code between is arranged."""

import json
from pathlib import Path

import pytest
from test_compatibility import assert_close

from golden.outputs import EXPECTED, KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_run_answers_as_recorded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = json.loads(json.dumps(KINDS[kind]()))
    assert_close(outputs, json.loads(EXPECTED.read_text(encoding="utf-8"))[kind])
