"""Verify the files of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.data.catalog.download import checksum_of
from dragoman.data.datasets import Dataset
from dragoman.data.readers.files import open_bytes
from dragoman.errors import DataError

SUMS = "SHA256SUMS"


@dataclass
class Check:
    """What a look at a set's files found: those with a right sum, and those of another text than measured."""

    n_files: int = 0
    n_right: int = 0
    other_text: list[str] = field(default_factory=list)


def verify(dataset: Dataset, folder: Path) -> Check:
    """Compare the files in `folder` with the sums beside them, or above them, and with the measured texts.

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


def _read_sums(folder: Path) -> dict[str, str]:
    """Return the checksums in a folder's SHA256SUMS, by file."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[1].removeprefix("*"): pair[0] for pair in pairs if len(pair) == 2}


def _hash_text(path: Path) -> str:
    """Return the sum of a file's decompressed bytes. DataError: it is damaged."""
    digest = hashlib.sha256()
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def report_check(dataset: Dataset, folder: Path, check: Check, report: Callable[[str], None]) -> None:
    """Describe the result of a check in one or two lines."""
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
