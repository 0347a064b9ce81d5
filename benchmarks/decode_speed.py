"""How fast Dragoman translates, beside CTranslate2, Hugging Face and JoeyNMT on the same weights.

    python benchmarks/decode_speed.py RUN
    python benchmarks/decode_speed.py RUN --huggingface PYTHON --rounds 5 --repeat 10
    python benchmarks/decode_speed.py RUN --joeynmt PYTHON --rounds 1 --limit 200

Sentences a second from text to text, without loading: the first of the run's test sets, repeated, greedily
and with a beam of 4. Every engine is a process of its own with two cores, and all translate the same in
turn, so that a noisy machine slows them alike; the median counts. BLEU is that of each engine's own
translations. CTranslate2 and Hugging Face get the run as Dragoman exports it, the latter by a Python that
has transformers; JoeyNMT reads the run itself. Where the run has a shortlist, Dragoman and CTranslate2
translate with it and without ("all tokens", and without "vmap"). `--base` measures a Transformer base with
random weights and the run's vocabulary in place of the run, whose translations have 15 tokens.

Then, of Dragoman alone: the time of one sentence, greedily and with a beam of 4, the time from the start of a
process to the first translation, and the memory of the whole test set, 16 and 100 sentences at a time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dragoman.errors import DragomanError
from dragoman.hardware import environment
from dragoman.interop.ctranslate2 import convert, write_vocabulary_map
from dragoman.interop.huggingface import write_huggingface
from dragoman.model.compiled import can_compile
from dragoman.predict.loading import build_model
from dragoman.predict.model import translation_config
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair
from peer_process import PeerProcess
from texts import bleu_of, test_set

PEERS = Path(__file__).parent / "peers"
BEAMS = {1: "greedy", 4: "beam 4"}
BASE = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6}
"""The base model of the paper."""
LONGEST = 15
"""Tokens of a translation by that model, which has not learnt to end one."""


@dataclass
class Row(PeerProcess):
    """A line of the table: an engine, and its worker."""

    seconds: dict[int, list[float]] = field(default_factory=lambda: {beam: [] for beam in BEAMS})
    texts: dict[int, list[str]] = field(default_factory=dict)

    def translate(self, texts: Path, beam_size: int, repeat: int, longest: int) -> dict[str, Any]:
        """Seconds and texts; see benchmarks/peers/decoding.py."""
        request = {"texts": str(texts), "beam_size": beam_size, "repeat": repeat, "longest": longest}
        answer: dict[str, Any] = json.loads(self.ask(json.dumps(request)))
        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="times that each translates, after a first")
    parser.add_argument("--repeat", type=int, default=1, help="copies of the test set that are one corpus")
    parser.add_argument("--limit", type=int, default=1000, help="sentences of the test set")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--huggingface", metavar="PYTHON", help="a Python that has transformers")
    parser.add_argument("--joeynmt", metavar="PYTHON", help="a Python that has JoeyNMT")
    parser.add_argument(
        "--without", action="append", default=[], help="leaves out engines that are called so"
    )
    parser.add_argument("--base", action="store_true", help="a Transformer base with random weights")
    options = parser.parse_args()
    facts = environment()
    print(f"{facts['cpu']}, {options.cores} cores, PyTorch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        run = base_run(options.run, Path(folder) / "base") if options.base else options.run
        sources, references, lang = test_set(options.run, options.limit)
        texts = Path(folder) / "texts"
        texts.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        table = rows(run, Path(folder), options)
        try:
            measure(table, texts, options)
        finally:
            for row in table:
                row.end()
        report(table, references, lang, n_sentences=len(sources) * options.repeat)
        if not options.base:
            alone(run, sources, texts)


def base_run(run: Path, folder: Path) -> Path:
    """Make a run in `folder` with the vocabulary of `run` and an untrained Transformer base."""
    config = translation_config(Run.open(run))
    model = config.model.model_copy(update=BASE)
    config = config.model_copy(update={"model": model})
    run_there = Run.create(folder, config)
    shutil.copytree(run / "tokenizer", folder / "tokenizer")
    torch.manual_seed(1)
    fresh = build_model(config, TokenizerPair.load(folder / "tokenizer"), device=torch.device("cpu"))
    run_there.save_weights(dict(fresh.named_parameters()))
    return folder


def rows(run: Path, folder: Path, options: argparse.Namespace) -> list[Row]:
    """Return the engines that are here, each started."""
    n = options.cores
    translator = Translator.load(run, precision="fp32")
    ours, ct2 = str(PEERS / "decode_with_dragoman.py"), str(PEERS / "decode_with_ctranslate2.py")
    precisions = ["fp32", "bf16"]
    if can_compile(translator.model, int8=True):
        precisions.append("int8")
    table = [
        Row(f"Dragoman, {precision}", [sys.executable, ours, str(run), precision, str(n)], n)
        for precision in precisions
    ]
    shortlist = Shortlist.load(run, translator.tokenizers)
    if shortlist:
        table += [Row(f"{row.name}, all tokens", [*row.command, "all"], n) for row in table]
    for compute_type in ("float32", "int8"):
        there = folder / f"ctranslate2-{compute_type}"
        convert(translator.model, translator.tokenizers, there, compute_type=compute_type)
        for workers, threads in ((n, 1), (1, n)):
            command = [sys.executable, ct2, str(run), str(there), str(workers), str(threads)]
            name = f"CTranslate2, {compute_type}, {workers} x {threads}"
            table.append(Row(name, command, threads))
            if shortlist:
                write_vocabulary_map(shortlist, translator.tokenizers, there)
                table.append(Row(f"{name}, vmap", [*command, "vmap"], threads))
    if options.huggingface:
        there = folder / "huggingface"
        there.mkdir()
        write_huggingface(Run.open(run), translator, there)
        script = str(PEERS / "decode_with_huggingface.py")
        table.append(Row("Hugging Face, fp32", [options.huggingface, script, str(there), str(n)], n))
    if options.joeynmt:
        script = str(PEERS / "decode_with_joeynmt.py")
        table.append(Row("JoeyNMT, fp32", [options.joeynmt, script, str(run), str(n)], n))
    table = [row for row in table if not any(word in row.name for word in options.without)]
    for row in table:
        row.start()
    return table


def measure(table: list[Row], texts: Path, options: argparse.Namespace) -> None:
    """Let all translate the same in turn; the first time is not counted."""
    for beam_size in BEAMS:
        for number in range(options.rounds + 1):
            for row in table:
                repeat, longest = options.repeat if number else 1, LONGEST if options.base else 0
                answer = row.translate(texts, beam_size, repeat, longest)
                row.texts[beam_size] = answer["texts"]
                if number:
                    row.seconds[beam_size].append(answer["seconds"])


def report(table: list[Row], references: list[str], lang: str, *, n_sentences: int) -> None:
    """Print the table: sentences a second (median), BLEU, and how many times as fast our best is."""
    medians = {row.name: {b: n_sentences / statistics.median(row.seconds[b]) for b in BEAMS} for row in table}
    best = {b: max(medians[row.name][b] for row in table if row.name.startswith("Dragoman")) for b in BEAMS}
    titles = "".join(f"{title:>12}{'BLEU':>8}{'ours':>8}" for title in BEAMS.values())
    print(f"\n{'sentences a second':34}{titles}")
    for row in table:
        cells = ""
        for b in BEAMS:
            score = bleu_of(row.texts[b], references, lang)
            cells += f"{medians[row.name][b]:12.0f}{score:8.2f}{best[b] / medians[row.name][b]:7.2f}x"
        print(f"{row.name:34}{cells}")


def alone(run: Path, sources: list[str], texts: Path) -> None:
    """Latency, cold start and memory of Dragoman."""
    translator = Translator.load(run)
    print()
    for name, beam_size in (("greedily", 1), ("beam 4", 4)):
        seconds = []
        for source in sources[:220]:
            start = time.perf_counter()
            translator.translate([source], beam_size=beam_size, n_best=1)
            seconds.append(time.perf_counter() - start)
        cuts = statistics.quantiles(seconds[20:], n=100)
        print(f"one sentence, {name}: p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms")
    clock = "import time; start = time.perf_counter(); import dragoman.predict.translator; "
    code = clock + "print(time.perf_counter() - start)"
    imports, totals = [], []
    for _ in range(5):
        imports.append(float(subprocess.check_output([sys.executable, "-c", code])))
        start = time.perf_counter()
        command = [sys.executable, "-m", "dragoman", "translate", str(run)]
        subprocess.run(command, input=f"{sources[0]}\n", text=True, check=True, stdout=subprocess.DEVNULL)
        totals.append(time.perf_counter() - start)
    total, spent = statistics.median(totals), statistics.median(imports)
    print(f"from nothing to the first translation: {total:.2f} s, of which imports {spent:.2f} s")

    for batch_sentences in (16, 100):
        code = (
            "import resource, sys; from dragoman.predict.translator import Translator; "
            "lines = open(sys.argv[2], encoding='utf-8').read().splitlines(); "
            "translator = Translator.load(sys.argv[1]); "
            "translator.translate(lines, beam_size=4, n_best=1, batch_sentences=int(sys.argv[3])); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        command = [sys.executable, "-c", code, str(run), str(texts), str(batch_sentences)]
        peak = int(subprocess.check_output(command)) / 1024
        print(f"memory at its peak, {batch_sentences} sentences at a time, beam 4: {peak:.0f} MiB")


if __name__ == "__main__":
    try:
        main()
    except DragomanError as error:
        raise SystemExit(f"error: {error}") from None
