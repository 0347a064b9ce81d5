"""Whether the candidate that agrees most with the others is better than the one the search likes best.

    python benchmarks/consensus.py runs/multi30k-en-de      # corpora of the run from $DRAGOMAN_DATA

Translates the validation pairs of the run with several beams, and scores the best hypotheses and those of
least risk (`reranking.minimum_risk`) by chrF, which the choice is made by, and by BLEU, which it is not.
"""

from __future__ import annotations

import argparse
import time

from dragoman.data.named import open_text
from dragoman.metrics.translation import bleu, chrf
from dragoman.predict.reranking import minimum_risk
from dragoman.predict.translator import Translator

BEAM_SIZES = (5, 20)


def main(path: str) -> None:
    translator = Translator.load(path)
    data = translator.config.data
    pairs = list(open_text(data, data.valid).pairs())
    references = [pair.tgt for pair in pairs]
    print(f"{len(pairs)} sentences\n")
    print("| beam | choice | BLEU | chrF2 | ms a sentence for choosing |\n|--:|---|--:|--:|--:|")
    for beam_size in BEAM_SIZES:
        found = translator.translate([pair.src for pair in pairs], beam_size=beam_size, n_best=beam_size)
        start = time.perf_counter()
        chosen = [minimum_risk(translation) for translation in found]
        milliseconds = 1000 * (time.perf_counter() - start) / len(pairs)
        for name, translations, cost in (("best", found, 0.0), ("least risk", chosen, milliseconds)):
            texts = [translation.text for translation in translations]
            scores = [
                metric(texts, references, tgt_lang=data.tgt_lang, n_bootstrap=0).value
                for metric in (bleu, chrf)
            ]
            print(f"| {beam_size} | {name} | {scores[0]:.1f} | {scores[1]:.1f} | {cost:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="a run")
    main(parser.parse_args().run)
