"""Named tensors from the files of strangers: safetensors, and what torch.save wrote, without its pickle.

`torch.load(weights_only=True)` builds tensors and plain containers and calls nothing else. What a file
claims is checked before memory is given to it.
"""

from __future__ import annotations

import pickle  # noqa: TID251 (for the errors it names)
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
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


class ForeignTensors(dict[str, Tensor]):
    """Named tensors, each of which is taken once: what is left at the end was not understood."""

    def __init__(self, tensors: object, *, where: Path) -> None:
        """RunError: there are none, or something is not a plain tensor with a name."""
        if not isinstance(tensors, Mapping):
            raise RunError(f"{where}: holds no weights where a model has them; give its checkpoint")
        for name, tensor in tensors.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                raise RunError(f"{where}: {name} is no tensor; the file holds more than weights")
            plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
            if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
                raise RunError(f"{where}: {name} is no plain tensor with all of its numbers; it is not read")
        super().__init__(tensors)
        self.where = where

    def take(self, name: str, *shape: int) -> Tensor:
        """Return the tensor `name`, in fp32. RunError: it is not there, of another shape, or not finite."""
        if name not in self:
            raise RunError(f"{self.where}: holds no {name}; its settings are of another model")
        tensor = self.pop(name)
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
        shape = self[name].shape if name in self else ()
        return self.take(name, *shape[:-1], width).reshape(-1, width)

    def repeat(self, name: str, *aliases: str) -> None:
        """Let each of `aliases` that is not there be the tensor `name`: they are one, and written once."""
        for alias in aliases if name in self else ():
            self.setdefault(alias, self[name])

    def unite(self, *names: str) -> None:
        """Let the tensor that is there under some of `names` be there under all. RunError: they differ."""
        first, *rest = [name for name in names if name in self] or names
        for other in rest:
            if other in self and not torch.equal(self[first].double(), self[other].double()):
                raise RunError(
                    f"{self.where}: {first} and {other} differ, and its settings say that they are one; "
                    "settings and weights must come from the same model"
                )
        self.repeat(first, *names)

    def check_all_taken(self) -> None:
        """RunError: something is left, so that the model computes something else."""
        if self:
            some = ", ".join(sorted(self)[:3])
            raise RunError(
                f"{self.where}: holds weights that Dragoman's Transformer has no place for: {some}"
                f"{' ...' * (len(self) > 3)}; the model is of another architecture"
            )


def read_torch(path: Path, *, harmless: Sequence[type | tuple[type, str]] = ()) -> dict[str, Any]:
    """Read the dictionary that torch.save wrote to `path`; tensors are on the CPU.

    `harmless` are classes that a format needs beside tensors and containers, such as argparse.Namespace, and
    that do nothing when they are made; with a name, a class that stands for the one of that name (`inert`).
    RunError: the file asks for any other class or function, is damaged, holds no dictionary, or too little.
    """
    zipped = _check_archive(path)
    try:
        with torch.serialization.safe_globals(list(harmless)), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they, too, advise to load the file without the restriction
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)  # noqa: TID251
    except Exception as error:  # torch raises whatever its readers stumble over
        raise RunError(f"{path}: {_complaint(error)}") from error
    if not isinstance(content, dict):
        raise RunError(
            f"{path}: holds a {type(content).__name__}, not a dictionary of weights; give a checkpoint"
        )
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
        raise RunError(f"{path}: is damaged ({error}); copy it again") from error
    return True


def _complaint(error: Exception) -> str:
    """Describe what torch's restricted reader refused, without its own advice, which is to turn that off."""
    message = str(error).strip()
    if isinstance(error, pickle.UnpicklingError) or "weights_only" in message:
        asked = re.search(r"GLOBAL (\S+)|function\s+(\S+)", message)
        named = f"asks for {asked[1] or asked[2]}, which could run code" if asked else "is no file of weights"
        return (
            f"{named}; it is not read. Save its weights alone (model.state_dict(), or safetensors) where you "
            "trust it"
        )
    first_line = message.partition("\n")[0][:200] or type(error).__name__
    return f"is damaged, or holds more than weights ({first_line}); copy it again"
