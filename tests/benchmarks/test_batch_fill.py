"""benchmarks/batch_fill.py counts what batches hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from batch_fill import filling
from dragoman.config import TranslationConfig, parse_config
from tiny import TINY, write_corpus


@pytest.mark.parametrize("static", [False, True])
def test_tokens_of_an_epoch_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, static: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, n_pairs in (("train", 60), ("valid", 5)):
        write_corpus(tmp_path, name, n_pairs, seed=n_pairs)
    data = {name: [f"{name}.en", f"{name}.de"] for name in ("train", "valid")}
    recipe = {"name": "tiny", "data": {"src_lang": "en", "tgt_lang": "de", **data}}
    characters = ["tokenizer.kind=characters", "training.batch_tokens=500"]
    config = parse_config(recipe, overrides=[*TINY, *characters])
    assert isinstance(config, TranslationConfig)
    found = filling(config, static=static)
    sentences = Path("train.de").read_text(encoding="utf-8").splitlines()
    n_tokens = sum(len(sentence) + 1 for sentence in sentences)  # characters and the end token
    assert found.n_batches * found.n_tokens == pytest.approx(n_tokens)
    assert 0 <= found.less_than_half < 1
    assert 0 <= found.tgt_padding < 0.5
