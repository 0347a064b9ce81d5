"""Libraries of benchmarks/train_speed.py: each is a process that makes updates when it is asked to.

    python training.py torch BATCHES.npz VOCAB_SIZE
    python training.py marian BATCHES.npz VOCAB_SIZE
    python training.py joeynmt BATCHES.npz VOCAB_SIZE
    python training.py dragoman BATCHES.npz VOCAB_SIZE bf16 fast      # also in several processes of torchrun

It says "ready", reads the number of a batch from stdin, makes an update of it, and writes the seconds that
took. Marian wants a Python with transformers; JoeyNMT one of its own, with

    pip install torch==2.13.0 joeynmt==2.3.0 importlib_metadata sentencepiece==0.2.0
"""

import logging
import math
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

D_MODEL, D_FF, N_HEADS, N_LAYERS = 256, 1024, 4, 3
DROPOUT, SMOOTHING, RATE, MAX_LENGTH = 0.3, 0.1, 2e-3, 128
PAD, BOS, EOS, UNK = range(4)


def serve(path, step, numbers=None, *, speaks=True):
    """Make an update with `step(src, tgt)` for each number: src is (B, S), tgt (B, T + 1)."""
    arrays = np.load(path)
    if speaks:
        print("ready", flush=True)
    for number in numbers or map(int, sys.stdin):
        src, tgt = (torch.from_numpy(arrays[f"{name}{number}"]) for name in ("src", "tgt"))
        start = time.perf_counter()
        step(src, tgt)
        if speaks:
            print(time.perf_counter() - start, flush=True)


def teacher_forcing(tgt):
    """Return the decoder's input and labels, from start token, sentence and end token."""
    inputs = tgt[:, :-1].clone()
    inputs[inputs == EOS] = PAD
    return inputs, tgt[:, 1:]


def plain_step(model, logits_of):
    """Make an update as PyTorch's tutorials write it, in fp32; `logits_of(src, inputs)` returns (B, T, V)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(src, tgt):
        inputs, targets = teacher_forcing(tgt)
        logits = logits_of(src, inputs).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` on padded batches."""

    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL, padding_idx=PAD)
        position = torch.arange(MAX_LENGTH)[:, None]
        angles = position * torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10000.0) / D_MODEL))
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            D_MODEL, N_HEADS, N_LAYERS, N_LAYERS, D_FF, DROPOUT, batch_first=True, norm_first=True
        )
        self.output = nn.Linear(D_MODEL, vocab_size, bias=False)
        self.output.weight = self.embedding.weight

    def embed(self, ids):
        return self.dropout(self.embedding(ids) * math.sqrt(D_MODEL) + self.positions[: ids.shape[1]])

    def forward(self, src, tgt):
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).isinf()
        hidden = self.transformer(
            self.embed(src), self.embed(tgt), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=src == PAD, memory_key_padding_mask=src == PAD,
        )  # fmt: skip
        return self.output(hidden)


def plain_torch(path, vocab_size):
    model = PlainTransformer(vocab_size).train()
    serve(path, plain_step(model, model))


def marian(path, vocab_size):
    """Hugging Face `MarianMTModel` in a plain loop."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab_size, d_model=D_MODEL, encoder_layers=N_LAYERS, decoder_layers=N_LAYERS,
        encoder_attention_heads=N_HEADS, decoder_attention_heads=N_HEADS, encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF, dropout=DROPOUT, attention_dropout=0.0, activation_function="relu",
        max_position_embeddings=MAX_LENGTH, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
        decoder_start_token_id=BOS, forced_eos_token_id=EOS, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config).train()

    def logits_of(src, inputs):
        return model(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=inputs).logits

    serve(path, plain_step(model, logits_of))


def joeynmt(path, vocab_size):
    """JoeyNMT's model, batches and loss, and the step of its TrainManager in fp32, its default."""
    from joeynmt.batch import Batch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    logging.disable(logging.CRITICAL)
    their_pad, their_eos = 1, 3
    their_ids = torch.tensor([1, 2, 3, 0])  # of our padding, begin, end, unknown
    specials = SimpleNamespace(
        unk_id=0, unk_token="<unk>", pad_id=1, pad_token="<pad>", bos_id=2, bos_token="<s>",
        eos_id=3, eos_token="</s>", sep_id=None, sep_token=None, lang_tags=[],
    )  # fmt: skip
    vocabulary = Vocabulary([f"t{i}" for i in range(4, vocab_size)], specials)
    side = {
        "type": "transformer", "num_layers": N_LAYERS, "num_heads": N_HEADS, "hidden_size": D_MODEL,
        "ff_size": D_FF, "dropout": DROPOUT, "layer_norm": "pre",
        "embeddings": {"embedding_dim": D_MODEL, "scale": True, "dropout": DROPOUT},
    }  # fmt: skip
    settings = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": {**side}}
    model = build_model(settings, src_vocab=vocabulary, trg_vocab=vocabulary).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def theirs(ids):
        return torch.where(ids < 4, their_ids[ids.clamp(max=3)], ids)

    def step(src, tgt):
        batch = Batch(
            src=theirs(src), src_length=(src != 0).sum(1), src_prompt_mask=None, trg=theirs(tgt),
            trg_prompt_mask=None, indices=torch.arange(len(src)), device=torch.device("cpu"),
            pad_index=their_pad, eos_index=their_eos, is_train=True,
        )  # fmt: skip
        batch.sort_by_src_length()
        loss, _, _, _ = model(return_type="loss", **vars(batch))
        batch.normalize(loss, normalization="tokens").backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    serve(path, step)


def dragoman(path, vocab_size, precision, kernels):
    """Dragoman's own training step, alone or as several processes under torchrun."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from dragoman.data.batching import TranslationBatch
    from dragoman.training.parallel.processes import joined
    from updates import Model, configuration

    training = {"learning_rate": RATE, "clip_norm": 1.0, "precision": precision, "kernels": kernels}
    config = configuration(f"model.dropout={DROPOUT}", **training)
    with joined("cpu") as processes:
        model = Model(config, vocab_size, smoothing=SMOOTHING, processes=processes)

        def step(src, tgt):
            rows = torch.from_numpy(processes.share(np.arange(len(src))))
            model.update(TranslationBatch(*(ids[rows] for ids in (src, *teacher_forcing(tgt)))))

        serve(path, step, numbers(processes), speaks=processes.first)


def numbers(processes):
    """Yield the numbers of the batches: the first process reads them and tells the others."""
    while True:
        line = sys.stdin.readline() if processes.first else ""
        number = int(processes.largest(float(line or -1))[0])
        if number < 0:
            return
        yield number


LIBRARIES = {"torch": plain_torch, "marian": marian, "joeynmt": joeynmt, "dragoman": dragoman}

if __name__ == "__main__":
    library, batches, n_tokens, *precision_and_kernels = sys.argv[1:]
    LIBRARIES[library](batches, int(n_tokens), *precision_and_kernels)
