"""Engines of benchmarks/decode_speed.py: each is a process that translates files when it is asked to.

    python decoding.py dragoman RUN PRECISION THREADS [all]       # all: no shortlist limits what is computed
    python decoding.py onnx RUN EXPORT THREADS
    python decoding.py ctranslate2 RUN MODEL WORKERS THREADS [vmap]
    python decoding.py huggingface FOLDER THREADS

It says "ready" when it has loaded. Then it reads lines of JSON, {"texts": FILE, "beam_size": N, "repeat": N,
"longest": N}, translates all lines of the file `repeat` times, as one corpus, and answers {"seconds": S,
"texts": [...]}, the translations of the first time. "longest" is the most tokens a translation may have, for
models that have not learnt to end; 0: as each does it. Each engine imports what it needs, and no more.
"""

import json
import os
import sys
import time
from pathlib import Path

BATCH = 64
"""Sentences of a batch, sorted by length, where a library has no batches of its own."""


def dragoman(run, precision, n_threads, *rest):
    import torch

    from dragoman.hardware import prepare_for_translating
    from dragoman.predict.translator import Translator

    prepare_for_translating()
    torch.set_num_threads(int(n_threads))
    return by(Translator.load(run, precision=precision), shortlist=not rest)


def onnx(run, export, n_threads):
    """Dragoman's search over onnxruntime."""
    from dragoman.hardware import prepare_for_translating
    from dragoman.interop.onnx import OnnxEngine
    from dragoman.predict.translator import Translator

    prepare_for_translating()
    translator = Translator.load(run, precision="fp32")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(n_threads)])  # onnxruntime takes all it may
    translator.engine = OnnxEngine(Path(export), max_positions=translator.max_positions)
    return by(translator)


def by(translator, **settings):
    """Return the function of a Dragoman translator."""

    def translate(texts, beam_size, longest):
        limit = {"max_length_factor": 1e-9, "max_length_extra": longest} if longest else {}
        found = translator.translate(texts, beam_size=beam_size, n_best=1, **limit, **settings)
        return [translation.text for translation in found]

    return translate


def ctranslate2(run, model, workers, n_threads, *rest):
    """CTranslate2 as its documentation uses it: batches of 2048 tokens, its own length penalty.

    The text is cut and joined by the run's tokenizer, in Rust.
    """
    import ctranslate2

    from dragoman.text.tokenizer import EOS_ID, TokenizerPair

    tokenizers = TokenizerPair.load(Path(run) / "tokenizer")
    translator = ctranslate2.Translator(model, inter_threads=int(workers), intra_threads=int(n_threads))
    src_pieces = tokenizers.src.pieces()
    tgt_ids = {piece: i for i, piece in enumerate(tokenizers.tgt.pieces())}

    def translate(texts, beam_size, longest):
        sources = [[*ids, EOS_ID] for ids in tokenizers.src.encode_batch(texts)]
        results = translator.translate_batch(
            [[src_pieces[i] for i in ids] for ids in sources],
            beam_size=beam_size, max_batch_size=2048, batch_type="tokens", max_decoding_length=longest or 256,
            use_vmap=bool(rest),
        )  # fmt: skip
        return tokenizers.tgt.decode_batch([[tgt_ids[p] for p in one.hypotheses[0]] for one in results])

    return translate


def huggingface(folder, n_threads):
    """`generate` on the same weights, in fp32; it wants transformers, and no Dragoman."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch.set_num_threads(int(n_threads))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    model.generation_config.length_penalty = None  # its own, as the others have theirs

    @torch.inference_mode()
    def translate(texts, beam_size, longest):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
        translations = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            src = tokenizer([texts[i] for i in chosen], return_tensors="pt", padding=True)
            ids = model.generate(
                **src, num_beams=beam_size, do_sample=False, max_length=None,
                max_new_tokens=longest or 2 * src.input_ids.shape[1] + 20,
            )  # fmt: skip
            for i, text in zip(chosen, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                translations[i] = text
        return translations

    return translate


ENGINES = {engine.__name__: engine for engine in (dragoman, onnx, ctranslate2, huggingface)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    translate = ENGINES[name](*arguments)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        texts = Path(request["texts"]).read_text(encoding="utf-8").splitlines()
        begun = time.perf_counter()
        translations = translate(texts * request["repeat"], request["beam_size"], request["longest"])
        seconds = time.perf_counter() - begun
        print(json.dumps({"seconds": seconds, "texts": translations[: len(texts)]}), flush=True)
