"""What a sentence costs by the batch that it is in: how large, and how mixed.

    python benchmarks/batches.py RUN [--seconds 60]

The same 192 sentences of the run's first test set, with the run's own beam, on one thread: in batches of one
length, as a file is translated, and as they come, as a service has them. All kinds in turn, for --seconds; of
each batch the shortest time counts, which other work on the machine has disturbed least.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch

from decode_speed import test_set
from dragoman.hardware import environment
from dragoman.predict.engine import SearchInput
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import EOS_ID

N_SENTENCES = 192


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources, _, _ = test_set(options.run, 1000)
    translator = Translator.load(options.run)
    chosen = random.Random(1).sample(sources, N_SENTENCES)
    ids = translator.tokenizers.src.encode_batch(chosen)
    as_they_come = [SearchInput([*each, EOS_ID]) for each in ids]
    by_length = sorted(as_they_come, key=lambda sentence: len(sentence.source))
    kinds = {f"of one length, {n}": chunks(by_length, n) for n in (96, 48, 32, 16)}
    kinds |= {f"as they come, {n}": mixed(as_they_come, n) for n in (64, 32, 16)}
    seconds = measured(translator, kinds, options.seconds)
    print(f"{environment()['cpu']}, PyTorch {torch.__version__}, one thread\n")
    print("| batches | ms a sentence |\n|---|--:|")
    for kind, best in seconds.items():
        print(f"| {kind} | {1000 * sum(best) / N_SENTENCES:.1f} |")


def chunks(sentences: list[SearchInput], size: int) -> list[list[SearchInput]]:
    """Batches of `size`, in order."""
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def mixed(sentences: list[SearchInput], size: int) -> list[list[SearchInput]]:
    """Batches of `size`, in order; within a batch the shortest comes first."""
    return [sorted(batch, key=lambda each: len(each.source)) for batch in chunks(sentences, size)]


def measured(
    translator: Translator, kinds: dict[str, list[list[SearchInput]]], seconds: float
) -> dict[str, list[float]]:
    """Return the shortest time of every batch of each kind."""
    settings = translator.config.search
    best = {kind: [float("inf")] * len(batches) for kind, batches in kinds.items()}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for kind, batches in kinds.items():
            for i, batch in enumerate(batches):
                begun = time.thread_time()
                translator.engine.search(batch, settings)
                best[kind][i] = min(best[kind][i], time.thread_time() - begun)
    return best


if __name__ == "__main__":
    main()
