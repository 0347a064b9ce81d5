"""How fast a GPU translates: the plain decoder beside recorded steps on tensors that stay (model/static.py).

    python benchmarks/gpu_decode.py RUN
    python benchmarks/gpu_decode.py RUN --device cpu --batches 64 --repeat 1

Sentences a second from text to text, greedy and with a beam of 4: the run's validation sentences, `--repeat`
times over, in batches of the sizes in --batches. Each figure is the best of three rounds in which the
decoders take turns, after one for recording. Where there is no GPU it says so and measures nothing, unless
--device asks for the processor, whose fast decoder is that of model/packed.py.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from dragoman.evaluation.translation import read_pairs, split_of
from dragoman.hardware import choose_device
from dragoman.model.kernels import choose_kernels
from dragoman.predict.translator import Translator, translation_config
from dragoman.runs import Run

ROUNDS = 3
BEAMS = (1, 4)
DECODERS = ("plain", "fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 512], help="sentences at a time")
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cpu" and options.device != "cpu":
        print("no GPU here: not measured")
        return
    sentences = validation_sentences(options.run) * options.repeat
    translators = {name: with_kernels(options.run, name, options.device) for name in DECODERS}
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
    print(f"{name}, PyTorch {torch.__version__}, {len(sentences):,} sentences\n")
    print(
        f"{'beam':>4}{'at a time':>12}" + "".join(f"{decoder:>12}" for decoder in DECODERS) + f"{'ratio':>8}"
    )
    for beam_size in BEAMS:
        for at_a_time in options.batches:
            speeds = measure(translators, sentences, beam_size=beam_size, at_a_time=at_a_time)
            figures = "".join(f"{speeds[decoder]:12,.0f}" for decoder in DECODERS)
            print(f"{beam_size:4}{at_a_time:12}{figures}{speeds['fast'] / speeds['plain']:8.2f}", flush=True)


def validation_sentences(run: Path) -> list[str]:
    """Return the sources of the pairs that chose the run's checkpoint."""
    [(_, corpus)] = split_of(translation_config(Run.open(run)), "valid")
    return [pair.src for pair in read_pairs(corpus)]


def with_kernels(run: Path, name: str, device: str) -> Translator:
    """Return the run's translator, whose decoder is the one that `kernels` = "plain" or "fast" means."""
    translator = Translator.load(run, device=device)
    translator.model.kernels = choose_kernels(name, translator.model.output.weight.device)
    return translator


def measure(
    translators: dict[str, Translator], sentences: list[str], *, beam_size: int, at_a_time: int
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
