"""A tiny corpus and the settings of a tiny training, for tests that need a model but not a good one."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

WORDS = {
    "red": "rot", "blue": "blau", "green": "grün", "big": "groß", "small": "klein", "old": "alt",
    "cat": "Katze", "dog": "Hund", "bird": "Vogel", "house": "Haus", "tree": "Baum", "river": "Fluss",
}  # fmt: skip

SHARED = (
    "tokenizer.vocab_size=300", "model.d_model=16", "model.n_heads=2", "model.d_ff=16",
    "model.n_encoder_layers=1", "training.max_steps=6", "training.batch_tokens=200", "training.update_freq=1",
    "training.warmup_steps=2", "training.log_every=2", "training.valid_every=3", "training.n_threads=1",
    "training.precision=fp32",
)  # fmt: skip
TINY = (*SHARED, "model.n_decoder_layers=1", "search.beam_size=3", "search.max_length_extra=3")
"""Overrides that make any training one of half a second; a processor may take twice as long in bf16."""
TRAINING = tuple(f"--set={one}" for one in TINY if one.startswith("training.") and "freq" not in one)
"""Those of the training alone, for a run that another one begins with."""
TINY_CLASSIFIER = (*SHARED, "model.ngram_bits=8")
"""The same for a classifier."""


def write_corpus(folder: Path, name: str, n_pairs: int, *, seed: int) -> None:
    """Writes <name>.en, <name>.de and <name>.tsv: word-by-word translations in a made-up language."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sources = [rng.choices(list(WORDS), k=rng.randint(2, 6)) for _ in range(n_pairs)]
    src = [" ".join(words) for words in sources]
    tgt = [" ".join(WORDS[word] for word in words) for words in sources]
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in src), encoding="utf-8")
    (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in tgt), encoding="utf-8")
    tsv = "".join(f"{s}\t{t}\n" for s, t in zip(src, tgt, strict=True))
    (folder / f"{name}.tsv").write_text(tsv, encoding="utf-8")


def write_many(folder: Path) -> dict[str, Any]:
    """Write corpora of several directions, and return a recipe that lists them."""
    for name, n_pairs in {"train": 200, "few": 60, "back": 40, "valid": 20, "test": 15}.items():
        write_corpus(folder, name, n_pairs, seed=n_pairs)

    def files(name: str) -> list[str]:
        return [str(folder / f"{name}.en"), str(folder / f"{name}.de")]

    listed: list[dict[str, Any]] = [
        {"name": "large", "files": files("train"), "langs": ["en", "de"], "both_ways": True,
         "valid": files("valid"), "test": {"news": files("test")}},
        {"name": "few", "files": [str(folder / "few.tsv")], "langs": ["en", "fr"],
         "test": {"news": files("test")}},
        {"name": "back", "files": files("back"), "langs": ["en", "de"], "origin": "synthetic"},
    ]  # fmt: skip
    return {"name": "many", "data": {"corpora": listed, "temperature": 2.0, "n_held_out": 10}}


PRAISE = ("good", "fine", "great", "lovely")
BLAME = ("bad", "awful", "poor", "dull")


def labelled_texts(n_texts: int, *, seed: int) -> list[tuple[str, str]]:
    """(label, text): "praise" or "blame", by which of the two kinds of words is in the text."""
    rng = random.Random(seed)
    examples = []
    for i in range(n_texts):
        label, words = (("praise", PRAISE), ("blame", BLAME))[i % 2]
        text = [*rng.choices(list(WORDS), k=rng.randint(2, 8)), rng.choice(words)]
        rng.shuffle(text)
        examples.append((label, " ".join(text)))
    return examples


def write_labelled(folder: Path, name: str, n_texts: int, *, seed: int) -> None:
    """Writes <name>.tsv, a label, a tab and a text a line, and the same as .csv and .jsonl with names."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = labelled_texts(n_texts, seed=seed)
    contents = {
        "tsv": [f"{label}\t{text}" for label, text in examples],
        "csv": ["sentiment,review", *(f'{label},"{text}"' for label, text in examples)],
        "jsonl": [json.dumps({"review": text, "sentiment": label}) for label, text in examples],
    }
    for suffix, lines in contents.items():
        (folder / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


TOPICS = {
    "nature": ("tree", "river", "bird", "leaf"),
    "town": ("house", "street", "shop", "bus"),
    "sea": ("boat", "wave", "harbour", "fish"),
}


def write_topics(folder: Path, name: str, n_texts: int, *, seed: int) -> None:
    """Writes <name>.tsv: labels with | between them, a tab and a text, whose words tell the topics.

    A text has each topic with a chance of four in ten; that of none has words of none.
    """
    rng = random.Random(seed)
    lines = []
    for _ in range(n_texts):
        own = [topic for topic in TOPICS if rng.random() < 0.4]
        words = [rng.choice(TOPICS[topic]) for topic in own for _ in range(2)]
        words += rng.choices(("red", "big", "old", "small"), k=3)
        rng.shuffle(words)
        lines.append(f"{'|'.join(own)}\t{' '.join(words)}\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def damaged_run(run: Path, folder: Path) -> Path:
    """Copy `run` to `folder` with truncated weights, which cannot be loaded."""
    shutil.copytree(run, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return folder
