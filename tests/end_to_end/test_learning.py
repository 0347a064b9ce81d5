"""A model trained from scratch translates sentences that it has not seen."""

import random
from pathlib import Path

import pytest

from dragoman.config import parse_config
from dragoman.metrics.translation import bleu
from dragoman.predict.translator import Translator
from dragoman.tasks.training import train
from tiny import WORDS


def test_a_model_learns_to_translate_and_to_reorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up language: word by word, in reverse order."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    sources = {tuple(rng.choices(list(WORDS), k=rng.randint(2, 5))) for _ in range(3000)}
    pairs = [
        (" ".join(words), " ".join(WORDS[word] for word in reversed(words))) for words in sorted(sources)
    ]
    rng.shuffle(pairs)
    held_out, learnt = pairs[:100], pairs[100:]
    for name, chosen in {"train": learnt, "valid": held_out}.items():
        Path(f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in chosen), encoding="utf-8")
    config = parse_config(
        {
            "name": "made-up",
            "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"], "valid": ["valid.tsv"]},
            "tokenizer": {"vocab_size": 300},
            "model": {
                "d_model": 32, "n_heads": 4, "d_ff": 64, "n_encoder_layers": 2, "n_decoder_layers": 2,
                "dropout": 0.0,
            },
            "training": {
                "max_steps": 300, "batch_tokens": 800, "optimizer": "muon", "learning_rate": 2e-2,
                "warmup_steps": 50, "schedule": "linear", "valid_every": 300, "n_threads": 1,
                "precision": "fp32",
            },
        }
    )  # fmt: skip
    translator = Translator.load(train(config, "run"))
    texts, references = zip(*held_out, strict=True)
    for beam_size in (1, 4):
        hypotheses = [t.text for t in translator.translate(texts, beam_size=beam_size)]
        assert bleu(hypotheses, references, tgt_lang="de", n_bootstrap=0).value > 90
