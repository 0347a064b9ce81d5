"""What becomes of numbers, addresses, placeholders and tags in a translation, without and with protection.

    python benchmarks/protection.py runs/multi30k-en-de      # corpora of the run from $DRAGOMAN_DATA

Each of the first validation sentences gets two spans of a kind at random places between its words, for
tags a pair around one to three words. Printed are the shares of sentences in which all spans came out whole;
what became of them with protection (`protection.Outcome`); and chrF of the rest of the sentence against the
reference: as the model does it, with protection, and with the pieces between the spans translated by
themselves, which is the other way to be sure. Below: how often the model copies a word that could stand in
for a span.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Sequence

from dragoman.data.named import open_text
from dragoman.data.records import Pair
from dragoman.metrics.translation import chrf
from dragoman.predict.protection import Protection
from dragoman.predict.translator import Translator, translate_protected

N_SENTENCES = 200
SPANS = {
    "numbers": ("47", "1,250"),
    "urls": ("https://www.example.org/a?id=7", "www.example.com"),
    "emails": ("jane.doe@example.org", "info@mail.example.com"),
    "placeholders": ("{name}", "%s"),
    "tags": ("<b>", "</b>"),
}
STAND_INS = ("7", "47", "X", "XYZ", "Tom", "Berlin", "NASA", "[1]")


def main(path: str) -> None:
    translator = Translator.load(path)
    data = translator.config.data
    pairs = list(open_text(data, data.valid).pairs())[:N_SENTENCES]
    print(f"{len(pairs)} sentences\n")
    print("| kind | whole without | whole with | copied | put back | untranslated "
          "| chrF without | with | pieces |")  # fmt: skip
    print("|---|" + "--:|" * 8)
    for kind in SPANS:
        print(measure(translator, kind, pairs), flush=True)
    print("\n| stand-in | copied once |\n|---|--:|")
    for word in STAND_INS:
        rng = random.Random(1)
        found = translator.translate([insert(pair.src, [word], rng) for pair in pairs], n_best=1)
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        n_copied = sum(len(pattern.findall(translation.text)) == 1 for translation in found)
        print(f"| {word} | {percent(n_copied, pairs)} |", flush=True)


def measure(translator: Translator, kind: str, pairs: Sequence[Pair]) -> str:
    """Return a row of the table."""
    rng = random.Random(1)
    wrap = enclose if kind == "tags" else insert
    sources = [wrap(pair.src, SPANS[kind], rng) for pair in pairs]
    protection = Protection([kind])
    plain = [t.text for t in translator.translate(sources, n_best=1)]
    kept = translate_protected(translator, sources, protection)
    protected, outcomes = [t.text for t in kept], Counter(t.outcome for t in kept)
    whole = [
        sum(holds(protection, *sides) for sides in zip(sources, outputs, strict=True))
        for outputs in (plain, protected)
    ]
    shares = [*whole, *(outcomes[name] for name in ("copied", "put back", "untranslated"))]
    references = [pair.tgt for pair in pairs]
    scores = [
        chrf(
            [without(text, SPANS[kind]) for text in outputs],
            references,
            tgt_lang=translator.config.data.tgt_lang,
            n_bootstrap=0,
        ).value
        for outputs in (plain, protected, by_pieces(translator, sources, protection))
    ]
    cells = [*(percent(n, pairs) for n in shares), *(f"{score:.1f}" for score in scores)]
    return f"| {kind} | " + " | ".join(cells) + " |"


def insert(text: str, spans: Sequence[str], rng: random.Random) -> str:
    """`text` with `spans` at different places between its words."""
    words = text.split()
    places = sorted(rng.sample(range(1, max(len(words), len(spans) + 1)), len(spans)), reverse=True)
    for place, span in zip(places, reversed(spans), strict=True):
        words.insert(place, span)
    return " ".join(words)


def enclose(text: str, tags: Sequence[str], rng: random.Random) -> str:
    """`text` with a pair of tags around one to three of its words."""
    words = text.split()
    first = rng.randrange(len(words))
    last = min(first + rng.randrange(3), len(words) - 1)
    words[first] = tags[0] + words[first]
    words[last] += tags[1]
    return " ".join(words)


def holds(protection: Protection, source: str, output: str) -> bool:
    """All spans of the source are in the output, as often."""
    wanted = Counter(span.text for span in protection.spans(source))
    found = Counter(span.text for span in protection.spans(output))
    return all(found[text] == n for text, n in wanted.items())


def by_pieces(translator: Translator, sources: Sequence[str], protection: Protection) -> list[str]:
    """Return the sources with each piece between two spans translated by itself."""
    split = [cut(source, protection) for source in sources]
    flat = [piece for pieces in split for piece in pieces[::2]]
    found = iter(translator.translate(flat, n_best=1))
    return [
        " ".join(next(found).text if i % 2 == 0 else piece for i, piece in enumerate(pieces))
        for pieces in split
    ]


def cut(source: str, protection: Protection) -> list[str]:
    """Text, span, text, span, ..., text."""
    pieces, position = [], 0
    for span in protection.spans(source):
        pieces += [source[position : span.start], span.text]
        position = span.end
    return [*pieces, source[position:]]


def without(text: str, spans: Sequence[str]) -> str:
    for span in spans:
        text = text.replace(span, " ")
    return " ".join(text.split())


def percent(n: int, pairs: Sequence[Pair]) -> str:
    return f"{100 * n / len(pairs):.1f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="a run")
    main(parser.parse_args().run)
