"""Named data sets: what they are, where they are, and how they get here.

    folder/multi30k/train.en.gz …    plain files, the ones that recipes name
    folder/multi30k/SHA256SUMS       their sums, as `sha256sum -c` reads them
    folder/multi30k/source.json      where they came from, with licence and citation

A set is looked for where `find_file` looks: in the working directory, in $DRAGOMAN_DATA and in the cache. The
descriptions are in catalog.toml.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from dragoman.data.download import Downloaded, DownloadError, checksum_of, download
from dragoman.data.files import cache_folder, find_file, open_bytes
from dragoman.errors import DataError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUMS = "SHA256SUMS"
SOURCE = "source.json"

Progress = Callable[[str, int, "int | None"], None]
"""Is told the name of a file, the bytes that are there, and the bytes of the whole where they are known."""


@dataclass(frozen=True)
class Download:
    """A file on the web: its addresses, of which the first that works is taken, and what is known of it."""

    file: str
    urls: tuple[str, ...]
    checksum: str
    """ "md5:…" or "sha256:…", or several, one of which must be right; "" where none is published."""
    size: int
    """Bytes; 0 where nobody says."""


@dataclass(frozen=True)
class Part:
    """A prepared file of a data set."""

    path: str
    n_lines: int
    """0 where it grows with its source."""
    text_sha256: str
    """Of the decompressed text with which results were measured, or one of several; "" where none were."""
    optional: bool = False


@dataclass(frozen=True)
class Dataset:
    """What the catalogue says of a data set."""

    name: str
    folder: str
    title: str
    task: str
    languages: tuple[str, ...]
    n_examples: str
    """Of the training part, for people to read: "29,000"."""
    licence: str
    citation: str
    homepage: str
    note: str
    step: str
    downloads: tuple[Download, ...]
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes to download; 0 where nobody says."""
        sizes = [item.size for item in self.downloads]
        return sum(sizes) if all(sizes) else 0

    def n_lines(self, path: str) -> int:
        """Lines of one of the prepared files."""
        return next(part.n_lines for part in self.parts if part.path == path)

    def missing(self, folder: Path) -> list[str]:
        """The files that `folder` lacks to be the complete set."""
        return [part.path for part in self.parts if not part.optional and not (folder / part.path).is_file()]

    def present(self, folder: Path) -> list[Part]:
        """The files of the set that are in `folder`."""
        return [part for part in self.parts if (folder / part.path).is_file()]


@dataclass(frozen=True)
class Place:
    """Where a data set is: `folder` is None where nothing of it is here, `missing` what is not there."""

    folder: Path | None
    description: str
    missing: tuple[str, ...]


@dataclass
class Check:
    """What a look at a set's files found: those with a right sum, and those of another text than measured."""

    n_files: int = 0
    n_right: int = 0
    other_text: list[str] = field(default_factory=list)


def names() -> list[str]:
    """The names of the data sets there are."""
    return list(_catalogue())


def get(name: str) -> Dataset:
    """The data set of this name. DataError: there is none; the message names those there are."""
    try:
        return _catalogue()[name]
    except KeyError:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
        raise DataError(f"{name}: no data set has this name; {hint}") from None


def providing(file: str) -> Dataset | None:
    """The data set whose file a recipe names so, such as "multi30k/train.en.gz"; None: none has it."""
    for dataset in _catalogue().values():
        if file in {f"{dataset.folder}/{part.path}" for part in dataset.parts}:
            return dataset
    return None


def locate(name: str) -> Path | None:
    """The folder in which the data set is complete; None where it is not. DataError: no such name."""
    place = whereabouts(get(name))
    return None if place.missing else place.folder


def whereabouts(dataset: Dataset) -> Place:
    """Where a data set is: the first place where it is complete, or else the one where least is missing."""
    places = [
        Place(folder / dataset.folder, description, tuple(dataset.missing(folder / dataset.folder)))
        for folder, description in _places()
        if dataset.present(folder / dataset.folder)
    ]
    nowhere = Place(None, "not here", tuple(dataset.missing(Path(os.devnull))))
    return min(places, key=lambda place: len(place.missing), default=nowhere)


