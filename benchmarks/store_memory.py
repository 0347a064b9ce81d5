"""How much memory and time a large corpus needs: a vocabulary, the token store, and the plan of an epoch.

    python benchmarks/store_memory.py [n_pairs]

Makes a synthetic corpus in a temporary folder (Zipf's law over random words, about 20 a sentence) and runs
each step in a process of its own, whose peak resident memory the operating system reports.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

STEPS = ("import", "vocabulary", "store", "reopen", "epoch")
N_WORDS = 100_000


def make_corpus(folder: Path, n_pairs: int) -> None:
    """Writes train.en and train.de into `folder`."""
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


def run_step(step: str, folder: Path) -> str:
    """Runs a step in this process; says in words what came of it."""
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
    store = TokenStore.prepare(corpus, pair, max_length=128, cache=folder / "cache")
    if step == "epoch":
        from dragoman.data.batching import make_batch, plan_epoch

        start = time.perf_counter()
        plan = plan_epoch(store, batch_tokens=4096, seed=1, epoch=1)
        planned = time.perf_counter()
        for indices in plan:
            make_batch(store, indices)
        made = time.perf_counter()
        each = 1000 * (made - planned) / len(plan)
        return (
            f"plan {planned - start:.2f} s, {len(plan)} batches of {each:.2f} ms; "
            "memory includes torch and the mapped files"
        )
    n_tokens = store.n_src_tokens + store.n_tgt_tokens
    size = sum(file.stat().st_size for file in (folder / "cache").rglob("*.*"))
    return f"{len(store)} pairs, {n_tokens / 1e6:.1f} M tokens, {size / 2**20:.0f} MiB on disk"


def main() -> None:
    n_pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        make_corpus(Path(name), n_pairs)
        print(f"{n_pairs} pairs, {(Path(name) / 'train.en').stat().st_size / 2**20:.0f} MiB a side")
        for step in STEPS:
            command = [sys.executable, __file__, "--step", step, name]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            result = json.loads(output)
            print(f"{step:11}{result['mib']:6.0f} MiB{result['seconds']:8.1f} s   {result['words']}")


def child(step: str, folder: str) -> None:
    """Runs a step and prints what it took as JSON."""
    start = time.perf_counter()
    words = run_step(step, Path(folder))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mib = peak / (2**20 if sys.platform == "darwin" else 2**10)
    print(json.dumps({"mib": mib, "seconds": seconds, "words": words}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        child(*sys.argv[2:4])
    else:
        main()
