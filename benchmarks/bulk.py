"""What it takes to translate very much text: memory, speed, and what a billion sentences would cost.

    python benchmarks/bulk.py memory [n_lines ...] [--workers N]
    python benchmarks/bulk.py speed RUN FILE [--lines N] [--workers N ...] [--beam-size N ...]
    python benchmarks/bulk.py cost --speed S [--sentences N] [--cores N] [--price P]

`memory` translates files of N lines with a model of next to no weights that may write two tokens, each
in a process of its own, and prints the most memory that process, and a worker of it, had in use. `speed`
translates the first lines of a file with a real run, loading left out of the time. `cost` is arithmetic: it
runs nothing, and takes the sentences a second of one core from `speed`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.bulk.job import Job

WORDS = ("red", "blue", "big", "small", "cat", "dog", "bird", "house", "tree", "river")


def make_run(folder: Path) -> None:
    """Make a run with a tiny, untrained model."""
    from dragoman.config import parse_config
    from dragoman.tasks.training import train

    pairs = [f"{a} {b}\t{b} {a}\n" for a in WORDS for b in WORDS]
    (folder / "train.tsv").write_text("".join(pairs), encoding="utf-8")
    settings = {
        "name": "tiny",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": [str(folder / "train.tsv")]},
        "tokenizer": {"vocab_size": 300},
        "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1},
        "training": {"max_steps": 1, "batch_tokens": 200, "valid_every": 1},
        "search": {"beam_size": 1, "max_length_factor": 0.01, "max_length_extra": 1},
    }
    train(parse_config(settings), folder / "run")


def measure_memory(run: Path, n_lines: int, n_workers: int) -> None:
    """Translate N lines in this process or its workers; print what that took as JSON."""
    from dragoman.bulk.input import Input
    from dragoman.bulk.job import Job, ModelSpec

    source = Input.of(str(run.with_name("in.txt.gz")))
    measure(Job(ModelSpec(run), source, run.with_name(f"{n_lines}.gz")), n_workers=n_workers)


def measure(job: Job, *, n_workers: int, chunk_lines: int = 4096) -> None:
    """Run a job in this process or its workers; print what that took as JSON."""
    from dragoman.bulk.running import translate_file

    start = time.perf_counter()
    summary = translate_file(job, n_workers=n_workers, chunk_lines=chunk_lines)
    seconds = time.perf_counter() - start
    kib = 1024 if sys.platform == "darwin" else 1
    peaks = [
        resource.getrusage(who).ru_maxrss // kib for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    took = {"seconds": seconds, "own": peaks[0] / 1024, "worker": peaks[1] / 1024}
    print(json.dumps({**took, "lines": summary.n_lines, "new": summary.n_new}))


def memory(sizes: list[int], n_workers: int) -> None:
    """Print a line for each number of lines.

    This process stays small: on Linux a new process counts what the one that made it had in use.
    """
    with tempfile.TemporaryDirectory() as name:
        step("make", name)
        for n_lines in sizes:
            with gzip.open(Path(name) / "in.txt.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{sentence(i)}\n" for i in range(n_lines))
            found = json.loads(step("measure", name, str(n_lines), str(n_workers)))
            worker = f", {found['worker']:.0f} MiB a worker" if n_workers > 1 else ""
            print(
                f"{n_lines:>9,} lines{found['seconds']:8.1f} s   {found['own']:.0f} MiB{worker}", flush=True
            )


def sentence(i: int) -> str:
    """Return a sentence of 3 to 22 words, another one for another i."""
    return " ".join(WORDS[(i + k * k) % 10] for k in range(3 + i % 20))


def step(*arguments: str) -> str:
    """Run a step in a process of its own; what it prints."""
    command = [sys.executable, __file__, "step", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def speed(run: Path, file: str, n_lines: int, workers: list[int], beams: list[int]) -> None:
    """Print the sentences a second for each number of workers and each beam, loading left out."""
    from itertools import islice

    from dragoman.bulk.input import Input
    from dragoman.bulk.job import Job, ModelSpec
    from dragoman.bulk.running import Status, translate_file
    from dragoman.data.readers.files import find_file, open_lines
    from dragoman.predict.flow import TranslationRequest

    lines = [line for line in islice(open_lines(find_file(file)), n_lines) if line.strip()]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "in.txt"
        source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for beam_size in beams:
            for n_workers in workers:
                first: list[tuple[float, int]] = []

                def watch(status: Status, first: list[tuple[float, int]] = first) -> None:
                    first[1:] = [(time.perf_counter(), status.n_new)]
                    first[:] = first or [(time.perf_counter(), status.n_new)]

                out = Path(name) / f"{beam_size}-{n_workers}.txt"
                request = TranslationRequest(settings={"beam_size": beam_size})
                job = Job(ModelSpec(run), Input.of(str(source)), out, request=request)
                chunk_lines = max(100, len(lines) // (4 * n_workers))
                translate_file(job, n_workers=n_workers, chunk_lines=chunk_lines, watch=watch)
                (begin, n_before), (end, n_after) = first[0], first[-1]
                rate = (n_after - n_before) / (end - begin)
                print(f"beam {beam_size}, {n_workers} workers: {rate:.1f} sentences/s", flush=True)


def cost(per_core: float, n_sentences: float, n_cores: int, price: float) -> str:
    """Time and cost of translating, at `per_core` sentences a second and core."""
    core_hours = n_sentences / per_core / 3600
    return (
        f"{n_sentences:,.0f} sentences at {per_core:g} a second and core: {core_hours:,.0f} core-hours; "
        f"on {n_cores} cores {core_hours / n_cores / 24:.1f} days; "
        f"{core_hours * price:,.0f} at {price:g} a core-hour"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(dest="what", required=True)
    of_memory = what.add_parser("memory")
    of_memory.add_argument("sizes", type=int, nargs="*", default=[10_000, 100_000])
    of_memory.add_argument("--workers", type=int, default=1)
    of_speed = what.add_parser("speed")
    of_speed.add_argument("run", type=Path)
    of_speed.add_argument("file")
    of_speed.add_argument("--lines", type=int, default=2000)
    of_speed.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    of_speed.add_argument("--beam-size", type=int, nargs="+", default=[1, 5])
    of_cost = what.add_parser("cost")
    of_cost.add_argument("--speed", type=float, required=True, help="sentences a second of one core")
    of_cost.add_argument("--sentences", type=float, default=1e9)
    of_cost.add_argument("--cores", type=int, default=64)
    of_cost.add_argument("--price", type=float, default=0.04, help="of a core-hour; assumed")
    given = parser.parse_args()
    if given.what == "memory":
        memory(given.sizes, given.workers)
    elif given.what == "speed":
        speed(given.run, given.file, given.lines, given.workers, given.beam_size)
    else:
        print(cost(given.speed, given.sentences, given.cores, given.price))


if __name__ == "__main__":
    if sys.argv[1:3] == ["step", "make"]:
        make_run(Path(sys.argv[3]))
    elif sys.argv[1:3] == ["step", "measure"]:
        measure_memory(Path(sys.argv[3]) / "run", int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
