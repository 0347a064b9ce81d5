"""Compare the defaults on short texts with the baseline: accuracy, and which part of the model is used.

    python benchmarks/short_texts.py [SET ...]

Of several labels a text it is the micro-F1; the mean of three seeds. The sets are made of $DRAGOMAN_DATA:
first sentences of IMDB reviews, reviews cut to 20 words, and sentences of Tatoeba by language. Test texts are
held out of the training files; no recipe's test set is touched.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean

from dragoman.data.readers.files import find_file, open_lines
from measuring import Result, parser_of, python

SEEDS = (1, 2, 3)
N_TEST = 4000
SEPARATOR = "|"

Texts = list[tuple[str, str]]
"""Label and text."""


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


def reviews(shorten: Callable[[str], str], n: int, seed: int) -> tuple[Texts, Texts]:
    """Return `n` training texts and N_TEST others, of shortened training reviews of IMDB."""
    pairs = (line.split("\t", 1) for line in open_lines(find_file("imdb/train.tsv.gz")))
    return drawn([(label, shorten(text.replace("<br />", " "))) for label, text in pairs], n, seed)


def languages(n: int, seed: int) -> tuple[Texts, Texts]:
    """Return the same of sentences of Tatoeba, labelled with their language."""
    texts: Texts = []
    for corpus, language in (("en-de", "en"), ("en-de", "de"), ("en-pl", "pl"), ("en-zh", "zh")):
        lines = open_lines(find_file(f"tatoeba-{corpus}/train.{language}.gz"))
        texts += [(language, line.strip()) for line in islice(lines, 16_000)]
    return drawn(texts, n, seed)


def drawn(texts: Texts, n: int, seed: int) -> tuple[Texts, Texts]:
    random.Random(seed).shuffle(texts)
    return texts[:n], texts[-N_TEST:]


def mixed_languages(n: int, seed: int) -> tuple[Texts, Texts]:
    """Return the same of one to three sentences in different languages, labelled with all of them."""
    rng = random.Random(seed)
    train, test = languages(3 * n, seed)

    def joined(sentences: Texts) -> tuple[str, str]:
        chosen = dict(rng.sample(sentences, rng.randint(1, 3)))
        return SEPARATOR.join(chosen), " ".join(chosen.values())

    return [joined(train) for _ in range(n)], [joined(test) for _ in range(N_TEST)]


SETS: dict[str, Callable[[int], tuple[Texts, Texts]]] = {
    "first-2k": partial(reviews, first_sentence, 2_000),
    "first-8k": partial(reviews, first_sentence, 8_000),
    "first-20k": partial(reviews, first_sentence, 20_000),
    "words-20-8k": partial(reviews, first_words, 8_000),
    "languages-2k": partial(languages, 2_000),
    "mixed-2k": partial(mixed_languages, 2_000),
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
    train = (
        "train", folder / "train.tsv", "--task", "classification", "--out", run, *columns, *several,
        "--set", f"seed={seed}", "--set", "training.n_threads=1",
    )  # fmt: skip
    for command in (train, ("evaluate", run, "--file", folder / "test.tsv", *columns)):
        python("-m", "dragoman", *command, stderr=subprocess.DEVNULL)
    results = {result["name"]: result for result in json.loads((run / "scores.json").read_text())["results"]}
    ours, theirs = (
        {score["name"]: score["value"] for score in found["scores"]}["micro-F1" if several else "accuracy"]
        for found in (results["test.tsv"], results["test.tsv"]["baseline"])
    )
    return ours, theirs, json.loads((run / "calibration.json").read_text()).get("used", "both")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    options = parser.parse_args()
    with Result("short_texts", options) as result:
        table = result.table({"set": "", "ours": ".2f", "baseline": ".2f", "above": "+.2f", "by seed": ""})
        for name in options.sets or SETS:
            found = []
            for seed in SEEDS:
                with tempfile.TemporaryDirectory() as folder:
                    found.append(measure(name, seed, Path(folder)))
            ours, theirs = mean(each[0] for each in found), mean(each[1] for each in found)
            by_seed = ", ".join(f"{each[0]:.1f} ({each[2]})" for each in found)
            table.add(name, ours, theirs, ours - theirs, by_seed)


if __name__ == "__main__":
    main()
