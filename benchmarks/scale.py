"""Large corpora: the doctor, a vocabulary, a token store, a first update, translating, scoring; time, memory.

    DRAGOMAN_DATA=... python benchmarks/scale.py doctor [--pairs 1000000] [--seed 1] [--folder DIR]
    DRAGOMAN_DATA=... python benchmarks/scale.py tokens [--pairs 1000000] [--seed 1] [--folder DIR]
    DRAGOMAN_DATA=... python benchmarks/scale.py training [--pairs 1000000] [--kills 10 60 120] [--run DIR]
    python benchmarks/scale.py translating [--lines 20000 100000] [--workers 1] [--folder DIR]
    python benchmarks/scale.py scoring [--lines 20000 100000] [--workers 1] [--folder DIR]

The corpus is made in DIR, unless it is there: two random pairs of multi30k, tatoeba-en-de and iwslt17 are
joined to one, and faults are planted block by block as in doctor.py, each kind into about 1 % of the pairs,
with repetitions and near repetitions of pairs from earlier blocks. `doctor` runs `data check --write-clean`
with every planted kind dropped, and counts what dropped.jsonl says of pairs with that fault planted (found),
and of pairs with nothing planted (false alarms). Each step is a command of its own; peak resident
memory is that of all its processes together, looked at ten times a second. Prints Markdown.

`tokens` learns a vocabulary, makes a store, and encodes the same lines with the `tokenizers` library alone.
`training` prepares a training and makes two updates. Its process is killed with SIGKILL when it has worked
for each number of seconds of `--kills`; the next line says after how many seconds the one that continues is
further than the one that was killed: the vocabulary is there, or more pairs are in the store. Then it pauses
after an update, is started once more with all at hand, and an epoch is planned. `--run` starts one that
was paused before.

`translating` and `scoring` run a file of each number of lines through the smallest model there can be, as
`translate --out` and `score-model --out` do. The largest one is done a second time, killed with SIGKILL when
half of its lines are done, continued, and compared byte by byte. `scoring` ends with `data filter` by these
scores.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psutil

import bulk
import doctor
from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import DROPPED
from dragoman.data.records import Pair

BLOCK = 50_000
N_HELD_OUT = 2000
N_REMEMBERED = 20_000
N_VALID = 100
LANGS = "en", "de"
SMALL = [
    option
    for setting in ("model.d_model=256", "model.d_ff=1024", "model.n_heads=4", "training.batch_tokens=2048")
    for option in ("--set", setting)
]
"""A model whose updates are short, for what is measured is all that comes before them."""
PLANTED = "planted.jsonl"
PAUSED = 75
"""Exit code of a training whose time is up."""


def make_corpus(folder: Path, n_pairs: int, seed: int) -> None:
    """Write train.en, train.de, test.en, test.de and, at last, the lines with planted faults."""
    sources = [source for source in doctor.SOURCES if source.tgt_lang == "de"]
    base = [pair for source in sources for pair in source.read(source.train)]
    held_out = doctor.SOURCES[0].read("val") + doctor.SOURCES[1].read("val")
    texts = {
        "zh": [pair.tgt for pair in doctor.SOURCES[3].read("val")],
        "pl": [pair.tgt for pair in doctor.SOURCES[2].read("val")],
    }
    foreign = doctor.foreign_texts(doctor.SOURCES[1], texts)
    rng = random.Random(seed)
    held_out = rng.sample(held_out, min(N_HELD_OUT, len(held_out)))
    earlier: list[Pair] = []
    unfinished = folder / f"{PLANTED}.part"
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"train.{lang}").open("w", encoding="utf-8")) for lang in LANGS
        ]
        planted = stack.enter_context(unfinished.open("w", encoding="utf-8"))
        for start in range(0, n_pairs, BLOCK):
            pairs = [_joined(*rng.choices(base, k=2)) for _ in range(min(BLOCK, n_pairs - start))]
            planter = doctor.Planter(pairs, held_out, foreign, rng.randrange(2**32))
            doctor.plant_all(planter)
            _plant_repetitions(planter, earlier)
            for i, file in enumerate(files):
                file.writelines(f"{pair[i]}\n" for pair in planter.pairs)
            changed = {line for lines in planter.planted.values() for line in lines}
            for name, lines in planter.planted.items():
                numbers = [start + line + 1 for line in sorted(lines)]
                planted.write(json.dumps({"fault": name, "lines": numbers}) + "\n")
            left = [pair for i, pair in enumerate(pairs) if i not in changed]
            earlier = rng.sample(left, min(len(left), N_REMEMBERED)) + earlier
            earlier = rng.sample(earlier, min(len(earlier), N_REMEMBERED))
            print(f"{min(start + BLOCK, n_pairs):,} pairs made", file=sys.stderr)
    for i, lang in enumerate(LANGS):
        (folder / f"test.{lang}").write_text("".join(f"{p[i]}\n" for p in held_out), encoding="utf-8")
    unfinished.replace(folder / PLANTED)


def _joined(a: Pair, b: Pair) -> Pair:
    return Pair(f"{a.src} {b.src}", f"{a.tgt} {b.tgt}")


def _plant_repetitions(planter: doctor.Planter, earlier: Sequence[Pair]) -> None:
    """Plant pairs of earlier blocks, as they were and with other case and punctuation."""
    if earlier:
        rng = planter.rng
        planter.plant("duplicate (of an earlier block)", lambda *_: rng.choice(earlier))
        planter.plant("duplicate-near", lambda *_: _nearly(rng.choice(earlier)))


def _nearly(pair: Pair) -> Pair:
    return Pair(f"{pair.src.upper()} !", pair.tgt.replace(",", ";").lower())


class Step(NamedTuple):
    """What a process took, and what it printed."""

    seconds: float
    cpu_seconds: float
    mib: float
    output: str


def measured(command: Sequence[str], folder: Path, *, ends: int = 0) -> Step:
    """Run Python with these arguments in `folder`, until it `ends` with this exit code."""
    started = time.perf_counter()
    unit = 2**20 if sys.platform == "darwin" else 2**10
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=output)
        mib = 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            mib = max(mib, resident_mib(process.pid))
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != ends:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
        output.seek(0)
        cpu_seconds = usage.ru_utime + usage.ru_stime
        mib = max(mib, usage.ru_maxrss / unit)
        return Step(time.perf_counter() - started, cpu_seconds, mib, output.read())


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process and those that it started; 0 where it has ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) / 2**20
    return 0.0


def run_doctor(folder: Path, n_pairs: int) -> None:
    """Check and clean the corpus in `folder`, and print what was found."""
    lines: dict[str, list[int]] = {}
    with (folder / PLANTED).open(encoding="utf-8") as file:
        for record in map(json.loads, file):
            lines.setdefault(record["fault"], []).extend(record["lines"])
    kinds = sorted({name.split(" ")[0] for name in lines})
    files = ["train.en", "train.de", "--test", "test.en,test.de"]
    check = ["-m", "dragoman", "data", "check", *files, "--examples", "0", "--json"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        drop = [option for kind in kinds for option in ("--drop", kind)]
        step = measured([*check, "--write-clean", f"{name}/clean", *drop], folder)
        found = reasons_of(Path(name) / "clean" / DROPPED, kinds)
    print("| pairs | processor seconds | pairs a processor second | wall seconds | peak MiB |")
    print("|--:|--:|--:|--:|--:|")
    speed = f"{step.cpu_seconds:.0f} | {n_pairs / step.cpu_seconds:,.0f}"
    print(f"| {n_pairs:,} | {speed} | {step.seconds:.0f} | {step.mib:,.0f} |\n")
    print_faults(lines, found)


def reasons_of(dropped: Path, kinds: Sequence[str]) -> dict[str, set[int]]:
    """Return the numbers of the lines that were dropped, by kind."""
    found: dict[str, set[int]] = {kind: set() for kind in kinds}
    with dropped.open(encoding="utf-8") as file:
        for record in map(json.loads, file):
            for kind in record["reasons"]:
                found.setdefault(kind, set()).add(record["number"])
    return found


def print_faults(planted: dict[str, list[int]], found: dict[str, set[int]]) -> None:
    """Print for each planted fault how often it was found, and false alarms of its kind."""
    changed = {line for lines in planted.values() for line in lines}
    alarms = {kind: len(lines - changed) for kind, lines in found.items()}
    of_kind = Counter(name.split(" ")[0] for name in planted)
    print("| fault | planted | found | missed | recall | false alarms of the kind |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, lines in planted.items():
        kind = name.split(" ")[0]
        n_found = len(found[kind].intersection(lines))
        share = f"{100 * n_found / len(lines):.1f} %" if lines else "–"
        alarm = f"{alarms[kind]:,}" if of_kind[kind] else "″"
        of_kind[kind] = 0
        print(f"| {name} | {len(lines):,} | {n_found:,} | {len(lines) - n_found:,} | {share} | {alarm} |")


def run_tokens(folder: Path, n_pairs: int) -> None:
    """Learn a vocabulary, make a store, and print what each took."""
    print("| step | processor seconds | wall seconds | peak MiB | |")
    print("|---|--:|--:|--:|---|")
    for name in ("vocabulary", "store", "tokenizers alone"):
        step = measured([__file__, "--step", name, str(folder)], folder)
        print_step(name, step, step.output.strip())
    print(f"\n{n_pairs:,} pairs")


def run_training(folder: Path, n_pairs: int, kills: Sequence[float], run: Path | None) -> None:
    """Prepare a training that is killed on the way, make updates, and print what each took.

    With a `run` that is prepared already, only what comes after that.
    """
    for lang in LANGS:
        with (folder / f"test.{lang}").open(encoding="utf-8") as file:
            (folder / f"valid.{lang}").write_text("".join(islice(file, N_VALID)), encoding="utf-8")
    steps = ["a warm start, and an update"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        if run is None:
            run = Path(name) / "run"
            kill_and_continue(folder, run, n_pairs, kills)
            steps.insert(0, "the rest, and an update")
        print("\n| step | processor seconds | wall seconds | peak MiB | |\n|---|--:|--:|--:|---|")
        for what in steps:
            step = measured([*training(folder, run), "--max-hours", "1e-9"], folder, ends=PAUSED)
            print_step(what, step, "a checkpoint")
        step = measured([__file__, "--step", "planning", str(folder), str(run)], folder)
        print_step("planning an epoch", step, step.output.strip())
    print(f"\n{n_pairs:,} pairs")


def training(folder: Path, run: Path) -> list[str]:
    """Return the command that trains on the corpus in `folder`."""
    sides = dict(zip(("src", "tgt"), LANGS, strict=True))
    files = [f"--{side}={folder}/train.{lang}" for side, lang in sides.items()]
    files += [f"--valid-{side}={folder}/valid.{lang}" for side, lang in sides.items()]
    return ["-m", "dragoman", "train", *files, *SMALL, "--no-check", "--out", str(run)]


def kill_and_continue(folder: Path, run: Path, n_pairs: int, kills: Sequence[float]) -> None:
    """Prepare a training, killed after each number of seconds; print when the next one was further."""
    print("| killed after s of work | prepared by then | s until there is more |\n|--:|---|--:|")
    before: Prepared | None = None
    for seconds in (*kills, 0.0):
        command = [sys.executable, *training(folder, run)]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as process:
            began = time.perf_counter()
            if before is not None:
                while prepared(run) <= before and process.poll() is None:
                    time.sleep(0.2)
                print(f" {time.perf_counter() - began:.1f} |", flush=True)
            if not seconds:
                process.kill()
                return
            while time.perf_counter() < began + seconds and prepared(run).n_pairs < n_pairs:
                time.sleep(0.1)
            process.kill()
        before = prepared(run)
        if before.n_pairs == n_pairs:
            print(f"| {seconds:g} | all | – |", flush=True)
            return
        print(f"| {seconds:g} | {before.describe()} |", end="", flush=True)


class Prepared(NamedTuple):
    """How far a preparation is."""

    has_vocabulary: bool
    n_pairs: int

    def describe(self) -> str:
        return f"{self.n_pairs:,} pairs" if self.has_vocabulary else "no vocabulary yet"


def prepared(run: Path) -> Prepared:
    """Look how far the preparation of a run is."""
    n_pairs = 0
    for path in (run / "cache" / "train").glob("*/*.json"):
        with suppress(OSError, ValueError):  # it is being replaced
            record = json.loads(path.read_text(encoding="utf-8"))
            if path.parent.suffix != ".partial":
                n_pairs += record["n_pairs"] + sum(record["skipped"].values())
    return Prepared((run / "tokenizer").exists(), n_pairs)


def plan(folder: Path, run: Path) -> str:
    """Plan an epoch of the prepared training in `run`; say in words what that took."""
    from dragoman.data.batching import plan_epoch
    from dragoman.data.store import TokenStore
    from dragoman.runs import Run
    from dragoman.text.tokenizer import TokenizerPair
    from store_memory import peak_mib

    config = Run.open(run).config
    assert config.task == "translation"
    store = TokenStore.prepare(
        open_corpus([str(folder / f"train.{lang}") for lang in LANGS], src_lang="en", tgt_lang="de"),
        TokenizerPair.load(run / "tokenizer"),
        max_length=config.data.max_length,
        cache=run / "cache" / "train",
    )
    before, started = peak_mib(), time.perf_counter()
    planned = plan_epoch(store, batch_tokens=config.training.batch_tokens, seed=1, epoch=0)
    n_batches, seconds = len(planned), time.perf_counter() - started
    return f"{n_batches:,} batches in {seconds:.1f} s, {peak_mib() - before:.0f} MiB more than before"


def print_step(name: str, step: Step, words: str) -> None:
    print(f"| {name} | {step.cpu_seconds:.0f} | {step.seconds:.0f} | {step.mib:,.0f} | {words} |", flush=True)


def run_step(step: str, folder: Path) -> str:
    """Run a step in this process; say in words what came of it."""
    from dragoman.config import TokenizerConfig
    from dragoman.data.store import TokenStore
    from dragoman.text.tokenizer import TokenizerPair

    files = [str(folder / f"train.{lang}") for lang in LANGS]
    corpus = open_corpus(files, src_lang=LANGS[0], tgt_lang=LANGS[1])
    if step == "vocabulary":
        pair = TokenizerPair.train(corpus.pairs(), TokenizerConfig())
        pair.save(folder / "tokenizer")
        return f"{pair.src.vocab_size:,} tokens"
    started = time.process_time()
    if step == "store":
        pair = TokenizerPair.load(folder / "tokenizer")
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            store = TokenStore.prepare(corpus, pair, max_length=10_000, cache=Path(cache))
            n_tokens = store.n_src_tokens + store.n_tgt_tokens
    else:
        n_tokens = count_tokens(folder)
    seconds = time.process_time() - started
    return f"{n_tokens / seconds / 1e6:.2f} M tokens a processor second ({n_tokens / 1e6:.1f} M)"


def count_tokens(folder: Path) -> int:
    """Encode both sides with the `tokenizers` library alone, as it reads lists of lines; the tokens."""
    from tokenizers import Tokenizer

    n_tokens = 0
    (path,) = (folder / "tokenizer").glob("*.json")
    tokenizer = Tokenizer.from_file(str(path))
    for lang in LANGS:
        with (folder / f"train.{lang}").open(encoding="utf-8") as file:
            while lines := file.readlines(4_000_000):
                n_tokens += sum(map(len, tokenizer.encode_batch_fast([line.rstrip("\n") for line in lines])))
    return n_tokens


BULK = ("translating", "scoring")
CHUNK_LINES = 4096


def run_bulk(folder: Path, work: str, sizes: Sequence[int], n_workers: int) -> None:
    """Translate or score files of each size, the largest one also with a kill; print what each took."""
    measured([bulk.__file__, "step", "make", str(folder)], folder)
    print("| lines | workers | wall seconds | lines a second | peak MiB | peak MiB of a worker |")
    print("|--:|--:|--:|--:|--:|--:|")
    n_lines = 0
    for n_lines in sorted(sizes):
        for side, lag in zip(LANGS, (0, 7), strict=True):
            with gzip.open(folder / f"in.{side}.gz", "wt", encoding="utf-8", compresslevel=1) as file:
                file.writelines(f"{bulk.sentence(i + lag)}\n" for i in range(n_lines))
        took = json.loads(measured(bulk_step(folder, work, "whole", n_lines, n_workers), folder).output)
        speed = f"{took['seconds']:.0f} | {n_lines / took['seconds']:,.0f}"
        worker = f"{took['worker']:,.0f}" if n_workers > 1 else "–"
        print(f"| {n_lines:,} | {n_workers} | {speed} | {took['own']:,.0f} | {worker} |", flush=True)
    print(f"\n{killed_and_continued(folder, work, n_lines, n_workers)}")
    if work == "scoring":
        files = [f"in.{side}.gz" for side in LANGS]
        command = ["-m", "dragoman", "data", "filter", *files, "--by-score", "whole.gz", "--keep", "0.8"]
        step = measured([*command, "--out", "best"], folder)
        print("\n| step | processor seconds | wall seconds | peak MiB | |")
        print("|---|--:|--:|--:|---|")
        print_step("data filter --keep 0.8", step, f"{n_lines:,} pairs")


def bulk_step(folder: Path, work: str, out: str, n_lines: int, n_workers: int) -> list[str]:
    """Return the arguments of a process that translates or scores, or continues that."""
    chunk_lines = min(CHUNK_LINES, max(1, n_lines // 4))
    return [__file__, "--step", work, str(folder), f"{out}.gz", str(n_workers), str(chunk_lines)]


def killed_and_continued(folder: Path, work: str, n_lines: int, n_workers: int) -> str:
    """Kill a process half-way and continue; say in words what came of it."""
    command = bulk_step(folder, work, "killed", n_lines, n_workers)
    journal, n_done = folder / "killed.gz.journal", 0
    with subprocess.Popen([sys.executable, *command], cwd=folder, stdout=subprocess.PIPE) as process:
        while process.poll() is None and n_done < n_lines // 2:
            time.sleep(0.01)
            with suppress(FileNotFoundError):
                n_done = json.loads(journal.read_bytes())["n_lines"]
        process.kill()
    took = json.loads(measured(command, folder).output)
    is_equal = (folder / "killed.gz").read_bytes() == (folder / "whole.gz").read_bytes()
    n_kept = took["lines"] - took["new"]
    return (
        f"Killed when {n_kept:,} of {took['lines']:,} lines were done; the rest took {took['seconds']:.0f} "
        f"s, and the output {'equals' if is_equal else 'DIFFERS FROM'} that without a kill."
    )


def run_bulk_step(work: str, folder: Path, out: str, n_workers: int, chunk_lines: int) -> None:
    """Translate or score in this process; print what that took as JSON."""
    from dragoman.bulk.input import Input
    from dragoman.bulk.job import Job, ModelSpec
    from dragoman.bulk.scoring import PairsInput, ScoringJob

    source, target = (folder / f"in.{side}.gz" for side in LANGS)
    model = ModelSpec(folder / "run")
    if work == "translating":
        job = Job(model, Input.of(str(source)), folder / out)
    else:
        job = ScoringJob(model, PairsInput.of_files(str(source), str(target), languages=LANGS), folder / out)
    bulk.measure(job, n_workers=n_workers, chunk_lines=chunk_lines)


def main() -> None:
    if sys.argv[1:2] == ["--step"] and sys.argv[2] in BULK:
        run_bulk_step(sys.argv[2], Path(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
        return
    if sys.argv[1:3] == ["--step", "planning"]:
        print(plan(Path(sys.argv[3]), Path(sys.argv[4])))
        return
    if sys.argv[1:2] == ["--step"]:
        print(run_step(sys.argv[2], Path(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("doctor", "tokens", "training", *BULK))
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=float, nargs="*", default=[10.0, 60.0, 120.0], help="seconds")
    parser.add_argument("--run", type=Path, help="training: one that was prepared, to be started again")
    parser.add_argument("--lines", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the corpus is, or is to be made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (options.folder or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if options.what in BULK:
            with tempfile.TemporaryDirectory(dir=folder) as inner:
                run_bulk(Path(inner), options.what, options.lines, options.workers)
            return
        if not (folder / PLANTED).exists():
            make_corpus(folder, options.pairs, options.seed)
        with (folder / "train.en").open("rb") as file:
            n_pairs = sum(1 for _ in file)
        if options.what == "training":
            run_training(folder, n_pairs, options.kills, options.run)
        else:
            (run_doctor if options.what == "doctor" else run_tokens)(folder, n_pairs)


if __name__ == "__main__":
    main()
