"""Models of OpenNMT-py 3 (Klein et al. 2017), one file, and of its successor eole, a folder.

Read after OpenNMT-py 3.5 (`models/model_saver`, `modules/embeddings`, `encoders/transformer`,
`decoders/transformer`, `modules/multi_headed_attn`, `inputters/inputter`) and eole 0.4 (`models/model_saver`,
`modules`, `config/models`, `inputters/inputter`). Both are pre-norm with a norm behind the last layer, and
have a bias before the softmax. The encoder reads no end token, unless a suffix is asked for.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import Names, assemble, count_layers, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignFormat, ForeignVocabulary, ImportOptions
from dragoman.interop.settings import ForeignSettings, Setting, read_settings
from dragoman.interop.torch_files import ForeignTensors, read_torch
from dragoman.model.architecture import SIDES
from dragoman.model.layers import sinusoids
from dragoman.tensors import load_tensors

STEP = re.compile(r".*_step_(\d+)\.pt")
N_POSITIONS = 5000
"""Positions that both toolkits compute."""
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
    "embeddings.position_encoding_type": ("SinusoidalInterleaved",),
}
"""The values of settings that ours computes; the first is that of a setting that is not set."""

_ATTENTION = {
    f"{ours}_attention.{matrix}": f"{theirs}_attn.{name}?"
    for ours, theirs in (("self", "self"), ("cross", "context"))
    for matrix, name in (("in_proj", "linear_{query,keys,values}"), ("out_proj", "final_linear"))
}


class Dialect(NamedTuple):
    """What one of the toolkits calls the parts of a model, and the settings of its own."""

    names: Names
    tables: tuple[str, str]
    """Position encodings of both sides, where they are in the file."""
    at: str
    """Where the settings of a side are."""
    activation: Setting
    norm_eps: float


ONMT = Dialect(
    {
        "src_embedding": "encoder.embeddings.make_embedding.emb_luts.0",
        "tgt_embedding": "decoder.embeddings.make_embedding.emb_luts.0",
        "output": "generator",
        "encoder.layer": "encoder.transformer.#",
        "decoder.layer": "decoder.transformer_layers.#",
        **_ATTENTION,
        "encoder.self_attention.norm": "layer_norm",
        "decoder.self_attention.norm": "layer_norm_1",
        "cross_attention.norm": "layer_norm_2",
        "feed_forward.linear1": "feed_forward.w_1?",
        "feed_forward.linear2": "feed_forward.w_2?",
        "feed_forward.norm": "feed_forward.layer_norm",
        "norm": "*.layer_norm",
    },
    ("encoder.embeddings.make_embedding.pe.pe", "decoder.embeddings.make_embedding.pe.pe"),
    "",
    Setting("pos_ffn_activation_fn", "relu", ("relu", "gelu")),
    1e-6,
)
EOLE = Dialect(
    {
        "src_embedding": "src_emb.embeddings",
        "tgt_embedding": "tgt_emb.embeddings",
        "output": "generator",
        "layer": "*.transformer_layers.#",
        **_ATTENTION,
        "self_attention.norm": "input_layernorm",
        "cross_attention.norm": "precontext_layernorm",
        "feed_forward.linear1": "mlp.gate_up_proj?",
        "feed_forward.linear2": "mlp.down_proj?",
        "feed_forward.norm": "post_attention_layernorm",
        "norm": "*.layer_norm",
    },
    ("src_emb.pe.pe", "tgt_emb.pe.pe"),
    "*.",
    Setting("*.mlp_activation_fn", "relu", {"relu": "relu", "gelu": "gelu", "silu": "swish"}),
    1e-5,
)


def _detects(folder: ForeignFolder) -> bool:
    """Nothing but its content tells a checkpoint of OpenNMT-py from others, so fairseq's come first."""
    return bool(folder.names("*.pt")) and not folder.names("dict.*.txt") and not _detects_eole(folder)


def _detects_eole(folder: ForeignFolder) -> bool:
    """Return a step's folder, or the folder of the model, which links to the last step's files.

    A training that may be continued leaves its optimizer.pt there, which is no checkpoint of OpenNMT-py.
    """
    return folder.has("config.json", "vocab.json", "model.00.safetensors")


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
    return _foreign(ONMT, folder, options, settings, tensors, ForeignSettings(vocab, where=path))


