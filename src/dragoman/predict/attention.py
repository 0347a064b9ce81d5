"""Attention weights of a translator: encoder, decoder, and cross-attention."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.errors import DataError
from dragoman.predict.model import TranslationModel
from dragoman.predict.scoring import pieces_with_end
from dragoman.text.tokenizer import BOS_ID, EOS_ID, Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS


class AttentionMap(NamedTuple):
    """The attention between the tokens of two sides, or of one."""

    weights: npt.NDArray[np.float32]
    """(layers, H, rows, columns). Row t is the look from which token t follows; it adds up to 1."""
    rows: tuple[str, ...]
    """What looks: the pieces of the source (encoder) or of the translation, the end token last."""
    columns: tuple[str, ...]
    """What is looked at: the pieces of the source, the end token last; or the start token, then the pieces of
    the translation that are already there (decoder)."""


class AttentionMaps(NamedTuple):
    """Every look of a model at a sentence and its translation: section 3.2.3 of Vaswani et al. 2017."""

    encoder: AttentionMap
    decoder: AttentionMap
    cross: AttentionMap


def attention_maps(model: TranslationModel, source: str, target: str) -> AttentionMaps:
    """Return all attention of all layers and heads while `source` is translated as `target`.

    DataError: a text is empty, or has more tokens than the model accepts.
    """
    tokenizers, limit = model.tokenizers, model.max_positions
    src_ids = _ids(tokenizers.src, source, limit, "source")
    tgt_ids = _ids(tokenizers.tgt, target, limit, "target")
    of_encoder, of_decoder, of_cross = model.engine.attention_maps([*src_ids, EOS_ID], tgt_ids)
    src_tokens = tuple(pieces_with_end(tokenizers.src, source))
    tgt_tokens = tuple(pieces_with_end(tokenizers.tgt, target))
    written = (SPECIAL_TOKENS[BOS_ID], *tgt_tokens[:-1])
    return AttentionMaps(
        AttentionMap(of_encoder, src_tokens, src_tokens),
        AttentionMap(of_decoder, tgt_tokens, written),
        AttentionMap(of_cross, tgt_tokens, src_tokens),
    )


def _ids(tokenizer: Tokenizer, text: str, limit: int, which: str) -> list[int]:
    ids = tokenizer.encode(text)
    if not ids:
        raise DataError(f"the {which} is empty; attention needs a sentence on both sides")
    if len(ids) + 1 > limit:  # with the end or the start token
        raise DataError(
            f"the {which} has {len(ids) + 1} tokens and the model accepts {limit}; take a shorter sentence"
        )
    return ids
