"""A quick look at the text of a training before it begins: a few examples, and what cannot be right.

A sample of about 2,000 examples goes through the doctor's checks. Each check has a threshold: the share of
faulty examples that speaks against the corpus as a whole. docs/decisions.md says how they were measured. For
single lines, and for what follows the first SCANNED examples, there is `check_corpus`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import Config, TranslationDataConfig
from dragoman.data.doctor.alignment import BLOCK, NOWHERE, check_alignment
from dragoman.data.doctor.checkup import UNALIGNED_FROM
from dragoman.data.doctor.content import PAIR_CHECKS, same_text
from dragoman.data.doctor.encoding import damage
from dragoman.data.doctor.findings import KINDS
from dragoman.data.doctor.language import check_languages, wrong_declarations
from dragoman.data.doctor.words import NumberedSide, SideReader, conflicts, duplicates
from dragoman.data.named import open_listed, open_named, open_text
from dragoman.data.records import Corpus, JoinedCorpora, has_text
from dragoman.errors import DataError, counted, printable

Hashes = npt.NDArray[np.int64]

SCANNED = 250_000
"""Examples that are read at most."""
MAX_BLOCKS = 8
"""Blocks of BLOCK consecutive examples, evenly spread, that the checks see at most."""
N_SHOWN = 3
"""Examples that are shown."""
LONGEST = 100
"""Characters of a text that are shown at most."""

OVERLAP = 0.1
"""Share of a held-out text that is in the training text from which that is reported."""
EQUAL = 0.9
"""Share of pairs with equal sides from which the corpus is refused."""
SHIFTED, MANY_SHIFTED = 0.05, 0.25
"""Share of lines beside another line's translation from which that is reported, and refused."""
NUMBERS = 0.9
"""Share of texts without a word from which a side counts as numbers or ids."""
FAULTY = {
    "identical": 0.1,
    "encoding": 0.05,
    "swapped": 0.05,
    "script": 0.1,
    "language": 0.1,
    "characters": 0.1,
    "duplicate": 0.4,
    "conflict": 0.02,
}
"""Share of examples with a fault, one of `KINDS`, from which it is reported ..."""
MIN_FAULTY = 3
"""... and the minimum number of examples with it."""

FEW_PAIRS, FEW_NEW_PAIRS, FEW_TEXTS = 1000, 100, 100
"""Too few to learn a language from, to take a trained translator further, and to learn labels from."""
MIN_WORDS = 100
"""Words of a side from which its language can be told."""


class Concern(NamedTuple):
    """A reason to doubt a corpus."""

    name: str
    what: str
    """What is wrong, and what to do about it."""
    is_refused: bool = False
    """Whether training on the corpus cannot succeed, so that it is refused."""


class Inspection(NamedTuple):
    """What a look at a corpus found."""

    corpus: str
    examples: tuple[tuple[tuple[str, str], ...], ...]
    """Some examples: for each the language or name of every part, and its text."""
    concerns: tuple[Concern, ...]
    known: Hashes
    """(N,): hashes of the examples that were read, of pairs or of texts without their labels."""

    def report(self, say: Callable[[str], None], *, check: bool = True) -> None:
        """Say what was found, line by line; without `check` refuse nothing.

        Raises:
            DataError: the corpus cannot be right.
        """
        say(f"{self.corpus}, as it is read:")
        for example in self.examples:
            for name, text in example:
                say(f"  {name}: {_short(text)}")
        refused = [concern for concern in self.concerns if check and concern.is_refused]
        for concern in self.concerns:
            if concern not in refused:
                say(f"warning ({concern.name}): {concern.what}")
        if refused:
            raise DataError(
                f"{self.corpus}: {refused[0].what}; to train all the same: --no-check (in Python check=False)"
            )


