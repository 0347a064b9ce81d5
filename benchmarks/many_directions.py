"""One model of several directions beside one model for each, and zero-shot translation beside a pivot.

    python benchmarks/many_directions.py runs/tatoeba-many runs/en-de runs/de-en runs/en-pl ...

Prints BLEU and chrF of every test set by the model of several directions, and by that of its direction alone
where it is given; parameters, and minutes of training. Then pairs of languages that nothing was trained on,
made from Tatoeba ($DRAGOMAN_DATA) by their English: straight from one to the other, through English in the
one model, and through English by two of the others. Of such a pair the target is in no training text; the
source is, beside its English.
"""

from __future__ import annotations

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
from measuring import Result, parser_of
from texts import files_of

ZERO_SHOT = (("de", "pl"), ("pl", "zh"))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("many", type=Path, help="a run of several directions")
    parser.add_argument("ones", type=Path, nargs="*", help="runs of one of its directions each")
    options = parser.parse_args()
    many, *ones = (Translator.load(path, device="cpu") for path in (options.many, *options.ones))
    own = {one.config.languages: one for one in ones}
    with Result("many_directions", options) as result:
        sizes = {"run": "", "M parameters": ".1f", "minutes": ".1f", "updates": ",d"}
        table = result.table(sizes, "sizes")
        for path, one in zip((options.many, *options.ones), (many, *ones), strict=True):
            report = Run.open(path).read_json("report.json")
            table.add(str(path), one.model.n_parameters / 1e6, report["minutes"], report["steps"])
        columns = {f"{kind}: {metric}": ".1f" for kind in ("one", "alone") for metric in ("BLEU", "chrF2")}
        table = result.table({"test set": "", **columns}, "test sets")
        for direction in many.directions:
            towards, alone = many.towards("-".join(direction)), own.get(direction)
            for name, corpus in split_of(towards.config, "test"):
                pairs = read_pairs(corpus)
                theirs = scores(alone, pairs) if alone else (None, None)
                table.add(towards.config.labelled(name), *scores(towards, pairs), *theirs)
        ways = ("straight", "through English", "two models")
        columns = {f"{way}: {metric}": ".1f" for way in ways for metric in ("BLEU", "chrF2")}
        table = result.table({"zero-shot": "", "sentences": "d", **columns}, "zero-shot")
        for src, tgt in ZERO_SHOT:
            pairs, first, second = by_english(src, tgt), f"{src}-en", f"en-{tgt}"
            cells = scores(many.towards(f"{src}-{tgt}"), pairs)
            cells += scores(Relay(many.towards(first), many.towards(second)), pairs)
            two = {(src, "en"), ("en", tgt)} <= own.keys()
            cells += scores(Relay(own[src, "en"], own["en", tgt]), pairs) if two else (None, None)
            table.add(f"{src} → {tgt}", len(pairs), *cells)


class Relay(Pivot):
    """Two translators, one after the other, as `evaluate` takes one."""

    def translate(self, texts: Sequence[str], **settings: Any) -> list[Translation]:
        settings.pop("progress", None)
        return finish(searched(self, texts, self.config.search.changed(settings, where="pivot")))


def scores(translator: Any, pairs: list[Pair]) -> tuple[float | None, ...]:
    """Return BLEU and chrF2 on the pairs."""
    bleu, chrf, *_ = evaluate(translator, "test", pairs).scores
    return bleu.value, chrf.value


def by_english(src: str, tgt: str) -> list[Pair]:
    """Return pairs of the training text of `src` and the validation and test text of `tgt`."""
    known = dict(lines_of(src, "train"))
    lines = (line for part in ("val", "test") for line in lines_of(tgt, part))
    return [Pair(known[english], text) for english, text in lines if english in known]


def lines_of(language: str, part: str) -> list[tuple[str, str]]:
    """Return the English sentences of a part of Tatoeba, and their translations."""
    files = files_of(f"tatoeba-en-{language}", part, ("en", language))
    return list(zip(*map(open_lines, map(find_file, files)), strict=True))


if __name__ == "__main__":
    main()
