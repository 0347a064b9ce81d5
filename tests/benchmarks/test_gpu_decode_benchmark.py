"""benchmarks/gpu_decode.py: runs where there is a device, and claims nothing where there is none."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

import gpu_decode as benchmark


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_decode.py", "nowhere"])
    benchmark.main()
    assert capsys.readouterr().out == "no GPU here: not measured\n"


@pytest.mark.slow
def test_both_decoders_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_run: Path
) -> None:
    seconds = iter(range(10**6))
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(seconds))  # each translation takes 1 s
    arguments = ["gpu_decode.py", str(tiny_run), "--device", "cpu", "--batches", "4", "8", "--repeat", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    n_sentences = 2 * len(benchmark.validation_sentences(tiny_run))
    benchmark.main()
    out = capsys.readouterr().out
    assert f"{n_sentences:,} sentences" in out
    rows = re.findall(r"^ +(\d) +(\d+) +([\d,]+) +([\d,]+) +1\.00$", out, re.MULTILINE)
    assert [tuple(row) for row in rows] == [
        (beam, size, f"{n_sentences:,}", f"{n_sentences:,}") for beam in "14" for size in "48"
    ]


@pytest.mark.slow
def test_ctranslate2_translates_the_same_beside_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_run: Path, tmp_path: Path
) -> None:
    """The run has hardly learnt to end a sentence; ours are cut at a length that depends on the source."""
    pytest.importorskip("ctranslate2", reason="pip install 'dragoman[ctranslate2]'")
    sentences = benchmark.validation_sentences(tiny_run)
    peer = benchmark.CTranslate2(tiny_run, tmp_path / "model", torch.device("cpu"))
    ours = benchmark.with_kernels(tiny_run, "plain", "cpu").translate(sentences, beam_size=1)
    theirs = peer.translate(sentences, beam_size=1, batch_sentences=4)
    assert all(text.startswith(one.text) for text, one in zip(theirs, ours, strict=True))
    arguments = ["gpu_decode.py", str(tiny_run), "--device", "cpu", "--batches", "8", "--repeat", "1"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--ctranslate2"])
    benchmark.main()
    rows = re.findall(r"^ +[14] +8 +[\d,]+ +[\d,]+ +[\d,]+ +[\d.]+$", capsys.readouterr().out, re.MULTILINE)
    assert len(rows) == 2
