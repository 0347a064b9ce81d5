"""Parallel text, read as a stream: two aligned files, one file of a dozen formats, a data set of the hub, or
the embedded phrasebook.

Whatever is wrong with one is a `DataError` of one line that names the file, the line and the remedy. What a
reader leaves out is counted, and told by `Corpus.notes`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, starmap, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.config import each_corpus
from dragoman.data import phrasebook
from dragoman.data.readers import formats
from dragoman.data.readers.columns import check_format, match_parallel, open_table, unnoticed_header
from dragoman.data.readers.files import (
    ReadOffset,
    count_lines,
    find_file,
    format_suffix,
    hash_file,
    hash_strings,
    hash_text,
    open_lines,
)
from dragoman.data.readers.tables import Column, Notes, RecordTable, TabSeparated
from dragoman.errors import DataError, counted
from dragoman.text.normalisation import plain
from dragoman.text.vocabulary import draw_sample

SETTING = "--columns or data.columns"
DEFAULT_COLUMNS = (0, 1)
PHRASEBOOK = "phrasebook:"
MANY = 1_000_000
"""Lines of two files beyond which it takes too long to look at each before a training."""


class Pair(NamedTuple):
    """A sentence and its translation, as they stand in the corpus."""

    src: str
    tgt: str


def has_text(pair: Pair) -> bool:
    """Both sides hold more than white space."""
    return bool(pair.src.strip() and pair.tgt.strip())


class TextSource(ABC):
    """Records of two texts that can be read again and again: what a model reads, and what it should answer.

    `name` says in messages where they come from.
    """

    name: str
    position = ReadOffset()
    """How far its first file has been read; it stays at 0 for formats that cannot tell."""
    _notes = Notes("records")

    def sources(self) -> Iterator[str]:
        """Yield what a model reads of every record. DataError: as `records`."""
        return (record[0] for record in self.records())

    @abstractmethod
    def records(self, *, skip: int = 0) -> Iterator[Any]:
        """Every record in order, without the first `skip`. DataError: they cannot be read, or used."""

    @abstractmethod
    def _read(self) -> Iterator[Any]:
        """Every record in order."""

    def _read_after(self, n: int) -> Iterator[Any]:
        """Every record after the first `n`, in order."""
        return islice(self._read(), n, None)

    def notes(self) -> list[str]:
        """Return a line for each kind of records skipped in the last reading."""
        return self._notes.lines(self.name)

    def _because(self) -> str:
        """Describe skipped records, for an error about the rest."""
        skipped = "; ".join(note.removeprefix(f"{self.name}: ") for note in self.notes())
        return skipped and f" ({skipped})"

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of the content: sources of equal hash hold the same records."""

    def hashes(self) -> dict[str, str]:
        """Return a hash of each file, or other source, that it is read from."""
        return {self.name: self.fingerprint()}


class Corpus(TextSource):
    """Pairs that can be read again and again."""

    has_slots: bool = False
    """Whether `SLOTS` in its pairs are tokens: Dragoman has put them there."""

    def records(self, *, skip: int = 0) -> Iterator[Pair]:
        """Every pair in order, those with an empty side included, without the first `skip`.

        DataError, when it is met: a file cannot be read or does not fit the other; at the end: there was
        no pair, or none with text on both sides.
        """
        n_pairs = n_usable = 0
        for pair in self._read_after(skip) if skip else self._read():
            n_pairs += 1
            n_usable += has_text(pair)
            yield pair
        if skip:
            return
        if not n_pairs:
            raise DataError(
                f"{self.name}: empty corpus{self._because()}; give files with one sentence a line"
            )
        if not n_usable:
            raise DataError(
                f"{self.name}: none of the {n_pairs} pairs has text on both sides{self._because()}; "
                "check that the files, languages and columns are the right ones"
            )

    pairs = records

    def size(self) -> int:
        """Return how many pairs have text on both sides; of more than MANY, how many there are.

        DataError: as `pairs`.
        """
        return sum(map(has_text, self.pairs()))

    def sample(self, n: int) -> list[Pair]:
        """All pairs, or `n` of them where there are more, each as likely as any other; always the same ones.

        DataError: as `pairs`, unless it is about a pair that is not drawn.
        """
        return draw_sample(self.pairs(), n)


