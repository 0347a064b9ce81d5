"""Graphs of interop/onnx.py with weights in int8: a quarter of the size, and products of whole numbers.

A matrix becomes bytes with one scale for each of its outputs. What is multiplied with it is cut into 256
steps between its extremes, at each call (`DynamicQuantizeLinear`), and the products are summed as integers
(`MatMulInteger`): the same sums on every processor and in a browser. All operators are ONNX's own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.files import write_atomically
from dragoman.interop.onnx import import_package

WEIGHTS = "weights.bin"
"""The matrices of all graphs of a folder. One that several graphs have is in it once."""

SMALLEST = 256
"""Numbers below which a table stays as it is."""

ZERO = 128
"""The byte for 0. Signed bytes would overflow in the sums of processors without VNNI."""


def quantize(folder: Path, names: Sequence[str]) -> None:
    """Replace the graphs `names` in `folder` by ones with weights in int8, which they keep in WEIGHTS.

    RunError: the folder cannot be written. MissingExtraError: onnx or onnxruntime is not installed.
    """
    graphs = {name: _Rewriting(_folded(folder / name)) for name in names}
    outputs = {weight for graph in graphs.values() for weight in graph.multiplied}
    weights = _Weights()
    for name, graph in graphs.items():
        write_atomically(folder / name, graph.rewritten(weights, outputs).SerializeToString())
    write_atomically(folder / WEIGHTS, b"".join(weights.contents))


def _folded(path: Path) -> Any:
    """Return the graph with all computed that depends on its weights alone."""
    onnxruntime, onnx = import_package("onnxruntime"), import_package("onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as temporary:
        options.optimized_model_filepath = str(Path(temporary) / path.name)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(options.optimized_model_filepath)
    model = onnx.load(path)  # names the oldest version that can read it, and no operators but ONNX's
    model.graph.CopyFrom(folded.graph)
    return model


class _Weights:
    """The content of WEIGHTS, and where each matrix begins in it."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.places: dict[bytes, int] = {}
        self.size = 0

    def add(self, content: bytes) -> int:
        """Return where `content` begins."""
        if content not in self.places:
            self.places[content] = self.size
            padded = content + bytes(-len(content) % 64)
            self.contents.append(padded)
            self.size += len(padded)
        return self.places[content]


