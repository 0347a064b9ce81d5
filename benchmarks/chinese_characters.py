"""What simplified and traditional characters, mixed in a corpus, cost: a run's translations in either kind.

    DRAGOMAN_DATA=... python benchmarks/chinese_characters.py RUN [--split valid]

Translates a test set, converts translations and references with OpenCC (`pip install opencc`), and prints the
BLEU of the translations as they are, converted to the kind of their references, and in one kind throughout.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from opencc import OpenCC

from dragoman.data.doctor.language import is_simplified
from dragoman.metrics.translation import bleu
from dragoman.predict.translator import Translator
from dragoman.tasks.translation.evaluation import read_pairs, split_of

CONVERTERS = {"simplified": OpenCC("t2s"), "traditional": OpenCC("s2t")}


def kind_of(text: str) -> str:
    """Return "simplified", "traditional", "both", or "either" for a text that is the same in both."""
    found = set(map(is_simplified, text)) - {None}
    return (
        "both" if len(found) > 1 else "simplified" if True in found else "traditional" if found else "either"
    )


def variants(texts: list[str], references: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return what is scored with what, by name: the translations as they are, and converted."""
    simplified, traditional = ([converter.convert(t) for t in texts] for converter in CONVERTERS.values())
    as_in_reference, as_not = list(simplified), list(traditional)
    for i, reference in enumerate(references):
        if kind_of(reference) == "traditional":
            as_in_reference[i], as_not[i] = traditional[i], simplified[i]
    return {
        "as they are": (texts, references),
        "all simplified": (simplified, references),
        "all traditional": (traditional, references),
        "each as its reference": (as_in_reference, references),
        "each as its reference is not": (as_not, references),
        "all simplified, references too": (
            simplified,
            list(map(CONVERTERS["simplified"].convert, references)),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    options = parser.parse_args()
    translator = Translator.load(options.run)
    for name, corpus in split_of(translator.config, options.split):
        pairs = read_pairs(corpus)
        texts = [found.text for found in translator.translate([pair.src for pair in pairs])]
        references = [pair.tgt for pair in pairs]
        kinds = Counter(zip(map(kind_of, references), map(kind_of, texts), strict=True))
        n_each = Counter(map(kind_of, references))
        print(f"{name}: {', '.join(f'{n:,} {kind}' for kind, n in n_each.most_common())}")
        told = sum(n for (a, b), n in kinds.items() if {a, b} <= set(CONVERTERS))
        same = sum(kinds[kind, kind] for kind in CONVERTERS)
        print(f"of the kind of their reference: {same:,} of the {told:,} where both have one\n")
        print("| translations | BLEU |\n|---|--:|")
        for how, scored in variants(texts, references).items():
            print(f"| {how} | {bleu(*scored, tgt_lang='zh', n_bootstrap=0).value:.1f} |", flush=True)


if __name__ == "__main__":
    main()
