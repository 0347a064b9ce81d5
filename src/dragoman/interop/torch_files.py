"""Named tensors from the files of strangers: safetensors, and what torch.save wrote, without its pickle.

`torch.load(weights_only=True)` builds tensors and plain containers and calls nothing else. What a file
claims is checked before memory is given to it.
"""

from __future__ import annotations

import pickle  # noqa: TID251 (for the errors it names)
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import RunError


class Inert:
    """Stands for an object of a class that a checkpoint names: it keeps its state, and does nothing."""

    def __init__(self, *arguments: object) -> None:
        """Discard the object's arguments."""

    def __setstate__(self, state: object) -> None:
        """Attributes are kept, other states let go."""
        if isinstance(state, dict):
            self.__dict__.update(state)


def inert(*names: str) -> list[tuple[type, str]]:
    """`harmless` classes for these full names, such as "torchtext.vocab.Vocab": all are `Inert`."""
    return [(Inert, name) for name in names]


class ForeignTensors:
    """Named tensors, each of which is taken once: what is left at the end was not understood."""

    def __init__(self, tensors: Mapping[str, Tensor], *, where: Path) -> None:
        """RunError: something is not a tensor with a name."""
        for name, tensor in tensors.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                raise RunError(f"{where}: {name} is no tensor; the file holds more than weights")
        self._tensors = dict(tensors)
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        """Yield the names that have not been taken yet."""
        return iter(self._tensors)

    def take(self, name: str, *shape: int) -> Tensor:
        """Return the tensor `name`, in fp32. RunError: it is not there, of another shape, or not finite."""
        if name not in self._tensors:
            raise RunError(f"{self.where}: holds no {name}; its settings are of another model")
        tensor = self._tensors.pop(name)
        if tuple(tensor.shape) != shape:
            raise RunError(
                f"{self.where}: {name} has shape {tuple(tensor.shape)}, its settings say {shape}; "
                "settings and weights must come from the same model"
            )
        if not tensor.is_floating_point():
            raise RunError(f"{self.where}: {name} is of {tensor.dtype}; only floating numbers are read")
        tensor = tensor.detach().float()
        if not torch.isfinite(tensor).all():
            raise RunError(f"{self.where}: {name} holds numbers that are not finite; the file is damaged")
        return tensor

    def take_table(self, name: str, width: int) -> Tensor:
        """Return the tensor `name` as (rows, width), however many rows it has. RunError: as `take`."""
        shape = self._tensors[name].shape if name in self._tensors else ()
        return self.take(name, *shape[:-1], width).reshape(-1, width)

    def put(self, name: str, tensor: Tensor) -> None:
        """Add a tensor that was made of others, to be taken."""
        self._tensors[name] = tensor

    def rename(self, name: str, other: str) -> None:
        """Let the tensor `name`, where it is there, be there under the name `other` instead."""
        if name in self._tensors:
            self._tensors[other] = self._tensors.pop(name)

    def repeat(self, name: str, other: str) -> None:
        """Let `other`, where it is not there, be the tensor `name`: they are one, and written once."""
        if other not in self._tensors and name in self._tensors:
            self._tensors[other] = self._tensors[name]

    def unite(self, names: Sequence[str]) -> None:
        """Let the tensor that is there under some of `names` be there under all. RunError: they differ."""
        there = [name for name in names if name in self._tensors]
        for name, other in pairwise(there):
            one, two = self._tensors[name], self._tensors[other]
            if one.dtype != two.dtype or not torch.equal(one, two):
                raise RunError(
                    f"{self.where}: {name} and {other} differ, and its settings say that they are one; "
                    "settings and weights must come from the same model"
                )
        for name in names:
            self.repeat(there[0] if there else name, name)

    def drop(self, *names: str) -> None:
        """Take away what is not needed, where it is there."""
        for name in names:
            self._tensors.pop(name, None)

    def check_all_taken(self) -> None:
        """RunError: something is left, so that the model computes something else."""
        if self._tensors:
            some = ", ".join(sorted(self._tensors)[:3])
            raise RunError(
                f"{self.where}: holds weights that Dragoman's Transformer has no place for: {some}"
                f"{' ...' * (len(self._tensors) > 3)}; the model is of another architecture"
            )


def read_torch(path: Path, *, harmless: Sequence[type | tuple[type, str]] = ()) -> dict[str, Any]:
    """Read the dictionary that torch.save wrote to `path`; tensors are on the CPU.

    `harmless` are classes that a format needs beside tensors and containers, such as argparse.Namespace, and
    that do nothing when they are made; with a name, a class that stands for the one of that name (`inert`).
    RunError: the file asks for any other class or function, is damaged,
    holds no dictionary, or claims to hold more than it does.
    """
    zipped = _check_archive(path)
    try:
        with torch.serialization.safe_globals(list(harmless)):
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)  # noqa: TID251
    except pickle.UnpicklingError as error:
        raise RunError(f"{path}: {_refused(str(error))}") from None
    except Exception as error:  # torch raises whatever its readers stumble over
        raise RunError(
            f"{path}: is damaged or no file of PyTorch ({_first_line(error)}); copy it again"
        ) from None
    if not isinstance(content, dict):
        raise RunError(
            f"{path}: holds a {type(content).__name__}, not a dictionary of weights; give a checkpoint"
        )
    for name, tensor in _tensors(content):
        _check_tensor(path, name, tensor)
    return content


def _check_archive(path: Path) -> bool:
    """Whether torch.save wrote a zip archive, as it does since 1.6.

    RunError: it is packed, as no such file is, or damaged.
    """
    try:
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise RunError(f"{path}: is a packed archive, as PyTorch writes none; it is not unpacked")
    except (OSError, zipfile.BadZipFile) as error:
        raise RunError(f"{path}: is damaged ({error}); copy it again") from None
    return True


def _refused(message: str) -> str:
    """Describe what a file requested, from the message of torch's restricted unpickler."""
    found = re.search(r"GLOBAL (\S+)", message) or re.search(r"(?:class|function|global)\s+(\S+)", message)
    if found is None:
        return f"is damaged, or holds more than weights ({_first_line(message)}); it is not read"
    return (
        f"asks for {found.group(1)}, which could run code; it is not read. Save its weights alone "
        "(model.state_dict(), or safetensors) where you trust it"
    )


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0][:200] or type(error).__name__


def _tensors(content: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in nested containers, with its name."""
    if isinstance(content, Tensor):
        yield name, content
    elif depth < 10 and isinstance(content, Mapping):
        for key, value in content.items():
            yield from _tensors(value, f"{name}.{key}" if name else str(key), depth + 1)
    elif depth < 10 and isinstance(content, (list, tuple)):
        for i, value in enumerate(content):
            yield from _tensors(value, f"{name}[{i}]", depth + 1)


def _check_tensor(path: Path, name: str, tensor: Tensor) -> None:
    """RunError: a tensor is of a strange kind, or has more elements than are in the file."""
    plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise RunError(f"{path}: {name} is no plain tensor with all of its numbers; it is not read")