class _Rewriting:
    """One graph, whose operators on matrices of weights are replaced."""

    def __init__(self, model: Any) -> None:
        """Take a model of `_folded`."""
        self.onnx = import_package("onnx")
        self.model, self.graph = model, model.graph
        to_array = self.onnx.numpy_helper.to_array
        self.tables = {
            tensor.name: to_array(tensor)
            for tensor in self.graph.initializer
            if tensor.data_type == self.onnx.TensorProto.FLOAT
            and len(tensor.dims) == 2
            and np.prod(tensor.dims) >= SMALLEST
        }
        self.multiplied = {
            self._rows(node).tobytes() for node in self.graph.node if self._multiplies(node)
        }  # the matrices that are multiplied with, a row for each output
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.quantized: set[str] = set()

    def rewritten(self, weights: _Weights, multiplied: set[bytes]) -> Any:
        """Return the model. A table among `multiplied` is looked up in the form in which it multiplies."""
        for node in self.graph.node:
            if self._multiplies(node):
                self._multiply(node, weights)
            elif node.op_type == "Gather" and node.input[0] in self.tables and not _axis(node):
                self._look_up(node, weights, multiplied)
            elif node.op_type == "Slice" and node.input[0] in self.tables:
                self._cut(node, weights)
            else:
                self.nodes.append(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend([*kept, *self.constants.values()])
        del self.graph.value_info[:]
        return self.model

    def _multiplies(self, node: Any) -> bool:
        return node.op_type in ("MatMul", "Gemm") and node.input[1] in self.tables

    def _rows(self, node: Any) -> np.ndarray[Any, Any]:
        """Return the weights of a product, a row for each output."""
        weight = self.tables[node.input[1]]
        transposed = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
        return np.ascontiguousarray(weight if transposed else weight.T)

    def _add(self, kind: str, inputs: Sequence[str], output: str, **settings: Any) -> str:
        """Add a node that gives `output`."""
        outputs = [output]
        if kind == "DynamicQuantizeLinear":
            outputs += [f"{output}.scale", f"{output}.zero"]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, outputs, name=output, **settings))
        return output

    def _constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Add a small tensor."""
        self.constants[name] = self.onnx.numpy_helper.from_array(value, name)
        return name

    def _bytes(self, name: str, value: np.ndarray[Any, Any], weights: _Weights) -> str:
        """Add a tensor of bytes that is kept in WEIGHTS."""
        content = np.ascontiguousarray(value).tobytes()
        place = weights.add(content)
        kind = self.onnx.TensorProto.UINT8 if value.dtype == np.uint8 else self.onnx.TensorProto.FLOAT
        tensor = self.onnx.TensorProto(name=name, data_type=kind, dims=value.shape)
        tensor.data_location = self.onnx.TensorProto.EXTERNAL
        where = {"location": WEIGHTS, "offset": place, "length": len(content)}
        for key, entry in where.items():
            tensor.external_data.add(key=key, value=str(entry))
        self.constants[name] = tensor
        return name

    def _multiply(self, node: Any, weights: _Weights) -> None:
        """Replace a product x · W (+ bias)."""
        x, out = node.input[0], node.output[0]
        cut = f"{x}.bytes"
        if cut not in self.quantized:
            self._add("DynamicQuantizeLinear", [x], cut)
            self.quantized.add(cut)
        rows, scales = _as_bytes(self._rows(node))
        matrix = self._bytes(f"{out}.matrix", rows.T, weights)
        scale = self._bytes(f"{out}.scales", scales, weights)
        zero = self._constant("zero", np.array(ZERO, dtype=np.uint8))
        self._add("MatMulInteger", [cut, matrix, f"{cut}.zero", zero], f"{out}.sums")
        self._add("Cast", [f"{out}.sums"], f"{out}.floats", to=self.onnx.TensorProto.FLOAT)
        self._add("Mul", [f"{cut}.scale", scale], f"{out}.factors")
        bias = node.input[2] if len(node.input) > 2 else ""
        product = f"{out}.product" if bias else out
        self._add("Mul", [f"{out}.floats", f"{out}.factors"], product)
        if bias:
            self._add("Add", [product, bias], out)

    def _look_up(self, node: Any, weights: _Weights, multiplied: set[bytes]) -> None:
        """Replace the rows that are taken from a table W (V, D)."""
        table, ids = node.input
        out = node.output[0]
        rows, scales = _as_bytes(self.tables[table])
        if self.tables[table].tobytes() in multiplied:
            matrix = self._bytes(f"{out}.matrix", rows.T, weights)  # (D, V)
            self._add("Gather", [matrix, ids], f"{out}.columns", axis=1)  # (D, B, S)
            self._add("Transpose", [f"{out}.columns"], f"{out}.bytes", perm=[1, 2, 0])
        else:
            matrix = self._bytes(f"{out}.matrix", rows, weights)
            self._add("Gather", [matrix, ids], f"{out}.bytes", axis=0)
        scale = self._bytes(f"{out}.scales", scales[:, None], weights)
        self._add("Gather", [scale, ids], f"{out}.scale", axis=0)
        self._scale(out, f"{out}.scale")

    def _cut(self, node: Any, weights: _Weights) -> None:
        """Replace the part that is cut out of a table."""
        table, out = node.input[0], node.output[0]
        flat, scale = _as_bytes(self.tables[table].reshape(1, -1))
        matrix = self._bytes(f"{out}.matrix", flat.reshape(self.tables[table].shape), weights)
        self._add("Slice", [matrix, *node.input[1:]], f"{out}.bytes")
        self._scale(out, self._constant(f"{out}.scale", scale))

    def _scale(self, out: str, scale: str) -> None:
        """Make `out` of the bytes before it."""
        self._add("Cast", [f"{out}.bytes"], f"{out}.steps", to=self.onnx.TensorProto.FLOAT)
        middle = self._constant("middle", np.array(ZERO, dtype=np.float32))
        self._add("Sub", [f"{out}.steps", middle], f"{out}.signed")
        self._add("Mul", [f"{out}.signed", scale], out)


def _as_bytes(rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return (R, C) as bytes, ZERO for 0, and the scale of each row (R)."""
    largest = np.abs(rows).max(axis=1)
    scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return (np.rint(rows / scales[:, None]) + ZERO).astype(np.uint8), scales


def _axis(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "axis"), 0)
