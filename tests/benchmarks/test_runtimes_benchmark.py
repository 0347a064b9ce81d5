"""The benchmark of runtimes: its table says of each what was measured."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import runtimes
from dragoman.interop.parity import TOKEN, Parity


def test_the_table_has_medians_sizes_and_differences(capsys: pytest.CaptureFixture[str]) -> None:
    references = ["ein Hund rennt schnell"] * 100
    row = runtimes.Runtime("some runtime", [], 2, n_bytes=12_340_000)
    row.seconds, row.texts = {1: [1.0, 2.0, 9.0], 4: [4.0]}, {4: references}
    row.load_seconds, row.parity = 1.25, Parity(10, "", {"greedy": 0.5}, {TOKEN: 0.0123})
    alone = runtimes.Runtime("Dragoman", [], 2, seconds=row.seconds, texts=row.texts)
    runtimes.report([row, alone], references, "de")
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[1] == ["some", "runtime", "50", "25", "100.00", "12.3", "1.2", "0.01", "50.0%"]
    assert lines[2][-2:] == ["—", "—"]


def test_bf16_is_compared_with_fp32_and_its_files_are_counted(tiny_run: Path) -> None:
    options = argparse.Namespace(run=tiny_run, cores=1, sentences=5)
    exact, rounded = runtimes.native_rows(options)
    files = [tiny_run / "model.safetensors", *(tiny_run / "tokenizer").iterdir()]
    assert exact.n_bytes == rounded.n_bytes == sum(path.stat().st_size for path in files)
    assert exact.parity is None
    assert rounded.parity is not None
    assert rounded.parity.largest[TOKEN] > 1e-4
