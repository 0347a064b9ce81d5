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

import statistics
import tempfile
from itertools import product
from pathlib import Path

import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.hardware import choose_device, choose_dtype, matrix_ceiling
from dragoman.runs import Run
from dragoman.tasks.training import train
from measuring import Result, parser_of
from updates import configuration, weights_per_token

LOG_EVERY = 10
"""Updates that a figure is the mean of."""
SIZES = {"small": (256, 4, 3), "base": (512, 8, 6), "big": (1024, 16, 6)}
"""Width, heads and layers of a side; base and big of Vaswani et al. 2017, table 3."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=400, help="updates of each training")
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[4096, 16384, 32768])
    parser.add_argument("--model", nargs="+", choices=list(SIZES), default=["small"])
    parser.add_argument("--corpus", choices=["multi30k", "phrasebook"], default="multi30k")
    parser.add_argument("--keep", type=Path, help="a folder for the run of the first training")
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cpu" and options.device != "cpu":
        print("no GPU here: not measured")
        return
    with Result("gpu_speed", options) as result:
        ceiling = matrix_ceiling(
            choose_dtype("auto", device), n=8192 if device.type == "cuda" else 1024, device=device
        )
        result.figure("matrix-product ceiling, TFLOP/s", ceiling / 1e12, ".2f")
        table = result.table(
            {"model": "", "steps": "", "target tokens a batch": ",", "tokens/s": ",.0f", "of ceiling": ".1%",
             "peak GB": ".2f"}
        )  # fmt: skip
        every = min(LOG_EVERY, options.steps)
        for steps, model, batch_tokens in product(("static", "free"), options.model, options.batch_tokens):
            config = sized(
                model, options.corpus, steps=steps, device=options.device, batch_tokens=batch_tokens,
                max_steps=options.steps, valid_every=options.steps, log_every=every, average="none",
            )  # fmt: skip
            speed, memory = measure(config, keep=options.keep)
            options.keep = None
            # As many source tokens as target tokens.
            operations = 3.0 * sum(weights_per_token(config, config.tokenizer.vocab_size))
            table.add(model, steps, batch_tokens, speed, speed * operations / ceiling, memory)


def sized(model: str, corpus: str, **training: object) -> TranslationConfig:
    """Return the settings of a model of `SIZES` on a corpus."""
    width, n_heads, n_layers = SIZES[model]
    recipe = configuration(
        f"model.d_model={width}", f"model.d_ff={4 * width}", f"model.n_heads={n_heads}",
        f"model.n_encoder_layers={n_layers}", f"model.n_decoder_layers={n_layers}", **training,
    ).model_dump()  # fmt: skip
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


if __name__ == "__main__":
    main()
