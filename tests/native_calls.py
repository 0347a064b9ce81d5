"""Calls of compiled searches, written down here and carried out by native_calls.c on another processor."""

import ctypes
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dragoman.model.compiled import ACTIVATIONS, ZERO, _Embedding, _Linear, _Model
from dragoman.native import Pointer

ALIGNED, INT8 = 64, 0
HANDLE = -1
"""What a search is called by while calls are written down."""


class Calls:
    """Memory in one piece, and the calls that read and write it; `library` takes the place of a real one."""

    def __init__(self, shift: int) -> None:
        """`shift` is `dragoman_shift` of the variant that the calls are for."""
        self.memory = bytearray()
        self.library = SimpleNamespace(
            dragoman_kinds=lambda: 0b101,
            dragoman_shift=lambda: shift,
            # As many as any variant needs.
            dragoman_packed_bytes=lambda kind, n_in, n_out: 4 * n_in * -(-n_out // 64) * 64,
            dragoman_pack=self._pack,
            dragoman_begin=self._begin,
            dragoman_step=self._step,
            dragoman_end=lambda steps: self._call("dragoman_end", steps),
        )
        self._pointers: list[tuple[int, int]] = []
        self._calls: list[bytes] = []
        self._places: dict[int, int] = {}
        """Of arrays, by their addresses."""
        self._alive: list[Any] = []
        self._outputs: list[tuple[int, int, int]] = []
        """Place, rows and columns of the log-probabilities of each step."""

    def keep(self, array: Any) -> int:
        """Keep an array that structures point to; return its address."""
        address = int(array.ctypes.data)
        if address not in self._places:
            self._places[address] = self._place(array.tobytes())
        self._alive.append(array)
        return address

    def run(self, program: Sequence[str | Path], variant: str, folder: Path) -> list[np.ndarray[Any, Any]]:
        """Return the log-probabilities of each step, (rows, columns) in fp32, as a variant computes them.

        `program` begins the command: native_calls and the library, in an emulator if need be.
        """
        calls, result = folder / "calls", folder / "result"
        content = struct.pack("<3q", len(self.memory), len(self._pointers), len(self._calls)) + self.memory
        content += b"".join(struct.pack("<2q", *pointer) for pointer in self._pointers)
        calls.write_bytes(content + b"".join(self._calls))
        done = subprocess.run([*program, variant, calls, result], check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
        memory = result.read_bytes()
        return [
            np.frombuffer(memory, np.float32, rows * columns, place).reshape(rows, columns)
            for place, rows, columns in self._outputs
        ]

    def _place(self, content: bytes) -> int:
        self.memory += bytes(-len(self.memory) % ALIGNED)
        place = len(self.memory)
        self.memory += content
        return place

    def _call(
        self, name: str, *values: int | None, places: Sequence[int] = (), handles: bool = False
    ) -> None:
        """Write down a call; the values with the numbers `places` are places."""
        arguments = [0 if value is None else value for value in values]
        arguments += [0] * (12 - len(arguments))
        bits = sum(1 << i for i in places if values[i] is not None)
        handle = sum(1 << i for i, value in enumerate(values) if value == HANDLE)
        word = self._place(f"{name}\0".encode())
        self._calls.append(struct.pack("<16q", word, bits, handle, handles, *arguments))

    def _pack(self, kind: int, rows: int, ids: None, n_in: int, n_out: int, packed: int) -> None:
        place = self._place(ctypes.string_at(rows, n_in * n_out * (1 if kind == 0 else 4)))
        self._places[packed] = self._place(bytes(self.library.dragoman_packed_bytes(kind, n_in, n_out)))
        self._call("dragoman_pack", kind, place, ids, n_in, n_out, self._places[packed], places=(1, 5))

    def _begin(
        self, model: Any, forbidden: int, n_forbidden: int, ids: int, lengths: int, n: int, *rest: Any
    ) -> int:
        columns, may_hold, self._n_columns = rest[:3]
        assert columns is None
        assert may_hold is None
        n_tokens = sum((ctypes.c_int32 * n).from_address(lengths))
        arrays = ((forbidden, 4 * n_forbidden), (ids, 8 * n_tokens), (lengths, 4 * n))
        never, tokens, ends = (self._place(ctypes.string_at(*array)) for array in arrays)
        places = (self._structure(model._obj), never, n_forbidden, tokens, ends, n)
        self._call("dragoman_begin", *places, *rest, places=(0, 1, 3, 4), handles=True)
        return HANDLE

    def _step(self, steps: int, last: int, parents: int, n_rows: int, _: int, *rest: Any) -> int:
        tokens, rows = (self._place(ctypes.string_at(each, 8 * n_rows)) for each in (last, parents))
        log_probs = self._place(bytes(4 * n_rows * self._n_columns))
        self._outputs.append((log_probs, n_rows, self._n_columns))
        self._call("dragoman_step", steps, tokens, rows, n_rows, log_probs, *rest, places=(1, 2, 4))
        return 1

    def _structure(self, structure: ctypes.Structure) -> int:
        place = self._place(bytes(structure))
        self._point(structure, place)
        return place

    def _point(self, structure: ctypes.Structure, place: int) -> None:
        """Note the pointers of a structure that stands at `place`."""
        for name, kind, *_ in structure._fields_:
            value, there = getattr(structure, name), place + getattr(type(structure), name).offset
            if isinstance(value, ctypes.Structure):
                self._point(value, there)
            elif kind is Pointer and value is not None:
                self._pointers.append((there, self._places[value]))
            elif isinstance(value, ctypes._Pointer) and value:  # an array of layers
                layers = [value[i] for i in range(getattr(structure, f"n_{name}_layers"))]
                first = self._place(b"".join(map(bytes, layers)))
                self._pointers.append((there, first))
                for i, layer in enumerate(layers):
                    self._point(layer, first + i * ctypes.sizeof(layer))


def one_product(
    library: SimpleNamespace,
    keep: Callable[[Any], int],
    levels: np.ndarray[Any, Any],
    weight: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Return the log-probabilities (N, V) of a model in int8 that is one product.

    Of levels (N, D) and weight (V, D): before they are normed they are whole numbers. `keep` gives an array's
    address.
    """
    (n_out, n_in), n_rows = weight.shape, len(levels)
    packed = np.zeros(library.dragoman_packed_bytes(INT8, n_in, n_out) + ALIGNED, np.uint8)
    packed = packed[-packed.ctypes.data % ALIGNED :]
    library.dragoman_pack(INT8, weight.ctypes.data, None, n_in, n_out, packed.ctypes.data)
    sums = (library.dragoman_shift() - ZERO) * weight.sum(1, dtype=np.int32)
    bias = np.zeros(n_out, np.float32)
    scales, bias, sums = (np.pad(each, (0, -n_out % ALIGNED)) for each in (bias + 1, bias, sums))
    output = _Linear(
        n_in=n_in, n_out=n_out, packed=keep(packed), scales=keep(scales), bias=keep(bias), sums=keep(sums)
    )
    tokens, positions = levels.astype(np.float32), np.zeros((1, n_in), np.float32)
    embedding = _Embedding(tokens=keep(tokens), positions=keep(positions), scale=1.0, gain=1.0)
    model = _Model(
        kind=INT8, d_model=n_in, n_heads=1, d_ff=n_in, norms_after=1, activation=ACTIVATIONS["relu"],
        src=embedding, tgt=embedding, output=output,
    )  # fmt: skip
    ids, lengths = np.arange(n_rows), np.ones(n_rows, np.int32)
    log_probs = np.zeros((n_rows, n_out), np.float32)
    steps = library.dragoman_begin(
        ctypes.byref(model),
        ids.ctypes.data,
        0,
        ids.ctypes.data,
        lengths.ctypes.data,
        n_rows,
        None,
        None,
        n_out,
        None,
    )
    library.dragoman_step(steps, ids.ctypes.data, ids.ctypes.data, n_rows, log_probs.ctypes.data, None, None)
    library.dragoman_end(steps)
    return log_probs
