"""CTranslate2: convert a run, and translate with the converted model.

The forbidden tokens are part of the conversion, as a bias of the output, so that both engines have the
same probabilities.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import optional
from dragoman.files import write_atomically
from dragoman.model.architecture import parameters
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import FORBIDDEN, SearchInput
from dragoman.predict.shortlist import Shortlist
from dragoman.text.tokenizer import BOS_ID, EOS_ID, UNK_ID, TokenizerPair
from dragoman.text.vocabulary import SPECIAL_TOKENS

VOCABULARY_MAP = "vmap.txt"
"""Where CTranslate2 looks for a shortlist."""
NAMES = {
    "self_attention.in_proj": ("self_attention.linear#0",),
    "self_attention.out_proj": ("self_attention.linear#1",),
    "self_attention.norm": ("self_attention.layer_norm",),
    "cross_attention.in_proj": ("attention.linear#0", "attention.linear#1"),
    "cross_attention.out_proj": ("attention.linear#2",),
    "cross_attention.norm": ("attention.layer_norm",),
    "feed_forward.linear1": ("ffn.linear_0",),
    "feed_forward.linear2": ("ffn.linear_1",),
    "feed_forward.norm": ("ffn.layer_norm",),
    "norm": ("layer_norm",),
}
"""What CTranslate2 calls the parts of a side or of a layer; "#": one in a list."""


class CTranslate2Engine:
    """A model that `convert` wrote, in CTranslate2."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair, config: ModelConfig) -> None:
        """`config` is that of the converted model."""
        self.config = config
        self.src_pieces, self.tgt_pieces = tokenizers.src.pieces(), tokenizers.tgt.pieces()
        self.tgt_ids = {piece: i for i, piece in enumerate(self.tgt_pieces)}
        self.translator = import_ctranslate2().Translator(str(folder))

    def greedy(self, sentences: Sequence[SearchInput], longest: int) -> list[list[int]]:
        """As `ExportedModel`."""
        results = self.translator.translate_batch(
            self._pieces([sentence.source for sentence in sentences]), beam_size=1, min_decoding_length=1,
            max_decoding_length=longest, max_input_length=0,
        )  # fmt: skip
        return [[self.tgt_ids[piece] for piece in result.hypotheses[0]] for result in results]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """As `ExportedModel`."""
        pieces = [[self.tgt_pieces[i] for i in ids] for ids in targets]
        scored = self.translator.score_batch(self._pieces(sources), pieces, max_input_length=0)
        return [list(result.log_probs) for result in scored]

    def _pieces(self, sources: Sequence[Sequence[int]]) -> list[list[str]]:
        end = None if self.config.source_end else -1
        return [[self.src_pieces[i] for i in source[:end]] for source in sources]


def convert(
    model: Seq2SeqTransformer,
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    compute_type: str = "float32",
) -> None:
    """Write `model` into `folder`, as CTranslate2 reads it; `compute_type` "int8" keeps weights in bytes.

    MissingExtraError: CTranslate2 is not installed.
    """
    ctranslate2 = import_ctranslate2()
    config = model.config
    activations = ctranslate2.specs.Activation
    by_name = {"relu": activations.RELU, "gelu": activations.GELU, "swish": activations.SWISH}
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (config.n_encoder_layers, config.n_decoder_layers),
        config.n_heads,
        pre_norm=config.norm == "pre",
        activation=by_name[config.activation],
    )
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = config.scale_embeddings
    for side, embedding in ((spec.encoder, model.src_embedding), (spec.decoder, model.tgt_embedding)):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = _array(embedding.tokens.weight)
        side.position_encodings.encodings = _array(embedding.positions)  # its own are in another order
    _fill_layers(spec, model)
    spec.decoder.projection.weight = _array(model.output.weight)
    bias = torch.zeros(len(model.output.weight)) if model.output.bias is None else model.output.bias
    spec.decoder.projection.bias = _array(bias)
    spec.decoder.projection.bias[list(FORBIDDEN)] = -1e9  # -inf would become NaN
    spec.register_source_vocabulary(tokenizers.src.pieces())
    spec.register_target_vocabulary(tokenizers.tgt.pieces())
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL_TOKENS[BOS_ID]
    spec.config.eos_token, spec.config.unk_token = SPECIAL_TOKENS[EOS_ID], SPECIAL_TOKENS[UNK_ID]
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    spec.optimize(quantization=compute_type)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def write_vocabulary_map(shortlist: Shortlist, tokenizers: TokenizerPair, folder: Path) -> None:
    """Write `shortlist` beside a converted model, for `translate_batch(..., use_vmap=True)`.

    A line for each source piece: it, a tab, and the target pieces that may translate it; in the first line
    those that any sentence may hold. Pieces with spaces cannot be written so, and are left out.
    """
    src, tgt = (
        [None if re.search(r"\s", piece) else piece for piece in side.pieces()]
        for side in (tokenizers.src, tokenizers.tgt)
    )
    rows = [("", shortlist.always.tolist()), *zip(src, shortlist.translations.tolist(), strict=True)]
    lines = [
        f"{piece}\t{' '.join(pieces)}\n"
        for piece, ids in rows
        if piece is not None and (pieces := [tgt[i] for i in ids if i >= 0 and tgt[i]])
    ]
    write_atomically(folder / VOCABULARY_MAP, "".join(lines).encode())


def _fill_layers(spec: Any, model: Seq2SeqTransformer) -> None:
    """Write the layers of both sides and their final norms, by the table of the architecture."""
    weights = dict(model.named_parameters())
    n_src, n_tgt = len(model.src_embedding.tokens.weight), len(model.output.weight)
    for parameter in parameters(model.config, n_src, n_tgt):
        if not parameter.side:
            continue
        side = getattr(spec, parameter.side)
        at = side if parameter.layer is None else side.layer[parameter.layer]
        rows, kind = weights[parameter.name], parameter.kind
        if parameter.part.endswith("norm"):
            kind = {"weight": "gamma", "bias": "beta"}[kind]
        names, d_model = NAMES[parameter.part], model.config.d_model
        parts = [rows] if len(names) == 1 else [rows[:d_model], rows[d_model:]]  # queries; keys and values
        for name, part in zip(names, parts, strict=True):
            block, _, number = name.partition("#")
            target = operator.attrgetter(block)(at)
            setattr(target[int(number)] if number else target, kind, _array(part))


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().float().cpu().numpy().copy()  # it quantises in place


def import_ctranslate2() -> Any:
    """Return the package. MissingExtraError: it is not installed."""
    return optional("ctranslate2", extra="ctranslate2", purpose='engine = "ctranslate2"')
