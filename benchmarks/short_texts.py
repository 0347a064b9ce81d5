"""Compare the defaults on short texts with the baseline: accuracy, and which part of the model is used.

Of several labels a text it is the micro-F1.

    python benchmarks/short_texts.py [SET ...]

The sets are made of $DRAGOMAN_DATA: first sentences of IMDB reviews, reviews cut to 20 words, and sentences
of Tatoeba by language. Test texts are held out of the training files; no recipe's test set is touched.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean

DATA = Path(os.environ["DRAGOMAN_DATA"])
SEEDS = (1, 2, 3)
N_TEST = 4000
SEPARATOR = "|"

Texts = list[tuple[str, str]]
"""Label and text."""


def reviews() -> Texts:
    """Return the training reviews of IMDB, by label and text."""
    with gzip.open(DATA / "imdb" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file]
    return [(label, text.replace("<br />", " ")) for label, text in pairs]


def first_sentence(text: str) -> str:
    """Return the first sentences that have five words together, at most 40 words."""
    words: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
        words += sentence.split()
        if len(words) >= 5:
            break
    return " ".join(words[:40])


def first_words(text: str) -> str:
    """Return the first 20 words."""
    return " ".join(text.split()[:20])


def shortened(n: int, shorten: Callable[[str], str]) -> Callable[[int], tuple[Texts, Texts]]:
    """Return a function of a seed: `n` training texts and N_TEST others, of shortened reviews."""

    def drawn(seed: int) -> tuple[Texts, Texts]:
        texts = [(label, shorten(text)) for label, text in reviews()]
        random.Random(seed).shuffle(texts)
        return texts[:n], texts[-N_TEST:]

    return drawn


def languages(n: int) -> Callable[[int], tuple[Texts, Texts]]:
    """Return a function of a seed: `n` training sentences of Tatoeba, labelled with their language."""

    def drawn(seed: int) -> tuple[Texts, Texts]:
        texts = []
        for folder, language in (("en-de", "en"), ("en-de", "de"), ("en-pl", "pl"), ("en-zh", "zh")):
            path = DATA / f"tatoeba-{folder}" / f"train.{language}.gz"
            with gzip.open(path, "rt", encoding="utf-8") as file:
                texts += [(language, line.strip()) for line in list(file)[:16_000]]
        random.Random(seed).shuffle(texts)
        return texts[:n], texts[-N_TEST:]

    return drawn


def mixed_languages(n: int) -> Callable[[int], tuple[Texts, Texts]]:
    """Return the same, of one to three sentences in different languages, labelled with all of them."""

    def drawn(seed: int) -> tuple[Texts, Texts]:
        rng = random.Random(seed)
        train, test = languages(3 * n)(seed)

        def together(sentences: Texts, n_texts: int) -> Texts:
            texts = []
            for _ in range(n_texts):
                chosen = dict(rng.sample(sentences, rng.randint(1, 3)))
                texts.append((SEPARATOR.join(chosen), " ".join(chosen.values())))
            return texts

        return together(train, n), together(test, N_TEST)

    return drawn


SETS = {
    "first-2k": shortened(2_000, first_sentence),
    "first-8k": shortened(8_000, first_sentence),
    "first-20k": shortened(20_000, first_sentence),
    "words-20-8k": shortened(8_000, first_words),
    "languages-2k": languages(2_000),
    "mixed-2k": mixed_languages(2_000),
}


def measure(name: str, seed: int, folder: Path) -> tuple[float, float, str]:
    """Return the scores of the defaults and of the baseline on a set, and the part that is used."""
    several: tuple[str, ...] = ()
    for part, texts in zip(("train", "test"), SETS[name](seed), strict=True):
        if any(SEPARATOR in label for label, _ in texts):
            several = ("--label-separator", SEPARATOR)
        lines = [f"{label}\t{' '.join(text.split())}\n" for label, text in texts]
        (folder / f"{part}.tsv").write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    run, columns = folder / "run", ("--text-column", "text", "--label-column", "label")
    settings = ("--set", f"seed={seed}", "--set", "training.n_threads=1")
    dragoman(
        "train", folder / "train.tsv", "--task", "classification", "--out", run, *columns, *several, *settings
    )
    dragoman("evaluate", run, "--file", folder / "test.tsv", *columns)
    results = {result["name"]: result for result in json.loads((run / "scores.json").read_text())["results"]}
    ours, theirs = (
        {score["name"]: score["value"] for score in found["scores"]}["micro-F1" if several else "accuracy"]
        for found in (results["test.tsv"], results["test.tsv"]["baseline"])
    )
    calibration = json.loads((run / "calibration.json").read_text())
    return ours, theirs, calibration.get("used", "both")


def dragoman(*arguments: str | Path) -> None:
    """Run a command in a process of its own. SystemExit: it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def main(names: list[str]) -> None:
    """Print a line for each set."""
    print(f"{'set':14}{'ours':>7}{'baseline':>10}{'above':>7}  by seed; used")
    for name in names or SETS:
        found = []
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                found.append(measure(name, seed, Path(folder)))
        ours, theirs = mean(f[0] for f in found), mean(f[1] for f in found)
        by_seed = ", ".join(f"{f[0]:.1f} ({f[2]})" for f in found)
        print(f"{name:14}{ours:>7.2f}{theirs:>10.2f}{ours - theirs:>+7.2f}  {by_seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
