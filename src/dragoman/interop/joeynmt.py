"""Models of JoeyNMT 2 (Kreutzer et al. 2019): a folder with config.yaml, a checkpoint and vocabularies.

Read after JoeyNMT 2.3.0: `model.build_model`, `transformer_layers`, `vocabulary`, `tokenizers`, and
`training.TrainManager._save_checkpoint`, which writes the parameters under "model_state". Its Transformer is
ours by other names, with an epsilon of 1e-6.
"""

from __future__ import annotations

from dragoman.config import SearchConfig
from dragoman.interop.assembling import assemble, checked, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignFormat, ForeignVocabulary, ImportOptions
from dragoman.interop.settings import ForeignSettings, Setting, read_settings
from dragoman.interop.torch_files import ForeignTensors, inert, read_torch
from dragoman.model.architecture import SIDES

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
    Setting("model.*.alpha", 1.0, (1.0,)),
    *(Setting(f"data.{side}.level", "word", ("word", "bpe")) for side in ("src", "trg")),
)
NOTES = {
    "tokenizer_cfg.pretokenizer": "text was cut by a tokenizer first (pretokenizer): give and take it so",
    "normalize": "text was normalised by JoeyNMT first (NFKC, straight quotes): give it so",
    "has_prompt": "prompts and language tags (has_prompt) are not written for you",
}
"""Preprocessing that Dragoman does not do."""


def read(folder: ForeignFolder, options: ImportOptions) -> Foreign:
    """Return the model in a folder. RunError: it is not whole, or computes what ours does not."""
    settings = read_settings(folder, "config.yaml")
    settings.check(CHECKED)
    if settings.text("model.initializer") == "xavier_normal":
        raise settings.refusal("model.initializer", "weighted residuals (DeepNet) are not ours")
    path = folder.weights("*.ckpt", "best.ckpt")
    tensors = ForeignTensors(read_torch(path, harmless=HARMLESS).get("model_state"), where=path)
    has_last = all(f"{side}.layer_norm.weight" in tensors for side in SIDES)  # else it is in no default
    norm = settings.value(Setting("model.*.layer_norm", "pre" if has_last else "", ("pre", "post")))
    model = model_config(settings.read(SETTINGS) | {"norm": norm, "norm_eps": 1e-6}, where=settings.where)
    sides = ("src", "trg")
    src, tgt = (_vocabulary(folder, settings, side) for side in sides)
    model, weights = assemble(
        tensors, NAMES, model, (src, tgt),
        lambda: [tensors.take_table(f"{side}.pe.pe", model.d_model) for side in SIDES],
    )  # fmt: skip
    languages = options.languages(*(settings.text(f"data.{side}.lang") for side in sides), where=folder.given)
    cut = [
        folder.segmentation(options, side, known_only=True, lowercase=settings.flag(f"data.{side}.lowercase"),
            spm=folder.beside(settings.text(f"data.{side}.tokenizer_cfg.model_file")),
            codes=folder.beside(settings.text(f"data.{side}.tokenizer_cfg.codes")),
        )
        for side in sides
    ]  # fmt: skip
    alpha = settings.number("testing.beam_alpha", settings.number("testing.alpha", -1))  # -1: off
    search = checked(SearchConfig, {
        "beam_size": settings.count("testing.beam_size", 1), "length_penalty": max(0.0, float(alpha)),
        "no_repeat_ngram": max(0, settings.number("testing.no_repeat_ngram_size", -1)),
    }, where=settings.where)  # fmt: skip
    notes = [
        f"{lang}: {note}"
        for side, lang in zip(sides, languages, strict=True)
        for note in settings.notes({f"data.{side}.{name}": note for name, note in NOTES.items()})
    ]
    return Foreign(model, weights, src, tgt, cut[0], cut[1], *languages, search, tuple(notes))


FORMAT = ForeignFormat(
    "joeynmt",
    "config.yaml with data and model, best.ckpt, src_vocab.txt and trg_vocab.txt",
    lambda folder: folder.has("config.yaml") and bool(folder.names("*.ckpt")),
    read,
)


def _vocabulary(folder: ForeignFolder, settings: ForeignSettings, side: str) -> ForeignVocabulary:
    """Return the tokens of a side. Special ones come first, as JoeyNMT puts them where its file has none."""
    usual = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    special = [settings.text(f"data.special_symbols.{kind}_token", token) for kind, token in usual.items()]
    pieces = list(dict.fromkeys([*special, *folder.text(f"{side}_vocab.txt").splitlines()]))
    unk, pad, start, eos = map(pieces.index, special)
    return ForeignVocabulary(pieces, start=start, eos=eos, unk=unk, pad=pad)