def inspect_text(config: Config) -> list[Inspection]:
    """Look at every training corpus of `config`, and for what is validated and tested on in them.

    DataError: a corpus cannot be read.
    """
    if config.task == "classification":
        inspections = [inspect_labelled(open_text(config.data, config.data.train))]
    else:
        listed = [corpus for corpus in config.data.corpora if corpus.files]
        texts = [(open_listed(one, one.files, one.langs), one.langs) for one in listed]
        texts = texts or [(open_text(config.data, config.data.train), config.languages)]
        few = max(1, (FEW_NEW_PAIRS if config.training.start_from else FEW_PAIRS) // len(texts))
        inspections = [inspect_pairs(corpus, langs=langs, few=few) for corpus, langs in texts]
    train_hashes = np.concatenate([inspection.known for inspection in inspections])
    drops = isinstance(config.data, TranslationDataConfig) and config.data.drop_overlap
    option = " (data.drop_overlap = true does)" if config.task == "translation" else ""
    concerns = []
    for name, corpus in open_named(config).items():
        if name.split(".")[0] == "train":
            continue
        _, firsts, seconds = _scan([corpus])
        hashes = firsts if corpus.is_labelled else firsts ^ seconds
        n_known = int(np.isin(hashes, train_hashes).sum())
        if not drops and n_known >= max(MIN_FAULTY, OVERLAP * len(hashes)):
            what = (
                f"{_percent(n_known / len(hashes))} of {name}, {corpus.name}, is in the training text, and a "
                f"score on known text says nothing; take it out of the training text{option}"
            )
            concerns.append(Concern("overlap", what))
    last = inspections.pop()
    return [*inspections, last._replace(concerns=(*last.concerns, *concerns))]


def inspect_pairs(corpus: Corpus, *, langs: tuple[str, str], few: int = FEW_PAIRS) -> Inspection:
    """Look at a parallel corpus of the declared languages; fewer than `few` pairs are called too few.

    DataError: it cannot be read, or has no text.
    """
    parts = corpus.corpora if isinstance(corpus, JoinedCorpora) else [corpus]
    pairs, src_hashes, tgt_hashes = _scan(parts)
    n_read, share_equal = len(src_hashes), sum(same_text(*pair) for pair in pairs) / len(pairs)
    concerns = _numbers(pairs, ("source", "target"), setting="--columns or data.columns")
    if share_equal >= EQUAL:
        share = _percent(share_equal)
        what = f"both sides are equal in {share} of the pairs; give the file with the translations"
        concerns = [Concern("equal", what, is_refused=True)]
    if not concerns:
        readers = SideReader(), SideReader()
        for reader, texts in zip(readers, zip(*pairs, strict=True), strict=True):
            reader.add(texts)
        sides = readers[0].side(), readers[1].side()
        concerns = [
            *_misaligned(sides),
            *_languages(sides, langs),
            *_faulty_pairs(pairs, sides),
            *_share("duplicate", len(duplicates(src_hashes, tgt_hashes)[0]), n_read),
        ]
    concerns += _few(n_read, few, "pairs: a model learns these by heart, and little else")
    shown = tuple(tuple(zip(langs, pair, strict=True)) for pair in _spread(pairs))
    return Inspection(corpus.name, shown, tuple(concerns), src_hashes ^ tgt_hashes)


def inspect_labelled(corpus: Corpus) -> Inspection:
    """Look at labelled text. DataError: it cannot be read, or its labels are no classes."""
    sample, texts, labels = _scan([corpus])
    bare = [(text,) for text, _ in sample]
    concerns = [
        *_numbers(bare, ("text",), setting="--text-column or data.text_column"),
        *_share("conflict", int(conflicts(texts, labels).sum()), len(texts)),
        *_share("encoding", sum(bool(damage(text)) for text, _ in sample), len(sample)),
        *_share("duplicate", len(duplicates(texts)[0]), len(texts)),
        *_few(len(texts), FEW_TEXTS, "texts: a score on held-out ones says little"),
    ]
    shown = tuple((("label", label), ("text", text)) for text, label in _spread(sample))
    return Inspection(corpus.name, shown, tuple(concerns), texts)


def _scan(parts: Sequence[Corpus]) -> tuple[list[tuple[str, str]], Hashes, Hashes]:
    """Read SCANNED examples at most, of each part as many: a sample in their order; hashes of both parts.

    DataError: one cannot be read.
    """
    limit = max(SCANNED // len(parts), FEW_PAIRS)
    kept: list[list[tuple[str, str]]] = []
    hashes: tuple[list[int], list[int]] = [], []
    stride = 1
    for n, block in enumerate(_blocks(parts, limit)):
        for column, texts in zip(hashes, zip(*block, strict=True), strict=True):
            column.extend(hash(" ".join(text.split())) for text in texts)
        if n % stride:
            continue
        kept.append(block)
        if len(kept) > MAX_BLOCKS:
            kept, stride = kept[::2], 2 * stride
    first, second = (np.array(column, dtype=np.int64) for column in hashes)
    return [example for block in kept for example in block], first, second


def _blocks(corpora: Sequence[Corpus], limit: int) -> Iterator[list[tuple[str, str]]]:
    """Yield the first labelled texts of each, or pairs with text on both sides, in lists of BLOCK."""
    for corpus in corpora:
        records = islice((one for one in corpus.records() if corpus.is_labelled or has_text(one)), limit)
        while block := list(islice(records, BLOCK)):
            yield block


def _spread(examples: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """N_SHOWN of the examples at equal distances, or all of them."""
    n = min(N_SHOWN, len(examples))
    return [examples[(2 * i + 1) * len(examples) // (2 * n)] for i in range(n)]


def _short(text: str) -> str:
    """`text` on one line, in LONGEST characters at most, control characters spelt out."""
    text = " ".join(text.split())
    return printable(text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…")


def _misaligned(sides: tuple[NumberedSide, NumberedSide]) -> Iterator[Concern]:
    """Sides that are shifted against each other, or do not belong together."""
    alignment, n_pairs = check_alignment(*sides), len(sides[0])
    shifts: Counter[int] = Counter()
    for stretch in alignment.stretches:
        if stretch.shift != NOWHERE:
            shifts[stretch.shift] += stretch.end - stretch.start
    share = shifts.total() / n_pairs
    if share >= SHIFTED:
        shift = shifts.most_common(1)[0][0]
        what = (
            f"the sides are shifted: {_percent(share)} of the sources fit a target on another line, most of "
            f"them {counted(abs(shift), 'line')} {'below' if shift > 0 else 'above'}; insert or delete the "
            "lines that are missing or too many (dragoman data check says where)"
        )
        yield Concern("shifted", what, is_refused=share >= MANY_SHIFTED)
    if alignment.separation is not None and n_pairs >= UNALIGNED_FROM:
        yield Concern("unaligned", f"{KINDS['unaligned'].title}: {KINDS['unaligned'].remedy}")


def _languages(sides: tuple[NumberedSide, NumberedSide], langs: tuple[str, str]) -> Iterator[Concern]:
    src, tgt = sides
    if min(len(side.bags.ids) for side in sides) < MIN_WORDS:
        return
    complaints = wrong_declarations(src, tgt, langs=langs)
    if complaints and not wrong_declarations(src, tgt, langs=(langs[1], langs[0])):
        what = (
            f"the sides are swapped: the source seems to be {langs[1]} and the target {langs[0]}; "
            "swap the files or columns, or the declared languages"
        )
        yield Concern("swapped", what)
    elif complaints:
        yield Concern("languages", f"{'; '.join(complaints)}; {KINDS['languages'].remedy}")


def _numbers(examples: Sequence[tuple[str, ...]], names: tuple[str, ...], *, setting: str) -> list[Concern]:
    """Parts that are nearly all numbers or ids; `setting` is what chooses others."""
    concerns = []
    for name, texts in zip(names, zip(*examples, strict=True), strict=True):
        words = (text.split() for text in texts)
        # Every word has a digit, or is no word.
        n = sum(all(any(map(str.isdigit, w)) or not any(map(str.isalpha, w)) for w in some) for some in words)
        share = n / len(texts)
        if share >= NUMBERS:
            what = (
                f"the {name} is a number or an id in {_percent(share)} of the examples, such as "
                f"{_short(texts[0])!r}; choose another column ({setting})"
            )
            concerns.append(Concern("numbers", what))
    return concerns


def _faulty_pairs(
    pairs: Sequence[tuple[str, str]], sides: tuple[NumberedSide, NumberedSide]
) -> Iterator[Concern]:
    """Faults of single pairs that are too frequent."""
    counts = {kind: sum(bool(check(*pair)) for pair in pairs) for kind, check in PAIR_CHECKS.items()}
    languages = check_languages(*sides, langs=(None, None))
    counts |= {kind: len(lines) for kind, lines in languages.lines.items()}
    for kind, n in counts.items():
        yield from _share(kind, n, len(pairs))


def _share(kind: str, count: int, n: int) -> Iterator[Concern]:
    """Yield a fault of `KINDS` that `count` of `n` examples have, if these are too many."""
    if count >= max(MIN_FAULTY, FAULTY.get(kind, math.inf) * n):
        what = f"{KINDS[kind].title}, in {_percent(count / n)} of the examples; {KINDS[kind].remedy}"
        yield Concern(kind, what)


def _few(n_read: int, few: int, what: str) -> Iterator[Concern]:
    if n_read < few:
        yield Concern("few", f"only {n_read:,} {what}")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
