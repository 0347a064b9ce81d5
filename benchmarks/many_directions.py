"""One model of several directions beside one model for each, and zero-shot translation beside a pivot.

    python benchmarks/many_directions.py runs/tatoeba-many runs/en-de runs/de-en runs/en-pl ...

Prints BLEU and chrF of every test set by the model of several directions, and by that of its direction alone
where it is given; parameters, and minutes of training. Then pairs of languages that nothing was trained on,
made from Tatoeba ($DRAGOMAN_DATA) by their English: straight from one to the other, through English in the
one model, and through English by two of the others. Of such a pair the target is in no training text; the
source is, beside its English.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.data.readers.files import find_file, open_lines
from dragoman.data.records import Pair
from dragoman.predict.flow import Pivot, searched
from dragoman.predict.results import Translation
from dragoman.predict.threads import finish
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.translation.evaluation import evaluate, read_pairs, split_of

ZERO_SHOT = (("de", "pl"), ("pl", "zh"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("many", type=Path, help="a run of several directions")
    parser.add_argument("ones", type=Path, nargs="*", help="runs of one of its directions each")
    arguments = parser.parse_args()
    many, ones = load(arguments.many), [load(path) for path in arguments.ones]
    own = {one.config.languages: one for one in ones}
    print(f"one model: {described(arguments.many, many)}")
    for path, one in zip(arguments.ones, ones, strict=True):
        print(f"{'-'.join(one.config.languages)} alone: {described(path, one)}")
    print("\n| test set | one model: BLEU, chrF2 | its direction alone: BLEU, chrF2 |\n|---|--:|--:|")
    for direction in many.directions:
        towards = many.towards("-".join(direction))
        for name, corpus in split_of(towards.config, "test"):
            pairs = read_pairs(corpus)
            alone = own.get(direction)
            label = towards.config.labelled(name)
            print(
                f"| {label} | {scores(towards, pairs)} | {scores(alone, pairs) if alone else '–'} |",
                flush=True,
            )
    print("\n| zero-shot | sentences | straight | through English | through English, two models |")
    print("|---|--:|--:|--:|--:|")
    for src, tgt in ZERO_SHOT:
        pairs = by_english(src, tgt)
        first, second = f"{src}-en", f"en-{tgt}"
        ways = [many.towards(f"{src}-{tgt}"), Relay(many.towards(first), many.towards(second))]
        if {(src, "en"), ("en", tgt)} <= own.keys():
            ways.append(Relay(own[src, "en"], own["en", tgt]))
        cells = [scores(way, pairs) for way in ways]
        print(f"| {src} → {tgt} | {len(pairs)} | {' | '.join(cells)} |", flush=True)


class Relay(Pivot):
    """Two translators, one after the other, as `evaluate` takes one."""

    def translate(self, texts: Sequence[str], **settings: Any) -> list[Translation]:
        settings.pop("progress", None)
        return finish(searched(self, texts, self.config.search.changed(settings, where="pivot")))


def load(path: Path) -> Translator:
    """Return the translator in a folder, on the processor."""
    return Translator.load(path, device="cpu")


def described(path: Path, translator: Translator) -> str:
    """Return size, minutes and updates of a run."""
    report = Run.open(path).read_json("report.json")
    millions = translator.model.n_parameters / 1e6
    return f"{millions:.1f} M parameters, {report['minutes']:.1f} minutes, {report['steps']:,} updates"


def scores(translator: Any, pairs: list[Pair]) -> str:
    """Return BLEU and chrF2 on the pairs."""
    bleu, chrf, *_ = evaluate(translator, "test", pairs).scores
    return f"{bleu.value:.1f}, {chrf.value:.1f}"


def by_english(src: str, tgt: str) -> list[Pair]:
    """Return pairs of the training text of `src` and the validation and test text of `tgt`."""
    known = dict(lines_of(src, "train"))
    return [
        Pair(known[english], text)
        for part in ("val", "test")
        for english, text in lines_of(tgt, part)
        if english in known
    ]


def lines_of(language: str, part: str) -> list[tuple[str, str]]:
    """Return the English sentences of a part of Tatoeba, and their translations."""
    files = (find_file(f"tatoeba-en-{language}/{part}.{side}.gz") for side in ("en", language))
    return list(zip(*map(open_lines, files), strict=True))


if __name__ == "__main__":
    main()
