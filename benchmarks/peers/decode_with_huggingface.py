"""Hugging Face `generate` on the same weights, in fp32: python decode_with_huggingface.py FOLDER THREADS.

Batches of 64 sentences, sorted by length. FOLDER is what `dragoman export RUN --to huggingface` writes; it
wants transformers, and no Dragoman.
"""

import sys

import torch
from decoding import serve
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

BATCH = 64

if __name__ == "__main__":
    folder, n_threads = sys.argv[1:]
    torch.set_num_threads(int(n_threads))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    model.generation_config.length_penalty = None  # its own, as the others have theirs

    @torch.inference_mode()
    def translate(texts, beam_size, longest):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
        found = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            src = tokenizer([texts[i] for i in chosen], return_tensors="pt", padding=True)
            ids = model.generate(
                **src, num_beams=beam_size, do_sample=False, max_length=None,
                max_new_tokens=longest or 2 * src.input_ids.shape[1] + 20,
            )  # fmt: skip
            for i, text in zip(chosen, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                found[i] = text
        return found

    serve(translate)
