"""Models of OpenNMT-py 3 (Klein et al. 2017), one file.

Read after OpenNMT-py 3.5 (`models/model_saver`, `modules/embeddings`, `encoders/transformer`,
`decoders/transformer`, `modules/multi_headed_attn`, `inputters/inputter`). Its Transformer is pre-norm with a
norm behind the last layer, and has a bias before the softmax. The encoder reads no end token, unless a suffix
is asked for.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping

from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import assemble, count_layers, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignFormat, ForeignVocabulary, ImportOptions
from dragoman.interop.settings import ForeignSettings, Setting
from dragoman.interop.torch_files import ForeignTensors, read_torch
from dragoman.model.architecture import SIDES
from dragoman.model.layers import sinusoids

STEP = re.compile(r".*_step_(\d+)\.pt")
N_POSITIONS = 5000
"""Positions that it computes."""
UNKNOWN_HERE = {
    "parallel_residual": "sub-layers side by side",
    "max_relative_positions": "relative positions",
    "sliding_window": "attention in a window",
}
"""What changes no weight; other architectures have weights that are left over, or miss some of ours."""
KNOWN_HERE = {
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "layer_norm": ("standard", "standardFP32"),
    "generator_function": ("softmax",),
    "model_task": ("seq2seq",),
    "position_encoding_type": ("SinusoidalInterleaved",),
}
"""The values of settings that ours computes; the first is that of a setting that is not set."""

NAMES = {
    "src_embedding": "encoder.embeddings.make_embedding.emb_luts.0",
    "tgt_embedding": "decoder.embeddings.make_embedding.emb_luts.0",
    "output": "generator",
    "encoder.layer": "encoder.transformer.#",
    "decoder.layer": "decoder.transformer_layers.#",
    "self_attention.in_proj": "self_attn.linear_{query,keys,values}?",
    "self_attention.out_proj": "self_attn.final_linear?",
    "cross_attention.in_proj": "context_attn.linear_{query,keys,values}?",
    "cross_attention.out_proj": "context_attn.final_linear?",
    "encoder.self_attention.norm": "layer_norm",
    "decoder.self_attention.norm": "layer_norm_1",
    "cross_attention.norm": "layer_norm_2",
    "feed_forward.linear1": "feed_forward.w_1?",
    "feed_forward.linear2": "feed_forward.w_2?",
    "feed_forward.norm": "feed_forward.layer_norm",
    "norm": "*.layer_norm",
}
TABLES = [f"{side}.embeddings.make_embedding.pe.pe" for side in SIDES]
"""Position encodings of both sides, where they are in the file."""


def _detects(folder: ForeignFolder) -> bool:
    """Nothing but its content tells a checkpoint of OpenNMT-py from others, so fairseq's come first."""
    return bool(folder.names("*.pt")) and not folder.names("dict.*.txt")


def read(folder: ForeignFolder, options: ImportOptions) -> Foreign:
    """Return the model in a checkpoint of OpenNMT-py: of the most steps, unless one is named.

    RunError: it is not whole, or computes what ours does not.
    """
    steps = {int(match[1]): match[0] for name in folder.names() if (match := STEP.fullmatch(name))}
    path = folder.weights("*.pt", *(steps[step] for step in sorted(steps, reverse=True)))
    state = read_torch(path, harmless=[argparse.Namespace])
    vocab, generator = (state.get(name) for name in ("vocab", "generator"))
    if not isinstance(vocab, Mapping) or not isinstance(generator, Mapping):
        raise RunError(f"{path}: holds no vocab and generator; give a checkpoint of OpenNMT-py 3")
    if vocab.get("src_feats"):
        raise RunError(f"{path}: has features of words beside the words; such a model cannot be imported")
    settings = ForeignSettings(state.get("opt"), where=path)
    if not settings.get("position_encoding", False):
        raise settings.refusal("position_encoding", "positions are told in another way, by relative ones")
    settings.check(Setting(f"{side}_type", "rnn", ("transformer",)) for side in SIDES)
    tensors = ForeignTensors(state.get("model"), where=path)
    tensors |= ForeignTensors({f"generator.{name}": tensor for name, tensor in generator.items()}, where=path)
    src, tgt = (_vocabulary(ForeignSettings(vocab, where=path), side) for side in ("src", "tgt"))
    languages = options.languages(None, None, where=folder.given)
    transforms = settings.texts("transforms")
    ends = "suffix" in transforms and settings.text("src_suffix") == src.pieces[src.eos]
    model, weights = _convert(settings, tensors, (src, tgt), ends=ends)
    cut = []
    for side in ("src", "tgt"):
        models = settings.text(f"{side}_subword_model") or settings.text("src_subword_model")
        spm, codes = (folder.beside(models) if t in transforms else None for t in ("sentencepiece", "bpe"))
        cut.append(folder.segmentation(options, side, spm=spm, codes=codes))
    notes = []
    if "prefix" in transforms and (prefix := settings.text("src_prefix")):
        notes.append(f"every source began with {prefix!r} (transform prefix): write it in front yourself")
    if "onmt_tokenize" in transforms:
        notes.append("text was cut by OpenNMT's Tokenizer (transform onmt_tokenize): give it so")
    search = SearchConfig(length_penalty=0.0)
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, tuple(notes))


FORMAT = ForeignFormat("opennmt", "one .pt file without dict.*.txt beside it", _detects, read)


def _convert(
    settings: ForeignSettings,
    tensors: ForeignTensors,
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary],
    *,
    ends: bool,
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return settings and parameters in Dragoman's names; `ends`: the encoder reads the end of a source."""
    settings.refuse_where_set(UNKNOWN_HERE)
    settings.check(Setting(name, choices[0], choices) for name, choices in KNOWN_HERE.items())
    width = "enc_hid_size" if settings.get("hidden_size") == -1 else "hidden_size"
    values = settings.read({
        "d_model": Setting(width, 512), "d_ff": Setting("transformer_ff", 2048),
        "n_heads": Setting("heads", 8), "norm_eps": Setting("norm_eps", 1e-6),
        "activation": Setting("pos_ffn_activation_fn", "relu", ("relu", "gelu")),
    })  # fmt: skip
    settings.check([Setting("num_kv", 0, (0, values["n_heads"]))])
    values |= count_layers(tensors, NAMES) | {
        "norm": "pre", "scale_embeddings": True, "max_positions": N_POSITIONS,
        "output_bias": "generator.bias" in tensors, "source_end": ends,
    }  # fmt: skip
    model = model_config(values, where=settings.where)

    def tables() -> Iterable[Tensor]:
        """Position encodings (P, D) of both sides: in the file, or computed."""
        encodings = [tensors.take_table(name, model.d_model) for name in TABLES if name in tensors]
        return encodings if len(encodings) == 2 else [sinusoids(N_POSITIONS, model.d_model)] * 2

    return assemble(tensors, NAMES, model, vocabularies, tables)


def _vocabulary(vocab: ForeignSettings, side: str) -> ForeignVocabulary:
    """Return the tokens of a side, the special ones found by name. RunError: there is no end token."""
    tokens, start = vocab.texts(side), vocab.text("decoder_start_token") or "<s>"
    at = {token: i for i, token in reversed(list(enumerate(tokens)))}
    if missing := [name for name in ("</s>", "<unk>", start) if name not in at]:
        raise RunError(f"{vocab.where}: has no {missing[0]} among its tokens; copy it again")
    pad = at.get("<blank>", at.get("<pad>"))
    return ForeignVocabulary(tokens, start=at[start], eos=at["</s>"], unk=at["<unk>"], pad=pad)
