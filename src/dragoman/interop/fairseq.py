"""Models of fairseq (Ott et al. 2019): a checkpoint of its `transformer`, and a dictionary a language.

Read after fairseq 0.12: `models/transformer`, `modules/transformer_layer`, `multihead_attention`,
`sinusoidal_positional_embedding`, `data/dictionary` and `checkpoint_utils.save_state`. Settings are under
"args" (argparse) or "cfg", weights under "model". The first position is padding_idx + 1; decoding starts with
the end token.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import (
    FAIRSEQ_LAYER,
    assemble,
    checked,
    count_layers,
    halved_sinusoids,
    model_config,
)
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignFormat, ForeignVocabulary, ImportOptions
from dragoman.interop.settings import ForeignSettings, Setting
from dragoman.interop.torch_files import ForeignTensors, Inert, inert, read_torch
from dragoman.model.architecture import SIDES

CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
SENTENCEPIECE = ("sentencepiece.bpe.model", "spm.model", "sentencepiece.model")
CODES = ("bpecodes", "code", "bpe.codes", "codes")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD, EOS, UNK = 1, 2, 3
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
    "cross_self_attention": "attention to source and target at once",
    "encoder_xformers_att_config": "attention of xFormers",
    "decoder_xformers_att_config": "attention of xFormers",
}
"""What changes no weight; other architectures have weights that are left over, or miss some of ours."""

NEEDLESS = re.compile(
    r"(en|de)coder\.(version|embed_positions\._float_tensor)"
    r"|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
"""What holds no weight, and the weights that fairseq 0.12.2 has a second time, for a faster encoder.

It fills them from the layer itself whenever it loads a checkpoint, and never trains them. A file holds zeros,
or the weights of the time when the training was last continued.
"""

NAMES = {
    "src_embedding": "encoder.embed_tokens",
    "tgt_embedding": "decoder.embed_tokens",
    "output": "decoder.output_projection",
    "layer": "*.layers.#",
    **FAIRSEQ_LAYER,
    "norm": "*.layer_norm",
}
SETTINGS = {
    "d_model": Setting("*_embed_dim", 512),
    "d_ff": Setting("*_ffn_embed_dim", 2048),
    "n_heads": Setting("*_attention_heads", 8),
    "dropout": Setting("dropout", 0.1),
    "attention_dropout": Setting("attention_dropout", 0.0),
    "activation": Setting("activation_fn", "relu", ("relu", "gelu", "swish")),
    "norm": Setting("*_normalize_before", False, {False: "post", True: "pre"}),
    "scale_embeddings": Setting("no_scale_embedding", False, {False: True, True: False}),
}


def read(folder: ForeignFolder, options: ImportOptions) -> Foreign:
    """Return the model in a folder. RunError: it is not whole, or computes what ours does not."""
    path = folder.weights("*.pt", *CHECKPOINTS)
    state = read_torch(path, harmless=HARMLESS)
    settings = ForeignSettings(_arguments(state), where=path)
    arch = settings.text("arch", "transformer")
    if not arch.startswith("transformer") or arch.startswith("transformer_lm"):
        raise settings.refusal("arch", "only fairseq's transformer is imported")
    settings.refuse_where_set(UNKNOWN_HERE)
    languages = options.languages(
        settings.text("source_lang"), settings.text("target_lang"), where=folder.given
    )
    src, tgt = (_vocabulary(folder, f"dict.{lang}.txt") for lang in languages)
    tensors = ForeignTensors(state.get("model"), where=path)
    model, weights = _convert(tensors, settings, src, tgt)
    notes = ["fairseq divides a score by length ** lenpen; Dragoman ranks by the penalty of Wu et al. 2016"]
    if settings.get("tokenizer") == "moses":
        notes[:0] = ["text was cut by Moses' tokenizer before its subwords (tokenizer = moses): give it so"]
    spm = folder.beside(settings.text("sentencepiece_model"), *SENTENCEPIECE)
    codes = folder.beside(settings.text("bpe_codes"), *CODES)
    cut = [folder.segmentation(options, side, spm=spm, codes=codes) for side in ("src", "tgt")]
    search = checked(SearchConfig, {"beam_size": settings.count("beam", 5)}, where=path)
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, tuple(notes))


FORMAT = ForeignFormat(
    "fairseq",
    "checkpoint_best.pt or model.pt, with a dict.LANG.txt for each language",
    lambda folder: bool(folder.names("dict.*.txt") and folder.names("*.pt")),
    read,
)


def _arguments(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of model, task and tokenizers of either kind of checkpoint, flat as in `args`."""
    flat = _section(state.get("args"))
    cfg = {} if flat else _section(state.get("cfg"))
    for name in ("generation", "bpe", "tokenizer", "task", "model"):
        if values := _section(cfg.get(name)):
            flat |= values
            flat["arch" if name == "model" else name] = values.get("arch") or values.get("_name")
    for side in SIDES:
        flat |= {f"{side}_{name}": value for name, value in _section(flat.pop(side, None)).items()}
    if flat.get("decoder_embed_dim") is None:
        flat["decoder_embed_dim"] = flat.get("encoder_embed_dim")
    return flat


