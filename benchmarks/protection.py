"""What becomes of numbers, addresses, placeholders and tags in a translation, without and with protection.

    python benchmarks/protection.py runs/multi30k-en-de      # corpora of the run from $DRAGOMAN_DATA

Each of the first validation sentences gets two spans of a kind at random places between its words, for
tags a pair around one to three words. Printed are the shares of sentences in which all spans came out whole;
what became of them with protection (`protection.Outcome`); and chrF of the rest of the sentence against the
reference: as the model does it, with protection, and with the pieces between the spans translated by
themselves, which is the other way to be sure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from dragoman.data.records import Pair
from dragoman.predict.protection import Protection
from dragoman.predict.results import Outcome
from dragoman.predict.translator import Translator, translate_protected
from measuring import Result, parser_of
from texts import chrf_of, valid_pairs

N_SENTENCES = 200
SPANS = {
    "numbers": ("47", "1,250"),
    "urls": ("https://www.example.org/a?id=7", "www.example.com"),
    "emails": ("jane.doe@example.org", "info@mail.example.com"),
    "placeholders": ("{name}", "%s"),
    "tags": ("<b>", "</b>"),
}
OUTCOMES: tuple[Outcome, ...] = ("copied", "put back", "untranslated")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run")
    options = parser.parse_args()
    translator = Translator.load(options.run)
    pairs = valid_pairs(translator.config)[:N_SENTENCES]
    with Result("protection", options) as result:
        result.figure("sentences", len(pairs))
        shares = dict.fromkeys(("whole without", "whole with", *OUTCOMES), ".1%")
        columns = shares | dict.fromkeys(("chrF without", "with", "pieces"), ".1f")
        table = result.table({"kind": "", **columns})
        for kind in SPANS:
            table.add(kind, *measure(translator, kind, pairs))


def measure(translator: Translator, kind: str, pairs: Sequence[Pair]) -> list[float]:
    """Return the shares and scores of a row of the table."""
    rng, protection = random.Random(1), Protection([kind])
    sources = [(enclose if kind == "tags" else insert)(pair.src, SPANS[kind], rng) for pair in pairs]
    plain = [translation.text for translation in translator.translate(sources, n_best=1)]
    kept = translate_protected(translator, sources, protection)
    protected, outcomes = [each.text for each in kept], Counter(each.outcome for each in kept)
    n_whole = [
        sum(holds(protection, *sides) for sides in zip(sources, outputs, strict=True))
        for outputs in (plain, protected)
    ]
    shares = [n / len(pairs) for n in (*n_whole, *(outcomes[name] for name in OUTCOMES))]
    references, lang = [pair.tgt for pair in pairs], translator.config.data.tgt_lang
    return shares + [
        chrf_of([without(text, SPANS[kind]) for text in outputs], references, lang)
        for outputs in (plain, protected, by_pieces(translator, sources, protection))
    ]


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
    wanted, found = (Counter(span.text for span in protection.spans(text)) for text in (source, output))
    return wanted <= found


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


if __name__ == "__main__":
    main()
