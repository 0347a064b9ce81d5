"""The tables of docs/scaling.md are those that benchmarks/scaling.py prints."""

import re
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

import scaling
from dragoman.data.store import SHARD_PAIRS

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_in_the_page_are_those_that_are_printed() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    tables = scaling.tables(scaling.Assumptions()).split("\n\n")
    assert len(tables) == 7
    for table in tables:
        assert table in page


def test_every_rate_says_whether_it_is_measured() -> None:
    meanings = scaling.meanings()
    assert meanings.keys() == {field.name for field in fields(scaling.Assumptions)}
    formats = {"pairs", "id_bytes", "offset_bytes"}
    assert all(re.search("measured|assumed", meanings[name]) for name in meanings.keys() - formats)


def test_the_stages_of_one_process_take_their_pairs_by_their_rate() -> None:
    given = scaling.Assumptions(pairs=7200, checking=1, check_workers=3, cleaning=6, vocabulary=4, encoding=8)
    stages = {one.name.split(" (")[0]: one for one in scaling.stages(given, scaling.machines(given)[1])}
    names = ("check and clean", "learn the vocabulary", "make the store")
    assert [stages[name].seconds for name in names] == [2400 + 1200, 1800, 900]
    assert stages["check and clean"].memory_bytes == 32 * 7200 + 3 * 600 * 2**20
    reads = replace(given, reading=2.5)
    (check,) = (one for one in scaling.stages(reads, scaling.machines(reads)[1]) if "check" in one.name)
    assert check.seconds == 2880 + 1200, "they wait for the one that reads"


def test_a_store_is_ids_and_offsets_in_shards_as_large_as_those_of_a_training() -> None:
    given = scaling.Assumptions(pairs=10, src_tokens=3, tgt_tokens=4, id_bytes=2)
    assert given.store_bytes == 10 * (3 + 4) * 2 + 10 * (8 + 8)
    assert (given.n_shards, scaling.Assumptions(pairs=SHARD_PAIRS + 1).n_shards) == (1, 2)


def test_processes_share_the_tokens_and_send_their_gradients() -> None:
    given = scaling.Assumptions(batch_tokens=50, src_tokens=1, tgt_tokens=1, link=400.0)
    alone = scaling.Training("", 100, "", 10.0)
    assert (alone.exchanged, alone.update_seconds(given)) == (0, 100 / 10.0)
    four = scaling.Training("", 100, "", 10.0, n_processes=4)
    assert four.exchanged == 2 * 3 / 4 * 400  # a ring: each sends 3 quarters of the gradients twice
    assert four.update_seconds(given) == 100 / 40.0 + 600 / 400.0


def test_assumptions_are_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--pairs", "2e6", "--src-tokens", "5", "--tgt-tokens", "5"]
    monkeypatch.setattr(sys, "argv", ["scaling.py", *small])
    scaling.main()
    assert "| token store | 0 GB in 1 shards |" in capsys.readouterr().out
