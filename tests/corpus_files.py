"""Files for the tests of readers: written under a suffix, and the complaint that reading one raises."""

import gzip
import lzma
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard

from dragoman.errors import DataError

COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def write(path: Path, content: str | bytes) -> str:
    """Writes a file, compressed as its suffix says; its path."""
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](data))
    return str(path)


def complaint_of(read: Callable[[], Iterable[object]]) -> str:
    """The one line that a `DataError` holds when everything is read."""
    with pytest.raises(DataError) as error:
        list(read())
    assert "\n" not in str(error.value)
    return str(error.value)
