"""What the peers of benchmarks/train_speed.py have in common: the shape of the model, and how they are asked.

    python with_joeynmt.py BATCHES.npz VOCAB_SIZE

reads the number of a batch from stdin, makes an update of it, and writes the seconds that took; "ready"
first. Each runs in a Python of its own, in which Dragoman need not be.
"""

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

D_MODEL, D_FF, N_HEADS, N_LAYERS = 256, 1024, 4, 3
DROPOUT, SMOOTHING, RATE, MAX_LENGTH = 0.3, 0.1, 2e-3, 128
PAD, BOS, EOS, UNK = range(4)


def serve(make_step, numbers=None, *, speaks=True):
    """`make_step(vocab_size)` is a function that makes an update of src (B, S) and tgt (B, T + 1)."""
    arrays = np.load(sys.argv[1])
    step = make_step(int(sys.argv[2]))
    if speaks:
        print("ready", flush=True)
    for number in numbers or map(int, sys.stdin):
        src, tgt = (torch.from_numpy(arrays[f"{name}{number}"]) for name in ("src", "tgt"))
        start = time.perf_counter()
        step(src, tgt)
        if speaks:
            print(time.perf_counter() - start, flush=True)


def plain_step(model, logits_of):
    """Make an update as PyTorch's tutorials write it; `logits_of(src, inputs)` returns (B, T, V)."""
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


def teacher_forcing(tgt):
    """Return the decoder's input and labels, from start token, sentence and end token."""
    inputs = tgt[:, :-1].clone()
    inputs[inputs == EOS] = PAD
    return inputs, tgt[:, 1:]
