"""Models of JoeyNMT 2 (Kreutzer et al. 2019): a folder with config.yaml, a checkpoint and vocabularies.

Read after JoeyNMT 2.3.0: `model.build_model`, `transformer_layers`, `initialization`, `vocabulary`,
`tokenizers`, and `training.TrainManager._save_checkpoint`, which writes the parameters under "model_state".
Its Transformer is ours by other names, with an epsilon of 1e-6; residuals may be weighted (DeepNet, Wang
et al. 2022), which is folded into the weights.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import assemble, checked_search, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignVocabulary, Format, Options, Segmentation
from dragoman.interop.segmenting import beside, segmentation
from dragoman.interop.settings import Setting, Settings, parse_yaml
from dragoman.interop.torch_files import ForeignTensors, inert, read_torch
from dragoman.model.architecture import SIDES

NORM_EPS = 1e-6
HARMLESS = inert(
    "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype", "_codecs.encode"
)
"""The best score of a training may be a number of numpy's."""

NAMES = {
    "src_embedding": "src_embed.lut",
    "tgt_embedding": "trg_embed.lut",
    "output": "decoder.output_layer",
    "layer": "*.layers.#",
    "encoder.self_attention.in_proj": "src_src_att.{q,k,v}_layer",
    "encoder.self_attention.out_proj": "src_src_att.output_layer",
    "encoder.self_attention.norm": "layer_norm",
    "decoder.self_attention.in_proj": "trg_trg_att.{q,k,v}_layer",
    "decoder.self_attention.out_proj": "trg_trg_att.output_layer",
    "decoder.self_attention.norm": "x_layer_norm",
    "cross_attention.in_proj": "src_trg_att.{q,k,v}_layer",
    "cross_attention.out_proj": "src_trg_att.output_layer",
    "cross_attention.norm": "dec_layer_norm",
    "feed_forward.linear1": "feed_forward.pwff_layer.0",
    "feed_forward.linear2": "feed_forward.pwff_layer.3",
    "feed_forward.norm": "feed_forward.layer_norm",
    "norm": "*.layer_norm",
}
SETTINGS = {
    "d_model": Setting("model.*.hidden_size", 512),
    "d_ff": Setting("model.*.ff_size", 2048),
    "n_heads": Setting("model.*.num_heads", int),
    "n_encoder_layers": Setting("model.encoder.num_layers", int),
    "n_decoder_layers": Setting("model.decoder.num_layers", int),
    "dropout": Setting("model.decoder.dropout", 0.1),
    "attention_dropout": Setting("model.decoder.dropout", 0.1),
    "activation_dropout": Setting("model.decoder.dropout", 0.1),
    "activation": Setting("model.*.activation", "relu", ("relu", "gelu", "swish")),
    "scale_embeddings": Setting("model.*.embeddings.scale", False),
}
CHECKED = (
    Setting("model.encoder.type", "recurrent", ("transformer",)),
    Setting("model.decoder.type", "transformer", ("transformer",)),
    Setting("data.src.level", "word", ("word", "bpe")),
    Setting("data.trg.level", "word", ("word", "bpe")),
)


def _detects(folder: ForeignFolder) -> bool:
    return folder.has("config.yaml") and bool(folder.names("*.ckpt"))


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """Return the model in a folder. RunError: it is not whole, or computes what ours does not."""
    where = folder.path / "config.yaml"
    settings = Settings(parse_yaml(folder.text("config.yaml"), where=where), where=where)
    for setting in CHECKED:
        settings.value(setting)
    src, tgt = (_vocabulary(folder, settings, side) for side in ("src", "trg"))
    checkpoint = folder.file(_checkpoint(folder, settings))
    state = read_torch(checkpoint, harmless=HARMLESS).get("model_state")
    if not isinstance(state, dict):
        raise RunError(f"{checkpoint}: holds no model_state; give a checkpoint of JoeyNMT")
    tensors = ForeignTensors(state, where=checkpoint)
    norm = _norm(tensors, settings)
    model = model_config(settings.read(SETTINGS) | {"norm": norm, "norm_eps": NORM_EPS}, where=where)
    model, weights = assemble(
        tensors,
        NAMES,
        model,
        (src, tgt),
        lambda: [tensors.take_table(f"{side}.pe.pe", model.d_model) for side in SIDES],
    )
    for name, tensor in weights.items():  # norm(x + f(x) / alpha) for norm(alpha x + f(x))
        if name.rpartition(".")[0].endswith(("out_proj", "linear2")):
            weights[name] = tensor / _residual_weight(settings, name.partition(".")[0], model)
    languages = options.languages(settings.text("data.src.lang"), settings.text("data.trg.lang"), where=where)
    cut = [_segmentation(folder, settings, options, side) for side in ("src", "trg")]
    notes = (*_notes(settings, "src", languages[0]), *_notes(settings, "trg", languages[1]))
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, _search(settings), notes)


