"""What each way of translating gives and takes, on the validation pairs of a run.

    python benchmarks/searches.py methods RUN [RUN ...] --limit 200
    python benchmarks/searches.py constraints RUN --limit 200
    python benchmarks/searches.py glossary RUN --limit 300

`methods`: five alternatives are asked for. "first" is BLEU of the first of them; "choice" is BLEU of the one
nearest to the reference by sentence BLEU, which no translator can know: how good a choice the five leave;
"different" is how many of the five are different, on average.

`constraints`: of each reference one word of more than three letters is drawn and required. BLEU rises, for
the word is taken from the reference; "placed" is its BLEU over that of the same translations in which the
word, where it is missing, was put behind the last word: what it brings that the search finds its place.

`glossary`, English to German: TERMS are nouns of everyday scenes, English in singular and plural, German as
in a dictionary. Sentences that hold one are translated without the glossary, with its terms as they stand,
and with terms that may be inflected. "as is" is the share of required terms that the translation holds as
they stand, "any form" in any form, "of reference" the share of those forms that the reference has, too.

Time is of the processor, which what else runs on the machine changes little.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import sacrebleu

from dragoman.data.records import Pair
from dragoman.predict.glossary import Glossary
from dragoman.predict.inflection import Stem
from dragoman.predict.results import Translation
from dragoman.predict.translator import Translator
from measuring import Result, parser_of
from texts import bleu_of, chrf_of, valid_pairs

METHODS: dict[str, dict[str, Any]] = {
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
MIN_LETTERS = 4
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


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("runs", nargs="+", help="the folder of a run; of several: an ensemble")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--beam-sizes", type=int, nargs="+", help="of constraints")
    parser.add_argument("--limit", type=int, default=0, help="number of sentences, drawn at random; 0 = all")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    options = parser.parse_args()
    translator = Translator.load(options.runs, precision=options.precision)
    with Result(f"searches_{options.what}", options) as result:
        MEASURES[options.what](result, Measured(translator), options)


class Measured:
    """A translator whose processor time is measured."""

    def __init__(self, translator: Translator) -> None:
        self.translator, self.seconds = translator, 0.0
        self.config, self.lang = translator.config, translator.config.data.tgt_lang

    def __call__(self, pairs: Sequence[Pair], **settings: Any) -> list[Translation]:
        """Translate the sources, and keep how many seconds that took."""
        begun = time.process_time()
        found = self.translator.translate([pair.src for pair in pairs], **settings)
        self.seconds = time.process_time() - begun
        return found


def methods(result: Result, translate: Measured, options: Any) -> None:
    pairs = valid_pairs(translate.config, options.limit, options.seed)
    print(f"{len(pairs)} sentences, length penalty {translate.config.search.length_penalty:g}")
    table = result.table({"search": "", "first": ".2f", "choice": ".2f", "different": ".2f", "CPU s": ".1f"})
    references = [pair.tgt for pair in pairs]
    for name in options.methods:
        found = translate(pairs, **{"n_best": N_BEST, **METHODS[name]})
        texts = [[alternative.text for alternative in translation.alternatives] for translation in found]
        nearest = [
            max(each, key=lambda text: sacrebleu.sentence_bleu(text, [reference]).score)
            for each, reference in zip(texts, references, strict=True)
        ]
        scores = (bleu_of(best, references, translate.lang) for best in ([t[0] for t in texts], nearest))
        n_different = sum(len(set(each)) for each in texts) / len(texts)
        table.add(name, *scores, n_different, translate.seconds)


def constraints(result: Result, translate: Measured, options: Any) -> None:
    rng = random.Random(options.seed)
    pairs = [pair for pair in valid_pairs(translate.config) if long_words(pair.tgt)]
    pairs = rng.sample(pairs, min(options.limit or len(pairs), len(pairs)))
    words, references = [rng.choice(long_words(pair.tgt)) for pair in pairs], [pair.tgt for pair in pairs]
    print(f"{len(pairs)} sentences, each with one required word")
    table = result.table(
        {"beam": "d", "satisfied without": ".1%", "with": ".1%", "BLEU without": ".2f", "BLEU with": ".2f",
         "placed": "+.2f", "CPU s without": ".1f", "CPU s with": ".1f"}
    )  # fmt: skip
    for beam_size in options.beam_sizes or (5, 10):
        required = [[word] for word in words]
        translate(pairs[:8], beam_size=beam_size, required=required[:8])
        plain = [found.text for found in translate(pairs, beam_size=beam_size)]
        seconds = translate.seconds
        constrained = [found.text for found in translate(pairs, beam_size=beam_size, required=required)]
        appended = [
            text if word in words_of(text) else put_behind(text, word)
            for text, word in zip(plain, words, strict=True)
        ]
        shares = (
            sum(word in words_of(text) for text, word in zip(texts, words, strict=True)) / len(pairs)
            for texts in (plain, constrained)
        )
        scores = [bleu_of(texts, references, translate.lang) for texts in (plain, constrained, appended)]
        table.add(beam_size, *shares, *scores[:2], scores[1] - scores[2], seconds, translate.seconds)


def long_words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text) if len(word) >= MIN_LETTERS and word.isalpha()]


def put_behind(text: str, word: str) -> str:
    """`text` with `word` behind its last word, before its last punctuation."""
    end = len(text.rstrip(".!?"))
    return f"{text[:end]} {word}{text[end:]}"


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def terms(*, inflect: bool) -> Glossary:
    """Return the terms, both English forms with the German lemma."""
    entries = [term.split() for term in TERMS.replace("\n", " ").split(";")]
    return Glossary([(source, term[-1]) for term in entries for source in term[:-1]], inflect=inflect)


def glossary(result: Result, translate: Measured, options: Any) -> None:
    exact = terms(inflect=False)
    pairs = [pair for pair in valid_pairs(translate.config) if exact.required(pair.src)]
    if options.limit:
        pairs = random.Random(options.seed).sample(pairs, min(options.limit, len(pairs)))
    references, lemmas = [pair.tgt for pair in pairs], [exact.required(pair.src) for pair in pairs]
    n_terms = sum(map(len, lemmas))
    print(f"{len(pairs):,} sentences with {n_terms:,} terms, beam {translate.config.search.beam_size}")
    table = result.table(
        {"glossary": "", "as is": ".1%", "any form": ".1%", "of reference": ".1%", "BLEU": ".2f",
         "chrF2": ".2f", "CPU s": ".1f"}
    )  # fmt: skip
    for name, used in {"none": None, "exact": exact, "inflected": terms(inflect=True)}.items():
        required = used and [used.required(pair.src) for pair in pairs]
        texts = [found.text for found in translate(pairs, required=required)]
        n_as_is = n_forms = n_of_reference = 0
        for text, reference, wanted in zip(texts, references, lemmas, strict=True):
            for term in wanted:
                n_as_is += term in words_of(text)
                n_forms += bool(forms(text, term))
                n_of_reference += bool(forms(text, term) & forms(reference, term))
        scores = (score(texts, references, translate.lang) for score in (bleu_of, chrf_of))
        shares = (n / n_terms for n in (n_as_is, n_forms, n_of_reference))
        table.add(name, *shares, *scores, translate.seconds)


def forms(text: str, term: str) -> set[str]:
    """Return the words of `text` that are forms of `term`."""
    return {word for word in words_of(text) if Stem.of(term).matches(word)}


MEASURES: dict[str, Callable[[Result, Measured, Any], None]] = {
    "methods": methods, "constraints": constraints, "glossary": glossary,
}  # fmt: skip


if __name__ == "__main__":
    main()
