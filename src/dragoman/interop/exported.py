"""What Dragoman exported to Hugging Face, read back: the same weights, tokens and settings."""

from __future__ import annotations

from math import isfinite
from typing import Any

from dragoman.config import TranslationConfig, parse_section
from dragoman.errors import ConfigError, RunError
from dragoman.interop.foreign import ForeignFolder, ForeignFormat, Imported, ImportOptions
from dragoman.interop.huggingface import RUN, from_huggingface
from dragoman.interop.marian import read_weights
from dragoman.predict.engine import FORBIDDEN
from dragoman.text.tokenizer import TokenizerPair


def _detects(folder: ForeignFolder) -> bool:
    """Whether Dragoman exported it, whatever transformers has made of its weights since."""
    return folder.has("config.json") and RUN in folder.json("config.json")


def read(folder: ForeignFolder, options: ImportOptions) -> Imported:
    """Return the run in a folder.

    RunError: it is incomplete, damaged, or of parts that do not belong together.
    """
    kept: Any = folder.json("config.json").get(RUN)
    config = _config(kept, folder, options)
    for name in ["shared.json"] if folder.has(f"{RUN}/shared.json") else ["src.json", "tgt.json"]:
        folder.file(f"{RUN}/{name}")  # transformers saves a model without this folder
    tokenizers = TokenizerPair.load(folder.path / RUN)
    sizes = tokenizers.src.vocab_size, tokenizers.tgt.vocab_size
    if kept.get("src_vocab_size") != sizes[0] or kept.get("shared") is not config.tokenizer.shared:
        raise RunError(
            f"{folder.path}: its config.json and its folder {RUN} are of different runs; copy both from one"
        )
    bias = kept.get("forbidden_bias")
    is_list = isinstance(bias, list) and all(isinstance(one, float) and isfinite(one) for one in bias)
    if config.model.output_bias and not (is_list and len(bias) == len(FORBIDDEN)):
        raise RunError(f"{folder.path / 'config.json'}: {RUN}.forbidden_bias is damaged; export again")
    return Imported(config, tokenizers, from_huggingface(read_weights(folder), config.model, kept, *sizes))


FORMAT = ForeignFormat(
    "dragoman",
    f"config.json with the key {RUN}, as dragoman export --to huggingface writes it",
    _detects,
    read,
)


def _config(kept: Any, folder: ForeignFolder, options: ImportOptions) -> TranslationConfig:
    """Return the configuration of the run. RunError: it is damaged, or the user names other languages."""
    if not isinstance(kept, dict) or kept.get("version") != 1 or not isinstance(kept.get("config"), dict):
        raise RunError(
            f"{folder.path / 'config.json'}: {RUN} is of another version, or damaged; export again"
        )
    try:
        where = str(folder.path / "config.json")
        config = parse_section(TranslationConfig, kept["config"], where=where)
    except ConfigError as error:
        raise RunError(str(error)) from error
    src, tgt = config.languages
    if (options.src_lang or src, options.tgt_lang or tgt) != (src, tgt):
        raise RunError(f"{folder.given}: translates {config.subject}; omit --src-lang and --tgt-lang")
    return config