class AlignedFiles(Corpus):
    """Two files whose lines match one by one."""

    def __init__(self, src: Path, tgt: Path) -> None:
        self.src, self.tgt = src, tgt
        self.name = f"{src} + {tgt}"
        self.position = ReadOffset()

    def _read(self) -> Iterator[Pair]:
        return self._read_after(0)

    def _read_after(self, n: int) -> Iterator[Pair]:
        n_src = n_tgt = n
        for src, tgt in zip_longest(self._texts(self.src, skip=n), self._texts(self.tgt, skip=n)):
            n_src += src is not None
            n_tgt += tgt is not None
            if src is not None and tgt is not None:
                yield Pair(src, tgt)
        if n_src != n_tgt:
            hint = locate_drift(
                [self._lengths(self.src), self._lengths(self.tgt)], names=[str(self.src), str(self.tgt)]
            )
            raise DataError(
                f"{self.src} has {n_src} lines and {self.tgt} {n_tgt}; "
                f"parallel files must match line by line{hint and f' ({hint})'}"
            )

    def size(self) -> int:
        n_lines = count_lines(self.src)
        return n_lines if n_lines > MANY else super().size()

    def sample(self, n: int) -> list[Pair]:
        n_lines = count_lines(self.src)
        if n_lines <= n:
            return list(self.pairs())
        at = sorted(random.Random(0).sample(range(1, n_lines + 1), n))
        return list(map(Pair, open_lines(self.src, at=at), open_lines(self.tgt, at=at)))

    def fingerprint(self) -> str:
        return hash_strings("aligned", hash_file(self.src), hash_file(self.tgt))

    def hashes(self) -> dict[str, str]:
        with ThreadPoolExecutor(2) as pool:
            return dict(
                zip(map(str, (self.src, self.tgt)), pool.map(hash_file, (self.src, self.tgt)), strict=True)
            )

    def _texts(self, path: Path, *, skip: int = 0) -> Iterator[str]:
        return open_lines(path, position=self.position if path is self.src else None, skip=skip)

    def _lengths(self, path: Path) -> np.ndarray:
        return np.fromiter((len(text) for text in self._texts(path)), dtype=np.int64)


class Talks(AlignedFiles):
    """Two official files of IWSLT: tagged training files, or XML files of <seg id="...">."""

    def __init__(self, src: Path, tgt: Path) -> None:
        super().__init__(src, tgt)
        self._notes_of: dict[Path, Notes] = {}

    def _read(self) -> Iterator[Pair]:
        if formats.has_segment_ids(self.src) and formats.has_segment_ids(self.tgt):
            pairs = zip(self._segments(self.src), self._segments(self.tgt), strict=False)
            for n, (src, tgt) in enumerate(pairs, start=1):
                if src.id != tgt.id:
                    raise DataError(
                        f"{self.src} + {self.tgt}: segment {src.id} stands beside {tgt.id} (pair {n}); "
                        "parallel files must hold the same segments"
                    )
        return super()._read()

    def size(self) -> int:
        return Corpus.size(self)

    def sample(self, n: int) -> list[Pair]:
        return Corpus.sample(self, n)

    def notes(self) -> list[str]:
        return [line for path, notes in self._notes_of.items() for line in notes.lines(str(path))]

    def fingerprint(self) -> str:
        return hash_strings("talks", hash_file(self.src), hash_file(self.tgt))

    def _texts(self, path: Path, *, skip: int = 0) -> Iterator[str]:
        return (segment.text for segment in islice(self._segments(path), skip, None))

    def _segments(self, path: Path) -> Iterator[formats.Segment]:
        self._notes_of[path] = Notes("lines")
        return formats.iwslt_segments(path, self._notes_of[path])


class TableCorpus(Corpus):
    """Two columns of a table."""

    def __init__(
        self, table: RecordTable, columns: tuple[Column, Column], *, src_lang: str, tgt_lang: str
    ) -> None:
        self.table, self.columns = table, columns
        self.name = table.name
        self.position = table.position
        self._match = partial(match_parallel, src_lang=src_lang, tgt_lang=tgt_lang)

    def _read(self) -> Iterator[Pair]:
        return (pair for _, pair in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Pair]]:
        """Yield every pair with the number of its record. DataError: a cell cannot be read."""
        self._notes = Notes("lines")
        self._notes.remarks += unnoticed_header(self.table, self.columns, self._match)
        table, (src, tgt) = self.table, self.columns
        for n, cells in table.rows(self.columns, self._notes):
            yield n, Pair(table.text(cells[0], n, src), table.text(cells[1], n, tgt))

    def fingerprint(self) -> str:
        return self.table.fingerprint(self.columns)


PairReader = Callable[..., Iterator[tuple[str, str]]]
"""A function that reads the pairs of a file, such as `formats.tmx`."""


