"""What the doctor finds: plants known faults into real corpora, and counts what is found and what is not.

    DRAGOMAN_DATA=... python benchmarks/doctor.py [--clean]

Thresholds were chosen on the training parts; the other parts were left for this. Faults of all kinds are
planted together, each into about 1 % of the pairs, at random and with fixed seeds. A fault counts as found
if its line is reported with its own kind. --clean lists, instead, every finding in the corpora as they are,
to be looked at by hand. Prints Markdown.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import KINDS, Report, check_corpus
from dragoman.data.records import Corpus, Pair

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
        names = [
            f"{self.name}/{part}.{self.suffix.format(lang=lang)}" for lang in (self.src_lang, self.tgt_lang)
        ]
        files = names[:1] if names[0] == names[1] else names
        return list(open_corpus(files, src_lang=self.src_lang, tgt_lang=self.tgt_lang).pairs())


SOURCES = (
    Source("multi30k", "en", "de", "train", ("val", "test_2016_flickr")),
    Source("tatoeba-en-de", "en", "de", "train", ("val", "test")),
    Source("tatoeba-en-pl", "en", "pl", "train", ("val", "test")),
    Source("tatoeba-en-zh", "en", "zh", "train", ("val", "test")),
    Source("iwslt17", "en", "de", "train_small", ("dev2010", "tst2010", "tst2011", "tst2012", "tst2013")),
    Source("small-en-zh", "en", "zh", "train", ("dev",), "tsv.gz"),
)


class InMemory(Corpus):
    """Pairs at hand."""

    def __init__(self, name: str, pairs: Sequence[Pair]) -> None:
        self.name, self._pairs = name, pairs

    def _read(self) -> Iterator[Pair]:
        return iter(self._pairs)

    def fingerprint(self) -> str:
        raise NotImplementedError


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

    def plant(self, name: str, change: Callable[[Pair, int], Pair | None]) -> None:
        """Change random pairs; those for which `change` returns None cannot have that fault."""
        lines: list[int] = []
        for i in self.rng.sample(sorted(self._free), len(self._free)):
            if len(lines) == self.n:
                break
            pair = change(self.pairs[i], i)
            if pair is not None and pair != self.pairs[i]:
                self.pairs[i] = pair
                lines.append(i)
        self._free.difference_update(lines)
        self.planted[name] = lines


def plant_all(planter: Planter) -> None:
    """Faults of every kind. A name with a space is a variety of the kind before it."""
    rng, foreign = planter.rng, planter.foreign
    originals = planter.original

    def other(side: int) -> str:
        return rng.choice(originals)[side]

    planter.shift()
    planter.plant("empty", lambda pair, _: Pair(pair.src, ""))
    planter.plant("identical", lambda pair, _: Pair(pair.src, pair.src) if pair.src.count(" ") > 2 else None)
    planter.plant("swapped", lambda pair, _: Pair(pair.tgt, pair.src))
    planter.plant("script", lambda pair, _: Pair(pair.src, rng.choice(foreign["script"])))
    planter.plant("language (of the other side)", lambda pair, _: _in_source_language(pair, other, foreign))
    planter.plant("language (a third one)", lambda pair, _: _third(pair, rng, foreign))
    for encoding in ("cp1252", "latin-1", "cp1250"):
        planter.plant(f"encoding (UTF-8 read as {encoding})", _misreader(encoding))
    planter.plant("encoding (U+FFFD)", lambda pair, _: _each(pair, lambda text: _lost(text, "\ufffd")))
    planter.plant("encoding (?)", lambda pair, _: _each(pair, lambda text: _lost(text, "?")))
    planter.plant("markup", lambda pair, _: _marked_up(pair, rng))
    planter.plant("numbers", lambda pair, _: _renumbered(pair, rng))
    planter.plant("addresses", lambda pair, i: Pair(f"{pair.src} www.a{i}.org", f"{pair.tgt} www.b{i}.org"))
    planter.plant("length (a third left)", lambda pair, _: _cut(pair))
    planter.plant(
        "length (three joined)", lambda pair, _: Pair(pair.src, f"{pair.tgt} {other(1)} {other(1)}")
    )
    planter.plant("unrelated", lambda pair, _: Pair(pair.src, other(1)))
    planter.plant("overlap", lambda pair, _: _known(planter, str.upper))
    planter.plant("overlap-near", lambda pair, _: _known(planter, lambda text: _without_a_word(text, rng)))
    planter.plant("duplicate", lambda _, i: _repeated(planter, i))


def _in_source_language(
    pair: Pair, other: Callable[[int], str], foreign: dict[str, list[str]]
) -> Pair | None:
    """Another source sentence as target, where both sides have one script."""
    text = other(0)
    return Pair(pair.src, text) if "third in target" in foreign and text.count(" ") > 2 else None


def _third(pair: Pair, rng: random.Random, foreign: dict[str, list[str]]) -> Pair | None:
    """Return a sentence of another language with the same script, on the side that has such a script."""
    if "third in target" in foreign:
        text = rng.choice(foreign["third in target"])
        return Pair(pair.src, text) if text.count(" ") > 2 else None
    text = rng.choice(foreign["third in source"])
    return Pair(text, pair.tgt) if text.count(" ") > 2 else None


def _misreader(encoding: str) -> Callable[[Pair, int], Pair | None]:
    def read(text: str) -> str | None:
        try:
            return None if text.isascii() else text.encode().decode(encoding)
        except UnicodeDecodeError:
            return None

    return lambda pair, _: _each(pair, read)


def _each(pair: Pair, change: Callable[[str], str | None]) -> Pair | None:
    """Return the target changed, or the source where that cannot be."""
    if (tgt := change(pair.tgt)) is not None:
        return Pair(pair.src, tgt)
    src = change(pair.src)
    return None if src is None else Pair(src, pair.tgt)


def _lost(text: str, sign: str) -> str | None:
    """`text` with a sign for each letter beyond ASCII within a word."""
    inside = [
        i for i in range(1, len(text) - 1)
        if not text[i].isascii() and text[i].isalpha() and text[i - 1].islower() and text[i + 1].islower()
    ]  # fmt: skip
    return "".join(sign if i in inside else char for i, char in enumerate(text)) if inside else None


def _marked_up(pair: Pair, rng: random.Random) -> Pair:
    wrap = rng.choice(
        ["<b>{}</b>", "<p class='x'>{}</p>", "{}<br />", "&quot;{}&quot;", "{} &#8211;", "{}&nbsp;"]
    )
    return Pair(pair.src, wrap.format(pair.tgt))


def _renumbered(pair: Pair, rng: random.Random) -> Pair | None:
    """One digit of the target another one, where both sides have the same number."""
    places = [i for i, char in enumerate(pair.tgt) if char.isdigit() and char.isascii() and char in pair.src]
    if not places:
        return None
    i = rng.choice(places)
    digit = rng.choice([d for d in "123456789" if d != pair.tgt[i]])
    return Pair(pair.src, pair.tgt[:i] + digit + pair.tgt[i + 1 :])


def _cut(pair: Pair) -> Pair | None:
    return Pair(pair.src, pair.tgt[: len(pair.tgt) // 3]) if len(pair.tgt) > 8 else None


def _known(planter: Planter, change: Callable[[str], str]) -> Pair | None:
    """Return a pair of the held-out part, changed a little, of at least six words or ten characters."""
    pair = planter.rng.choice(planter.held_out)
    if pair.src.count(" ") < 6:
        return None
    src, tgt = change(pair.src), change(pair.tgt)
    return Pair(src, tgt)


def _without_a_word(text: str, rng: random.Random) -> str:
    words = text.split()
    if len(words) > 3:
        del words[rng.randrange(len(words))]
    return " ".join(words)


def _repeated(planter: Planter, i: int) -> Pair | None:
    """Return a pair that came before, and that nothing was planted into."""
    j = planter.rng.randrange(i) if i else 0
    unchanged = planter.pairs[j] == planter.original[j]
    return planter.pairs[j] if unchanged and j < i else None


def foreign_texts(source: Source, texts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return foreign texts: in another script, and in a third language."""
    if source.tgt_lang == "zh":
        return {"script": texts["en"], "third in source": texts["de"]}
    third = "pl" if source.tgt_lang == "de" else "de"
    return {"script": texts["zh"], "third in target": texts[third]}


