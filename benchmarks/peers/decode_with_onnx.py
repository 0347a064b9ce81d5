"""Dragoman's search over onnxruntime: python decode_with_onnx.py RUN EXPORT THREADS.

EXPORT is what `dragoman export RUN --to onnx` wrote.
"""

import os
import sys
from pathlib import Path

from decoding import serve

from dragoman.hardware import prepare_for_translating
from dragoman.interop.onnx import OnnxEngine
from dragoman.predict.translator import Translator

if __name__ == "__main__":
    run, export, n_threads = sys.argv[1:]
    prepare_for_translating()
    translator = Translator.load(run, precision="fp32")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(n_threads)])  # onnxruntime takes all it may
    translator.engine = OnnxEngine(Path(export), max_positions=translator.max_positions)

    def translate(texts, beam_size, longest):
        limit = {"max_length_factor": 1e-9, "max_length_extra": longest} if longest else {}
        return [t.text for t in translator.translate(texts, beam_size=beam_size, n_best=1, **limit)]

    serve(translate)
