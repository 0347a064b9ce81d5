"""Models of fairseq (Ott et al. 2019): a checkpoint of its `transformer`, and a dictionary a language.

Read after fairseq 0.12: `models/transformer`, `modules/transformer_layer`, `multihead_attention`,
`sinusoidal_positional_embedding`, `data/dictionary` and `checkpoint_utils.save_state`, and after the names
that `upgrade_state_dict_named` knows of older ones. Settings are under "args" (argparse) or "cfg", weights
under "model". The first position is padding_idx + 1; decoding starts with the end token.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import (
    AttentionNames,
    Embeddings,
    LayerNames,
    Positions,
    Sizes,
    checked_search,
    halved_sinusoids,
    model_config,
    positions,
    take_layer,
    take_norm,
)
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Options, Segmentation
from dragoman.interop.segmenting import beside, cut_note, segmentation
from dragoman.interop.settings import Settings
from dragoman.interop.torch_files import ForeignTensors, Inert, inert, read_torch

LOOKS_FOR = "checkpoint_best.pt or model.pt, with a dict.LANG.txt for each language"

CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
SENTENCEPIECE = ("sentencepiece.bpe.model", "spm.model", "sentencepiece.model")
CODES = ("bpecodes", "code", "bpe.codes", "codes")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD, EOS, UNK = 1, 2, 3
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
HARMLESS: list[type | tuple[type, str]] = [
    argparse.Namespace,
    *inert(
        "fairseq.data.dictionary.Dictionary", "fairseq.meters.AverageMeter", "fairseq.meters.TimeMeter",
        "fairseq.meters.StopwatchMeter", "fairseq.logging.meters.AverageMeter",
        "fairseq.logging.meters.TimeMeter", "fairseq.logging.meters.StopwatchMeter",
        "omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig",
        "omegaconf.base.ContainerMetadata", "omegaconf.base.Metadata", "omegaconf.nodes.AnyNode",
        "omegaconf.nodes.StringNode", "omegaconf.nodes.IntegerNode", "omegaconf.nodes.FloatNode",
        "omegaconf.nodes.BooleanNode", "omegaconf.nodes.EnumNode", "typing.Any",
    ),
]  # fmt: skip

UNKNOWN_HERE = {
    "adaptive_softmax_cutoff": "an adaptive softmax",
    "adaptive_input": "adaptive embeddings",
    "char_inputs": "characters as input",
    "layernorm_embedding": "a norm of embeddings",
    "cross_self_attention": "attention to source and target at once",
    "no_cross_attention": "a decoder that does not look at the source",
    "no_decoder_final_norm": "a decoder without its last norm",
    "base_layers": "sparse (BASE) layers",
    "use_factorized_embedding": "factorised embeddings",
    "scale_attn": "a norm after attention",
    "scale_heads": "weighted heads",
    "scale_fc": "a norm inside the feed-forward block",
    "scale_resids": "weighted residuals",
    "encoder_add_adapters": "adapters",
    "decoder_add_adapters": "adapters",
    "encoder_recurrent_stacking": "layers with shared weights",
    "decoder_recurrent_stacking": "layers with shared weights",
    "encoder_xformers_att_config": "attention of xFormers",
    "decoder_xformers_att_config": "attention of xFormers",
}

FAST_COPY = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)")
"""Weights that fairseq 0.12.2 has a second time, for a faster encoder.

