"""Models of JoeyNMT 2 (Kreutzer et al. 2019): a folder with config.yaml, a checkpoint and vocabularies.

Read after JoeyNMT 2.3.0: `model.build_model`, `transformer_layers`, `initialization`, `vocabulary`,
`tokenizers`, and `training.TrainManager._save_checkpoint`, which writes the parameters under "model_state".
Its Transformer is ours by other names, with an epsilon of 1e-6; residuals may be weighted (DeepNet, Wang
et al. 2022), which is folded into the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import (
    AttentionNames,
    Embeddings,
    LayerNames,
    Sizes,
    checked_search,
    model_config,
    positions,
    take_layer,
    take_norm,
)
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Options, Segmentation
from dragoman.interop.segmenting import beside, cut_note, segmentation
from dragoman.interop.settings import Settings, parse_yaml
from dragoman.interop.torch_files import ForeignTensors, inert, read_torch

LOOKS_FOR = "config.yaml with data and model, a .ckpt file, src_vocab.txt and trg_vocab.txt"

NORM_EPS = 1e-6
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
SIDES = ("encoder", "decoder")
HARMLESS = inert(
    "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype", "_codecs.encode"
)
"""The best score of a training may be a number of numpy's."""

_PROJECTIONS = AttentionNames("q_layer", "k_layer", "v_layer", "output_layer")
_WIDE, _NARROW, _LAST_NORM = (
    "feed_forward.pwff_layer.0",
    "feed_forward.pwff_layer.3",
    "feed_forward.layer_norm",
)
LAYERS = {
    "encoder": LayerNames((_PROJECTIONS.within("src_src_att"),), _WIDE, _NARROW, ("layer_norm", _LAST_NORM)),
    "decoder": LayerNames(
        (_PROJECTIONS.within("trg_trg_att"), _PROJECTIONS.within("src_trg_att")),
        _WIDE,
        _NARROW,
        ("x_layer_norm", "dec_layer_norm", _LAST_NORM),
    ),
}


