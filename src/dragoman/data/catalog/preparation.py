"""Convert downloads to the plain files that recipes name, with one function per kind of source.

Prepared text is UTF-8, one example a line. Compressed files are the same bytes whenever they are made of the
same text. What is left out is counted and reported.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from dragoman.data.catalog import archives
from dragoman.data.datasets import Dataset
from dragoman.data.readers.files import open_lines
from dragoman.errors import DataError

Report = Callable[[str], None]
"""Is told, line by line, what a user may want to know."""

N_TRAIN_SMALL = 19_999
"""Pairs of the small training part of IWSLT 2017."""

IWSLT_SETS = ("dev2010", "tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015")

SAMPLE = "imdb_test_5k.txt"
"""Which test reviews are in the sample of 5,000: their keys, in order."""

_TALK = re.compile(
    r"\s*<(\?xml|!|/?(mteval|refset|srcset|doc|url|keywords|speaker|talkid|title|description|reviewer|"
    r"translator|transcript|content)\b)",
    re.IGNORECASE,
)
_SEGMENT = re.compile(r"<seg\s[^>]*>(.*?)</seg>", re.IGNORECASE)
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
_REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos)/[^/]+\.txt")
_BREAKS = re.compile(r"[\t\n\r]+")


def prepare(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Make the files of a data set in `folder` from what lies in `downloads`.

    DataError: a download is damaged, or does not hold what is expected of it.
    """
    STEPS[dataset.step](dataset, downloads, folder, report)
    for part in dataset.parts:
        path = folder / part.path
        if not path.exists() and not part.optional:
            raise DataError(f"{dataset.name}: nothing downloaded gives {part.path}; the source has changed")
        if path.exists() and part.n_lines:
            n_lines = sum(1 for _ in open_lines(path))
            if n_lines != part.n_lines:
                raise DataError(
                    f"{dataset.name}: {part.path} has {n_lines:,} lines where {part.n_lines:,} belong; "
                    "the source has changed"
                )