def _section(value: Any) -> dict[str, Any]:
    """Return the settings in a section, whatever holds them; none where there is no such section."""
    plain = _plain(value)
    return dict(plain) if isinstance(plain, Mapping) else {}


def _plain(value: Any, depth: int = 5) -> Any:
    """Values of argparse and OmegaConf as plain ones; what is nested deeper than `depth` stays as it is."""
    if isinstance(value, (argparse.Namespace, Inert)) and depth:
        inside = vars(value)
        value = inside.get("_content", inside.get("_val", inside))
        if isinstance(value, Mapping):
            return {key: _plain(below, depth - 1) for key, below in value.items()}
    return value


def _vocabulary(folder: ForeignFolder, name: str) -> ForeignVocabulary:
    """Return the tokens of a dictionary: four special ones, then a token and its count a line."""
    pieces = list(SPECIAL)
    for number, line in enumerate(folder.text(name).removesuffix("\n").split("\n"), start=1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not piece or not count.isdecimal():
            raise RunError(
                f"{folder.path / name}, line {number}: is not a token and its count; copy the file again"
            )
        pieces.append(piece)
    return ForeignVocabulary(pieces, start=EOS, eos=EOS, unk=UNK, pad=PAD)


def _convert(
    tensors: ForeignTensors, settings: ForeignSettings, src: ForeignVocabulary, tgt: ForeignVocabulary
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return settings and parameters in Dragoman's names."""
    most = settings.count("max_positions", 1024)
    lengths = [settings.count(f"max_{text}_positions", most) for text in ("source", "target")]
    activation_dropout = settings.number("activation_dropout", 0.0) or settings.number("relu_dropout", 0.0)
    values = settings.read(SETTINGS) | count_layers(tensors, NAMES)
    values |= {"activation_dropout": activation_dropout, "max_positions": min(lengths)}
    model = model_config(values, where=settings.where)
    for name in [name for name in tensors if NEEDLESS.fullmatch(name)]:
        del tensors[name]
    if settings.get("share_decoder_input_output_embed") or settings.get("share_all_embeddings"):
        tensors.repeat("decoder.embed_tokens.weight", "decoder.output_projection.weight")
    tables = [f"{side}.embed_positions.weight" for side in SIDES]

    def table(name: str) -> Tensor:
        """Positions (P, D) of a side: learned, computed as fairseq does, or zeros where it has none."""
        if name in tensors:
            return tensors.take_table(name, model.d_model)[PAD + 1 :]
        if settings.get("no_token_positional_embeddings", False):
            return torch.zeros(model.max_positions, model.d_model)
        return halved_sinusoids(PAD + 1, model.max_positions, model.d_model)

    learned = all(name in tensors for name in tables)
    return assemble(tensors, NAMES, model, (src, tgt), lambda: map(table, tables), learned=learned)
