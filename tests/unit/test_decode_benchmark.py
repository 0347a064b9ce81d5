"""The benchmark of decoding: what it hands to another toolkit is the whole model, and its table is right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from dragoman.predict.translator import Translator
from dragoman.runs import load_tensors

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import decode_speed


def test_every_weight_is_handed_over_once(tiny_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(tiny_run, precision="fp32")
    decode_speed.write_for_huggingface(translator, tiny_run, tmp_path / "there")
    written = load_tensors(tmp_path / "there" / "model.safetensors")
    positions = written.pop("positions")
    assert torch.equal(positions, translator.model.tgt_embedding.positions)
    assert sum(tensor.numel() for tensor in written.values()) == translator.model.n_parameters
    query = written["model.decoder.layers.0.encoder_attn.q_proj.weight"]
    block = translator.model.get_submodule("decoder.0.cross_attention.in_proj")
    assert torch.equal(query, block.weight[: len(query)])
    last = translator.model.get_submodule("decoder.0.residuals.2.norm")
    assert torch.equal(written["model.decoder.layers.0.final_layer_norm.weight"], last.weight)
    assert torch.equal(
        written["model.encoder.layers.0.fc2.bias"], translator.model.encoder[0].feed_forward.linear2.bias
    )


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