def found(planter: Planter, report: Report) -> Counter[tuple[str, str]]:
    """Numbers of planted and found faults, by name."""
    counts: Counter[tuple[str, str]] = Counter()
    for name, lines in planter.planted.items():
        finding = report.finding(name.split(" ")[0])
        there = set() if finding is None else set(finding.lines.tolist())
        counts[name, "planted"] += len(lines)
        counts[name, "found"] += sum(line + 1 in there for line in lines)
    return counts


def measure(part: str, seeds: Sequence[int], texts: dict[str, list[str]]) -> Counter[tuple[str, str]]:
    """Plant into a part ("train" or "others") of every corpus, and count."""
    counts: Counter[tuple[str, str]] = Counter()
    for source in SOURCES:
        train = source.read(source.train)
        others = [pair for name in source.others for pair in source.read(name)]
        for seed in seeds:
            rng = random.Random(seed)
            pairs, held_out = (train, others) if part == "train" else (others, rng.sample(train, 1000))
            planter = Planter(pairs, held_out, foreign_texts(source, texts), seed)
            plant_all(planter)
            started = time.process_time()
            report = check_corpus(
                InMemory(source.name, planter.pairs),
                src_lang=source.src_lang,
                tgt_lang=source.tgt_lang,
                held_out={"held-out": InMemory("held-out", held_out)},
            )
            seconds = time.process_time() - started
            print(f"{source.name} {part} seed {seed}: {len(pairs)} pairs, {seconds:.1f} s", file=sys.stderr)
            counts += found(planter, report)
    return counts


