"""What the doctor finds: plants known faults into real corpora, and counts what is found and what is not.

    DRAGOMAN_DATA=... python benchmarks/doctor.py [--clean]

Thresholds were chosen on the training parts; the other parts were left for this. Faults of all kinds are
planted together, each into about 1 % of the pairs, at random and with fixed seeds. A fault counts as found
if its line is reported with its own kind. The second table is of the corpora as they are; --clean lists every
finding there instead, to be looked at by hand.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import KINDS, Report, check_corpus
from dragoman.data.records import Corpus, Pair
from measuring import Result, parser_of

RATE = 0.01
SEEDS = (1, 2, 3)


class Source(NamedTuple):
    """A corpus at hand: its languages, its training part, and the parts that no threshold was chosen on."""

    name: str
    src_lang: str
    tgt_lang: str
    train: str
    others: tuple[str, ...]
    suffix: str = "{lang}.gz"

    def read(self, part: str) -> list[Pair]:
        langs = (self.src_lang, self.tgt_lang)
        names = dict.fromkeys(f"{self.name}/{part}.{self.suffix.format(lang=lang)}" for lang in langs)
        return list(open_corpus([*names], src_lang=self.src_lang, tgt_lang=self.tgt_lang).pairs())

    def check(self, pairs: Sequence[Pair], held_out: dict[str, list[Pair]], *, n_examples: int = 0) -> Report:
        """Check `pairs` as this corpus, and say on stderr how long that took."""
        begun = time.process_time()
        report = check_corpus(
            InMemory(self.name, pairs),
            src_lang=self.src_lang,
            tgt_lang=self.tgt_lang,
            held_out={name: InMemory(name, some) for name, some in held_out.items()},
            n_examples=n_examples,
        )
        print(f"{self.name}: {len(pairs)} pairs, {time.process_time() - begun:.1f} s", file=sys.stderr)
        return report


class InMemory(Corpus):
    """Pairs at hand."""

    def __init__(self, name: str, pairs: Sequence[Pair]) -> None:
        self.name, self._pairs = name, pairs

    def _read(self) -> Iterator[Pair]:
        return iter(self._pairs)

    def fingerprint(self) -> str:
        raise NotImplementedError


SOURCES = (
    Source("multi30k", "en", "de", "train", ("val", "test_2016_flickr")),
    Source("tatoeba-en-de", "en", "de", "train", ("val", "test")),
    Source("tatoeba-en-pl", "en", "pl", "train", ("val", "test")),
    Source("tatoeba-en-zh", "en", "zh", "train", ("val", "test")),
    Source("iwslt17", "en", "de", "train_small", ("dev2010", "tst2010", "tst2011", "tst2012", "tst2013")),
    Source("small-en-zh", "en", "zh", "train", ("dev",), "tsv.gz"),
)


class Planter:
    """Plants faults into a copy of a corpus, each pair getting one at most, and remembers where."""

    def __init__(
        self, pairs: Sequence[Pair], held_out: Sequence[Pair], foreign: dict[str, list[str]], seed: int
    ) -> None:
        self.pairs, self.original = list(pairs), pairs
        self.held_out, self.foreign = held_out, foreign
        self.rng = random.Random(seed)
        self.n = max(10, round(RATE * len(pairs)))
        self.planted: dict[str, list[int]] = {}
        self._free = set(range(len(pairs)))

    def shift(self) -> None:
        """Stretches of 10 to 60 pairs whose targets are rotated by 1 to 3 pairs, up or down."""
        lines: list[int] = []
        while len(lines) < 2 * self.n:
            size, by = self.rng.randint(10, 60), self.rng.choice([-3, -2, -1, 1, 2, 3])
            start = self.rng.randrange(len(self.pairs) - size)
            stretch = range(start, start + size)
            if not self._free.issuperset(stretch):
                continue
            targets = [self.pairs[i].tgt for i in stretch]
            for k, i in enumerate(stretch):
                self.pairs[i] = Pair(self.pairs[i].src, targets[(k + by) % size])
            lines += stretch
            self._free.difference_update(range(start - 10, start + size + 10))
        self.planted["shifted"] = lines

    def plant(self, name: str, change: Callable[[Planter, Pair, int], Pair | None]) -> None:
        """Change random pairs; those for which `change` returns None cannot have that fault."""
        lines: list[int] = []
        for i in self.rng.sample(sorted(self._free), len(self._free)):
            if len(lines) == self.n:
                break
            pair = change(self, self.pairs[i], i)
            if pair is not None and pair != self.pairs[i]:
                self.pairs[i] = pair
                lines.append(i)
        self._free.difference_update(lines)
        self.planted[name] = lines

    def other(self, side: int) -> str:
        """Return a side of another pair."""
        return self.rng.choice(self.original)[side]


def plant_all(planter: Planter) -> None:
    """Faults of every kind."""
    planter.shift()
    for name, change in FAULTS.items():
        planter.plant(name, change)


def _of_the_other_side(p: Planter, pair: Pair, _: int) -> Pair | None:
    """Another source sentence as target, where both sides have one script."""
    text = p.other(0)
    return Pair(pair.src, text) if "third in target" in p.foreign and text.count(" ") > 2 else None


def _of_a_third_language(p: Planter, pair: Pair, _: int) -> Pair | None:
    """Return a sentence of another language with the same script, on the side that has such a script."""
    is_target = "third in target" in p.foreign
    text = p.rng.choice(p.foreign["third in target" if is_target else "third in source"])
    changed = Pair(pair.src, text) if is_target else Pair(text, pair.tgt)
    return changed if text.count(" ") > 2 else None


def _either(change: Callable[[str], str | None]) -> Callable[[Planter, Pair, int], Pair | None]:
    """Change the target, or the source where that cannot be."""

    def changed(_: Planter, pair: Pair, __: int) -> Pair | None:
        if (tgt := change(pair.tgt)) is not None:
            return Pair(pair.src, tgt)
        src = change(pair.src)
        return None if src is None else Pair(src, pair.tgt)

    return changed


def _misread(encoding: str) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        try:
            return None if text.isascii() else text.encode().decode(encoding)
        except UnicodeDecodeError:
            return None

    return read


def _lost(sign: str) -> Callable[[str], str | None]:
    """Put a sign for each letter beyond ASCII within a word."""

    def lose(text: str) -> str | None:
        around = zip(text, text[1:], text[2:], strict=False)
        inside = {
            i for i, (before, char, after) in enumerate(around, 1)
            if not char.isascii() and char.isalpha() and before.islower() and after.islower()
        }  # fmt: skip
        return "".join(sign if i in inside else char for i, char in enumerate(text)) if inside else None

    return lose


def _marked_up(p: Planter, pair: Pair, _: int) -> Pair:
    wraps = ["<b>{}</b>", "<p class='x'>{}</p>", "{}<br />", "&quot;{}&quot;", "{} &#8211;", "{}&nbsp;"]
    return Pair(pair.src, p.rng.choice(wraps).format(pair.tgt))


def _renumbered(p: Planter, pair: Pair, _: int) -> Pair | None:
    """One digit of the target another one, where both sides have the same number."""
    places = [i for i, char in enumerate(pair.tgt) if char.isdigit() and char.isascii() and char in pair.src]
    if not places:
        return None
    i = p.rng.choice(places)
    digit = p.rng.choice([d for d in "123456789" if d != pair.tgt[i]])
    return Pair(pair.src, pair.tgt[:i] + digit + pair.tgt[i + 1 :])


def _known(change: Callable[[Planter, str], str]) -> Callable[[Planter, Pair, int], Pair | None]:
    """Return a pair of the held-out part, changed a little, of at least seven words."""

    def known(p: Planter, _: Pair, __: int) -> Pair | None:
        pair = p.rng.choice(p.held_out)
        return Pair(change(p, pair.src), change(p, pair.tgt)) if pair.src.count(" ") >= 6 else None

    return known


def _without_a_word(p: Planter, text: str) -> str:
    words = text.split()
    if len(words) > 3:
        del words[p.rng.randrange(len(words))]
    return " ".join(words)


def _repeated(p: Planter, _: Pair, i: int) -> Pair | None:
    """Return a pair that came before, and that nothing was planted into."""
    j = p.rng.randrange(i) if i else 0
    return p.pairs[j] if p.pairs[j] == p.original[j] and j < i else None


FAULTS: dict[str, Callable[[Planter, Pair, int], Pair | None]] = {
    "empty": lambda p, pair, i: Pair(pair.src, ""),
    "identical": lambda p, pair, i: Pair(pair.src, pair.src) if pair.src.count(" ") > 2 else None,
    "swapped": lambda p, pair, i: Pair(pair.tgt, pair.src),
    "script": lambda p, pair, i: Pair(pair.src, p.rng.choice(p.foreign["script"])),
    "language (of the other side)": _of_the_other_side,
    "language (a third one)": _of_a_third_language,
    "encoding (UTF-8 read as cp1252)": _either(_misread("cp1252")),
    "encoding (UTF-8 read as latin-1)": _either(_misread("latin-1")),
    "encoding (UTF-8 read as cp1250)": _either(_misread("cp1250")),
    "encoding (U+FFFD)": _either(_lost("\ufffd")),
    "encoding (?)": _either(_lost("?")),
    "markup": _marked_up,
    "numbers": _renumbered,
    "addresses": lambda p, pair, i: Pair(f"{pair.src} www.a{i}.org", f"{pair.tgt} www.b{i}.org"),
    "length (a third left)": lambda p, pair, i: (
        Pair(pair.src, pair.tgt[: len(pair.tgt) // 3]) if len(pair.tgt) > 8 else None
    ),
    "length (three joined)": lambda p, pair, i: Pair(pair.src, f"{pair.tgt} {p.other(1)} {p.other(1)}"),
    "unrelated": lambda p, pair, i: Pair(pair.src, p.other(1)),
    "overlap": _known(lambda p, text: text.upper()),
    "overlap-near": _known(_without_a_word),
    "duplicate": _repeated,
}
"""By name; a name with a space is a variety of the kind before it."""


def foreign_texts(source: Source, texts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return foreign texts: in another script, and in a third language."""
    if source.tgt_lang == "zh":
        return {"script": texts["en"], "third in source": texts["de"]}
    return {"script": texts["zh"], "third in target": texts["pl" if source.tgt_lang == "de" else "de"]}