def fetch(
    name: str,
    *,
    to: Path | None = None,
    force: bool = False,
    needs: Sequence[str] = (),
    report: Callable[[str], None] = lambda line: None,
    progress: Progress = lambda file, n_bytes, total: None,
) -> Path:
    """The folder with the data set `name`, whose files are checked if they are here, else downloaded.

    It comes to lie in `to`, or in the cache. `needs` are the files that are wanted ("train.en.gz"), all that
    are not optional unless given. `force` downloads what is here too. DataError: no such set, it cannot be
    downloaded, or a file is not what it should be.
    """
    dataset = get(name)
    if not force and (found := _find(dataset, needs, to)):
        _report_check(dataset, found, verify(dataset, found), report)
        return found
    base = to or cache_folder()
    target = base / dataset.folder
    _refuse_foreign(target)
    for line in _introduction(dataset, target):
        report(line)
    downloads = base / "downloads" / dataset.name
    arrived = [_download(dataset, item, downloads, target, report, progress) for item in dataset.downloads]
    _make(dataset, downloads, target, arrived, report)
    _tidy(downloads, arrived)
    _report_check(dataset, target, verify(dataset, target), report)
    return target


def verify(dataset: Dataset, folder: Path) -> Check:
    """Compares the files in `folder` with the sums beside them, or above them, and with the measured texts.

    DataError: a file has another sum than SHA256SUMS says, or is damaged.
    """
    sums = {f"{folder.name}/{path}": value for path, value in _read_sums(folder).items()}
    sums |= _read_sums(folder.parent)
    check = Check()
    for part in dataset.present(folder):
        check.n_files += 1
        expected = sums.get(f"{folder.name}/{part.path}")
        found = checksum_of(folder / part.path, "sha256") if expected else ""
        if expected and found != expected:
            raise DataError(
                f"{folder / part.path}: its sha256 is {found}, {SUMS} says {expected}; the file was changed "
                f"or damaged: remove {folder} and run dragoman data fetch {dataset.name}"
            )
        check.n_right += bool(expected)
        if part.text_sha256 and _hash_text(folder / part.path) not in part.text_sha256.split():
            check.other_text.append(part.path)
    return check


@cache
def _catalogue() -> dict[str, Dataset]:
    text = resources.files("dragoman.data").joinpath("catalog.toml").read_text(encoding="utf-8")
    return {name: _parse(name, entry) for name, entry in tomllib.loads(text).items()}


def _parse(name: str, entry: dict[str, Any]) -> Dataset:
    downloads = tuple(Download(**{**item, "urls": tuple(item["urls"])}) for item in entry.pop("downloads"))
    parts = tuple(Part(**part) for part in entry.pop("files"))
    languages = tuple(entry.pop("languages"))
    return Dataset(name=name, languages=languages, downloads=downloads, parts=parts, **entry)


def _places() -> Iterator[tuple[Path, str]]:
    """The folders in which data sets are looked for, in the order of `find_file`."""
    yield Path(), "here"
    if os.environ.get("DRAGOMAN_DATA"):
        yield Path(os.environ["DRAGOMAN_DATA"]), "$DRAGOMAN_DATA"
    yield cache_folder(), "cache"


def _find(dataset: Dataset, needs: Sequence[str], to: Path | None) -> Path | None:
    """The folder that has what is needed. With `to`, only the one in there counts."""
    if to is not None:
        folder = to / dataset.folder
        lacks = (
            [path for path in needs if not (folder / path).is_file()] if needs else dataset.missing(folder)
        )
        return None if lacks else folder
    if not needs:
        return locate(dataset.name)
    try:
        found = [find_file(f"{dataset.folder}/{path}") for path in needs]
    except DataError:
        return None
    return found[0].parent


def _introduction(dataset: Dataset, target: Path) -> Iterator[str]:
    """What is said before a download begins."""
    size = f" ({dataset.size / 1e6:,.0f} MB)" if dataset.size else ""
    yield f"{dataset.name}: {dataset.title}, from {dataset.homepage}{size}"
    yield f"licence: {dataset.licence}"
    if dataset.note:
        yield f"note: {dataset.note}"
    ahead = whereabouts(dataset).folder
    if ahead is not None and ahead != target and ahead.parent != cache_folder():
        yield f"note: files in {ahead} are taken before those in {target}"


def _download(
    dataset: Dataset,
    item: Download,
    downloads: Path,
    target: Path,
    report: Callable[[str], None],
    progress: Progress,
) -> Downloaded:
    """One file of a set, compared with its published sum or with that of the first time."""
    earlier = _earlier_sum(target, item.file)
    try:
        arrived = download(
            item.urls,
            downloads / item.file,
            checksum=item.checksum or earlier,
            checksum_origin="published" if item.checksum else f"first download's ({target / SOURCE})",
            max_bytes=4 * item.size + 16_000_000 if item.size else 8 * 10**9,
            progress=lambda n_bytes, total: progress(item.file, n_bytes, total),
        )
    except DownloadError as error:
        files = ", ".join(part.path for part in dataset.parts if not part.optional)
        raise DownloadError(
            f"{error}; get the file by other means into {downloads} and run the same command again, or put "
            f"{files} into {dataset.folder}/ in the folder that $DRAGOMAN_DATA names"
        ) from None
    if not item.checksum and not earlier:
        report(f"{item.file}: no checksum is published; kept for the next time: sha256 {arrived.sha256}")
    return arrived


