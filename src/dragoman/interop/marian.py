"""Marian, as Hugging Face keeps it: the OPUS-MT models (Tiedemann and Thottingal 2020)."""

from __future__ import annotations

from dragoman.errors import RunError
from dragoman.interop.foreign import Foreign, ForeignFolder, Imported, Options

LOOKS_FOR = "config.json with model_type marian, source.spm and target.spm, vocab.json"


def detects(folder: ForeignFolder) -> bool:
    """A folder of a MarianMTModel."""
    return folder.has("config.json") and folder.json("config.json").get("model_type") == "marian"


def read(folder: ForeignFolder, options: Options) -> Foreign | Imported:
    raise RunError("x")
