"""How fast Dragoman translates, beside CTranslate2 and Hugging Face on the same weights.

    python benchmarks/decode_speed.py RUN
    python benchmarks/decode_speed.py RUN --huggingface PYTHON --rounds 5 --repeat 10
    python benchmarks/decode_speed.py RUN --exports --limit 500

Sentences a second from text to text, without loading: the first of the run's test sets, repeated, greedily
and with a beam of 4. Every engine is a process of its own with two cores, and all translate the same in
turn, so that a noisy machine slows them alike; the median counts. BLEU is that of each engine's own
translations, "ours" the speed of the fastest Dragoman beside the engine's. CTranslate2 and Hugging Face get
the run as Dragoman exports it, the latter by a Python that has transformers. Where the run has a shortlist,
Dragoman and CTranslate2 translate with it and without ("all tokens", and without "vmap"). `--base` measures a
Transformer base with random weights and the run's vocabulary in place of the run, whose translations have 15
tokens.

`--exports`: the run in each runtime that it can be exported to. Seconds to load are from the start of a
process until it is ready, imports included; onnxruntime is used by Dragoman's search, and loads PyTorch too.
Megabytes are those of weights, graphs and vocabularies. How exact is what `dragoman export` prints: the
largest difference of the log-probability of a token, and the share of validation sentences with the same
greedy translation.

Without --base and --exports, of Dragoman alone: the time of one sentence, greedily and with a beam of 4, the
time from the start of a process to the first translation, and the memory of the whole test set, 16 and 100
sentences at a time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from dragoman.errors import ConfigError
from dragoman.interop.ctranslate2 import convert, write_vocabulary_map
from dragoman.interop.exporting import export_run
from dragoman.interop.huggingface import write_huggingface
from dragoman.interop.parity import TOKEN, Parity, compare, sentences_to_compare
from dragoman.predict.engine import StepEngine
from dragoman.predict.model import translation_config
from dragoman.predict.networks import build_model
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair
from measuring import PeerProcess, Result, parser_of, python, seconds_of
from texts import bleu_of, test_set

WORKER = str(Path(__file__).parent / "peers" / "decoding.py")
BEAMS = {1: "greedy", 4: "beam 4"}
BASE = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6}
"""The base model of the paper."""
LONGEST = 15
"""Tokens of a translation by that model, which has not learnt to end one."""
IMPORTS = """
import time
start = time.perf_counter()
import dragoman.predict.translator
print(time.perf_counter() - start)
"""
MEMORY = """
import resource, sys
from dragoman.predict.translator import Translator
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
Translator.load(sys.argv[1]).translate(lines, beam_size=4, n_best=1, batch_sentences=int(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@dataclass
class Engine(PeerProcess):
    """A line of the table: an engine, and its worker."""

    n_bytes: int | None = None
    parity: Parity | None = None
    load_seconds: float = 0.0
    seconds: dict[int, list[float]] = field(default_factory=lambda: {beam: [] for beam in BEAMS})
    texts: dict[int, list[str]] = field(default_factory=dict)

    def translate(self, texts: Path, beam_size: int, *, repeat: int, longest: int) -> float:
        """Keep the translations of all lines, and return the seconds they took; see peers/decoding.py."""
        request = {"texts": str(texts), "beam_size": beam_size, "repeat": repeat, "longest": longest}
        answer = json.loads(self.ask(json.dumps(request)))
        self.texts[beam_size] = answer["texts"]
        return float(answer["seconds"])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--exports", action="store_true", help="every runtime there is an export for")
    parser.add_argument("--rounds", type=int, default=3, help="times that each translates, after a first")
    parser.add_argument("--repeat", type=int, default=1, help="copies of the test set that are one corpus")
    parser.add_argument("--limit", type=int, default=1000, help="sentences of the test set")
    parser.add_argument("--sentences", type=int, default=200, help="that an export is compared on")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--huggingface", metavar="PYTHON", help="a Python that has transformers")
    parser.add_argument("--without", action="append", default=[], help="leave out engines that are called so")
    parser.add_argument("--base", action="store_true", help="a Transformer base with random weights")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Result("decode_speed", options) as result:
        folder = Path(name)
        run = base_run(options.run, folder / "base") if options.base else options.run
        sources, references, lang = test_set(options.run, options.limit)
        texts = folder / "texts"
        texts.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        engines = (exported if options.exports else peers)(run, folder, options)
        engines = [one for one in engines if not any(word in one.name for word in options.without)]
        try:
            measure(engines, texts, options)
        finally:
            for engine in engines:
                engine.end()
        report(result, engines, references, lang, n_sentences=len(sources) * options.repeat)
        if not options.base and not options.exports:
            alone(result, run, sources, texts)


def base_run(run: Path, folder: Path) -> Path:
    """Make a run in `folder` with the vocabulary of `run` and an untrained Transformer base."""
    config = translation_config(Run.open(run))
    config = config.model_copy(update={"model": config.model.model_copy(update=BASE)})
    made = Run.create(folder, config)
    shutil.copytree(run / "tokenizer", folder / "tokenizer")
    torch.manual_seed(1)
    fresh = build_model(config, TokenizerPair.load(folder / "tokenizer"), device=torch.device("cpu"))
    made.save_weights(dict(fresh.named_parameters()))
    return folder


def engine(name: str, *arguments: object, n_threads: int, program: str = sys.executable) -> Engine:
    return Engine(name, [program, WORKER, *map(str, arguments)], n_threads)


def peers(run: Path, folder: Path, options: argparse.Namespace) -> list[Engine]:
    """Return Dragoman in each precision of this machine, and the engines that are here."""
    n, translator = options.cores, Translator.load(run, precision="fp32")
    precisions = ["fp32", "bf16"]
    try:
        Translator.load(run, precision="int8")
        precisions.append("int8")
    except ConfigError as error:
        print(error, file=sys.stderr)
    ours = [engine(f"Dragoman, {each}", "dragoman", run, each, n, n_threads=n) for each in precisions]
    others = []
    for compute_type in ("float32", "int8"):
        model = folder / f"ctranslate2-{compute_type}"
        convert(translator.model, translator.tokenizers, model, compute_type=compute_type)
        for workers, n_threads in ((n, 1), (1, n)):
            name = f"CTranslate2, {compute_type}, {workers} x {n_threads}"
            others.append(engine(name, "ctranslate2", run, model, workers, n_threads, n_threads=n_threads))
    if shortlist := Shortlist.load(run, translator.tokenizers):
        ours += [Engine(f"{one.name}, all tokens", [*one.command, "all"], n) for one in ours]
        others += [Engine(f"{one.name}, vmap", [*one.command, "vmap"], one.n_threads) for one in others]
        for model in folder.glob("ctranslate2-*"):
            write_vocabulary_map(shortlist, translator.tokenizers, model)
    if options.huggingface:
        there = folder / "huggingface"
        there.mkdir()
        write_huggingface(Run.open(run), translator, there)
        name = "Hugging Face, fp32"
        others.append(engine(name, "huggingface", there, n, n_threads=n, program=options.huggingface))
    return ours + others


def exported(run: Path, folder: Path, options: argparse.Namespace) -> list[Engine]:
    """Return Dragoman in fp32 and bf16, and the other runtimes, each on an export of its own."""
    n = options.cores
    own = [engine(f"Dragoman, {each}", "dragoman", run, each, n, n_threads=n) for each in ("fp32", "bf16")]
    for one in own:
        files = [run / "model.safetensors", *(run / "tokenizer").iterdir()]
        one.n_bytes = sum(path.stat().st_size for path in files)
    own[1].parity = parity_of_bf16(run, options.sentences)
    others = []
    for to, compute_type in (
        ("ctranslate2", "float32"), ("ctranslate2", "int8"), ("onnx", "float32"), ("huggingface", "float32"),
    ):  # fmt: skip
        there = folder / f"{to}-{compute_type}"
        report = export_run(run, there, to=to, compute_type=compute_type, n_sentences=options.sentences)
        arguments = {"ctranslate2": (run, there, n, 1), "onnx": (run, there, 1), "huggingface": (there, n)}
        threads = 1 if to == "ctranslate2" else n
        others.append(engine(f"{to}, {compute_type}", to, *arguments[to], n_threads=threads))
        others[-1].n_bytes, others[-1].parity = sum(report.files.values()), report.parity
    return own + others


def parity_of_bf16(run: Path, n_sentences: int) -> Parity:
    """Return the distance of Dragoman in bf16 from itself in fp32."""
    translator = Translator.load(run, device="cpu", precision="fp32")
    rough = Translator.load(run, device="cpu", precision="bf16").engine
    assert isinstance(rough, StepEngine)
    longest = translator.max_positions - 1
    texts, _ = sentences_to_compare(translator.config, translator.tokenizers.src, n_sentences, longest)
    return compare(translator, texts, rough, Parity())


def measure(engines: Sequence[Engine], texts: Path, options: argparse.Namespace) -> None:
    """Start all, and let them translate the same in turn; the first time is not counted."""
    for one in engines:
        one.load_seconds = statistics.median(restarted(one) for _ in range(options.rounds))
    longest = LONGEST if options.base else 0
    for beam_size in BEAMS:
        for number in range(options.rounds + 1):
            for one in engines:
                repeat = options.repeat if number else 1
                seconds = one.translate(texts, beam_size, repeat=repeat, longest=longest)
                one.seconds[beam_size] += [seconds] * bool(number)


def restarted(engine: Engine) -> float:
    """Return the seconds that an engine takes to start."""
    engine.end()
    return seconds_of(engine.start)


def report(
    result: Result, engines: Sequence[Engine], references: list[str], lang: str, *, n_sentences: int
) -> None:
    """Print the table, with medians."""
    rates = {
        one.name: [n_sentences / statistics.median(one.seconds[beam]) for beam in BEAMS] for one in engines
    }
    ours = zip(*(rate for name, rate in rates.items() if name.startswith("Dragoman")), strict=True)
    best = [max(each) for each in ours]
    columns = {"sentences a second": ""}
    for title in BEAMS.values():
        columns |= {title: ".0f", f"BLEU, {title}": ".2f", f"ours, {title}": ".2f"}
    table = result.table(
        columns | {"MB": ".1f", "load, s": ".1f", "nats/token": ".1g", "same": ".1%"}
    )  # fmt: skip
    for one in engines:
        cells: list[float] = []
        for beam, rate, fastest in zip(BEAMS, rates[one.name], best, strict=True):
            cells += [rate, bleu_of(one.texts[beam], references, lang), fastest / rate]
        exact = (one.parity.largest[TOKEN], one.parity.same["greedy"]) if one.parity else (None, None)
        table.add(one.name, *cells, one.n_bytes and one.n_bytes / 1e6, one.load_seconds, *exact)


def alone(result: Result, run: Path, sources: list[str], texts: Path) -> None:
    """Latency, cold start and memory of Dragoman."""
    translator = Translator.load(run)
    print()
    for beam_size, name in BEAMS.items():
        one = (
            partial(translator.translate, [source], beam_size=beam_size, n_best=1) for source in sources[:220]
        )
        cuts = statistics.quantiles(list(map(seconds_of, one))[20:], n=100)
        for percentile in (50, 99):
            result.figure(f"one sentence, {name}, p{percentile}, ms", 1e3 * cuts[percentile - 1], ".1f")
    command = [sys.executable, "-m", "dragoman", "translate", str(run)]
    whole = partial(subprocess.run, command, input=sources[0].encode(), check=True, stdout=subprocess.DEVNULL)
    started = [(seconds_of(whole), float(python("-c", IMPORTS))) for _ in range(5)]
    names = ("from nothing to the first translation, s", "of which imports, s")
    for name, seconds in zip(names, zip(*started, strict=True), strict=True):
        result.figure(name, statistics.median(seconds), ".2f")
    for at_a_time in (16, 100):
        peak = float(python("-c", MEMORY, run, texts, at_a_time))
        result.figure(f"memory at its peak, {at_a_time} sentences at a time, beam 4, MiB", peak, ".0f")


if __name__ == "__main__":
    main()
