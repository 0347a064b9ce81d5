"""How fast a GPU translates: the plain decoder beside recorded steps on tensors that stay (model/static.py).

    python benchmarks/gpu_decode.py RUN
    python benchmarks/gpu_decode.py RUN --ctranslate2
    python benchmarks/gpu_decode.py RUN --device cpu --batches 64 --repeat 1

Sentences a second from text to text, greedy and with a beam of 4: the run's validation sentences, `--repeat`
times over, in batches of the sizes in --batches. Each figure is the best of three rounds in which the
decoders take turns, after one for recording. --ctranslate2 adds CTranslate2 in fp16 (in fp32 on a processor)
on the same batches, with the run's tokenizer. Where there is no GPU it says so and measures nothing, unless
--device asks for the processor and its fast decoder.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from dragoman.hardware import choose_device
from dragoman.interop.ctranslate2 import convert
from dragoman.model.kernels import choose_kernels
from dragoman.predict.translator import Translator
from dragoman.text.vocabulary import EOS_ID
from measuring import Result, in_turn, parser_of, seconds_of
from texts import valid_pairs

ROUNDS = 3
BEAMS = (1, 4)


def main() -> None:
    parser = parser_of(__doc__)
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
    with ExitStack() as stack:
        translators: dict[str, Any] = {
            name: Translator.load(options.run, device=options.device) for name in ("plain", "fast")
        }
        for name, translator in translators.items():
            translator.model.kernels = choose_kernels(name, translator.model.device)
        if options.ctranslate2:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            translators["ctranslate2"] = CTranslate2(options.run, Path(folder) / "model", device)
        sentences = [pair.src for pair in valid_pairs(translators["plain"].config)] * options.repeat
        result = stack.enter_context(Result("gpu_decode", options))
        result.figure("sentences", len(sentences), ",")
        columns = {"beam": "", "at a time": ""} | dict.fromkeys(translators, ",.0f")
        table = result.table(columns | {"fast / plain": ".2f"})
        for beam_size, at_a_time in product(BEAMS, options.batches):
            settings = {"beam_size": beam_size, "batch_sentences": at_a_time}
            works = {n: partial(t.translate, sentences, **settings) for n, t in translators.items()}
            taken = in_turn({n: partial(seconds_of, work) for n, work in works.items()}, ROUNDS)
            speeds = {name: len(sentences) / min(seconds) for name, seconds in taken.items()}
            table.add(beam_size, at_a_time, *speeds.values(), speeds["fast"] / speeds["plain"])


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
        results = self.translator.translate_batch(
            [[self.pieces[i] for i in ids] for ids in sources],
            beam_size=beam_size,
            max_batch_size=batch_sentences,
        )
        ids = [[self.tgt_ids[piece] for piece in one.hypotheses[0]] for one in results]
        return self.tokenizers.tgt.decode_batch(ids)


if __name__ == "__main__":
    main()
