"""JoeyNMT 2.3.0 on the same weights, in fp32: python decode_with_joeynmt.py RUN THREADS.

Its pre-norm Transformer has the paper's positions and our shapes (one vocabulary, one embedding), but an
epsilon of 1e-6 in its norms, which is set to ours. Its own search and length penalty; batches of 64
sentences, sorted by length. RUN is a run of Dragoman, whose files it reads; it wants a Python of its own with

    pip install torch==2.13.0 joeynmt==2.3.0 importlib_metadata sentencepiece==0.2.0 safetensors tokenizers
"""

import logging
import sys
from pathlib import Path

import tomllib
import torch
from decoding import serve
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from safetensors.torch import load_file
from tokenizers import Tokenizer
from with_joeynmt import SPECIALS, THEIR_EOS, THEIR_IDS, THEIR_PAD, theirs

EOS = 2
BATCH = 64
ALPHA = 1.0
EPSILON = 1e-5
BLOCKS = {
    "encoder": {"self_attention": "src_src_att"},
    "decoder": {"self_attention": "trg_trg_att", "cross_attention": "src_trg_att"},
}
NORMS = {
    "encoder": ["layer_norm", "feed_forward.layer_norm"],
    "decoder": ["x_layer_norm", "dec_layer_norm", "feed_forward.layer_norm"],
}
FEED_FORWARD = {"linear1": 0, "linear2": 3}


def load(run):
    settings = tomllib.loads((run / "config.toml").read_text())["model"]
    assert (settings["norm"], settings["tie_embeddings"]) == ("pre", "all"), settings
    weights = load_file(run / "model.safetensors")
    [embedding] = {name for name in weights if "embedding" in name or name == "output.weight"}
    vocabulary = Vocabulary([f"t{i}" for i in range(4, len(weights[embedding]))], SPECIALS)
    common = {
        "type": "transformer", "num_heads": settings["n_heads"], "hidden_size": settings["d_model"],
        "ff_size": settings["d_ff"], "layer_norm": "pre", "activation": settings["activation"],
        "embeddings": {"embedding_dim": settings["d_model"], "scale": True},
    }  # fmt: skip
    config = {side: {**common, "num_layers": settings[f"n_{side}_layers"]} for side in BLOCKS}
    model = build_model(
        {"tied_embeddings": True, "tied_softmax": True, **config}, src_vocab=vocabulary, trg_vocab=vocabulary
    ).eval()
    their_table = weights.pop(embedding)[[*THEIR_IDS.argsort().tolist(), *range(4, len(vocabulary))]]
    state = {"src_embed.lut.weight": their_table, "decoder.output_layer.weight": their_table}
    for name, tensor in weights.items():
        state.update(renamed(name.split("."), tensor))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert all(name.endswith("pe.pe") or name.startswith("trg_embed") for name in missing), missing
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = EPSILON
    return model


def renamed(name, tensor):
    """Yield the parts of the tensor with that name."""
    side, number, *rest = name
    if side.endswith("_norm"):
        return {f"{side.removesuffix('_norm')}.layer_norm.{number}": tensor}
    block, part, kind = rest[0], rest[1], rest[-1]
    layer = f"{side}.layers.{number}"
    if block == "residuals":
        return {f"{layer}.{NORMS[side][int(part)]}.{kind}": tensor}
    if block == "feed_forward":
        return {f"{layer}.feed_forward.pwff_layer.{FEED_FORWARD[part]}.{kind}": tensor}
    attention = f"{layer}.{BLOCKS[side][block]}"
    if part == "out_proj":
        return {f"{attention}.output_layer.{kind}": tensor}
    return {f"{attention}.{letter}_layer.{kind}": x for letter, x in zip("qkv", tensor.chunk(3), strict=True)}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    run, n_threads = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(n_threads)
    tokenizer, model = Tokenizer.from_file(str(run / "tokenizer" / "shared.json")), load(run)

    @torch.inference_mode()
    def translate(texts, beam_size, longest):
        sources = [[*e.ids, EOS] for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        order = sorted(range(len(texts)), key=lambda i: len(sources[i]), reverse=True)
        found = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            rows = [torch.tensor(sources[i]) for i in chosen]
            lengths = torch.tensor([len(row) for row in rows])
            src = theirs(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
            batch = Batch(
                src=src, src_length=lengths, src_prompt_mask=None, trg=None, trg_prompt_mask=None,
                indices=torch.arange(len(src)), device=src.device, pad_index=THEIR_PAD, eos_index=THEIR_EOS,
                is_train=False,
            )  # fmt: skip
            most = longest or 2 * src.shape[1] + 20
            ids, _, _ = search(model, batch, most, beam_size, ALPHA, generate_unk=False)
            for i, row in zip(chosen, ids.tolist(), strict=True):
                end = row.index(THEIR_EOS) if THEIR_EOS in row else len(row)
                found[i] = tokenizer.decode([t for t in row[:end] if t > THEIR_EOS])
        return found

    serve(translate)