def multi30k(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Keep the compressed files as they are."""
    for part in dataset.parts:
        shutil.copyfile(downloads / part.path, folder / part.path)


def iwslt17(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Texts without the tags around them: training, the first pairs of it, development and test sets."""
    from dragoman.data.corpora import AlignedFiles
    from dragoman.data.records import has_text

    src, tgt = dataset.languages
    pair = f"{src}-{tgt}"
    sets = {"train": f"train.tags.{pair}.{{}}"}
    sets |= {name: f"IWSLT17.TED.{name}.{pair}.{{}}.xml" for name in IWSLT_SETS}
    names = {f"{pair}/{pattern.format(lang)}" for pattern in sets.values() for lang in (src, tgt)}
    official = folder / "official"
    archives.unpack(downloads / f"{pair}.tgz", official, keep=names.__contains__)
    for name, pattern in sets.items():
        files = [folder / f"{name}.{lang}.gz" for lang in (src, tgt)]
        for lang, file in zip((src, tgt), files, strict=True):
            _write_lines(file, _talk_lines(official / pair / pattern.format(lang)))
        pairs = list(AlignedFiles(*files).pairs())  # which complains of files of different length
        if name == "train":
            _write_pairs(folder, "train_small", (src, tgt), list(filter(has_text, pairs))[:N_TRAIN_SMALL])
    shutil.rmtree(official)


def _talk_lines(path: Path) -> Iterator[str]:
    """Yield the texts of an official file: what stands in <seg>, or in training files on lines without tags.

    They look like XML and are not always: they are read line by line.
    """
    for line in open_lines(path):
        is_text = path.suffix != ".xml" and not _TALK.match(line)
        for text in [line] if is_text else _SEGMENT.findall(line):
            yield _ENTITY.sub(lambda entity: html.unescape(entity[0]), text).strip()


def small_en_zh(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Keep the first two columns of each file."""
    for name in ("train", "dev"):
        pairs = list(_columns(downloads / f"{name}.txt", report))
        _write_lines(folder / f"{name}.tsv.gz", (f"{src}\t{tgt}" for src, tgt in pairs))


def members(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Keep the files of the archive with the names of the data set's parts, in any folder, as they are."""
    expected = {part.path for part in dataset.parts}
    archive = downloads / dataset.downloads[0].file
    names = archives.unpack(archive, folder / "official", keep=lambda name: Path(name).name in expected)
    for name in names:
        (folder / "official" / name).replace(folder / Path(name).name)
    shutil.rmtree(folder / "official", ignore_errors=True)


def opus(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Two aligned files, byte by byte, with the licence and the description beside them."""
    archive = downloads / dataset.downloads[0].file
    pair = "-".join(sorted(dataset.languages))
    n_lines = {}
    limits = archives.Limits(n_bytes=2 * 10**12)
    for name, content in archives.members(archive, limits=limits):
        lang = name.rpartition(".")[2]
        if name.endswith(f".{pair}.{lang}") and lang in dataset.languages:
            n_lines[lang] = 0
            with (folder / f"train.{lang}.gz").open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
                while block := content.read(1 << 20):
                    n_lines[lang] += block.count(b"\n")
                    file.write(block)
        elif name in ("LICENSE", "README"):
            (folder / name).write_bytes(content.read(1 << 20))
    if len(set(n_lines.values())) > 1:
        counts = " and ".join(f"{n:,} in {lang}" for lang, n in n_lines.items())
        raise DataError(f"{archive}: its texts do not match line by line: {counts}; fetch it again later")


def tatoeba(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Keep the two sentences of each line, split so that no sentence is in two parts."""
    archive = downloads / dataset.downloads[0].file
    text = f"{archive.name.split('-')[0]}.txt"  # deu-eng.zip holds deu.txt
    archives.unpack(archive, folder / "official", keep=text.__eq__)
    path = folder / "official" / text
    if not path.exists():
        raise DataError(f"{archive}: holds no {text}; the source has changed")
    pairs = list(_columns(path, report))
    n_lines = {part.path: part.n_lines for part in dataset.parts}
    sizes = {name: n_lines[f"{name}.{dataset.languages[0]}.gz"] for name in ("val", "test")}
    split = split_by_sentence(pairs, list(sizes.values()))
    for name, part in zip(("train", *sizes), split, strict=True):
        _write_pairs(folder, name, dataset.languages, part)
    shutil.rmtree(folder / "official")


def imdb(dataset: Dataset, downloads: Path, folder: Path, report: Report) -> None:
    """Labels, 1 for positive, and texts: negative ones first, in the order of the names of their files."""
    reviews: dict[str, dict[str, str]] = {"train": {}, "test": {}}
    archive = downloads / "aclImdb_v1.tar.gz"
    for name, content in archives.members(archive, keep=lambda name: bool(_REVIEW.fullmatch(name))):
        _, split, label, file = name.split("/")
        try:
            text = content.read().decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{archive}: {name} is not UTF-8; the archive is not the official one") from error
        reviews[split][f"{label}/{file}"] = _BREAKS.sub(" ", text)
    lines = {
        split: [f"{int(name.startswith('pos'))}\t{texts[name]}" for name in sorted(texts)]
        for split, texts in reviews.items()
    }
    for split in lines:
        _write_lines(folder / f"{split}.tsv.gz", lines[split])
    by_key = {review_key(line): line for line in reversed(lines["test"])}
    keys = resources.files("dragoman.data.catalog").joinpath(SAMPLE).read_text(encoding="ascii").split()
    n_missing = sum(key not in by_key for key in keys)
    if n_missing:
        report(f"test_5k.tsv.gz is left out: {n_missing:,} of its {len(keys):,} texts are not in the archive")
    else:
        _write_lines(folder / "test_5k.tsv.gz", (by_key[key] for key in keys))


STEPS: dict[str, Callable[[Dataset, Path, Path, Report], None]] = {
    step.__name__: step for step in (multi30k, iwslt17, small_en_zh, members, opus, tatoeba, imdb)
}
"""By the name they have in the catalogue."""


def split_by_sentence(pairs: Sequence[tuple[str, str]], sizes: Sequence[int]) -> list[list[tuple[str, str]]]:
    """Split pairs into a remainder and one part for each of `sizes`, together at most a tenth of all pairs.

    Pairs that share a source or a target, ignoring case, are always in the same part. The split depends on
    the text alone: groups of such pairs are ordered by a hash. Groups of more than a hundredth of a part
    stay in the remainder. Parts keep the order of `pairs`.
    """
    groups = _groups(pairs)

    def hash_pair(i: int) -> bytes:
        return hashlib.blake2b("\t".join(map(_folded, pairs[i])).encode(), digest_size=8).digest()

    order = sorted(groups, key=lambda group: min(map(hash_pair, group)))
    part_of = [0] * len(pairs)
    for part, size in enumerate(sizes, start=1):
        room = min(size, len(pairs) // 10)
        largest = max(1, size // 100)
        for group in order:
            if len(group) <= min(room, largest) and not part_of[group[0]]:
                room -= len(group)
                for i in group:
                    part_of[i] = part
    parts: list[list[tuple[str, str]]] = [[] for _ in range(len(sizes) + 1)]
    for pair, part in zip(pairs, part_of, strict=True):
        parts[part].append(pair)
    return parts


def review_key(line: str) -> str:
    """Eight hexadecimal digits that stand for a label and text in `SAMPLE`."""
    return hashlib.blake2b(" ".join(line.split()).encode(), digest_size=4).hexdigest()


def _groups(pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Return the pairs' indices, those together that share a sentence or are linked by pairs that do."""
    parent = list(range(len(pairs)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[tuple[int, str], int] = {}
    for i, pair in enumerate(pairs):
        for side, sentence in enumerate(pair):
            parent[root(i)] = root(first.setdefault((side, _folded(sentence)), i))
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for i in range(len(pairs)):
        groups[root(i)].append(i)
    return list(groups.values())


def _folded(sentence: str) -> str:
    return " ".join(sentence.casefold().split())


def _columns(path: Path, report: Report) -> Iterator[tuple[str, str]]:
    """Yield the first two columns of a tab-separated file; lines without two are counted and left out."""
    n_skipped = 0
    for line in open_lines(path):
        src, tgt, *_ = *line.split("\t"), "", ""
        if src.strip() and tgt.strip():
            yield src.strip(), tgt.strip()
        else:
            n_skipped += 1
    if n_skipped:
        report(f"left out {n_skipped:,} lines of {path.name} that have no two columns with text")


def _write_pairs(folder: Path, name: str, languages: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
    for side, lang in enumerate(languages):
        _write_lines(folder / f"{name}.{lang}.gz", (pair[side] for pair in pairs))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a compressed file whose bytes depend only on its lines."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
