"""How much memory and time a large corpus needs: a vocabulary, the token store, and the plan of an epoch.

    python benchmarks/store_memory.py [n_pairs [shard_pairs]]

Makes a synthetic corpus in a temporary folder (Zipf's law over random words, about 20 a sentence) and runs
each step in a process of its own, whose peak resident memory the operating system reports. With `shard_pairs`
the store is made twice: in one file, and in shards of N pairs. The last line plans the largest shard
there is, of random lengths.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # each step imports what it needs, and pays for it
    from dragoman.data.store import TokenStore

STORE_STEPS = ("store", "reopen", "epoch")
N_WORDS = 100_000


def make_corpus(folder: Path, n_pairs: int) -> None:
    """Write train.en and train.de into `folder`."""
    rng = np.random.default_rng(1)
    letters = np.frombuffer(b"eeeeennnniiirrsstttaaddhhuulcgmobwfkzpv", dtype="S1")
    words = np.array(
        [b"".join(rng.choice(letters, n)).decode() for n in rng.integers(2, 12, size=N_WORDS)], dtype=object
    )
    for name in ("train.en", "train.de"):
        with (folder / name).open("w", encoding="utf-8") as file:
            for start in range(0, n_pairs, 10_000):
                lengths = rng.poisson(20, size=min(10_000, n_pairs - start)) + 1
                ranks = np.minimum(rng.zipf(1.2, size=lengths.sum()), N_WORDS) - 1
                sentences = np.split(words[ranks], np.cumsum(lengths)[:-1])
                file.writelines(f"{' '.join(sentence).capitalize()}.\n" for sentence in sentences)


def peak_mib() -> float:
    """Return the most memory that this process has had in use until now, mapped files included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def run_step(step: str, folder: Path, shard_pairs: int) -> str:
    """Run a step in this process; say in words what came of it."""
    if step == "full shard":
        return plan_full_shard()
    from dragoman.config import TokenizerConfig
    from dragoman.data.corpora import open_corpus
    from dragoman.data.store import TokenStore
    from dragoman.text.tokenizer import TokenizerPair

    files = [str(folder / "train.en"), str(folder / "train.de")]
    corpus = open_corpus(files, src_lang="en", tgt_lang="de")
    if step == "import":
        return "nothing but imports"
    if step == "vocabulary":
        pair = TokenizerPair.train(corpus.pairs(), TokenizerConfig())
        pair.save(folder / "tokenizer")
        return f"{pair.src.vocab_size} tokens"
    pair = TokenizerPair.load(folder / "tokenizer")
    cache = folder / f"cache-{shard_pairs}"
    store = TokenStore.prepare(corpus, pair, max_length=128, cache=cache, shard_pairs=shard_pairs)
    if step == "epoch":
        return pass_over(store)
    n_tokens = store.n_src_tokens + store.n_tgt_tokens
    size = sum(file.stat().st_size for file in cache.rglob("*.*"))
    return f"{len(store)} pairs, {n_tokens / 1e6:.1f} M tokens, {size / 2**20:.0f} MiB on disk"


def pass_over(store: TokenStore) -> str:
    """Plan an epoch of `store` and make all its batches."""
    from dragoman.data.batching import make_batch, plan_epoch

    before, start = peak_mib(), time.perf_counter()
    plan = plan_epoch(store, batch_tokens=4096, seed=1, epoch=1)
    planned = time.perf_counter()
    for indices in plan:
        make_batch(store, indices)
    each = 1000 * (time.perf_counter() - planned) / len(plan)
    return f"{before:.0f} MiB before; plan {planned - start:.1f} s, {len(plan)} batches of {each:.2f} ms"


def plan_full_shard() -> str:
    """Plan a shard of the usual size, of about 27 tokens a sentence, each as long as its translation."""
    from dragoman.data.batching import cut_by_tokens
    from dragoman.data.store import SHARD_PAIRS, Side

    rng = np.random.default_rng(1)
    offsets = np.zeros(SHARD_PAIRS + 1, dtype=np.int64)
    for chunk in np.split(offsets[1:], 64):
        chunk[:] = rng.poisson(26, size=len(chunk)) + 1
    np.cumsum(offsets, out=offsets)
    side = Side(np.empty(0), offsets)
    before, start = peak_mib(), time.perf_counter()
    batches = cut_by_tokens(side.lengths, side.lengths, rng, batch_tokens=25_000)
    seconds = time.perf_counter() - start
    return f"{before:.0f} MiB before; {SHARD_PAIRS} pairs, plan {seconds:.1f} s, {len(batches)} batches"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=int, nargs="?", default=1_000_000)
    parser.add_argument("shard", type=int, nargs="?", help="pairs of a shard, for a second measurement")
    options = parser.parse_args()
    n_pairs = options.pairs
    shard_sizes = [n_pairs, *([options.shard] if options.shard else [])]
    with tempfile.TemporaryDirectory() as name:
        make_corpus(Path(name), n_pairs)
        print(f"{n_pairs} pairs, {(Path(name) / 'train.en').stat().st_size / 2**20:.0f} MiB a side")
        for step in ("import", "vocabulary"):
            report(step, name, n_pairs)
        for shard_pairs in shard_sizes:
            print(f"in {-(-n_pairs // shard_pairs)} shards:")
            for step in STORE_STEPS:
                report(step, name, shard_pairs)
        report("full shard", name, n_pairs)


def report(step: str, folder: str, shard_pairs: int) -> None:
    """Run a step in a process of its own and print what it took."""
    command = [sys.executable, __file__, "--step", step, folder, str(shard_pairs)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = json.loads(output)
    print(f"{step:11}{result['mib']:6.0f} MiB{result['seconds']:8.1f} s   {result['words']}", flush=True)


def child(step: str, folder: str, shard_pairs: str) -> None:
    """Run a step and print what it took as JSON."""
    start = time.perf_counter()
    words = run_step(step, Path(folder), int(shard_pairs))
    seconds = time.perf_counter() - start
    print(json.dumps({"mib": peak_mib(), "seconds": seconds, "words": words}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        child(*sys.argv[2:5])
    else:
        main()
