"""The tables of docs/distributed.md are those that benchmarks/scaling.py prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import scaling
from dragoman.data.store import SHARD_PAIRS

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_in_the_page_are_those_that_are_printed() -> None:
    page = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    assert scaling.tables(scaling.Assumptions()) in page


def test_shards_are_as_large_as_those_of_the_store() -> None:
    assert scaling.SHARD_PAIRS == SHARD_PAIRS


def test_a_store_is_ids_and_offsets() -> None:
    given = scaling.Assumptions(pairs=10, src_tokens=3, tgt_tokens=4, id_bytes=2)
    assert given.store_bytes == 10 * (3 + 4) * 2 + 10 * (8 + 8)
    assert given.n_shards == 1
    assert scaling.Assumptions(pairs=SHARD_PAIRS + 1).n_shards == 2


def test_processes_share_the_tokens_and_send_their_gradients() -> None:
    given = scaling.Assumptions(batch_tokens=50, src_tokens=1, tgt_tokens=1, link=400.0)
    alone = scaling.Training("", 100, "", 10.0)
    assert (alone.exchanged, alone.update_seconds(given)) == (0, 100 / 10.0)
    four = scaling.Training("", 100, "", 10.0, n_processes=4)
    assert four.exchanged == 2 * 3 / 4 * 400  # a ring: each sends 3 quarters of the gradients twice
    assert four.update_seconds(given) == 100 / 40.0 + 600 / 400.0


def test_assumptions_are_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        sys, "argv", ["scaling.py", "--pairs", "2e6", "--src-tokens", "5", "--tgt-tokens", "5"]
    )
    scaling.main()
    assert "| token store | 0 GB in 1 shards |" in capsys.readouterr().out