It fills them from the layer itself whenever it loads a checkpoint, and never trains them. A file holds zeros,
or the weights of the time when the training was last continued.
"""

_OWN = AttentionNames("q_proj", "k_proj", "v_proj", "out_proj")
LAYERS = {
    "encoder": LayerNames(
        (_OWN.within("self_attn"),), "fc1", "fc2", ("self_attn_layer_norm", "final_layer_norm")
    ),
    "decoder": LayerNames(
        (_OWN.within("self_attn"), _OWN.within("encoder_attn")),
        "fc1",
        "fc2",
        ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    ),
}


def detects(folder: ForeignFolder) -> bool:
    """A checkpoint with its dictionaries."""
    return bool(folder.names("dict.*.txt") and folder.names("*.pt"))


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """The model in a folder. RunError: it is not whole, or computes what ours does not."""
    path = folder.file(folder.checkpoint or _checkpoint(folder))
    state = read_torch(path, harmless=HARMLESS)
    settings = Settings(_arguments(state), where=path)
    _check_architecture(settings)
    src_lang, tgt_lang = options.languages(
        settings.text("source_lang"), settings.text("target_lang"), where=folder.given
    )
    src, tgt = (_vocabulary(folder, f"dict.{lang}.txt") for lang in (src_lang, tgt_lang))
    if src == tgt:
        tgt = src
    tensors = state.get("model")
    if not isinstance(tensors, dict):
        raise RunError(f"{path}: holds no model; give a checkpoint of fairseq")
    model, weights = _convert(ForeignTensors(tensors, where=path), settings, src, tgt)
    cut = [_segmentation(folder, settings, options, side) for side in ("src", "tgt")]
    notes = [*cut_note(cut[0], src.pieces, src_lang), *cut_note(cut[1], tgt.pieces, tgt_lang)]
    if _named(settings.get("tokenizer")) == "moses" or settings.get("moses_no_escape") is not None:
        notes.append("text was cut by Moses' tokenizer before its subwords (tokenizer = moses): give it so")
    notes.append(
        "fairseq divides a score by length ** lenpen; Dragoman ranks by the penalty of Wu et al. 2016"
    )
    search = checked_search({"beam_size": settings.count("beam", 5)}, where=path)
    return Foreign(
        "fairseq", model, weights, src, tgt, cut[0], cut[1], src_lang, tgt_lang, search, tuple(notes)
    )


def _checkpoint(folder: ForeignFolder) -> str:
    """The name of the checkpoint. RunError: there are several, and none has the name of the best."""
    name, all_of_them = beside(folder, *CHECKPOINTS), folder.names("*.pt")
    if name is None and len(all_of_them) != 1:
        raise RunError(
            f"{folder.path}: holds {', '.join(all_of_them[:3]) or 'no .pt file'} and no checkpoint_best.pt; "
            "name the checkpoint itself"
        )
    return name or all_of_them[0]


def _arguments(state: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of model, task and tokenizers of either kind of checkpoint, flat as in `args`."""
    args = _plain(state.get("args"))
    if args:
        return dict(args)
    cfg = _plain(state.get("cfg")) or {}
    flat: dict[str, Any] = {}
    for section in ("generation", "bpe", "tokenizer", "task", "model"):
        values = _plain(cfg.get(section))
        if isinstance(values, Mapping):
            flat |= values
            if section in ("bpe", "tokenizer"):
                flat[section] = values.get("_name")
    for side in ("encoder", "decoder"):
        below = _plain(flat.pop(side, None))
        if isinstance(below, Mapping):
            flat |= {f"{side}_{name}": value for name, value in below.items()}
    model = _plain(cfg.get("model"))
    if isinstance(model, Mapping):
        flat["arch"] = model.get("arch") or model.get("_name")
    return flat


def _plain(value: Any) -> Any:
    """Values of argparse and OmegaConf as plain ones."""
    if isinstance(value, argparse.Namespace):
        return vars(value)
    if isinstance(value, Inert):
        inside = vars(value)
        value = inside.get("_content", inside.get("_val"))
    if isinstance(value, Mapping):
        return {key: _plain(below) if isinstance(below, Inert) else below for key, below in value.items()}
    return value


def _named(value: Any) -> Any:
    return value.get("_name") if isinstance(value, Mapping) else value


