"""The benchmark of decoding: its table is right, and a worker that ends is named."""

from __future__ import annotations

import sys

import pytest

import decode_speed


def test_the_table_counts_sentences_a_second_and_how_many_times_as_fast_ours_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours, other = decode_speed.Row("Dragoman, fp32", [], 2), decode_speed.Row("other", [], 2)
    ours.seconds, other.seconds = {1: [1.0, 2.0, 9.0], 4: [4.0]}, {1: [1.0], 4: [8.0]}
    ours.texts = other.texts = {1: ["ein Hund rennt schnell"], 4: ["ein Hund rennt schnell"]}
    decode_speed.report([ours, other], ["ein Hund rennt schnell"], "de", n_sentences=100)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[1] == ["Dragoman,", "fp32", "50", "100.00", "1.00x", "25", "100.00", "1.00x"]
    assert lines[2] == ["other", "100", "100.00", "0.50x", "12", "100.00", "2.00x"]


def test_a_worker_that_ends_is_named() -> None:
    row = decode_speed.Row("broken", [sys.executable, "-c", "raise SystemExit(1)"], 1)
    with pytest.raises(SystemExit, match=r"broken: .* has ended; run it by hand to see why"):
        row.start()
    row.end()
