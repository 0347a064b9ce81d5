"""When a beam search ends: as soon as K hypotheses are finished, or when no live one is better by then.

    python benchmarks/beam_end.py runs/multi30k-en-de-diversified --beam-size 5 12 --length-penalty 1 1.8 2.6

Translates the validation text of each run under both rules in turn, in fp32, with the same code (NumPy); and
prints BLEU, chrF, the characters of the translations over those of the references, and the seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np

from dragoman.decoding import beam, hypotheses
from dragoman.evaluation.translation import read_pairs, split_of
from dragoman.metrics.translation import bleu, chrf
from dragoman.predict.translator import Translator

RULES = ("K are finished", "none is better")


@contextmanager
def rule(name: str) -> Iterator[None]:
    """Let beam searches end by this one of RULES."""
    advance = beam._Beam.advance

    def advance_until_enough(self: beam._Beam, candidates: beam._Candidates, next_penalty: float) -> None:
        """Give what may come next a score next to -inf, so that nothing is better."""
        with np.errstate(over="ignore"):
            advance(self, candidates, 1e-300)

    with (
        patch.object(hypotheses, "is_compiled", lambda _: False),
        patch.object(beam._Beam, "advance", advance_until_enough if name == RULES[0] else advance),
    ):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, nargs="+")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[5])
    parser.add_argument("--length-penalty", type=float, nargs="+", default=[1.0])
    parser.add_argument("--sentences", type=int, default=2000)
    options = parser.parse_args()
    print("| run | beam | length penalty | ends when | BLEU | chrF | length | seconds |")
    print("|---|--:|--:|---|--:|--:|--:|--:|")
    for path in options.run:
        translator = Translator.load(path, precision="fp32")
        language = translator.config.data.tgt_lang
        valid = split_of(translator.config, "valid")
        pairs = [pair for _, corpus in valid for pair in read_pairs(corpus)][: options.sentences]
        sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        for size, alpha, name in product(options.beam_size, options.length_penalty, RULES):
            begun = time.perf_counter()
            with rule(name):
                found = translator.translate(sources, beam_size=size, length_penalty=alpha)
            seconds = time.perf_counter() - begun
            texts = [each.text for each in found]
            scores = [
                score(texts, references, tgt_lang=language, n_bootstrap=0).value for score in (bleu, chrf)
            ]
            length = sum(map(len, texts)) / sum(map(len, references))
            cells = (path.name, size, alpha, name, *(f"{s:.2f}" for s in scores), f"{length:.3f}")
            print(f"| {' | '.join(map(str, cells))} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
