"""Files of tensors: safetensors, written atomically, and read only if their size can be right.

What is read as arrays needs no PyTorch, which is imported where tensors are made or written.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from dragoman.errors import RunError
from dragoman.files import replacing
from dragoman.hardware import memory
from dragoman.model.weights import BF16, Weights

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "float16": "F16", "bfloat16": "BF16",
    "int32": "I32", "float32": "F32", "float64": "F64", "int64": "I64",
}  # fmt: skip
"""Names of types, and those in safetensors files, in the order in which it writes: the last ones first."""

CHECKSUM = "sha256"
"""The entry of a file's metadata with the hash of its numbers."""

PROBE = "probe"
"""The one with what a model computes with them (`predict.probe`)."""

MAX_HEADER = 8 << 20
"""Maximum bytes of the list of tensors at the head of a safetensors file: about 80,000 tensors."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, probe: str = "") -> None:
    """Write named tensors as a safetensors file, atomically, with the hash of their numbers and a `probe`.

    Tensors that share memory are written under each of their names.

    Raises:
        RunError: the file cannot be written.
    """
    # Not save_file: it makes files that nobody but their owner may read, and knows no hash.
    whole = {name: Rows(tensor, 0, tuple(tensor.shape)) for name, tensor in tensors.items()}
    numbers = b"".join(_bytes_of(whole[name].values) for name in _places(whole))
    metadata = {CHECKSUM: hashlib.sha256(numbers).hexdigest()} | ({PROBE: probe} if probe else {})
    with replacing(path) as file:
        file.write(_header(whole, metadata))
        file.write(numbers)


class Rows(NamedTuple):
    """Some rows of a tensor: all of them, or those that one of several processes has."""

    values: Tensor
    first: int
    """Their place in the whole tensor."""
    shape: tuple[int, ...]
    """Of the whole tensor."""


def allocate(path: Path, tensors: Mapping[str, Rows]) -> None:
    """Make a safetensors file of whole tensors, for `write_rows` to fill. OSError: it cannot be made."""
    with path.open("wb") as file:
        file.write(_header(tensors, {}))
        file.truncate(file.tell() + max((end for _, end in _places(tensors).values()), default=0))


def write_rows(path: Path, tensors: Mapping[str, Rows]) -> None:
    """Fill in the rows that this process has of the tensors of a file, and sync it.

    Processes may do so at the same time, where all see one file. OSError: it cannot be written.
    """
    with path.open("r+b", buffering=0) as file:  # a buffer would write what lies between, too, as it was
        begin = 8 + int.from_bytes(file.read(8), "little")
        for name, (start, _) in _places(tensors).items():
            values, first, shape = tensors[name]
            file.seek(begin + start + first * math.prod(shape[1:]) * values.itemsize)
            rest = _bytes_of(values)
            while rest:
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _header(tensors: Mapping[str, Rows], metadata: Mapping[str, str]) -> bytes:
    """Return what a safetensors file has before its numbers."""
    header = json.dumps(
        {"__metadata__": {"format": "pt", **metadata}}
        | {
            name: {"dtype": _type_of(tensors[name].values), "shape": list(tensors[name].shape),
                   "data_offsets": [start, end]}
            for name, (start, end) in _places(tensors).items()
        },
        separators=(",", ":"), ensure_ascii=False,
    ).encode()  # fmt: skip
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def _type_of(tensor: Tensor) -> str:
    return DTYPES[str(tensor.dtype).removeprefix("torch.")]


def _bytes_of(tensor: Tensor) -> memoryview:
    import torch

    return memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _places(tensors: Mapping[str, Rows]) -> dict[str, tuple[int, int]]:
    """Return where each tensor begins and ends after the header, in safetensors' own order."""
    places, end = {}, 0
    order = [*DTYPES.values()]
    for name in sorted(tensors, key=lambda name: (-order.index(_type_of(tensors[name].values)), name)):
        start, end = end, end + math.prod(tensors[name].shape) * tensors[name].values.itemsize
        places[name] = start, end
    return places


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file. RunError: as `load_arrays`."""
    return to_tensors(load_arrays(path))


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read a safetensors file as arrays of NumPy. RunError: it is missing, damaged, or larger than memory.

    Its numbers are compared with their hash, if it has one: files of older versions and other tools have not.
    What is bfloat16 is of the type `BF16`. Each array has memory of its own, which goes with it.
    """
    types = {theirs: BF16 if theirs == "BF16" else np.dtype(ours) for ours, theirs in DTYPES.items()}
    with open_tensors(path) as checked, path.open("rb") as file:
        header: dict[str, dict[str, Any]] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header.pop("__metadata__", None)
        arrays, digest = {}, hashlib.sha256()
        for name, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):  # without gaps
            if about["dtype"] not in types:
                raise RunError(f"{path}: {name} holds {about['dtype']}, which is not supported")
            shape = tuple(about["shape"])
            numbers = np.fromfile(file, types[about["dtype"]], count=math.prod(shape))
            digest.update(numbers.view(np.uint8).data)
            arrays[name] = numbers.reshape(shape)
        if (checked.metadata() or {}).get(CHECKSUM) not in (None, digest.hexdigest()):
            raise RunError(
                f"{path}: is damaged: its numbers are not those that were written; copy it again, or train "
                "the run again"
            )
        return arrays


@contextmanager
def open_tensors(path: Path, framework: str = "np") -> Iterator[Any]:
    """Open a safetensors file, as its own `safe_open`, to read parts of it. RunError: as `load_arrays`."""
    with suppress(OSError):  # the code below that reads the file reports it
        with path.open("rb") as numbers:
            n_header = int.from_bytes(numbers.read(8), "little")
            n_bytes = numbers.seek(0, os.SEEK_END)
        if MAX_HEADER < n_header <= n_bytes:
            raise RunError(
                f"{path}: has a header of {n_header:,} bytes, larger than the limit of {MAX_HEADER:,}; "
                "not a Dragoman file"
            )
        of_machine, _ = memory()
        if 0 < of_machine < n_bytes:
            raise RunError(
                f"{path}: has {n_bytes:,} bytes, and this machine {of_machine:,} of memory; take another"
            )
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror or 'no such file'}); is it there?"
        ) from error
    except SafetensorError as error:
        why = str(error)[:300]  # it quotes the file
        raise RunError(
            f"{path}: is damaged or cut short ({why}); copy it again, or train the run again"
        ) from error


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor of a safetensors file. RunError: as `load_arrays`."""
    with open_tensors(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def of_tensors(tensors: Mapping[str, Tensor]) -> dict[str, npt.NDArray[Any]]:
    """Return tensors on the CPU as arrays that share their memory."""
    import torch

    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in tensors.items():
        is_bf16 = tensor.dtype == torch.bfloat16
        array = (tensor.view(torch.int16) if is_bf16 else tensor).detach().numpy()
        arrays[name] = array.view(np.uint16).view(BF16) if is_bf16 else array
    return arrays


def to_tensors(arrays: Weights) -> dict[str, Tensor]:
    """Return arrays as tensors that share their memory."""
    import torch

    tensors = {}
    for name, array in arrays.items():
        is_bf16 = array.dtype == BF16
        tensor = torch.from_numpy(array.view(np.int16) if is_bf16 else array)
        tensors[name] = tensor.view(torch.bfloat16) if is_bf16 else tensor
    return tensors


def load_probe(path: Path) -> str:
    """Return the probe in the header of a safetensors file; "": it has none. RunError: as `load_arrays`."""
    with open_tensors(path) as file:
        return (file.metadata() or {}).get(PROBE, "")
