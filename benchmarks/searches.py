"""What each way of searching gives and takes, on the validation pairs of a run.

    python benchmarks/searches.py RUN [RUN ...] --limit 200

Five alternatives are asked for. "first" is BLEU of the first of them; "choice" is BLEU of the one nearest to
the reference by sentence BLEU, which no translator can know: how good a choice the five leave; "different" is
how many of the five are different, on average. Time is of the processor.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import sacrebleu
import torch

from dragoman.data.records import Pair
from dragoman.metrics.translation import bleu
from dragoman.predict.translator import Translator
from dragoman.tasks.translation.evaluation import read_pairs, split_of

SEARCHES: dict[str, dict[str, Any]] = {
    "beam 5": {"beam_size": 5},
    "greedy": {"beam_size": 1, "n_best": 1},
    "coverage penalty 0.1": {"beam_size": 5, "coverage_penalty": 0.1},
    "coverage penalty 0.5": {"beam_size": 5, "coverage_penalty": 0.5},
    "no repeated 3-gram": {"beam_size": 5, "no_repeat_ngram": 3},
    "5 groups, penalty 0.5": {"beam_size": 5, "diversity_groups": 5, "diversity_penalty": 0.5},
    "5 groups, penalty 2": {"beam_size": 5, "diversity_groups": 5, "diversity_penalty": 2.0},
    "samples": {"method": "sampling"},
    "samples, top_p 0.9": {"method": "sampling", "top_p": 0.9},
    "samples, temperature 0.5": {"method": "sampling", "temperature": 0.5},
}
"""Settings of [search] by name."""
N_BEST = 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="the folder of a run; of several: an ensemble")
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=SEARCHES)
    parser.add_argument("--limit", type=int, default=0, help="number of sentences, drawn at random; 0 = all")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--seed", type=int, default=0, help="of the sentences that are drawn")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.runs, precision=arguments.precision)
    pairs = [pair for _, corpus in split_of(translator.config, "valid") for pair in read_pairs(corpus)]
    if arguments.limit:
        pairs = random.Random(arguments.seed).sample(pairs, min(arguments.limit, len(pairs)))
    print(
        f"{len(pairs)} sentences · length penalty {translator.config.search.length_penalty:g} · "
        f"{arguments.precision} · {torch.get_num_threads()} threads, PyTorch {torch.__version__}\n\n"
        f"{'search':26}{'first':>8}{'choice':>8}{'different':>11}{'CPU s':>9}"
    )
    for name in arguments.searches:
        print(f"{name:26}{measure(translator, pairs, SEARCHES[name])}", flush=True)


def measure(translator: Translator, pairs: Sequence[Pair], settings: Mapping[str, Any]) -> str:
    """Return a row of the table."""
    sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    start = time.process_time()
    found = translator.translate(sources, **{"n_best": N_BEST, **settings})
    seconds = time.process_time() - start
    texts = [[alternative.text for alternative in translation.alternatives] for translation in found]
    nearest = [max(own, key=lambda text: nearness(text, r)) for own, r in zip(texts, references, strict=True)]
    tgt_lang = translator.config.data.tgt_lang
    first, choice = (
        bleu(chosen, references, tgt_lang=tgt_lang, n_bootstrap=0).value
        for chosen in ([own[0] for own in texts], nearest)
    )
    n_different = sum(len(set(own)) for own in texts) / len(texts)
    return f"{first:8.2f}{choice:8.2f}{n_different:11.2f}{seconds:9.1f}"


def nearness(text: str, reference: str) -> float:
    return sacrebleu.sentence_bleu(text, [reference]).score


if __name__ == "__main__":
    main()
