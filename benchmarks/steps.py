"""What a step of a search takes, in compiled code and by PyTorch's operations, on one thread.

    python benchmarks/steps.py
    python benchmarks/steps.py --d-model 512 --layers 6

A model of this size with random weights and a vocabulary of 8,000 reads sources of 14 tokens and makes
15 steps. Printed are the milliseconds of encoding and of a step, the least of some rounds, and the
multiply-adds a second of the products in the compiled step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.hardware import environment
from dragoman.model.compiled import CompiledSteps
from dragoman.model.kernels import FAST
from dragoman.model.packed import PackedDecoder, PackedSteps, can_quantize
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.native import native

VOCABULARY, SOURCE, STEPS = 8000, 14, 15
SHAPES = ((1, 1), (1, 4), (32, 1), (32, 4), (128, 1))
"""Sentences, and rows of each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    if native().library is None:
        raise SystemExit(f"no compiled code here: {native().reason}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{environment()['cpu']}, one thread, PyTorch {torch.__version__}\n")
    heading = ("", "sentences", "rows", "encode", "compiled", "a step", "compiled", "G multiply-adds/s")
    print(f"{heading[0]:6}" + "".join(f"{name:>{max(10, len(name) + 1)}}" for name in heading[1:]))
    for name, dtype, int8 in (
        ("int8", torch.float32, True), ("bf16", torch.bfloat16, False), ("fp32", torch.float32, False),
    ):  # fmt: skip
        decoder = decoder_of(options.d_model, options.layers, dtype, int8=int8)
        if decoder is None or decoder.compiled is None:
            print(f"{name:6}not on this processor")
            continue
        compiled = decoder.compiled
        for n_sentences, beam in SHAPES:
            packed_times = times(partial(PackedSteps, decoder), n_sentences, beam, options.rounds)
            found = times(partial(CompiledSteps, compiled), n_sentences, beam, options.rounds)
            rate = n_sentences * beam * products_of(options.d_model, options.layers) / found[1] / 1e9
            cells = (packed_times[0] * 1e3, found[0] * 1e3, packed_times[1] * 1e3, found[1] * 1e3)
            line = "".join(f"{cell:10.2f}" for cell in cells)
            print(f"{name:6}{n_sentences:10}{n_sentences * beam:10}{line}{rate:18.0f}")


def decoder_of(d_model: int, n_layers: int, dtype: torch.dtype, *, int8: bool) -> PackedDecoder | None:
    """Return a decoder with random weights; None: this processor has no products in int8."""
    config = ModelConfig(
        d_model=d_model,
        n_heads=d_model // 64,
        d_ff=4 * d_model,
        n_encoder_layers=n_layers,
        n_decoder_layers=n_layers,
    )
    sizes = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    model = Seq2SeqTransformer(config, **sizes, kernels=FAST).eval()
    model.dtype = dtype
    if int8 and not can_quantize(model):
        return None
    return PackedDecoder(model, int8=int8)


def products_of(d_model: int, n_layers: int) -> int:
    """Multiply-adds of the products that a row takes in a step: projections, feed-forward, vocabulary."""
    return n_layers * (4 + 2 + 8) * d_model**2 + d_model * VOCABULARY


@torch.inference_mode()
def times(
    begin: Callable[[Tensor, Tensor], PackedSteps | CompiledSteps], n_sentences: int, beam: int, rounds: int
) -> tuple[float, float]:
    """Seconds of encoding, and of a step; the least of `rounds`."""
    src = torch.randint(4, VOCABULARY, (n_sentences, SOURCE))
    encoding, stepping = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        steps = begin(src, torch.ones_like(src, dtype=torch.bool))
        encoded = time.perf_counter()
        rows = torch.arange(n_sentences)
        steps(torch.full((n_sentences,), 2), rows)
        parents = rows.repeat_interleave(beam)
        for _ in range(STEPS - 1):
            steps(torch.randint(4, VOCABULARY, (n_sentences * beam,)), parents)
            parents = torch.arange(n_sentences * beam)
        encoding.append(encoded - start)
        stepping.append((time.perf_counter() - encoded) / STEPS)
    return min(encoding), min(stepping)


if __name__ == "__main__":
    main()