def _make(
    dataset: Dataset,
    downloads: Path,
    target: Path,
    arrived: Sequence[Downloaded],
    report: Callable[[str], None],
) -> None:
    """Prepares the files beside `target`, and gives them its name when they are complete."""
    from dragoman.data.preparation import prepare

    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        _remove_abandoned(target)
        partial.mkdir(parents=True)
        prepare(dataset, downloads, partial, report)
        sums = {part.path: checksum_of(partial / part.path, "sha256") for part in dataset.present(partial)}
        lines = "".join(f"{value}  {path}\n" for path, value in sums.items())
        (partial / SUMS).write_text(lines, encoding="utf-8")
        source = json.dumps(_source(dataset, arrived), indent=2, ensure_ascii=False)
        (partial / SOURCE).write_text(f"{source}\n", encoding="utf-8")
        _put(partial, target)
    except OSError as error:
        raise DataError(
            f"{target}: cannot be written ({error.strerror or error}); make room, check the rights, or "
            "choose another folder"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _tidy(downloads: Path, arrived: Sequence[Downloaded]) -> None:
    """Removes what was downloaded and is not needed any more, but not what a user put there."""
    for item in arrived:
        if item.url:
            item.path.unlink(missing_ok=True)
        item.path.with_name(f".{item.path.name}.lock").unlink(missing_ok=True)
    for folder in (downloads, downloads.parent):
        with suppress(OSError):  # something else is in it
            folder.rmdir()


def _remove_abandoned(target: Path) -> None:
    """Removes what preparations left behind that were killed more than a day ago."""
    for suffix in ("partial", "old"):
        for folder in target.parent.glob(f".{target.name}.*.{suffix}"):
            if time.time() - folder.stat().st_mtime > 24 * 3600:
                shutil.rmtree(folder, ignore_errors=True)


def _source(dataset: Dataset, arrived: Sequence[Downloaded]) -> dict[str, Any]:
    """What is to be known of a set later: where it came from, when, and under which terms."""
    return {
        "name": dataset.name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "homepage": dataset.homepage,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "downloads": [
            {"file": item.path.name, "url": item.url, "size": item.size, "sha256": item.sha256}
            for item in arrived
        ],
    }


def _put(partial: Path, target: Path) -> None:
    """Gives a finished folder its name, in place of one that was there."""
    for file in partial.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _refuse_foreign(target: Path) -> None:
    """DataError: `target` is a folder that holds something, and was not made here."""
    if target.exists() and not (target / SOURCE).is_file() and any(target.iterdir()):
        raise DataError(
            f"{target}: is there already and was not fetched; remove it, or choose another folder with --to"
        )


def _earlier_sum(target: Path, file: str) -> str:
    """The sum that a download had when the set was made the first time; "" where there is none."""
    try:
        downloads = json.loads((target / SOURCE).read_bytes())["downloads"]
        return next(f"sha256:{item['sha256']}" for item in downloads if item["file"] == file)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return ""


def _read_sums(folder: Path) -> dict[str, str]:
    """What SHA256SUMS in a folder says, by file."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[1].removeprefix("*"): pair[0] for pair in pairs if len(pair) == 2}


def _hash_text(path: Path) -> str:
    """The sum of a file's decompressed bytes. DataError: it is damaged."""
    digest = hashlib.sha256()
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _report_check(dataset: Dataset, folder: Path, check: Check, report: Callable[[str], None]) -> None:
    """What a check found, in one or two lines."""
    rest = check.n_files - check.n_right
    right = "all with the sums" if not rest else f"{check.n_right} with the sums"
    unknown = f", {rest} that it does not name" if rest and check.n_right else ""
    sums = f"{right} that {SUMS} says{unknown}" if check.n_right else f"without {SUMS} to compare them with"
    report(f"{dataset.name} is in {folder}: {check.n_files} files, {sums}")
    if check.other_text:
        report(
            f"note: {', '.join(check.other_text)}: other text than that with which results were measured; "
            "scores may differ"
        )
