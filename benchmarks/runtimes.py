"""One run in every runtime that it can be exported to: how fast, how large, how exact.

    python benchmarks/runtimes.py RUN
    python benchmarks/runtimes.py RUN --rounds 5 --limit 500

Sentences a second from text to text, without loading, of the run's first test set, greedily and with a beam
of 4: every runtime is a process of its own with two cores, all translate the same in turn, and the median
counts. Seconds to load are from the start of a process until it is ready, imports included; onnxruntime is
used by Dragoman's search, and loads PyTorch too. Megabytes are those of weights, graphs and vocabularies. How
exact is what `dragoman export` prints: the largest difference of the log-probability of a token, and the
share of validation sentences with the same greedy translation.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from decode_speed import PEERS, Row, measure
from dragoman.errors import DragomanError
from dragoman.hardware import environment
from dragoman.interop.exporting import export_run, searches
from dragoman.interop.parity import TOKEN, Parity, compare, sentences_to_compare
from dragoman.metrics.translation import bleu
from dragoman.predict.engine import NativeEngine
from dragoman.predict.loading import inference_copy
from dragoman.predict.translator import Translator
from texts import test_set

EXPORTS = {
    "CTranslate2, float32": ("ctranslate2", "float32"),
    "CTranslate2, int8": ("ctranslate2", "int8"),
    "onnxruntime, float32": ("onnx", "float32"),
    "transformers, float32": ("huggingface", "float32"),
}


@dataclass
class Runtime(Row):
    """A line of the table."""

    n_bytes: int = 0
    parity: Parity | None = None
    load_seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="times that each translates, after a first")
    parser.add_argument("--limit", type=int, default=1000, help="sentences of the test set")
    parser.add_argument("--sentences", type=int, default=200, help="sentences compared with the run")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    options.repeat, options.base = 1, False
    facts = environment()
    print(f"{facts['cpu']}, {options.cores} cores, PyTorch {torch.__version__}")
    sources, references, lang = test_set(options.run, options.limit)
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts"
        texts.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        table = native_rows(options) + exported_rows(Path(folder), options)
        try:
            load(table, options.rounds)
            measure([*table], texts, options)
        finally:
            for row in table:
                row.end()
    report(table, references, lang)


def native_rows(options: argparse.Namespace) -> list[Runtime]:
    """Dragoman itself, in fp32 and in bf16."""
    script, n = str(PEERS / "decode_with_dragoman.py"), options.cores
    files = [options.run / "model.safetensors", *(options.run / "tokenizer").iterdir()]
    size = sum(path.stat().st_size for path in files)
    rows = []
    for precision in ("fp32", "bf16"):
        command = [sys.executable, script, str(options.run), precision, str(n)]
        row = Runtime(f"Dragoman, {precision}", command, n, n_bytes=size)
        rows.append(row)
    rows[1].parity = parity_of_bf16(options.run, options.sentences)
    return rows


def parity_of_bf16(run: Path, n_sentences: int) -> Parity:
    """Return the distance of Dragoman in bf16 from itself in fp32."""
    translator = Translator.load(run, device="cpu", precision="fp32")
    engine = NativeEngine(inference_copy(translator.model, torch.bfloat16))
    longest = translator.max_positions - 1
    texts, origin = sentences_to_compare(translator.config, translator.tokenizers.src, n_sentences, longest)
    return compare(translator, texts, origin, engine, searches(engine, translator.config.search, "")[:1])


def exported_rows(folder: Path, options: argparse.Namespace) -> list[Runtime]:
    """Return the other runtimes, each on an export of its own."""
    n, run = options.cores, str(options.run)
    rows = []
    for name, (to, compute_type) in EXPORTS.items():
        there = folder / f"{to}-{compute_type}"
        exported = export_run(run, there, to=to, compute_type=compute_type, n_sentences=options.sentences)
        command = {
            "ctranslate2": ["decode_with_ctranslate2.py", run, str(there), str(n), "1"],
            "onnx": ["decode_with_onnx.py", run, str(there), "1"],
            "huggingface": ["decode_with_huggingface.py", str(there), str(n)],
        }[to]
        script = [sys.executable, str(PEERS / command[0]), *command[1:]]
        size = sum(exported.files.values())
        row = Runtime(name, script, 1 if to == "ctranslate2" else n, n_bytes=size, parity=exported.parity)
        rows.append(row)
    return rows


def load(table: list[Runtime], rounds: int) -> None:
    """Start every process some times over, in turn; the last stays."""
    seconds: dict[str, list[float]] = {row.name: [] for row in table}
    for _ in range(rounds):
        for row in table:
            row.end()
            start = time.perf_counter()
            row.start()
            seconds[row.name].append(time.perf_counter() - start)
    for row in table:
        row.load_seconds = statistics.median(seconds[row.name])


def report(table: list[Runtime], references: list[str], lang: str) -> None:
    """Print the table."""
    print(
        f"\n{'':24}{'greedy':>8}{'beam 4':>8}{'BLEU':>8}{'MB':>7}{'load, s':>9}{'nats/token':>12}{'same':>8}"
    )
    for row in table:
        rates = "".join(f"{len(references) / statistics.median(row.seconds[b]):8.0f}" for b in (1, 4))
        score = bleu(row.texts[4], references, tgt_lang=lang, n_bootstrap=0).value
        exact = f"{'—':>12}{'—':>8}"
        if row.parity is not None:
            exact = f"{row.parity.largest[TOKEN]:12.1g}{row.parity.same['greedy']:8.1%}"
        print(f"{row.name:24}{rates}{score:8.2f}{row.n_bytes / 1e6:7.1f}{row.load_seconds:9.1f}{exact}")


if __name__ == "__main__":
    try:
        main()
    except DragomanError as error:
        raise SystemExit(f"error: {error}") from None
