"""Models of OpenNMT-py 2 and 3 (Klein et al. 2017), one file, and of its successor eole, a folder.

Read after OpenNMT-py 2.3 and 3.5 (`models/model_saver`, `modules/embeddings`, `encoders/transformer`,
`decoders/transformer`, `modules/multi_headed_attn`, `inputters/inputter`) and eole 0.4 (`models/model_saver`,
`modules`, `config/models`, `inputters/inputter`). All of them are pre-norm with a norm behind the last
layer, and have a bias before the softmax. The encoder reads no end token, unless a suffix is asked for.
"""

from __future__ import annotations

import argparse
import collections
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import Names, assemble, count_layers, halved_sinusoids, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Format, Options
from dragoman.interop.segmenting import beside, segmentation
from dragoman.interop.settings import Setting, Settings
from dragoman.interop.torch_files import ForeignTensors, Inert, inert, read_torch
from dragoman.model.architecture import SIDES
from dragoman.model.layers import sinusoids
from dragoman.tensors import load_tensors

N_POSITIONS = 5000
"""Positions that both toolkits compute."""
HARMLESS: list[type | tuple[type, str]] = [
    argparse.Namespace,
    collections.defaultdict,
    *inert(
        "onmt.inputters.text_dataset.TextMultiField", "onmt.inputters.text_dataset._feature_tokenize",
        "onmt.inputters.fields.TextMultiField", "onmt.inputters.fields._feature_tokenize",
        "torchtext.data.field.Field", "torchtext.data.field.RawField", "torchtext.vocab.Vocab",
        "torchtext.vocab._default_unk_index", "torchtext.legacy.data.field.Field",
        "torchtext.legacy.data.field.RawField", "torchtext.legacy.vocab.Vocab", "functools.partial",
        "onmt.inputters.inputter.AlignField", "onmt.inputters.inputter.make_src",
        "onmt.inputters.inputter.make_tgt",
    ),
]  # fmt: skip
"""OpenNMT-py 2 keeps its vocabularies in objects of torchtext."""

UNKNOWN_HERE = {
    "copy_attn": "copied source words",
    "aan_useffn": "average attention",
    "parallel_residual": "sub-layers side by side",
    "num_experts": "mixtures of experts",
    "relative_positions_buckets": "relative positions",
    "max_relative_positions": "relative positions",
    "sliding_window": "attention in a window",
    "query_norm": "norms of queries",
    "key_norm": "norms of keys",
    "ffn_layernorm": "norms round the feed-forward block",
    "shared_layer_norm": "one norm for two sub-layers",
}

KNOWN_HERE = {
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "layer_norm": ("standard", "standardFP32"),
    "generator_function": ("softmax",),
    "model_task": ("seq2seq",),
}
"""The values of settings that ours computes; the first is that of a setting that is not set."""

_ATTENTION = {
    f"{ours}_attention.{matrix}": f"{theirs}_attn.{name}?"
    for ours, theirs in (("self", "self"), ("cross", "context"))
    for matrix, name in (("in_proj", "linear_{query,keys,values}"), ("out_proj", "final_linear"))
}


class Dialect(NamedTuple):
    """What one of the toolkits calls the parts of a model, and the settings of its own."""

    name: str
    names: Names
    tables: tuple[str, str]
    """Position encodings of both sides, where they are in the file."""
    at: str
    """Where the settings of a side are."""
    activation: Setting
    norm_eps: float


