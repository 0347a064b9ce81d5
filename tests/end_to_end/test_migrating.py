"""Who comes from JoeyNMT trains and translates there, imports, and goes on here, by the page's commands."""

from pathlib import Path

import pytest

from migrating import commands_of, run_section
from tiny import write_corpus

yaml = pytest.importorskip("yaml")
pytest.importorskip("joeynmt")

SIDE = """
    type: transformer
    num_layers: 1
    num_heads: 2
    hidden_size: 16
    ff_size: 16
    layer_norm: pre
    embeddings: {embedding_dim: 16, scale: True}
"""
CONFIG = f"""
name: tiny
joeynmt_version: 2.3.0
model_dir: model
use_cuda: False
data:
  train: train
  dev: dev
  dataset_type: plain
  src: {{lang: en, level: word}}
  trg: {{lang: de, level: word}}
testing: {{beam_size: 2, batch_size: 10, batch_type: sentence, eval_metrics: [bleu]}}
training:
  scheduling: warmupinversesquareroot
  learning_rate_warmup: 5
  batch_size: 20
  batch_type: sentence
  epochs: 2
  validation_freq: 3
  logging_freq: 3
  early_stopping_metric: ppl
model:
  encoder: {SIDE}
  decoder: {SIDE}
"""


@pytest.mark.nightly
def test_commands_of_joeynmt_run_there_and_ours_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path, "dev", 6, seed=6)
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    there = [line for line in commands_of("JoeyNMT") if line.startswith("python -m joeynmt")]
    assert len(there) == 2
    run_section("JoeyNMT", tmp_path, monkeypatch, theirs="python -m joeynmt")