class BilingualFile(Corpus):
    """One file of a format that knows of languages: TMX, or gettext PO."""

    def __init__(self, path: Path, *, src_lang: str, tgt_lang: str, reader: PairReader, things: str) -> None:
        self.path, self.src_lang, self.tgt_lang = path, src_lang, tgt_lang
        self.name = str(path)
        self._reader, self._things = reader, things

    def _read(self) -> Iterator[Pair]:
        self._notes = Notes(self._things)
        pairs = self._reader(self.path, src_lang=self.src_lang, tgt_lang=self.tgt_lang, notes=self._notes)
        return starmap(Pair, pairs)

    def fingerprint(self) -> str:
        return hash_strings(self._things, self.src_lang, self.tgt_lang, hash_file(self.path))


class Phrasebook(Corpus):
    """A split of the corpus that comes with Dragoman."""

    def __init__(self, split: str, *, src_lang: str, tgt_lang: str) -> None:
        self.name = PHRASEBOOK + split
        if split not in phrasebook.SPLITS:
            raise DataError(f"{self.name}: no such split; there are {', '.join(phrasebook.SPLITS)}")
        for lang in (src_lang, tgt_lang):
            if lang not in phrasebook.LANGUAGES:
                languages = ", ".join(phrasebook.LANGUAGES)
                raise DataError(f"{self.name}: no language {lang!r} in the phrasebook; there are {languages}")
        self.split, self.src_lang, self.tgt_lang = split, src_lang, tgt_lang

    def _read(self) -> Iterator[Pair]:
        yield from starmap(Pair, phrasebook.pairs(self.split, self.src_lang, self.tgt_lang))

    def fingerprint(self) -> str:
        return hash_strings("phrasebook", *(text for pair in self._read() for text in pair))