def print_planted() -> None:
    texts = {
        "en": [pair.src for pair in SOURCES[3].read("val")],
        "zh": [pair.tgt for pair in SOURCES[3].read("val")],
        "pl": [pair.tgt for pair in SOURCES[2].read("val")],
        "de": [pair.tgt for pair in SOURCES[1].read("val")],
    }
    parts = {"train": measure("train", SEEDS[:1], texts), "others": measure("others", SEEDS, texts)}
    print("| fault | train: planted | found | recall | valid and test: planted | found | recall |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in dict.fromkeys(name for counts in parts.values() for name, _ in counts):
        cells = []
        for counts in parts.values():
            n, n_found = counts[name, "planted"], counts[name, "found"]
            cells += [f"{n:,}", f"{n_found:,}", f"{100 * n_found / n:.1f} %" if n else "–"]
        print(f"| {name} | {' | '.join(cells)} |")


def print_clean(*, list_all: bool) -> None:
    """Print the findings in the unchanged corpora."""
    reports = {}
    for source in SOURCES:
        held_out = {name: InMemory(name, source.read(name)) for name in source.others}
        pairs = source.read(source.train)
        started = time.process_time()
        reports[source.name] = check_corpus(
            InMemory(source.name, pairs),
            src_lang=source.src_lang,
            tgt_lang=source.tgt_lang,
            held_out=held_out,
            n_examples=100_000 if list_all else 0,
        )
        seconds = time.process_time() - started
        print(f"{source.name}: {len(pairs)} pairs, {seconds:.1f} s", file=sys.stderr)
    print(f"| found in | {' | '.join(reports)} |")
    print(f"|---|{'--:|' * len(reports)}")
    print(f"| pairs | {' | '.join(f'{report.n_lines:,}' for report in reports.values())} |")
    for kind in KINDS:
        counts = [finding.count if (finding := report.finding(kind)) else 0 for report in reports.values()]
        if any(counts):
            print(f"| {kind} | {' | '.join(f'{n:,}' for n in counts)} |")
    if list_all:
        for name, report in reports.items():
            for one in report.findings:
                for example in one.examples:
                    print(name, one.kind.name, example.line, example.detail, *example.texts, sep="\t")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clean", action="store_true", help="list what is found in real corpora")
    if parser.parse_args().clean:
        print_clean(list_all=True)
    else:
        print_planted()
        print()
        print_clean(list_all=False)
