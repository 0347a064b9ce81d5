"""A model trained from scratch translates sentences that it has not seen."""

import random
from pathlib import Path

import pytest

from dragoman.config import parse_config
from dragoman.metrics.translation import bleu
from dragoman.predict.translator import Translator
from dragoman.tasks.training import train

WORDS = {
    "red": "rot", "blue": "blau", "green": "gruen", "big": "gross", "small": "klein", "old": "alt",
    "cat": "Katze", "dog": "Hund", "bird": "Vogel", "house": "Haus", "tree": "Baum", "river": "Fluss",
}  # fmt: skip


def made_up_language(n: int, *, seed: int) -> list[tuple[str, str]]:
    """Sentences and their translation: word by word, in reverse order."""
    rng = random.Random(seed)
    sources = [rng.choices(list(WORDS), k=rng.randint(2, 6)) for _ in range(n)]
    return [(" ".join(words), " ".join(WORDS[w] for w in reversed(words))) for words in sources]


def test_a_model_learns_to_translate_and_to_reorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = list(dict.fromkeys(made_up_language(4000, seed=1)))
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
                "max_steps": 400, "batch_tokens": 1000, "optimizer": "muon", "learning_rate": 2e-2,
                "warmup_steps": 100, "schedule": "linear", "valid_every": 400, "n_threads": 1,
                "precision": "fp32",
            },
        }
    )  # fmt: skip
    translator = Translator.load(train(config, "run"))
    sources, references = zip(*held_out, strict=True)
    for beam_size in (1, 4):
        hypotheses = [t.text for t in translator.translate(sources, beam_size=beam_size)]
        assert bleu(hypotheses, references, tgt_lang="de", n_bootstrap=0).value > 90
