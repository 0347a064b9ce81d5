"""The tables of docs/scaling.md are those that benchmarks/scaling.py prints."""

from dataclasses import replace
from pathlib import Path

import scaling

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_in_the_page_are_those_that_are_printed() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    tables = scaling.tables(scaling.Assumptions()).split("\n\n")
    assert len(tables) == 7
    for table in tables:
        assert table in page


def test_the_stages_of_one_process_take_their_pairs_by_their_rate() -> None:
    given = scaling.Assumptions(pairs=7200, checking=1, check_workers=3, cleaning=6, vocabulary=4, encoding=8)
    stages = {one.name.split(" (")[0]: one for one in scaling.stages(given, scaling.machines(given)[1])}
    names = ("check and clean", "learn the vocabulary", "make the store")
    assert [stages[name].seconds for name in names] == [2400 + 1200, 1800, 900]
    assert stages["check and clean"].memory_bytes == 32 * 7200 + 3 * 600 * 2**20
    reads = replace(given, reading=2.5)
    (check,) = (one for one in scaling.stages(reads, scaling.machines(reads)[1]) if "check" in one.name)
    assert check.seconds == 2880 + 1200, "they wait for the one that reads"


def test_processes_share_the_tokens_and_send_their_gradients() -> None:
    given = scaling.Assumptions(batch_tokens=50, src_tokens=1, tgt_tokens=1, link=400.0)
    alone = scaling.Training("", 100, "", 10.0)
    assert (alone.exchanged, alone.update_seconds(given)) == (0, 100 / 10.0)
    four = scaling.Training("", 100, "", 10.0, n_processes=4)
    assert four.exchanged == 2 * 3 / 4 * 400  # a ring: each sends 3 quarters of the gradients twice
    assert four.update_seconds(given) == 100 / 40.0 + 600 / 400.0