FORMAT = Format(
    "joeynmt",
    "config.yaml with data and model, a .ckpt file, src_vocab.txt and trg_vocab.txt",
    _detects,
    read,
)


def _checkpoint(folder: ForeignFolder, settings: Settings) -> str:
    """Return the name of the file that the user named, or that JoeyNMT would test: the best, the latest."""
    name = folder.checkpoint or beside(
        folder, settings.text("testing.load_model"), "best.ckpt", "latest.ckpt"
    )
    numbered = [Path(name) for name in folder.names("*.ckpt") if Path(name).stem.isdecimal()]
    if name is None and not numbered:
        raise RunError(f"{folder.path}: holds no best.ckpt; name the checkpoint itself")
    return name or max(numbered, key=lambda path: int(path.stem)).name


def _vocabulary(folder: ForeignFolder, settings: Settings, side: str) -> ForeignVocabulary:
    """Return the tokens of a side. Special ones come first, as JoeyNMT puts them where its file has none."""
    name = beside(folder, f"{side}_vocab.txt", settings.text(f"data.{side}.voc_file"))
    lines = folder.text(name or f"{side}_vocab.txt").splitlines()
    named = "data.special_symbols"
    unk, pad, bos, eos = (
        settings.text(f"{named}.{kind}_token", token)
        for kind, token in (("unk", "<unk>"), ("pad", "<pad>"), ("bos", "<s>"), ("eos", "</s>"))
    )
    others = [settings.text(f"{named}.sep_token"), *settings.texts(f"{named}.lang_tags")]
    pieces = list(dict.fromkeys([unk, pad, bos, eos, *filter(None, others), *lines]))
    return ForeignVocabulary(
        pieces, start=pieces.index(bos), eos=pieces.index(eos), unk=pieces.index(unk), pad=pieces.index(pad)
    )


def _norm(tensors: ForeignTensors, settings: Settings) -> str:
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
    return kinds[0]


def _residual_weight(settings: Settings, side: str, model: ModelConfig) -> float:
    """Return the factor of the residuals: JoeyNMT uses DeepNet's with the initializer "xavier_normal"."""
    alpha = settings.number(f"model.{side}.alpha", 1.0)
    if settings.text("model.initializer") == "xavier_normal":
        n_encoder, n_decoder = model.n_encoder_layers, model.n_decoder_layers
        deep = {"encoder": 0.81 * (n_encoder**4 * n_decoder) ** (1 / 16), "decoder": (3 * n_decoder) ** 0.25}
        alpha = deep[side]
    if alpha != 1.0 and model.norm == "pre":
        name = f"model.{side}.alpha" if settings.get(f"model.{side}.alpha") else "model.initializer"
        raise settings.refusal(name, "weighted residuals can be expressed with post-norm only")
    return alpha


def _segmentation(folder: ForeignFolder, settings: Settings, options: Options, side: str) -> Segmentation:
    """Return the tokenizer of a side."""
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
    """Return JoeyNMT's preprocessing of a side that Dragoman does not do."""
    at, notes = f"data.{side}", []
    if settings.text(f"{at}.tokenizer_cfg.pretokenizer", "none").lower() == "moses":
        notes.append(f"{lang}: text was cut by Moses' tokenizer first (pretokenizer): give and take it so")
    if settings.get(f"{at}.normalize"):
        notes.append(f"{lang}: text was normalised by JoeyNMT first (NFKC, straight quotes): give it so")
    if settings.get(f"{at}.has_prompt"):
        notes.append(f"{lang}: prompts and language tags (has_prompt) are not written for you")
    return notes


def _search(settings: Settings) -> SearchConfig:
    """Its search settings; the length penalty is ours (Wu et al. 2016), and off if alpha is -1."""
    alpha = settings.number("testing.beam_alpha", settings.number("testing.alpha", -1))
    blocked = settings.number("testing.no_repeat_ngram_size", -1)
    search = {
        "beam_size": settings.count("testing.beam_size", 1),
        "length_penalty": max(0.0, float(alpha)),
        "no_repeat_ngram": max(0, blocked),
    }
    return checked_search(search, where=settings.where)