def count(part: str, seeds: Sequence[int], texts: dict[str, list[str]]) -> Counter[tuple[str, str]]:
    """Plant into a part ("train" or "others") of every corpus; count faults planted and found, by name."""
    counts: Counter[tuple[str, str]] = Counter()
    for source in SOURCES:
        train = source.read(source.train)
        others = [pair for name in source.others for pair in source.read(name)]
        for seed in seeds:
            rng = random.Random(seed)
            pairs, held_out = (train, others) if part == "train" else (others, rng.sample(train, 1000))
            planter = Planter(pairs, held_out, foreign_texts(source, texts), seed)
            plant_all(planter)
            report = source.check(planter.pairs, {"held-out": list(held_out)})
            for name, lines in planter.planted.items():
                finding = report.finding(name.split(" ")[0])
                reported = set() if finding is None else set(finding.lines.tolist())
                counts[name, "planted"] += len(lines)
                counts[name, "found"] += sum(line + 1 in reported for line in lines)
    return counts


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--clean", action="store_true", help="list what is found in real corpora")
    options = parser.parse_args()
    n_examples = 100_000 if options.clean else 0
    with Result("doctor", options) as result:
        if not options.clean:
            sides = {"en": (3, 0), "zh": (3, 1), "pl": (2, 1), "de": (1, 1)}
            texts = {lang: [p[side] for p in SOURCES[i].read("val")] for lang, (i, side) in sides.items()}
            parts = [count("train", SEEDS[:1], texts), count("others", SEEDS, texts)]
            columns = {
                f"{part}: {what}": ".1%" if what == "recall" else ","
                for part in ("train", "valid and test") for what in ("planted", "found", "recall")
            }  # fmt: skip
            table = result.table({"fault": "", **columns}, "planted")
            for name in ("shifted", *FAULTS):
                planted = [(counts[name, "planted"], counts[name, "found"]) for counts in parts]
                cells = [(n, n_found, n_found / n if n else None) for n, n_found in planted]
                table.add(name, *cells[0], *cells[1])
        reports = {
            source.name: source.check(
                source.read(source.train), {name: source.read(name) for name in source.others},
                n_examples=n_examples,
            )
            for source in SOURCES
        }  # fmt: skip
        table = result.table({"found in": "", **dict.fromkeys(reports, ",")}, "as they are")
        table.add("pairs", *(report.n_lines for report in reports.values()))
        for kind in KINDS:
            findings = [report.finding(kind) for report in reports.values()]
            if any(findings):
                table.add(kind, *(finding.count if finding else 0 for finding in findings))
    for name, report in reports.items():
        for one in report.findings:
            for example in one.examples:
                print(name, one.kind.name, example.line, example.detail, *example.texts, sep="\t")


if __name__ == "__main__":
    main()
