"""Who comes from JoeyNMT trains and translates there, imports, and goes on here, by the page's commands."""

from pathlib import Path

import pytest

from foreign_models import JOEYNMT
from migrating import commands_of, run_section
from tiny import write_corpus

yaml = pytest.importorskip("yaml")
pytest.importorskip("joeynmt")


@pytest.mark.nightly
def test_commands_of_joeynmt_run_there_and_ours_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path, "dev", 6, seed=6)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(JOEYNMT), encoding="utf-8")
    there = [line for line in commands_of("JoeyNMT") if line.startswith("python -m joeynmt")]
    assert len(there) == 2
    run_section("JoeyNMT", tmp_path, monkeypatch, theirs="python -m joeynmt")
