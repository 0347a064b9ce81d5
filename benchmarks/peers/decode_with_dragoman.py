"""Dragoman's translator: python decode_with_dragoman.py RUN PRECISION THREADS [all].

With "all", no shortlist limits what is computed.
"""

import sys

import torch
from decoding import serve

from dragoman.hardware import prepare_for_translating
from dragoman.predict.translator import Translator

if __name__ == "__main__":
    run, precision, n_threads, *rest = sys.argv[1:]
    prepare_for_translating()
    torch.set_num_threads(int(n_threads))
    translator = Translator.load(run, precision=precision)

    def translate(texts, beam_size, longest):
        settings = {"beam_size": beam_size, "n_best": 1, "shortlist": not rest}
        if longest:
            settings |= {"max_length_factor": 1e-9, "max_length_extra": longest}
        return [t.text for t in translator.translate(texts, **settings)]

    serve(translate)