def _check_architecture(settings: Settings) -> None:
    """RunError: it is another architecture, or its sides differ in what ours have in common."""
    arch = settings.text("arch", "transformer")
    if not arch.startswith("transformer") or arch.startswith("transformer_lm"):
        raise settings.refusal("arch", "only fairseq's transformer is imported")
    settings.refuse_where_set(UNKNOWN_HERE)
    for name, default in (
        ("embed_dim", 512), ("ffn_embed_dim", 2048), ("attention_heads", 8), ("normalize_before", False)
    ):  # fmt: skip
        there = settings.get(f"encoder_{name}", default)
        here = settings.get(f"decoder_{name}", there if name == "embed_dim" else default)
        if there != here:
            raise settings.refusal(f"encoder_{name}", f"the decoder has {here!r}")


def _vocabulary(folder: ForeignFolder, name: str) -> ForeignVocabulary:
    """The tokens of a dictionary: four special ones, then a token and its count a line."""
    if not folder.has(name):
        raise RunError(
            f"{folder.path}: holds no {name}, the vocabulary of a language; copy it from the data of the "
            "training (--src-lang and --tgt-lang say which languages)"
        )
    pieces = list(SPECIAL)
    for number, line in enumerate(folder.text(name).removesuffix("\n").split("\n"), start=1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not piece or not count.isdigit():
            raise RunError(
                f"{folder.path / name}, line {number}: is not a token and its count; copy the file again"
            )
        pieces.append(piece)
    return ForeignVocabulary(pieces, start=EOS, eos=EOS, unk=UNK, pad=PAD)


def _convert(
    tensors: ForeignTensors, settings: Settings, src: ForeignVocabulary, tgt: ForeignVocabulary
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Settings and parameters in our terms."""
    sizes = Sizes(settings.count("encoder_embed_dim", 512), settings.count("encoder_ffn_embed_dim", 2048))
    norm = "pre" if settings.get("encoder_normalize_before", False) else "post"
    _modernise(tensors, norm, where_settings=settings)
    n_layers = {side: _count_layers(tensors, side) for side in LAYERS}
    embeddings = _embeddings(tensors, settings, sizes.d_model, src, tgt)
    encodings = _positions(tensors, settings, sizes.d_model)
    weights = embeddings.parameters() | encodings.parameters
    for side, names in LAYERS.items():
        for i in range(n_layers[side]):
            _separate(tensors, f"{side}.layers.{i}", sizes.d_model)
            weights |= take_layer(tensors, f"{side}.layers.{i}", f"{side}.{i}", names, sizes)
        if norm == "pre":
            weights |= take_norm(tensors, f"{side}.layer_norm", f"{side}_norm", sizes.d_model)
    tensors.check_all_taken()
    activation_dropout = settings.number("activation_dropout", 0.0) or settings.number("relu_dropout", 0.0)
    config = model_config(
        {
            **sizes._asdict(),
            "n_heads": settings.count("encoder_attention_heads", 8),
            "n_encoder_layers": n_layers["encoder"],
            "n_decoder_layers": n_layers["decoder"],
            "dropout": float(settings.number("dropout", 0.1)),
            "attention_dropout": float(settings.number("attention_dropout", 0.0)),
            "activation_dropout": float(activation_dropout),
            "norm": norm,
            "activation": settings.choose("activation_fn", "relu", ACTIVATIONS),
            "positions": encodings.kind,
            "max_positions": encodings.length,
            "scale_embeddings": not settings.get("no_scale_embedding", False),
            "tie_embeddings": embeddings.ties,
        },
        where=settings.where,
    )
    return config, weights


def _modernise(tensors: ForeignTensors, norm: str, *, where_settings: Settings) -> None:
    """Gives the tensors of old checkpoints their later names, and drops those that hold nothing."""
    for side, oldest in (("encoder", 2), ("decoder", 3)):
        name = f"{side}.version"
        if name in tensors:
            version = float(tensors.take(name, *tensors.shape(name)).flatten()[0])
            if version < oldest and norm == "pre":
                raise where_settings.refusal(
                    f"{side}_normalize_before", f"this old {side} has no norm behind its last layer"
                )
        sublayers = LAYERS[side].norms
        for old in [
            name for name in tensors if re.fullmatch(rf"{side}\.layers\.\d+\.layer_norms\.\d\..*", name)
        ]:
            layer, number, kind = re.split(r"\.layer_norms\.|\.(?=weight|bias)", old)
            moved = tensors.take(old, *tensors.shape(old))
            tensors.put(f"{layer}.{sublayers[int(number) % len(sublayers)]}.{kind}", moved)
        tensors.drop(f"{side}.embed_positions._float_tensor", f"{side}.embed_positions.weights")
    tensors.drop(*(name for name in [*tensors] if FAST_COPY.fullmatch(name)))


def _count_layers(tensors: ForeignTensors, side: str) -> int:
    """Layers that have weights, which may be fewer than the settings say (a model may have been pruned)."""
    found = {
        int(match.group(1)) for name in tensors if (match := re.match(rf"{side}\.layers\.(\d+)\.", name))
    }
    if found != set(range(len(found))) or not found:
        raise RunError(f"{tensors.where}: layers of its {side} are missing; copy the file again")
    return len(found)


def _separate(tensors: ForeignTensors, layer: str, d_model: int) -> None:
    """Queries, keys and values that an old checkpoint has stacked, each by itself."""
    for block in ("self_attn", "encoder_attn"):
        for kind, shape in (("weight", (3 * d_model, d_model)), ("bias", (3 * d_model,))):
            name = f"{layer}.{block}.in_proj_{kind}"
            if name in tensors:
                parts = tensors.take(name, *shape).chunk(3)
                for part, tensor in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
                    tensors.put(f"{layer}.{block}.{part}.{kind}", tensor)


def _embeddings(
    tensors: ForeignTensors, settings: Settings, d_model: int, src: ForeignVocabulary, tgt: ForeignVocabulary
) -> Embeddings:
    """Those of both sides, and the projection before the softmax by whatever name it has."""
    shape = len(tgt.pieces), d_model
    src_embedding = tensors.take("encoder.embed_tokens.weight", len(src.pieces), d_model)
    tgt_embedding = tensors.take("decoder.embed_tokens.weight", *shape)
    names = ("decoder.output_projection.weight", "decoder.embed_out")
    there = [name for name in names if name in tensors]
    tied = settings.get("share_decoder_input_output_embed") or settings.get("share_all_embeddings")
    output = tgt_embedding if not there and tied else tensors.take(there[0] if there else names[0], *shape)
    return Embeddings(src_embedding, tgt_embedding, output, one_vocabulary=src is tgt)


def _positions(tensors: ForeignTensors, settings: Settings, d_model: int) -> Positions:
    """The tables of both sides: learned, computed as fairseq does, or of zeros where it has none."""
    tables, kinds = [], []
    for side, name in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        length = settings.count(name, settings.count("max_positions", 1024))
        learned = f"{side}.embed_positions.weight"
        kinds.append(learned in tensors)
        if learned in tensors:
            rows = tensors.shape(learned)[0]
            tables.append(tensors.take(learned, rows, d_model)[PAD + 1 :])
        elif settings.get("no_token_positional_embeddings", False):
            tables.append(torch.zeros(length, d_model))
        else:
            tables.append(halved_sinusoids(PAD + 1, length, d_model))
    return positions(tables[0], tables[1], learned=all(kinds))


def _segmentation(folder: ForeignFolder, settings: Settings, options: Options, side: str) -> Segmentation:
    """What cuts the text of a side: the files that fairseq's own models come with."""
    named = [settings.text(name) for name in ("sentencepiece_model", "bpe_codes")]
    return segmentation(
        folder,
        options,
        side,
        spm=beside(folder, named[0], *SENTENCEPIECE),
        codes=beside(folder, named[1], *CODES),
    )