ONMT = Dialect(
    "opennmt",
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
    "eole",
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


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """Return the model in a checkpoint of OpenNMT-py.

    RunError: it is not whole, or computes what ours does not.
    """
    path = folder.file(folder.checkpoint or _checkpoint(folder))
    state = read_torch(path, harmless=HARMLESS)
    model, generator, vocab = (state.get(name) for name in ("model", "generator", "vocab"))
    if not isinstance(model, dict) or not isinstance(generator, dict) or state.get("opt") is None:
        raise RunError(f"{path}: holds no model, generator and opt; give a checkpoint of OpenNMT-py")
    settings = Settings(state["opt"], where=path)
    for side in SIDES:
        settings.value(Setting(f"{side}_type", "rnn", ("transformer",)))
    if not settings.get("position_encoding", False):
        raise settings.refusal("position_encoding", "positions are told in another way, by relative ones")
    start = "<s>"
    if isinstance(vocab, Mapping):  # of version 3
        start = str(vocab.get("decoder_start_token") or start)
        if vocab.get("src_feats"):
            raise RunError(f"{path}: has features of words beside the words; such a model cannot be imported")
    elif isinstance(vocab, list):
        vocab = dict(filter(_is_pair, vocab))
    entries = Settings(vocab, where=path)
    vocabularies = [_vocabulary(_itos(entries.get(side)), start, {}, path) for side in ("src", "tgt")]
    projection = {f"generator.{str(name).removeprefix('0.')}": tensor for name, tensor in generator.items()}
    tensors = ForeignTensors(model | projection, where=path)
    return _foreign(ONMT, folder, options, settings, tensors, *vocabularies)


def read_eole(folder: ForeignFolder, options: Options) -> Foreign:
    """Return the model in a folder of eole. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config.json"
    config = folder.json("config.json")
    model = Settings(config.get("model"), where=where)
    shared = model.section("")
    sides = {side: shared | model.section(side) for side in SIDES}
    settings = Settings(config | sides, where=where)
    for side in SIDES:
        settings.value(Setting(f"{side}.{side}_type", "transformer", ("transformer",)))
    vocab = Settings(folder.json("vocab.json"), where=folder.path / "vocab.json")
    start, specials = vocab.text("decoder_start_token") or "<s>", vocab.section("specials")
    vocabularies = [_vocabulary(vocab.get(side), start, specials, vocab.where) for side in ("src", "tgt")]
    path = folder.file("model.00.safetensors")
    tensors = ForeignTensors(load_tensors(path), where=path)
    parts = [f"{EOLE.names[part]}.weight" for part in ("src_embedding", "tgt_embedding", "output")]
    for name, other in pairwise(parts):  # what is shared is written once
        tensors.repeat(name, other)
    return _foreign(EOLE, folder, options, settings, tensors, *vocabularies)


FORMAT = Format("opennmt", "one .pt file without dict.*.txt beside it", _detects, read)
EOLE_FORMAT = Format("eole", "config.json, vocab.json and model.00.safetensors", _detects_eole, read_eole)


def _foreign(
    dialect: Dialect,
    folder: ForeignFolder,
    options: Options,
    settings: Settings,
    tensors: ForeignTensors,
    src: ForeignVocabulary,
    tgt: ForeignVocabulary,
) -> Foreign:
    """Return the model with what cuts the text, and what is written round it."""
    languages = options.languages(None, None, where=folder.given)
    ends = _transform(settings, "suffix", "src_suffix") == src.pieces[src.eos]
    model, weights = _convert(dialect, settings, tensors, (src, tgt), ends=ends)
    cut = []
    for side in ("src", "tgt"):
        spm, codes = (
            _transform(settings, transform, f"{side}_subword_model")
            or _transform(settings, transform, "src_subword_model")
            for transform in ("sentencepiece", "bpe")
        )
        cut.append(segmentation(folder, options, side, spm=beside(folder, spm), codes=beside(folder, codes)))
    notes = []
    if prefix := _transform(settings, "prefix", "src_prefix"):
        notes.append(f"every source began with {prefix!r} (transform prefix): write it in front yourself")
    if "onmt_tokenize" in settings.texts("transforms"):
        notes.append("text was cut by OpenNMT's Tokenizer (transform onmt_tokenize): give it so")
    search = SearchConfig(length_penalty=0.0)
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, tuple(notes))


def _convert(
    dialect: Dialect,
    settings: Settings,
    tensors: ForeignTensors,
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary],
    *,
    ends: bool,
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return settings and parameters in Dragoman's names; `ends`: the encoder reads the end of a source."""
    at, first = dialect.at, dialect.at.replace("*", "encoder")
    settings.refuse_where_set({f"{at}{name}": reason for name, reason in UNKNOWN_HERE.items()})
    for name, known in KNOWN_HERE.items():
        settings.value(Setting(f"{at}{name}", known[0], known))
    widths = ("hidden_size", "enc_hid_size", "enc_rnn_size", "rnn_size")  # -1 where another one holds it
    width = next((name for name in widths if settings.number(f"{first}{name}", -1) > 0), widths[0])
    found = settings.read(
        {
            "d_model": Setting(f"{at}{width}", 512),
            "d_ff": Setting(f"{at}transformer_ff", 2048),
            "n_heads": Setting(f"{at}heads", 8),
            "norm_eps": Setting(f"{at}norm_eps", dialect.norm_eps),
            "activation": dialect.activation,
        }
    )
    for name in ("num_kv", "heads_kv"):
        settings.value(Setting(f"{at}{name}", 0, (0, found["n_heads"])))
    kind = settings.get(f"{first}position_encoding_type") or settings.get(
        f"{first}embeddings.position_encoding_type", "SinusoidalInterleaved"
    )
    if kind not in ("SinusoidalInterleaved", "SinusoidalConcat", "Learned"):
        raise settings.refusal(
            f"{first}embeddings.position_encoding_type", "only absolute positions are ours"
        )
    learned = kind == "Learned"
    scaled = not learned or bool(settings.get(f"{first}embeddings.normalize", False))
    model = model_config(
        {
            **found,
            **count_layers(tensors, dialect.names),
            "norm": "pre",
            "scale_embeddings": scaled,
            "max_positions": N_POSITIONS,
            "output_bias": "generator.bias" in tensors,
            "source_end": ends,
        },
        where=settings.where,
    )

    def tables() -> Iterable[Tensor]:
        """Position encodings (P, D) of both sides: learned, in the file, or computed."""
        if learned:  # (embedding + position) times sqrt(d_model) where it says normalize
            shift = settings.count(f"{first}embeddings.position_shift", 0, least=0)
            factor = model.d_model**0.5 if scaled else 1.0
            there = [tensors.take_table(f"{side}_emb.pe.weight", model.d_model) for side in SIDES.values()]
            return [table[shift:] * factor for table in there]
        there = [tensors.take_table(name, model.d_model) for name in dialect.tables if name in tensors]
        concat = kind == "SinusoidalConcat"
        own = (
            halved_sinusoids(0, N_POSITIONS, model.d_model)
            if concat
            else sinusoids(N_POSITIONS, model.d_model)
        )
        return there if len(there) == 2 else [own, own]

    for name in [name for name in tensors if name.endswith(".layer_scalar")]:  # of eole 0.6
        if (factor := tensors.take(name, 1).item()) != 1.0:
            raise RunError(
                f"{tensors.where}: {name} is {factor:g}: a layer whose output is scaled; "
                "the model cannot be imported"
            )
    return assemble(tensors, dialect.names, model, vocabularies, tables, learned=learned)


def _transform(settings: Settings, transform: str, name: str) -> str:
    """Return a setting of a transform: beside the others (OpenNMT-py), or below its name (eole)."""
    if transform not in settings.texts("transforms"):
        return ""
    return settings.text(f"transforms_configs.{transform}.{name}", settings.text(name))


def _checkpoint(folder: ForeignFolder) -> str:
    """Return the name of the checkpoint of most steps. RunError: several, and it cannot be told."""
    names = folder.names("*.pt")
    steps = {name: int(match.group(1)) for name in names if (match := re.search(r"_step_(\d+)\.pt$", name))}
    if len(names) == 1:
        return names[0]
    if not names or len(steps) != len(names):
        raise RunError(
            f"{folder.path}: holds {', '.join(names[:3]) or 'no .pt file'}; name the checkpoint itself"
        )
    return max(names, key=lambda name: steps[name])


def _itos(entry: Any) -> Any:
    """Return the tokens of one side, wherever its objects keep them."""
    for attribute in ("fields", "vocab", "itos"):
        state = vars(entry) if isinstance(entry, Inert) else {}
        if attribute in state:
            entry = state[attribute]
            if attribute == "fields":  # more than one: features of words
                entry = entry[0][1] if isinstance(entry, list) and [*map(_is_pair, entry)] == [True] else None
    return entry


def _is_pair(value: object) -> bool:
    """Whether it is a name and what has it."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _vocabulary(tokens: Any, start: str, specials: Mapping[str, Any], where: Path) -> ForeignVocabulary:
    """Tokens in their order, with the special ones found by name. RunError: there is no end token."""
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise RunError(f"{where}: holds no list of tokens for source and target; copy it again")
    usual = {"pad": "<blank>", "eos": "</s>", "unk": "<unk>"}
    names = {kind: str(specials.get(f"{kind}_token") or token) for kind, token in usual.items()}
    at = {token: i for i, token in reversed(list(enumerate(tokens)))}
    missing = [name for name in (names["eos"], names["unk"], start) if name not in at]
    if missing:
        raise RunError(f"{where}: has no {missing[0]} among its tokens; copy it again")
    pad = at.get(names["pad"], at.get("<pad>"))
    return ForeignVocabulary(tokens, start=at[start], eos=at[names["eos"]], unk=at[names["unk"]], pad=pad)
