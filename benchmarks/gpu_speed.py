"""How fast a GPU trains: batches of any shape, each update waited for, beside a dozen shapes and no waiting.

    python benchmarks/gpu_speed.py
    python benchmarks/gpu_speed.py --model base big
    python benchmarks/gpu_speed.py --device cpu --steps 20 --batch-tokens 512
    python benchmarks/gpu_speed.py --corpus phrasebook --keep runs/speed

Source + target tokens a second, padding not counted, of whole trainings of the 7.6 M model of train_speed.py
("small"), or of the shapes base and big of the paper, on Multi30k from $DRAGOMAN_DATA, or on the embedded
phrasebook: the median of the log lines of the second half, so that recording the steps is over. "of ceiling"
is their matrix products over what a large product reaches on the same device, measured first. Where there is
no GPU it says so and measures nothing, unless --device asks for the processor, on which static steps are the
same code without recordings. How long 38 BLEU takes is time_to_bleu.py's to say.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from itertools import product
from pathlib import Path

import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.hardware import choose_device, choose_dtype, matrix_ceiling
from dragoman.runs import Run
from dragoman.tasks.training import train
from train_speed import configuration, weights_per_token

LOG_EVERY = 10
"""Updates that a figure is the mean of."""

MODELS: dict[str, dict[str, int]] = {
    "small": {},
    "base": {"d_model": 512, "d_ff": 2048, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6},
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "n_encoder_layers": 6, "n_decoder_layers": 6},
}
"""Shapes that differ from train_speed.py's; base and big of Vaswani et al. 2017, table 3."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=400, help="updates of each training")
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[4096, 16384, 32768])
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=["small"])
    parser.add_argument("--corpus", choices=["multi30k", "phrasebook"], default="multi30k")
    parser.add_argument("--keep", type=Path, help="a folder for the run of the first training")
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cpu" and options.device != "cpu":
        print("no GPU here: not measured")
        return
    dtype = choose_dtype("auto", device)
    ceiling = matrix_ceiling(dtype, n=8192 if device.type == "cuda" else 1024, device=device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "processor"
    print(f"{name}, PyTorch {torch.__version__}, {str(dtype).removeprefix('torch.')}")
    print(f"matrix-product ceiling: {ceiling / 1e12:.2f} TFLOP/s\n")
    headings = f"{'target tokens a batch':>24}{'tokens/s':>12}{'of ceiling':>12}{'peak GB':>10}"
    print(f"{'model':8}{'steps':8}{headings}")
    for steps, model, batch_tokens in product(("static", "free"), options.model, options.batch_tokens):
        config = settings(
            steps, batch_tokens, options.steps, options.device, corpus=options.corpus, model=model
        )
        speed, memory = measure(config, keep=options.keep)
        options.keep = None
        share = speed * operations_per_token(config) / ceiling
        print(
            f"{model:8}{steps:8}{batch_tokens:24,}{speed:12,.0f}{share:12.1%}{memory or 0:10.2f}",
            flush=True,
        )


def settings(
    steps: str,
    batch_tokens: int,
    max_steps: int,
    device: str,
    *,
    corpus: str = "multi30k",
    model: str = "small",
) -> TranslationConfig:
    """Train a model of `MODELS` for `max_steps` updates, with one validation at the end."""
    training = {
        "steps": steps,
        "device": device,
        "batch_tokens": batch_tokens,
        "max_steps": max_steps,
        "valid_every": max_steps,
        "log_every": min(LOG_EVERY, max_steps),
        "average": "none",
    }
    recipe = {**configuration().model_dump(), "training": training}
    recipe["model"] |= MODELS[model]
    if corpus == "phrasebook":
        recipe["data"] |= {name: [f"phrasebook:{name}"] for name in ("train", "valid")}
    config = parse_config(recipe)
    assert config.task == "translation"
    return config


def measure(config: TranslationConfig, *, keep: Path | None = None) -> tuple[float, float | None]:
    """Tokens a second in the second half of a training, and the most memory it held, in 10^9 bytes.

    `keep` is a folder for the run, which is removed otherwise.
    """
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()  # of the training before
    with tempfile.TemporaryDirectory() as folder:
        records = Run.open(train(config, keep or Path(folder) / "run")).history()
    logged = [record for record in records if record["kind"] == "train"]
    late = logged[len(logged) // 2 :]
    return statistics.median(r["tokens_per_second"] for r in late), late[-1]["peak_memory_gb"]


def operations_per_token(config: TranslationConfig) -> float:
    """Operations of the weights' matrix products a token, with as many source tokens as target tokens."""
    return 6.0 * sum(weights_per_token(config, config.tokenizer.vocab_size)) / 2


if __name__ == "__main__":
    main()
