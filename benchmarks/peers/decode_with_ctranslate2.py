"""CTranslate2 as its own documentation uses it.

    python decode_with_ctranslate2.py RUN MODEL WORKERS THREADS [vmap]

Batches of 2048 tokens, its own length penalty; the text is cut and joined by the run's tokenizer, in Rust.
With "vmap", it searches within the shortlist that lies beside the model.
"""

import sys
from pathlib import Path

import ctranslate2
from decoding import serve

from dragoman.text.tokenizer import EOS_ID, TokenizerPair

if __name__ == "__main__":
    run, model, workers, threads, *rest = sys.argv[1:]
    tokenizers = TokenizerPair.load(Path(run) / "tokenizer")
    translator = ctranslate2.Translator(model, inter_threads=int(workers), intra_threads=int(threads))
    src_pieces = tokenizers.src.pieces()
    tgt_ids = {piece: i for i, piece in enumerate(tokenizers.tgt.pieces())}

    def translate(texts, beam_size, longest):
        sources = [[*ids, EOS_ID] for ids in tokenizers.src.encode_batch(texts)]
        found = translator.translate_batch(
            [[src_pieces[i] for i in ids] for ids in sources],
            beam_size=beam_size, max_batch_size=2048, batch_type="tokens", max_decoding_length=longest or 256,
            use_vmap=bool(rest),
        )  # fmt: skip
        return tokenizers.tgt.decode_batch([[tgt_ids[p] for p in result.hypotheses[0]] for result in found])

    serve(translate)
