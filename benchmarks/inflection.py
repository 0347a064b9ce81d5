"""What a glossary of lemmas does: how often its terms are in the translation, and BLEU, exact and inflected.

    python benchmarks/inflection.py RUN --limit 300

For a run that translates English into German: TERMS are nouns of everyday scenes, English in singular and
plural, German as in a dictionary. Of the validation sentences that hold one, each is translated without the
glossary, with its terms as they stand, and with terms that may be inflected. "as is" is the share of required
terms that the translation holds as they stand, "any form" that it holds in any form, "of ref." the share of
those forms that the reference has, too. Time is of the processor.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from dragoman.data.records import Pair
from dragoman.metrics.translation import bleu, chrf
from dragoman.predict.glossary import Glossary
from dragoman.predict.inflection import Stem
from dragoman.predict.translator import Translator
from dragoman.tasks.translation.evaluation import read_pairs, split_of

TERMS = """
man men Mann; woman women Frau; boy boys Junge; girl girls Mädchen; child children Kind; dog dogs Hund;
street streets Straße; bicycle bicycles Fahrrad; bike bikes Fahrrad; ball balls Ball; hat hats Hut;
table tables Tisch; tree trees Baum; house houses Haus; building buildings Gebäude; car cars Auto;
boat boats Boot; horse horses Pferd; shirt shirts Hemd; jacket jackets Jacke; dress dresses Kleid;
hand hands Hand; arm arms Arm; player players Spieler; worker workers Arbeiter; friend friends Freund;
baby babies Baby; mountain mountains Berg; rock rocks Felsen; field fields Feld; picture pictures Bild;
guitar guitars Gitarre; camera cameras Kamera; bench benches Bank; wall walls Wand; window windows Fenster;
store stores Geschäft; musician musicians Musiker; cyclist cyclists Radfahrer; glass glasses Glas
"""


class Row(NamedTuple):
    """What one way to translate brings."""

    name: str
    texts: list[str]
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="the folder of a run, English to German")
    parser.add_argument("--limit", type=int, default=0, help="number of sentences, drawn at random; 0 = all")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--seed", type=int, default=0, help="of the sentences that are drawn")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.run, precision=arguments.precision)
    every = [pair for _, corpus in split_of(translator.config, "valid") for pair in read_pairs(corpus)]
    pairs = [pair for pair in every if glossary(inflect=False).required(pair.src)]
    if arguments.limit:
        pairs = random.Random(arguments.seed).sample(pairs, min(arguments.limit, len(pairs)))
    print(report(translator, pairs))


def glossary(*, inflect: bool) -> Glossary:
    """Return the terms, both English forms with the German lemma."""
    entries = [term.split() for term in TERMS.replace("\n", " ").split(";")]
    return Glossary([(source, term[-1]) for term in entries for source in term[:-1]], inflect=inflect)


def report(translator: Translator, pairs: Sequence[Pair]) -> str:
    """Return the table."""
    required = [glossary(inflect=False).required(pair.src) for pair in pairs]
    lines = [
        f"{len(pairs):,} sentences with {sum(map(len, required)):,} terms · "
        f"beam {translator.config.search.beam_size} · {torch.get_num_threads()} threads, "
        f"PyTorch {torch.__version__}",
        "",
        f"{'glossary':12}{'as is':>8}{'any form':>10}{'of ref.':>9}{'BLEU':>8}{'chrF2':>8}{'CPU s':>8}",
    ]
    ways = {"none": None, "exact": glossary(inflect=False), "inflected": glossary(inflect=True)}
    for name, terms in ways.items():
        lines.append(line(translated(translator, pairs, name, terms), pairs, required, translator))
    return "\n".join(lines)


def translated(translator: Translator, pairs: Sequence[Pair], name: str, terms: Glossary | None) -> Row:
    """Translate the sources of `pairs`."""
    sources = [pair.src for pair in pairs]
    start = time.process_time()
    required = None if terms is None else [terms.required(source) for source in sources]
    texts = [found.text for found in translator.translate(sources, required=required)]
    return Row(name, texts, time.process_time() - start)


def line(row: Row, pairs: Sequence[Pair], required: Sequence[Sequence[str]], translator: Translator) -> str:
    """Return a line of the table."""
    references = [pair.tgt for pair in pairs]
    options: dict[str, Any] = {"tgt_lang": translator.config.data.tgt_lang, "n_bootstrap": 0}
    as_is = inflected = of_reference = 0
    for text, reference, terms in zip(row.texts, references, required, strict=True):
        for term in terms:
            as_is += term in words(text)
            found = forms(text, term)
            inflected += bool(found)
            of_reference += bool(found & forms(reference, term))
    n = sum(map(len, required))
    scores = [score(row.texts, references, **options).value for score in (bleu, chrf)]
    return (
        f"{row.name:12}{as_is / n:8.1%}{inflected / n:10.1%}{of_reference / n:9.1%}"
        f"{scores[0]:8.2f}{scores[1]:8.2f}{row.seconds:8.1f}"
    )


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def forms(text: str, term: str) -> set[str]:
    """Return the words of `text` that are forms of `term`."""
    return {word for word in words(text) if Stem.of(term).matches(word)}


if __name__ == "__main__":
    main()