def detects(folder: ForeignFolder) -> bool:
    """A model_dir of JoeyNMT."""
    return folder.has("config.yaml") and bool(folder.names("*.ckpt"))


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """The model in a folder. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config.yaml"
    settings = Settings(parse_yaml(folder.text("config.yaml"), where=where), where=where)
    _check_architecture(settings)
    src, tgt = (_vocabulary(folder, settings, side) for side in ("src", "trg"))
    if src == tgt:
        tgt = src
    checkpoint = folder.file(_checkpoint(folder, settings))
    state = read_torch(checkpoint, harmless=HARMLESS).get("model_state")
    if not isinstance(state, dict):
        raise RunError(f"{checkpoint}: holds no model_state; give a checkpoint of JoeyNMT")
    model, weights = _convert(ForeignTensors(state, where=checkpoint), settings, src, tgt)
    src_lang, tgt_lang = options.languages(
        settings.text("data.src.lang"), settings.text("data.trg.lang"), where=where
    )
    cut = [_segmentation(folder, settings, options, side) for side in ("src", "trg")]
    notes = [
        *_notes(settings, "src", src_lang), *cut_note(cut[0], src.pieces, src_lang),
        *_notes(settings, "trg", tgt_lang), *cut_note(cut[1], tgt.pieces, tgt_lang),
    ]  # fmt: skip
    search = _search(settings)
    return Foreign(
        "joeynmt", model, weights, src, tgt, cut[0], cut[1], src_lang, tgt_lang, search, tuple(notes)
    )


def _check_architecture(settings: Settings) -> None:
    """RunError: it is no Transformer, or its sides differ in what ours have in common."""
    for side, default in (("encoder", "recurrent"), ("decoder", "transformer")):
        if settings.text(f"model.{side}.type", default) != "transformer":
            raise settings.refusal(f"model.{side}.type", "only Transformers are imported")
        if settings.text(f"data.{'src' if side == 'encoder' else 'trg'}.level", "word") == "char":
            raise settings.refusal("data.src.level", "text of single characters is not cut so here")
    defaults = {"hidden_size": 512, "ff_size": 2048, "activation": "relu", "embeddings.scale": False}
    for name in (*defaults, "num_heads"):
        there, here = (settings.get(f"model.{side}.{name}", defaults.get(name)) for side in SIDES)
        if there != here:
            raise settings.refusal(f"model.encoder.{name}", f"the decoder has {here!r}")


def _checkpoint(folder: ForeignFolder, settings: Settings) -> str:
    """The name of the file that the user named, or that JoeyNMT would test: the best, the latest."""
    name = folder.checkpoint or beside(
        folder, settings.text("testing.load_model"), "best.ckpt", "latest.ckpt"
    )
    numbered = [Path(name) for name in folder.names("*.ckpt") if Path(name).stem.isdigit()]
    if name is None and not numbered:
        raise RunError(f"{folder.path}: holds no best.ckpt; name the checkpoint itself")
    return name or max(numbered, key=lambda path: int(path.stem)).name


def _vocabulary(folder: ForeignFolder, settings: Settings, side: str) -> ForeignVocabulary:
    """The tokens of a side. Special ones come first, as JoeyNMT puts them where its file has none."""
    name = beside(folder, f"{side}_vocab.txt", settings.text(f"data.{side}.voc_file"))
    lines = folder.text(name or f"{side}_vocab.txt").splitlines()
    named = "data.special_symbols"
    unk, pad, bos, eos = (
        settings.text(f"{named}.{kind}_token", token)
        for kind, token in (("unk", "<unk>"), ("pad", "<pad>"), ("bos", "<s>"), ("eos", "</s>"))
    )
    others = [settings.text(f"{named}.sep_token"), *map(str, settings.get(f"{named}.lang_tags", []))]
    pieces = list(dict.fromkeys([unk, pad, bos, eos, *filter(None, others), *lines]))
    return ForeignVocabulary(
        pieces, start=pieces.index(bos), eos=pieces.index(eos), unk=pieces.index(unk), pad=pieces.index(pad)
    )


def _convert(
    tensors: ForeignTensors, settings: Settings, src: ForeignVocabulary, tgt: ForeignVocabulary
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Settings and parameters in our terms."""
    sizes = Sizes(
        settings.count("model.encoder.hidden_size", 512), settings.count("model.encoder.ff_size", 2048)
    )
    embeddings = Embeddings(
        tensors.take("src_embed.lut.weight", len(src.pieces), sizes.d_model),
        tensors.take("trg_embed.lut.weight", len(tgt.pieces), sizes.d_model),
        tensors.take("decoder.output_layer.weight", len(tgt.pieces), sizes.d_model),
        one_vocabulary=src is tgt,
    )
    tables = [tensors.take(f"{side}.pe.pe", *tensors.shape(f"{side}.pe.pe"))[0] for side in SIDES]
    encodings = positions(tables[0], tables[1], learned=False)
    norm = _norm(tensors, settings)
    n_layers = {side: settings.count(f"model.{side}.num_layers") for side in SIDES}
    weights = embeddings.parameters() | encodings.parameters
    for side in SIDES:
        alpha = _residual_weight(settings, side, norm, n_layers)
        for i in range(n_layers[side]):
            layer = take_layer(tensors, f"{side}.layers.{i}", f"{side}.{i}", LAYERS[side], sizes)
            weights |= _divided(layer, alpha)
        if norm == "pre":
            weights |= take_norm(tensors, f"{side}.layer_norm", f"{side}_norm", sizes.d_model)
    tensors.check_all_taken()
    dropout = float(settings.number("model.decoder.dropout", 0.1))
    config = model_config(
        {
            **sizes._asdict(),
            "n_heads": settings.count("model.encoder.num_heads"),
            "n_encoder_layers": n_layers["encoder"],
            "n_decoder_layers": n_layers["decoder"],
            "dropout": dropout,
            "attention_dropout": dropout,
            "activation_dropout": dropout,
            "norm": norm,
            "norm_eps": NORM_EPS,
            "activation": settings.choose("model.encoder.activation", "relu", ACTIVATIONS),
            "positions": encodings.kind,
            "max_positions": encodings.length,
            "scale_embeddings": bool(settings.get("model.encoder.embeddings.scale", False)),
            "tie_embeddings": embeddings.ties,
        },
        where=settings.where,
    )
    return config, weights