class JoinedCorpora(Corpus):
    """Corpora that are read one after the other, as one."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.corpora = corpora
        self.name = ", ".join(corpus.name for corpus in corpora)
        self._counts: list[int] = []

    def _read(self) -> Iterator[Pair]:
        self._counts = counts = []
        for corpus in self.corpora:
            counts.append(0)
            for pair in corpus.pairs():
                counts[-1] += 1
                yield pair

    def size(self) -> int:
        return sum(corpus.size() for corpus in self.corpora)

    def notes(self) -> list[str]:
        read = list(zip(self.corpora, self._counts, strict=False))
        sizes = [f"{corpus.name}: {counted(n, 'pair')}" for corpus, n in read]
        notes = [note for corpus in self.corpora for note in corpus.notes()]
        return [*sizes, *notes] if len(read) == len(self.corpora) else notes

    def fingerprint(self) -> str:
        return hash_strings("several", *(corpus.fingerprint() for corpus in self.corpora))

    def hashes(self) -> dict[str, str]:
        return {file: digest for corpus in self.corpora for file, digest in corpus.hashes().items()}


class View(TextSource):
    """What is made of the records of another source: it is read from the same files, and notes the same."""

    def __init__(self, corpus: TextSource, name: str = "") -> None:
        """`name` says in brackets which of the records these are; without one, both have one name."""
        self.corpus = corpus
        self.name = f"{corpus.name} ({name})" if name else corpus.name

    def notes(self) -> list[str]:
        return self.corpus.notes()

    def hashes(self) -> dict[str, str]:
        return self.corpus.hashes()


class HeldOut(View):
    """The records of a source whose text is among the held-out ones, or those whose text is not."""

    def __init__(
        self, corpus: TextSource, held_out: frozenset[int], *, seed: int, name: str, inside: bool
    ) -> None:
        super().__init__(corpus, name)
        self.held_out, self.seed, self.inside = held_out, seed, inside

    def _read(self) -> Iterator[Any]:
        for record in self.corpus.records():
            if (hash_text(record[0], seed=self.seed) in self.held_out) == self.inside:
                yield record

    def fingerprint(self) -> str:
        held_out = map(str, sorted(self.held_out))
        return hash_strings("part", self.corpus.fingerprint(), str(self.seed), str(self.inside), *held_out)


class HeldOutPairs(HeldOut, Corpus):
    """Pairs by their sources."""

    def taken_from(self, other: Corpus) -> Corpus:
        """Return `other` without the pairs whose sources are held out here."""
        name = f"without pairs held out of {self.corpus.name}"
        return HeldOutPairs(other, self.held_out, seed=self.seed, name=name, inside=False)


class Derived(View, Corpus):
    """What is made of the pairs of another corpus."""

    corpus: Corpus


class Reversed(Derived):
    """A corpus whose targets are the sources."""

    def _read(self) -> Iterator[Pair]:
        return (Pair(tgt, src) for src, tgt in self.corpus.pairs())

    def size(self) -> int:
        return self.corpus.size()

    def fingerprint(self) -> str:
        return hash_strings("reversed", self.corpus.fingerprint())


class Unseen(Derived):
    """The pairs of a corpus of which no side is a held-out text, but for case, punctuation and spaces."""

    def __init__(self, corpus: Corpus, held_out: tuple[frozenset[int], frozenset[int]]) -> None:
        """Take the `hash_plain` of held-out texts in the languages of source and target."""
        super().__init__(corpus)
        self.held_out = held_out
        self._n_pairs = self._n_left_out = 0

    def _read(self) -> Iterator[Pair]:
        self._n_pairs = self._n_left_out = 0
        for pair in self.corpus.pairs():
            self._n_pairs += 1
            if any(hash_plain(text) in held for text, held in zip(pair, self.held_out, strict=True)):
                self._n_left_out += 1
            else:
                yield pair

    def notes(self) -> list[str]:
        note = f"{self.name}: left out {self._n_left_out:,} of {self._n_pairs:,} pairs: a side is held out"
        return [*self.corpus.notes(), *([note] if self._n_left_out else [])]

    def fingerprint(self) -> str:
        held_out = (hash_strings(*map(str, sorted(held))) for held in self.held_out)
        return hash_strings("unseen", self.corpus.fingerprint(), *held_out)


def hash_plain(text: str) -> int:
    """64 random-looking bits of the letters and digits of a text, whatever their case."""
    return hash_text(plain(text), seed=0)


class _Range(Derived):
    """The pairs of a corpus whose sources have hashes in a range, as shares of all hashes."""

    def __init__(self, corpus: Corpus, part: tuple[float, float], *, seed: int) -> None:
        super().__init__(corpus, f"part {part[0]:g} to {part[1]:g}")
        self.part, self.seed = part, seed

    def _read(self) -> Iterator[Pair]:
        low, high = (share * 2**64 for share in self.part)
        n_pairs = 0
        for pair in self.corpus.pairs():
            if low <= hash_text(pair.src, seed=~self.seed) < high:  # not the hashes that hold text out
                n_pairs += 1
                yield pair
        if not n_pairs:
            raise DataError(f"{self.name}: holds no pair; take a larger part (data.part)")

    def fingerprint(self) -> str:
        return hash_strings("range", self.corpus.fingerprint(), str(self.seed), *map(str, self.part))


def part_of(corpus: Corpus, part: tuple[float, float], *, seed: int) -> Corpus:
    """Return a random part of a corpus, between two shares: (0, 0.25) lies within (0, 0.5).

    Pairs with the same source stay together. The choice depends on `seed` and the text alone.
    """
    return corpus if part == (0.0, 1.0) else _Range(corpus, part, seed=seed)


def open_corpus(
    files: Sequence[str] | Sequence[Sequence[str]],
    *,
    src_lang: str,
    tgt_lang: str,
    columns: tuple[Column, Column] = DEFAULT_COLUMNS,
) -> Corpus:
    """Open a corpus: two aligned files, one file of any format, or a set such as "phrasebook:train".

    A list of such lists is one corpus as well, read in their order. One file is read by its suffix: .csv,
    .jsonl (.ndjson, .json), .parquet, .tmx, .po, and anything else as tab-separated columns;
    "hf:owner/name:split" is a data set of the hub. A relative name is looked up in the working directory,
    then in $DRAGOMAN_DATA, then among the fetched data sets. `columns` are numbers, counted from 0, or
    names; where they are left at the default, a file that names its columns is asked for the languages'
    ones. DataError: a file is missing, there is no such split or language, or the columns do not tell what
    is in them.
    """
    several = each_corpus(files)
    if len(several) > 1:
        return JoinedCorpora(
            [open_corpus(one, src_lang=src_lang, tgt_lang=tgt_lang, columns=columns) for one in several]
        )
    files = several[0] if several else ()
    if not 1 <= len(files) <= 2:
        hint = "" if files else " (a run that was imported names none: set data.train)"
        raise DataError(
            f"a corpus of {len(files)} files; give two aligned files or one with both sides{hint}"
        )
    if len(files) == 2:
        if any(formats.is_iwslt(Path(name)) for name in files):
            return Talks(*map(find_file, files))
        for name in files:
            check_format(name)
        return AlignedFiles(*map(find_file, files))
    name = files[0]
    if name.startswith(PHRASEBOOK):
        return Phrasebook(name.removeprefix(PHRASEBOOK), src_lang=src_lang, tgt_lang=tgt_lang)
    if format_suffix(name) in _BILINGUAL:
        reader, things = _BILINGUAL[format_suffix(name)]
        path = find_file(name)
        return BilingualFile(path, src_lang=src_lang, tgt_lang=tgt_lang, reader=reader, things=things)
    if formats.is_iwslt(Path(name)):
        raise DataError(f"{name}: one side of a corpus of two files; give the other one, too")
    table = open_table(name, setting=SETTING)
    columns = _columns_of(table, columns, src_lang=src_lang, tgt_lang=tgt_lang)
    return TableCorpus(table, columns, src_lang=src_lang, tgt_lang=tgt_lang)


def _columns_of(
    table: RecordTable, columns: tuple[Column, Column], *, src_lang: str, tgt_lang: str
) -> tuple[Column, Column]:
    """Return the columns to read. DataError: they are negative, or left to a table that does not tell."""
    negative = [column for column in columns if isinstance(column, int) and column < 0]
    if negative:
        raise DataError(f"{table.name}: column {negative[0]}; columns are counted from 0 ({SETTING})")
    if isinstance(table, TabSeparated) or columns != DEFAULT_COLUMNS:
        return columns
    names = table.fields()
    matched = match_parallel(names, src_lang=src_lang, tgt_lang=tgt_lang)
    if matched or (table.is_ordered and len(names) == len(columns)):
        return matched or columns
    raise DataError(
        f"{table.name}: cannot tell which columns are {src_lang} and {tgt_lang} among "
        f"{', '.join(names) or 'none'}; name them, as in --columns source,target (data.columns)"
    )


_BILINGUAL: dict[str, tuple[PairReader, str]] = {
    ".tmx": (formats.tmx, "units"),
    ".po": (formats.po, "entries"),
}


def split_held_out(corpus: Corpus, *, n_held_out: int, seed: int) -> tuple[HeldOutPairs, HeldOutPairs]:
    """Split off about `n_held_out` random pairs, at most a tenth: return the rest, and the held-out pairs.

    Pairs with the same source stay together, so that no held-out source is also trained on. The choice
    depends on `seed` and the text alone, not on the order of lines. DataError: too few different sources.
    """
    hashes = np.fromiter(
        (hash_text(pair.src, seed=seed) for pair in corpus.pairs() if has_text(pair)), dtype=np.uint64
    )
    limit = min(n_held_out, max(1, len(hashes) // 10))
    sources, counts = np.unique(hashes, return_counts=True)  # in order of hash: a random one
    sources, counts = sources[counts <= limit], counts[counts <= limit]
    held_out = frozenset(sources[np.cumsum(counts) <= limit].tolist())
    if not held_out or len(hashes) < 2:
        raise DataError(
            f"{corpus.name}: {len(hashes)} usable pairs are too few, or too alike, to hold some out; "
            "give data.valid files of its own"
        )
    return (
        HeldOutPairs(corpus, held_out, seed=seed, name="without held-out pairs", inside=False),
        HeldOutPairs(corpus, held_out, seed=seed, name="held-out pairs", inside=True),
    )


def locate_drift(lengths: Sequence[np.ndarray], *, names: Sequence[str]) -> str:
    """Where lines are probably missing from the shorter of two files, in words; "" where it is not clear.

    `lengths` are the characters of each line, `names` the files. The missing lines are taken to be in one
    place. A line and its translation have lengths of a typical ratio: the place is where the files fit
    best, matched line by line before it and shifted by the missing lines after it.
    """
    short, long = sorted(range(2), key=lambda i: len(lengths[i]))
    n, n_missing = len(lengths[short]), len(lengths[long]) - len(lengths[short])
    if n < 20:
        return ""
    short_logs, long_logs = np.log1p(lengths[short]), np.log1p(lengths[long])
    before = short_logs - long_logs[:n]
    after = short_logs - long_logs[n_missing:]
    # cost[k]: how badly the lengths fit if lines k, k+1, ... of the shorter file are to be shifted
    cost = np.concatenate([[0.0], np.cumsum(np.abs(before - np.median(before)))])
    shifted = np.abs(after - np.median(after))
    cost += np.concatenate([[0.0], np.cumsum(shifted[::-1])])[::-1]
    k = int(cost.argmin())
    clear = 3.0  # nats: about ten lines that fit better
    if cost[0] - cost[k] < clear:
        return ""
    lines = "a line is" if n_missing == 1 else f"{n_missing} lines are"
    if cost[n] - cost[k] < clear:
        return f"by the lengths of lines, {names[short]} ends too early"
    return f"by the lengths of lines, {lines} missing from {names[short]} near line {k + 1}"
