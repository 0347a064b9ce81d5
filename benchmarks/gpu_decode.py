"""How fast a GPU translates: the plain decoder beside recorded steps on tensors that stay (model/static.py).

    python benchmarks/gpu_decode.py RUN
    python benchmarks/gpu_decode.py RUN --ctranslate2
    python benchmarks/gpu_decode.py RUN --device cpu --batches 64 --repeat 1

Sentences a second from text to text, greedy and with a beam of 4: the run's validation sentences, `--repeat`
times over, in batches of the sizes in --batches. Each figure is the best of three rounds in which the
decoders take turns, after one for recording. --ctranslate2 adds CTranslate2 in fp16 (in fp32 on a processor)
on the same batches, with the run's tokenizer. Where there is no GPU it says so and measures nothing, unless
--device asks for the processor, whose fast decoder is compiled.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from dragoman.hardware import choose_device
from dragoman.interop.ctranslate2 import convert
from dragoman.model.kernels import choose_kernels
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.translation.evaluation import read_pairs, split_of
from dragoman.text.vocabulary import EOS_ID

ROUNDS = 3
BEAMS = (1, 4)
DECODERS = ("plain", "fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512], help="sentences at a time")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--ctranslate2", action="store_true", help="CTranslate2 beside them")
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cpu" and options.device != "cpu":
        print("no GPU here: not measured")
        return
    sentences = validation_sentences(options.run) * options.repeat
    with ExitStack() as stack:
        translators: dict[str, Any] = {n: with_kernels(options.run, n, options.device) for n in DECODERS}
        if options.ctranslate2:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            translators["ctranslate2"] = CTranslate2(options.run, Path(folder) / "model", device)
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
        print(f"{name}, PyTorch {torch.__version__}, {len(sentences):,} sentences\n")
        print(
            f"{'beam':>4}{'at a time':>12}" + "".join(f"{one:>12}" for one in translators) + f"{'ratio':>8}"
        )
        for beam_size in BEAMS:
            for at_a_time in options.batches:
                speeds = measure(translators, sentences, beam_size=beam_size, at_a_time=at_a_time)
                figures = "".join(f"{speed:12,.0f}" for speed in speeds.values())
                ratio = speeds["fast"] / speeds["plain"]
                print(f"{beam_size:4}{at_a_time:12}{figures}{ratio:8.2f}", flush=True)


class CTranslate2:
    """CTranslate2 with a run's weights, called as a translator is."""

    def __init__(self, run: Path, folder: Path, device: torch.device) -> None:
        import ctranslate2

        translator = Translator.load(run, precision="fp32")
        convert(translator.model, translator.tokenizers, folder)
        self.tokenizers = translator.tokenizers
        self.pieces = self.tokenizers.src.pieces()
        self.tgt_ids = {piece: i for i, piece in enumerate(self.tokenizers.tgt.pieces())}
        compute_type = "float16" if device.type == "cuda" else "float32"
        self.translator = ctranslate2.Translator(str(folder), device=device.type, compute_type=compute_type)

    def translate(self, texts: list[str], *, beam_size: int, batch_sentences: int) -> list[str]:
        """Translate from text to text."""
        sources = [[*ids, EOS_ID] for ids in self.tokenizers.src.encode_batch(texts)]
        found = self.translator.translate_batch(
            [[self.pieces[i] for i in ids] for ids in sources],
            beam_size=beam_size,
            max_batch_size=batch_sentences,
        )
        ids = [[self.tgt_ids[piece] for piece in one.hypotheses[0]] for one in found]
        return self.tokenizers.tgt.decode_batch(ids)


def validation_sentences(run: Path) -> list[str]:
    """Return the sources of the pairs that chose the run's checkpoint."""
    [(_, corpus)] = split_of(translation_config(Run.open(run)), "valid")
    return [pair.src for pair in read_pairs(corpus)]


def with_kernels(run: Path, name: str, device: str) -> Translator:
    """Return the run's translator, whose decoder is the one that `kernels` = "plain" or "fast" means."""
    translator = Translator.load(run, device=device)
    translator.model.kernels = choose_kernels(name, translator.model.device)
    return translator


def measure(
    translators: dict[str, Any], sentences: list[str], *, beam_size: int, at_a_time: int
) -> dict[str, float]:
    """Sentences a second of each."""
    best = dict.fromkeys(translators, float("inf"))
    for i in range(1 + ROUNDS):
        for name, translator in translators.items():
            start = time.perf_counter()
            translator.translate(sentences, beam_size=beam_size, batch_sentences=at_a_time)
            if i:
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: len(sentences) / seconds for name, seconds in best.items()}


if __name__ == "__main__":
    main()
