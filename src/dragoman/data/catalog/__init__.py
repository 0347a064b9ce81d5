"""Named data sets: what they are, where they are, and how they get here.

    folder/multi30k/train.en.gz …    plain files, the ones that recipes name
    folder/multi30k/SHA256SUMS       their sums, as `sha256sum -c` reads them
    folder/multi30k/source.json      where they came from, with licence and citation

A set is looked for where `find_file` looks: in the working directory, in $DRAGOMAN_DATA and in the cache.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dragoman.config import parse_json
from dragoman.data.catalog import download, opus
from dragoman.data.catalog.download import Downloaded, DownloadError, checksum_of, checksum_of_bytes
from dragoman.data.catalog.preparation import Report, prepare
from dragoman.data.datasets import Dataset, Download, get, locate, names, places, providing, whereabouts
from dragoman.data.readers.files import open_bytes
from dragoman.errors import DataError
from dragoman.files import cache_folder, replacing_folder

__all__ = ["Dataset", "Progress", "fetch", "get", "locate", "names", "providing", "whereabouts"]

SOURCE = "source.json"
SUMS = "SHA256SUMS"

Progress = Callable[[str, int, "int | None"], None]
"""Is told the name of a file, the bytes that are there, and the bytes of the whole where they are known."""


def fetch(
    name: str,
    *,
    to: Path | None = None,
    force: bool = False,
    needs: Sequence[str] = (),
    report: Report = lambda line: None,
    progress: Progress = lambda file, n_bytes, total: None,
) -> Path:
    """Return the folder with the data set `name`, whose files are checked if they are here, else downloaded.

    `name` is in the catalogue, or a corpus of OPUS: opus:Books/en-pl. The set comes to lie in `to`, or in the
    cache. `needs` are the files that are wanted ("train.en.gz"), all that are not optional unless given.
    `force` downloads what is here too. DataError: no such set, it cannot be downloaded, or a file is not the
    right one. RunError: another process fetches the set, or there is no room or no right to write it.
    """
    is_opus = name.startswith(opus.PREFIX)
    dataset = opus.named(name) if is_opus else get(name)
    if not force and (folder := _find(dataset, needs, to)):
        return _checked(dataset, folder, report)
    dataset = opus.resolved(dataset) if is_opus else dataset
    base = to or cache_folder()
    target = base / dataset.folder
    if target.exists() and not (target / SOURCE).is_file() and any(target.iterdir()):
        raise DataError(
            f"{target}: is there already and was not fetched; remove it, or choose another folder with --to"
        )
    size = f" ({dataset.size / 1e6:,.0f} MB)" if dataset.size else ""
    report(f"{dataset.name}: {dataset.title}, from {dataset.homepage}{size}")
    report(f"licence: {dataset.licence}")
    if dataset.note:
        report(f"note: {dataset.note}")
    ahead = whereabouts(dataset).folder
    if ahead is not None and ahead != target and ahead.parent != cache_folder():
        report(f"note: files in {ahead} are taken before those in {target}")
    downloads = base / "downloads" / re.sub("[:/]", "-", dataset.name)
    arrived = [_download(dataset, item, downloads, target, report, progress) for item in dataset.downloads]
    _make(dataset, downloads, target, arrived, report)
    return _checked(dataset, target, report)


def _find(dataset: Dataset, needs: Sequence[str], to: Path | None) -> Path | None:
    """Return the first folder that has what is needed. With `to`, only the one in there counts."""
    paths = needs or [part.path for part in dataset.parts if not part.optional]
    folders = [folder / dataset.folder for folder in ([to] if to else [place for place, _ in places()])]
    return next((folder for folder in folders if all((folder / path).is_file() for path in paths)), None)


def _download(
    dataset: Dataset, item: Download, downloads: Path, target: Path, report: Report, progress: Progress
) -> Downloaded:
    """One file of a set, compared with its published sum or with that of the first time."""
    earlier = ""  # the sum that the download had when the set was made the first time
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = parse_json((target / SOURCE).read_bytes())["downloads"]
        earlier = next((f"sha256:{old['sha256']}" for old in kept if old["file"] == item.file), "")
    try:
        arrived = download.download(
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
        ) from error
    if not item.checksum and not earlier:
        report(f"{item.file}: no checksum is published; kept for the next time: sha256 {arrived.sha256}")
    return arrived


def _make(
    dataset: Dataset, downloads: Path, target: Path, arrived: Sequence[Downloaded], report: Report
) -> None:
    """Prepare the files beside `target`, and give them its name when they are complete.

    Files that a user put into an earlier `target` are kept; downloads are removed, but not a user's own.
    """
    source = {
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
    with replacing_folder(target) as folder:
        prepare(dataset, downloads, folder, report)
        sums = {part.path: checksum_of(folder / part.path, "sha256") for part in dataset.present(folder)}
        lines = "".join(f"{value}  {path}\n" for path, value in sums.items())
        (folder / SUMS).write_text(lines, encoding="utf-8")
        (folder / SOURCE).write_text(
            f"{json.dumps(source, indent=2, ensure_ascii=False)}\n", encoding="utf-8"
        )
        ours = {SUMS, SOURCE, *_read_sums(target)}
        for path in target.rglob("*"):
            name = path.relative_to(target)
            if path.is_file() and name.as_posix() not in ours and not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, folder / name)
    for item in arrived:
        if item.url:
            item.path.unlink(missing_ok=True)
    for parent in (downloads, downloads.parent):
        with suppress(OSError):  # something else is in it
            parent.rmdir()


def _checked(dataset: Dataset, folder: Path, report: Report) -> Path:
    """Return `folder`; report how its files compare with their sums and with the texts that were measured.

    The sums are beside the files, or above them.

    Raises:
        DataError: a file has another sum than SHA256SUMS says, or is damaged.
    """
    sums = {f"{folder.name}/{path}": value for path, value in _read_sums(folder).items()}
    sums |= _read_sums(folder.parent)
    parts, n_right, other_text = dataset.present(folder), 0, []
    for part in parts:
        expected = sums.get(f"{folder.name}/{part.path}")
        actual = checksum_of(folder / part.path, "sha256") if expected else ""
        if expected and actual != expected:
            raise DataError(
                f"{folder / part.path}: its sha256 is {actual}, {SUMS} says {expected}; the file was changed "
                f"or damaged: remove {folder} and run dragoman data fetch {dataset.name}"
            )
        n_right += bool(expected)
        if part.text_sha256:
            with open_bytes(folder / part.path) as file:
                if checksum_of_bytes(file, "sha256") not in part.text_sha256.split():
                    other_text.append(part.path)
    result, n_others = f"without {SUMS} to compare them with", len(parts) - n_right
    if n_right:
        result = f"{n_right if n_others else 'all'} with the sums that {SUMS} says"
        result += f", {n_others} that it does not name" if n_others else ""
    report(f"{dataset.name} is in {folder}: {len(parts)} files, {result}")
    if other_text:
        report(
            f"note: {', '.join(other_text)}: other text than that with which results were measured; scores "
            "may differ"
        )
    if dataset.name.startswith(opus.PREFIX):
        src, tgt = dataset.languages
        files = f"--src {folder / f'train.{src}.gz'} --tgt {folder / f'train.{tgt}.gz'}"
        report(f"train {src} → {tgt}: dragoman train {files}")
    return folder


def _read_sums(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[1].removeprefix("*"): pair[0] for pair in pairs if len(pair) == 2}
