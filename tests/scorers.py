"""Tiny models for COMET and BERTScore, and a package that takes the place of bert-score."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PYTHONS = {
    "bert_score": os.environ.get("DRAGOMAN_BERTSCORE_PYTHON", sys.executable),
    "comet": os.environ.get("DRAGOMAN_COMET_PYTHON", sys.executable),
}
"""The Pythons that may have the packages."""

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rot", "blau", "Haus", "Hund", "Katze", "Baum"]

BERT = """
import sys, torch
from pathlib import Path
from transformers import BertConfig, BertModel, BertTokenizerFast
folder = Path(sys.argv[1])
BertTokenizerFast.from_pretrained(folder, do_lower_case=False).save_pretrained(folder)
torch.manual_seed(0)
shape = dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32)
n_words = len((folder / "vocab.txt").read_text().splitlines())
BertModel(BertConfig(vocab_size=n_words, max_position_embeddings=64, **shape)).save_pretrained(folder)
"""
COMET = """
import sys, torch, yaml, pytorch_lightning
from pathlib import Path
from comet.models import RegressionMetric
bert, folder = sys.argv[1], Path(sys.argv[2])
torch.manual_seed(1)
model = RegressionMetric(encoder_model="BERT", pretrained_model=bert, hidden_sizes=[8])
trainer = pytorch_lightning.Trainer(logger=False, accelerator="cpu", barebones=True)
trainer.strategy.connect(model)
trainer.save_checkpoint(folder / "checkpoints" / "model.ckpt", weights_only=True)
settings = {**model.hparams, "class_identifier": "regression_metric"}
(folder / "hparams.yaml").write_text(yaml.safe_dump(settings))
"""


def run_python(module: str, program: str, *arguments: object) -> Any:
    """Run a program with the package `module`, and return the JSON that it prints last, or None."""
    command = [PYTHONS[module], "-W", "ignore", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else None


def require_package(module: str) -> None:
    """Skip a test if no Python has the package."""
    command = [PYTHONS[module], "-W", "ignore", "-c", f"import {module}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHONS[module]} has no package {module}")


def tiny_bert(folder: Path, module: str) -> Path:
    """Write a random BERT of German letters, by the transformers that `module` goes with."""
    folder.mkdir(parents=True)
    letters = [*map(chr, range(97, 123)), *"äöüßABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    pieces = [*WORDS, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    run_python(module, BERT, folder)
    return folder


def tiny_comet(folder: Path) -> Path:
    """Write a random COMET model with a tiny encoder."""
    bert = tiny_bert(folder.parent / "encoder", "comet")
    (folder / "checkpoints").mkdir(parents=True)
    run_python("comet", COMET, bert, folder)
    return folder


STAND_IN = {
    "bert_score/__init__.py": """
import torch
class Tokenizer:
    model_max_length = 10**30
    def encode(self, text): return [0, 1]
class BERTScorer:
    def __init__(self, model_type, num_layers, device):
        if model_type == "missing": raise OSError("no such model:\\n missing")
        self._tokenizer, self._model = Tokenizer(), torch.nn.Linear(1, 1)
        torch.nn.init.constant_(self._model.weight, float(num_layers))
        torch.nn.init.zeros_(self._model.bias)
        self._model.config = None
    def score(self, found, expected):
        print("noise on stdout")
        if "end" in found: raise SystemExit(3)
        assert self._tokenizer.model_max_length == 512
        assert self._tokenizer.build_inputs_with_special_tokens([]) == [0, 1]
        pairs = [(set(a.split()), set(b.split())) for a, b in zip(found, expected)]
        scores = torch.tensor([len(a & b) / max(1, len(a | b)) for a, b in pairs])
        return scores, scores, scores
""",
    "bert_score/utils.py": 'lang2model = {"de": "german", "en": "english"}\n'
    'model2layers = {"german": 4, "english": 5}\n',
    "bert_score-0.3.13.dist-info/METADATA": "Metadata-Version: 2.1\nName: bert-score\nVersion: 0.3.13\n",
}
"""A package whose score of a sentence is the share of words that two texts have in common."""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in for bert-score, which processes that are started can import."""
    folder = tmp_path / "packages"
    for name, text in STAND_IN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.syspath_prepend(folder)
    return folder
