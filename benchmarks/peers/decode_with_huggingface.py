"""Hugging Face `generate` on the same weights, in fp32: python decode_with_huggingface.py FOLDER THREADS.

The model is M2M100's, the pre-norm Transformer with sinusoidal positions that transformers has, and gets
the paper's positions in place of its own. Batches of 64 sentences, sorted by length. FOLDER holds
config.json, model.safetensors and tokenizer.json; it wants transformers, and no Dragoman.
"""

import json
import sys
from pathlib import Path

import torch
from decoding import serve
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import M2M100Config, M2M100ForConditionalGeneration

PAD, BOS, EOS, UNK = range(4)
BATCH = 64


def load(folder):
    config = M2M100Config(
        **json.loads((folder / "config.json").read_text()), pad_token_id=PAD, bos_token_id=BOS,
        eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None, scale_embedding=True,
        activation_function="relu",
    )  # fmt: skip
    model = M2M100ForConditionalGeneration(config).eval()
    weights = load_file(folder / "model.safetensors")
    positions = weights.pop("positions")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected, unexpected
    assert all("embed_tokens" in name or "lm_head" in name for name in missing), missing
    model.tie_weights()
    for side in (model.model.encoder, model.model.decoder):
        side.embed_positions.weights[PAD + 1 : PAD + 1 + len(positions)] = positions
    return model


if __name__ == "__main__":
    folder, n_threads = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(n_threads)
    tokenizer, model = Tokenizer.from_file(str(folder / "tokenizer.json")), load(folder)

    @torch.inference_mode()
    def translate(texts, beam_size, longest):
        sources = [[*e.ids, EOS] for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        order = sorted(range(len(texts)), key=lambda i: len(sources[i]), reverse=True)
        found = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            rows = [torch.tensor(sources[i]) for i in chosen]
            src = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
            ids = model.generate(
                src, attention_mask=(src != PAD).long(), num_beams=beam_size, do_sample=False,
                max_new_tokens=longest or 2 * src.shape[1] + 20, suppress_tokens=[PAD, BOS, UNK],
            )  # fmt: skip
            texts_found = tokenizer.decode_batch([[i for i in row if i > UNK] for row in ids.tolist()])
            for i, text in zip(chosen, texts_found, strict=True):
                found[i] = text
        return found

    serve(translate)
