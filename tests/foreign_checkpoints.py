"""Parity of a model of another toolkit and the imported run, and reimplementations of their Transformers.

The reference Transformers know nothing of Dragoman's modules: they compute from tensors by the names of the
other toolkit's files, as its architecture was published.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.data.batching import source_mask
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, ImportOptions
from dragoman.interop.importing import import_model, our_rows
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import EOS_ID

WORDS = ("the", "red", "blue", "cat", "dog", "house", "tree", "saw", "big", "old")
TARGET_WORDS = ("die", "rote", "blaue", "Katze", "Hund", "Haus", "Baum", "sah")
HERE = ImportOptions(src_lang="en", tgt_lang="de")
D, F_WIDTH = 8, 12
"""Width of the models, and of their feed-forward blocks."""


def random_tensors(shapes: Mapping[str, tuple[int, ...]], *, seed: int = 1) -> dict[str, Tensor]:
    """Tensors of these shapes as a training leaves them: no norm is the identity, and no bias is zero."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes.items():
        tensor = 0.3 * torch.randn(shape, generator=generator)
        is_gain = "norm" in name and name.endswith("weight")
        tensors[name] = 1 + tensor if is_gain else tensor
    return tensors


class Attack:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


class Pair:
    """Three sources and targets of random words: unequally long, in the foreign ids and in ours."""

    def __init__(self, foreign: Foreign, *, source_end: bool = True, seed: int = 2) -> None:
        self.foreign = foreign
        generator = torch.Generator().manual_seed(seed)
        lengths = (5, 3, 4)

        def draw(vocabulary: ForeignVocabulary, length: int) -> list[int]:
            special = {vocabulary.start, vocabulary.eos, vocabulary.unk, vocabulary.pad}
            usual = [i for i in range(len(vocabulary.pieces)) if i not in special]
            return [usual[i] for i in torch.randint(len(usual), (length,), generator=generator).tolist()]

        self.sources = [draw(foreign.src, n) for n in lengths]
        self.targets = [draw(foreign.tgt, 4) for _ in lengths]
        self.source_end = source_end

    def theirs(self, logits: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        """Logits (T, V) of each pair by the other side's `logits(src (S,), tgt_in (T,))`."""
        ends = [self.foreign.src.eos] if self.source_end else []
        start = self.foreign.tgt.start
        return [
            logits(torch.tensor([*src, *ends]), torch.tensor([start, *tgt]))
            for src, tgt in zip(self.sources, self.targets, strict=True)
        ]

    def ours(self, run: Path) -> list[Tensor]:
        """Logits (T, V) of each pair by the run, in one padded batch, columns in the foreign order."""
        model = Translator.load(run, device="cpu", precision="fp32").model
        src_rows, tgt_rows = our_rows(self.foreign.src), our_rows(self.foreign.tgt)
        sources = [[*(src_rows.index(i) for i in src), EOS_ID] for src in self.sources]
        width = max(map(len, sources))
        src = torch.tensor([ids + [0] * (width - len(ids)) for ids in sources])
        tgt_in = torch.tensor([[1, *(tgt_rows.index(i) for i in tgt)] for tgt in self.targets])
        with torch.no_grad():
            found = model(src, source_mask(src, with_end=model.config.source_end), tgt_in)
        columns = torch.tensor([tgt_rows.index(i) for i in range(len(self.foreign.tgt.pieces))])
        return list(found[:, :, columns])

    def check(self, run: Path, logits: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Both give the same logits, and other ones for other sources."""
        theirs, ours = self.theirs(logits), self.ours(run)
        for there, here in zip(theirs, ours, strict=True):
            torch.testing.assert_close(here, there, atol=1e-4, rtol=1e-4)
        assert (theirs[0] - theirs[1]).abs().max() > 0.05
        assert theirs[0].std() > 0.05


def check_import(
    folder: Path,
    read: Callable[[ForeignFolder, ImportOptions], Foreign],
    logits: Callable[[Tensor, Tensor], Tensor],
    *,
    source_end: bool = True,
    **expected: object,
) -> Foreign:
    """Import the model in `folder`: it computes `logits`, as its toolkit does, with `expected` settings."""
    run = import_model(folder, folder.parent / "run", options=HERE)
    foreign = read(ForeignFolder(folder), HERE)
    Pair(foreign, source_end=source_end).check(run.path, logits)
    assert {name: getattr(foreign.model, name) for name in expected} == expected
    return foreign


def norm(x: Tensor, tensors: Mapping[str, Tensor], name: str, eps: float) -> Tensor:
    """(x - mean) / sqrt(variance + eps), with gain and shift."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True)
    return centred / (variance + eps).sqrt() * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def linear(x: Tensor, tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """x W^T + b, where there is a b."""
    y = x @ tensors[f"{name}.weight"].T
    return y + tensors[f"{name}.bias"] if f"{name}.bias" in tensors else y


def heads(q: Tensor, k: Tensor, v: Tensor, n_heads: int, *, causal: bool) -> Tensor:
    """q (T, D), k and v (S, D), projected: every head by itself, side by side -> (T, D)."""
    contexts = []
    for one_q, one_k, one_v in zip(*(t.chunk(n_heads, dim=-1) for t in (q, k, v)), strict=True):
        scores = one_q @ one_k.T / math.sqrt(one_q.shape[-1])
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        contexts.append(scores.softmax(-1) @ one_v)
    return torch.cat(contexts, dim=-1)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class Reference:
    """A Transformer without dropout, of tensors by the names that a toolkit gives them."""

    tokens: Mapping[str, str]
    """The embedding of each side."""
    layers: Mapping[str, str]
    norms: Mapping[str, Sequence[str]]
    """Those of a layer, in the order of its blocks."""
    last: str = "{}.layer_norm"
    """The norm behind the last layer of a side, where norms come first."""
    output: str
    attention: Mapping[str, Sequence[str]]
    """To the side itself, and of a decoder to the source."""
    qkv: Sequence[str] = ()
    mix: str
    """What an attention's heads go through together."""
    wide: str
    narrow: str
    n_heads = 2

    @classmethod
    def projections(cls, block: str) -> Mapping[str, int]:
        """The rows of each matrix of an attention."""
        return dict.fromkeys((*cls.qkv, cls.mix), D)

    @classmethod
    def shapes(
        cls,
        sizes: Sequence[int],
        n_layers: Sequence[int],
        *,
        last: bool = True,
        attention_bias: bool = True,
        mlp_bias: bool = True,
        output_bias: bool = True,
    ) -> dict[str, tuple[int, ...]]:
        """The names and shapes of all weights but positions; `sizes` are of both vocabularies."""

        def matrix(name: str, n_out: int, n_in: int, *, bias: bool) -> dict[str, tuple[int, ...]]:
            return {f"{name}.weight": (n_out, n_in)} | ({f"{name}.bias": (n_out,)} if bias else {})

        found = matrix(cls.output, sizes[1], D, bias=output_bias)
        for (side, tokens), size, n in zip(cls.tokens.items(), sizes, n_layers, strict=True):
            found[f"{tokens}.weight"] = (size, D)
            norms = [cls.last.format(side)] * last
            for at in (f"{cls.layers[side]}.{i}" for i in range(n)):
                norms += [f"{at}.{name}" for name in cls.norms[side]]
                for block in cls.attention[side]:
                    for part, n_out in cls.projections(block).items():
                        found |= matrix(f"{at}.{block}.{part}", n_out, D, bias=attention_bias)
                found |= matrix(f"{at}.{cls.wide}", F_WIDTH, D, bias=mlp_bias)
                found |= matrix(f"{at}.{cls.narrow}", D, F_WIDTH, bias=mlp_bias)
            found |= {f"{name}.{kind}": (D,) for name in norms for kind in ("weight", "bias")}
        return found

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        positions: Callable[[str, int], Tensor],
        pre: bool = True,
        eps: float = 1e-5,
        activation: str = "relu",
        scale: float = math.sqrt(8),
    ) -> None:
        """`positions` gives the encodings (length, D) of a side; `scale` is that of its embeddings."""
        self.tensors, self.positions, self.pre, self.eps, self.scale = tensors, positions, pre, eps, scale
        self.activation = ACTIVATIONS[activation]

    def logits(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (S,), tgt_in (T,) -> (T, V)."""
        hidden = self.run("decoder", tgt_in, self.run("encoder", src, None))
        return linear(hidden, self.tensors, self.output)

    def run(self, side: str, ids: Tensor, memory: Tensor | None) -> Tensor:
        x = self.scale * self.tensors[f"{self.tokens[side]}.weight"][ids] + self.positions(side, len(ids))
        i = 0
        while any(name.startswith(f"{self.layers[side]}.{i}.") for name in self.tensors):
            x = self.layer(side, f"{self.layers[side]}.{i}", x, memory)
            i += 1
        assert i > 0
        return self.norm(x, self.last.format(side)) if self.pre else x

    def layer(self, side: str, at: str, x: Tensor, memory: Tensor | None) -> Tensor:
        own, *other = (f"{at}.{name}" for name in self.attention[side])
        blocks = [lambda y: self.attend(own, y, y, causal=memory is not None)]
        if memory is not None:
            blocks.append(lambda y: self.attend(other[0], y, memory, causal=False))
        blocks.append(lambda y: self.feed_forward(at, y))
        for name, block in zip(self.norms[side], blocks, strict=True):
            if self.pre:
                x = x + block(self.norm(x, f"{at}.{name}"))
            else:
                x = self.norm(x + block(x), f"{at}.{name}")
        return x

    def feed_forward(self, at: str, x: Tensor) -> Tensor:
        inner = self.activation(linear(x, self.tensors, f"{at}.{self.wide}"))
        return linear(inner, self.tensors, f"{at}.{self.narrow}")

    def norm(self, x: Tensor, name: str) -> Tensor:
        return norm(x, self.tensors, name, self.eps)

    def attend(self, at: str, x: Tensor, memory: Tensor, *, causal: bool) -> Tensor:
        context = heads(*self.project(at, x, memory), self.n_heads, causal=causal)
        return linear(context, self.tensors, f"{at}.{self.mix}")

    def project(self, at: str, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of x (T, D), keys and values of memory (S, D)."""
        read = zip((x, memory, memory), self.qkv, strict=True)
        q, k, v = (linear(tensor, self.tensors, f"{at}.{name}") for tensor, name in read)
        return q, k, v