def read_eole(folder: ForeignFolder, options: ImportOptions) -> Foreign:
    """Return the model in a folder of eole. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config.json"
    config = folder.json("config.json")
    model = ForeignSettings(config.get("model"), where=where)
    sides = {side: model.section("") | model.section(side) for side in SIDES}
    settings = ForeignSettings(config | sides, where=where)
    settings.check(Setting(f"{side}.{side}_type", "transformer", ("transformer",)) for side in SIDES)
    path = folder.file("model.00.safetensors")
    tensors = ForeignTensors(load_tensors(path), where=path)
    parts = [f"{EOLE.names[part]}.weight" for part in ("src_embedding", "tgt_embedding", "output")]
    for name, other in pairwise(parts):  # what is shared is written once
        tensors.repeat(name, other)
    return _foreign(EOLE, folder, options, settings, tensors, read_settings(folder, "vocab.json"))


FORMAT = ForeignFormat("opennmt", "one .pt file without dict.*.txt beside it", _detects, read)
EOLE_FORMAT = ForeignFormat(
    "eole", "config.json, vocab.json and model.00.safetensors", _detects_eole, read_eole
)


def _foreign(
    dialect: Dialect,
    folder: ForeignFolder,
    options: ImportOptions,
    settings: ForeignSettings,
    tensors: ForeignTensors,
    vocab: ForeignSettings,
) -> Foreign:
    """Return the model with what cuts the text, and what is written round it. RunError: as `read`."""
    at, transforms = dialect.at, settings.texts("transforms")

    def transform(name: str, setting: str) -> str:
        """Return a setting of a transform: beside the others (OpenNMT-py), or below its name (eole)."""
        of_eole = f"transforms_configs.{name}.{setting}"
        return settings.text(of_eole, settings.text(setting)) if name in transforms else ""

    src, tgt = (_vocabulary(vocab, side) for side in ("src", "tgt"))
    languages = options.languages(None, None, where=folder.given)
    settings.refuse_where_set({f"{at}{name}": reason for name, reason in UNKNOWN_HERE.items()})
    settings.check(Setting(f"{at}{name}", choices[0], choices) for name, choices in KNOWN_HERE.items())
    width = settings.get(f"{at}hidden_size".replace("*", "encoder"))  # -1 where another one holds it
    values = settings.read({
        "d_model": Setting(f"{at}{'enc_hid_size' if width == -1 else 'hidden_size'}", 512),
        "d_ff": Setting(f"{at}transformer_ff", 2048), "n_heads": Setting(f"{at}heads", 8),
        "norm_eps": Setting(f"{at}norm_eps", dialect.norm_eps), "activation": dialect.activation,
    })  # fmt: skip
    settings.check(Setting(f"{at}{name}", 0, (0, values["n_heads"])) for name in ("num_kv", "heads_kv"))
    values |= count_layers(tensors, dialect.names) | {
        "norm": "pre", "scale_embeddings": True, "max_positions": N_POSITIONS,
        "output_bias": "generator.bias" in tensors,
        "source_end": transform("suffix", "src_suffix") == src.pieces[src.eos],
    }  # fmt: skip
    checked = model_config(values, where=settings.where)
    for name in [name for name in tensors if name.endswith(".layer_scalar")]:  # of eole 0.6
        if (factor := tensors.take(name, 1).item()) != 1.0:
            reason = f"{name} is {factor:g}: a layer whose output is scaled"
            raise RunError(f"{tensors.where}: {reason}; the model cannot be imported")

    def tables() -> Iterable[Tensor]:
        """Position encodings (P, D) of both sides: in the file, or computed."""
        encodings = [tensors.take_table(name, checked.d_model) for name in dialect.tables if name in tensors]
        return encodings if len(encodings) == 2 else [sinusoids(N_POSITIONS, checked.d_model)] * 2

    model, weights = assemble(tensors, dialect.names, checked, (src, tgt), tables)
    cut = []
    for side in ("src", "tgt"):
        spm, codes = (
            transform(name, f"{side}_subword_model") or transform(name, "src_subword_model")
            for name in ("sentencepiece", "bpe")
        )
        cut.append(folder.segmentation(options, side, spm=folder.beside(spm), codes=folder.beside(codes)))
    notes = []
    if prefix := transform("prefix", "src_prefix"):
        notes.append(f"every source began with {prefix!r} (transform prefix): write it in front yourself")
    if "onmt_tokenize" in transforms:
        notes.append("text was cut by OpenNMT's Tokenizer (transform onmt_tokenize): give it so")
    search = SearchConfig(length_penalty=0.0)
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, tuple(notes))


def _vocabulary(vocab: ForeignSettings, side: str) -> ForeignVocabulary:
    """Return the tokens of a side, the special ones found by name. RunError: there is no end token."""
    tokens, start = vocab.texts(side), vocab.text("decoder_start_token") or "<s>"
    usual = {"pad": "<blank>", "eos": "</s>", "unk": "<unk>"}
    names = {kind: vocab.text(f"specials.{kind}_token") or token for kind, token in usual.items()}
    at = {token: i for i, token in reversed(list(enumerate(tokens)))}
    missing = [name for name in (names["eos"], names["unk"], start) if name not in at]
    if missing:
        raise RunError(f"{vocab.where}: has no {missing[0]} among its tokens; copy it again")
    pad = at.get(names["pad"], at.get("<pad>"))
    return ForeignVocabulary(tokens, start=at[start], eos=at[names["eos"]], unk=at[names["unk"]], pad=pad)