def _norm(tensors: ForeignTensors, settings: Settings) -> Literal["pre", "post"]:
    """Where the norms stand. JoeyNMT 2.3 leaves out the last one where "pre" is not written out."""
    kinds = []
    for side, default in (("encoder", "pre"), ("decoder", "post")):
        has_last = f"{side}.layer_norm.weight" in tensors
        kinds.append(settings.text(f"model.{side}.layer_norm", "pre" if has_last else default))
        if (kinds[-1] == "pre") != has_last:
            there = "a" if has_last else "no"
            raise settings.refusal(
                f"model.{side}.layer_norm",
                f'its checkpoint has {there} norm behind the last layer; one belongs to "pre" alone',
            )
    if kinds[0] != kinds[1]:
        raise settings.refusal("model.encoder.layer_norm", f"the decoder has {kinds[1]!r}")
    return "pre" if kinds[0] == "pre" else "post"


def _residual_weight(settings: Settings, side: str, norm: str, n_layers: dict[str, int]) -> float:
    """What a residual is multiplied by: JoeyNMT sets DeepNet's where weights begin as "xavier_normal"."""
    alpha = float(settings.number(f"model.{side}.alpha", 1.0))
    if settings.text("model.initializer") == "xavier_normal":
        n_encoder, n_decoder = n_layers["encoder"], n_layers["decoder"]
        deep = 0.81 * (n_encoder**4 * n_decoder) ** (1 / 16), (3 * n_decoder) ** (1 / 4)
        alpha = deep[SIDES.index(side)]
    if alpha != 1.0 and norm == "pre":
        name = f"model.{side}.alpha" if settings.get(f"model.{side}.alpha") else "model.initializer"
        raise settings.refusal(name, "weighted residuals can be expressed with post-norm only")
    return alpha


def _divided(layer: dict[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """norm(x + f(x) / alpha) for norm(alpha x + f(x)), which differs in the norm's epsilon alone."""
    last = ("out_proj.weight", "out_proj.bias", "linear2.weight", "linear2.bias")
    return {name: tensor / alpha if name.endswith(last) else tensor for name, tensor in layer.items()}


def _segmentation(folder: ForeignFolder, settings: Settings, options: Options, side: str) -> Segmentation:
    """What cuts the text of a side."""
    at = f"data.{side}"
    kind = settings.text(f"{at}.tokenizer_type", settings.text(f"{at}.bpe_type", "sentencepiece"))
    files = {
        "spm": beside(folder, settings.text(f"{at}.tokenizer_cfg.model_file")),
        "codes": beside(folder, settings.text(f"{at}.tokenizer_cfg.codes")),
    }
    is_cut = settings.text(f"{at}.level", "word") == "bpe"
    return segmentation(
        folder,
        options,
        "src" if side == "src" else "tgt",
        spm=files["spm"] if is_cut and kind == "sentencepiece" else None,
        codes=files["codes"] if is_cut and kind == "subword-nmt" else None,
        lowercase=bool(settings.get(f"{at}.lowercase", False)),
        known_only=True,
    )


def _notes(settings: Settings, side: str, lang: str) -> list[str]:
    """What JoeyNMT does to the text of a side before it is cut, and is not done here."""
    at, notes = f"data.{side}", []
    if settings.text(f"{at}.tokenizer_cfg.pretokenizer", "none").lower() == "moses":
        notes.append(f"{lang}: text was cut by Moses' tokenizer first (pretokenizer): give and take it so")
    if settings.get(f"{at}.normalize"):
        notes.append(f"{lang}: text was normalised by JoeyNMT first (NFKC, straight quotes): give it so")
    if settings.get(f"{at}.has_prompt"):
        notes.append(f"{lang}: prompts and language tags (has_prompt) are not written for you")
    return notes


def _search(settings: Settings) -> SearchConfig:
    """Its search, whose length penalty is ours (Wu et al. 2016), and is none where alpha is -1."""
    alpha = settings.number("testing.beam_alpha", settings.number("testing.alpha", -1))
    blocked = settings.number("testing.no_repeat_ngram_size", -1)
    search = {
        "beam_size": settings.count("testing.beam_size", 1),
        "length_penalty": max(0.0, float(alpha)),
        "no_repeat_ngram": max(0, blocked),
    }
    return checked_search(search, where=settings.where)
