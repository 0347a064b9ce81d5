"""JoeyNMT 2.3.0: its model, its batches, its loss, and the step of its TrainManager in fp32, its default.

It wants a Python of its own with

    pip install torch==2.13.0 joeynmt==2.3.0 importlib_metadata sentencepiece==0.2.0
"""

import logging
from types import SimpleNamespace

import torch
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from worker import D_FF, D_MODEL, DROPOUT, N_HEADS, N_LAYERS, RATE, SMOOTHING, serve

THEIR_PAD, THEIR_EOS = 1, 3
THEIR_IDS = torch.tensor([1, 2, 3, 0])
"""Of our padding, begin, end, unknown."""

SPECIALS = SimpleNamespace(
    unk_id=0, unk_token="<unk>", pad_id=1, pad_token="<pad>", bos_id=2, bos_token="<s>",
    eos_id=3, eos_token="</s>", sep_id=None, sep_token=None, lang_tags=[],
)  # fmt: skip


def make_step(vocab_size):
    logging.disable(logging.CRITICAL)
    vocabulary = Vocabulary([f"t{i}" for i in range(4, vocab_size)], SPECIALS)
    side = {
        "type": "transformer", "num_layers": N_LAYERS, "num_heads": N_HEADS, "hidden_size": D_MODEL,
        "ff_size": D_FF, "dropout": DROPOUT, "layer_norm": "pre",
        "embeddings": {"embedding_dim": D_MODEL, "scale": True, "dropout": DROPOUT},
    }  # fmt: skip
    settings = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": {**side}}
    model = build_model(settings, src_vocab=vocabulary, trg_vocab=vocabulary).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(src, tgt):
        batch = Batch(
            src=theirs(src), src_length=(src != 0).sum(1), src_prompt_mask=None, trg=theirs(tgt),
            trg_prompt_mask=None, indices=torch.arange(len(src)), device=torch.device("cpu"),
            pad_index=THEIR_PAD, eos_index=THEIR_EOS, is_train=True,
        )  # fmt: skip
        batch.sort_by_src_length()
        loss, _, _, _ = model(return_type="loss", **vars(batch))
        batch.normalize(loss, normalization="tokens").backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def theirs(ids):
    """Our ids as theirs."""
    return torch.where(ids < 4, THEIR_IDS[ids.clamp(max=3)], ids)


if __name__ == "__main__":
    serve(make_step)
