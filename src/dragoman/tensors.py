"""Files of tensors: safetensors, written atomically, and read only if their size can be right."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from dragoman.errors import RunError
from dragoman.files import write_atomically
from dragoman.hardware import memory

MAX_HEADER = 8 << 20
"""Maximum bytes of the list of tensors at the head of a safetensors file: about 80,000 tensors."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as a safetensors file, atomically.

    Tensors that share memory are written under each of their names.

    Raises:
        RunError: the file cannot be written.
    """
    own: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        own[name] = tensor.detach().cpu().contiguous()
        storage = own[name].untyped_storage().data_ptr()
        if storage in storages:
            own[name] = own[name].clone()
        storages.add(storage)
    # Not save_file: it makes files that nobody but their owner may read.
    metadata = {"format": "pt"}  # one entry: safetensors writes several in any order
    write_atomically(path, save(own, metadata=metadata))


def load_tensors(path: Path, *, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Read a safetensors file. RunError: it is missing, damaged, or larger than memory."""
    _check_size(path)
    with _errors_in_words(path):
        return load_file(path, device=str(device))


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor of a safetensors file, without reading them.

    Raises:
        RunError: the file is missing, damaged, or larger than memory.
    """
    _check_size(path)
    with _errors_in_words(path), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _errors_in_words(path: Path) -> Iterator[None]:
    """Convert the errors of safetensors to RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror or 'no such file'}); is it there?") from None
    except SafetensorError as error:
        why = str(error)[:300]  # it quotes the file
        raise RunError(
            f"{path}: is damaged or cut short ({why}); copy it again, or train the run again"
        ) from None


def _check_size(path: Path) -> None:
    """Check the sizes of header and file. RunError: larger than any of ours, or than the memory."""
    try:
        with path.open("rb") as file:
            n_header = int.from_bytes(file.read(8), "little")
            n_bytes = file.seek(0, os.SEEK_END)
    except OSError:
        return  # the code that reads the file reports it
    if MAX_HEADER < n_header <= n_bytes:
        raise RunError(
            f"{path}: has a header of {n_header:,} bytes, larger than the limit of {MAX_HEADER:,}; "
            "not a Dragoman file"
        )
    if 0 < memory() < n_bytes:
        raise RunError(
            f"{path}: has {n_bytes:,} bytes, and this machine {memory():,} of memory; take another"
        )
