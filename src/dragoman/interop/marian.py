"""Marian as Hugging Face keeps it: `MarianMTModel`, the OPUS-MT models (Tiedemann and Thottingal 2020).

The format is that of transformers' own `save_pretrained`, and of the older folders of the hub: config.json,
generation_config.json, tokenizer_config.json, vocab.json, source.spm and target.spm, and the weights as
safetensors or as torch.save wrote them.

Its sinusoids have the sines in the first half of the width and the cosines in the second, where ours take
turns. So the dimensions of everything that reads or writes the residual stream are put in another order,
which changes no result, and the positions need not be kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import checked_search, model_config, positions
from dragoman.interop.foreign import (
    Foreign,
    ForeignFolder,
    ForeignVocabulary,
    Options,
    SentencePiece,
    parameter_shapes,
)
from dragoman.interop.huggingface import RUN, SIDES, halves, stack_parts
from dragoman.interop.settings import Settings
from dragoman.interop.torch_files import ForeignTensors, read_safetensors, read_torch
from dragoman.model.layers import sinusoids
from dragoman.text.foreign import LANGUAGE

LOOKS_FOR = "config.json with model_type marian, vocab.json, source.spm and target.spm"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}


def detects(folder: ForeignFolder) -> bool:
    """Whether it is the folder of a MarianMTModel, and not one that Dragoman exported."""
    if not folder.has("config.json"):
        return False
    settings = folder.json("config.json")
    return settings.get("model_type") == "marian" and RUN not in settings


def read(folder: ForeignFolder, options: Options) -> Foreign:
    """The model in a folder. RunError: it is incomplete or damaged, or computes something else."""
    settings = read_settings(folder, "config.json")
    has_search = folder.has("generation_config.json")  # in old folders it is among the settings
    search = read_settings(folder, "generation_config.json") if has_search else settings
    tokens = read_settings(folder, "tokenizer_config.json")
    src, tgt = read_vocabularies(folder, settings)
    model, weights = our_weights(read_weights(folder), settings, (len(src.pieces), len(tgt.pieces)))
    src_lang, tgt_lang = options.languages(
        tokens.text("source_lang"), tokens.text("target_lang"), where=folder.given
    )
    languages = [piece for piece in src.pieces if LANGUAGE.fullmatch(piece)]
    return Foreign(
        format="marian",
        model=model,
        weights=weights,
        src=src,
        tgt=tgt,
        src_segmentation=_segmentation(folder, options.src_spm, "source.spm"),
        tgt_segmentation=_segmentation(folder, options.tgt_spm, "target.spm"),
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        search=search_config(search),
        notes=tuple(_notes(settings, search, model, languages)),
    )


def read_settings(folder: ForeignFolder, name: str) -> Settings:
    """One of the folder's JSON files; nothing is set where it is not there."""
    return Settings(folder.json(name) if folder.has(name) else {}, where=folder.path / name)


def architecture(settings: Settings) -> ModelConfig:
    """What config.json describes. RunError: Dragoman has none like it."""
    for name in ("attention_heads", "ffn_dim"):
        if settings.count(f"encoder_{name}") != settings.count(f"decoder_{name}"):
            raise settings.refusal(f"decoder_{name}", f"encoder_{name} is another")
    shared = settings.flag("share_encoder_decoder_embeddings", default=True)
    tied = settings.flag("tie_word_embeddings", default=True)
    return model_config(
        {
            "d_model": settings.count("d_model"),
            "n_heads": settings.count("encoder_attention_heads"),
            "d_ff": settings.count("encoder_ffn_dim"),
            "n_encoder_layers": settings.count("encoder_layers"),
            "n_decoder_layers": settings.count("decoder_layers"),
            "dropout": settings.number("dropout", 0.1),
            "attention_dropout": settings.number("attention_dropout", 0.0),
            "activation_dropout": settings.number("activation_dropout", 0.0),
            "norm": "post",
            "activation": settings.choose("activation_function", "gelu", ACTIVATIONS),
            "scale_embeddings": settings.flag("scale_embedding"),
            "max_positions": settings.count("max_position_embeddings", 1024),
            "tie_embeddings": ("all" if shared else "output") if tied else "none",
            "output_bias": True,
        },
        where=settings.where,
    )


def our_weights(
    tensors: ForeignTensors, settings: Settings, sizes: tuple[int, int]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """The architecture and its weights by our names, rows of tokens in Marian's order; `sizes`: such rows.

    RunError: a weight is missing, is left over, or is not as config.json says.
    """
    model = architecture(settings)
    shapes = parameter_shapes(model, sizes, where=settings.where)
    ours = halves(model.d_model).argsort()  # (D,): which of Marian's dimensions is each of ours
    weights = dict(_matrices(tensors, model, sizes, ours))
    for name, parts in stack_parts(model):
        n_rows, *columns = shapes[name]
        taken = [tensors.take(part.name, n_rows // len(parts), *columns) for part in parts]
        taken = [t[ours] if part.rows else t for t, part in zip(taken, parts, strict=True)]
        taken = [t[:, ours] if part.columns else t for t, part in zip(taken, parts, strict=True)]
        weights[name] = torch.cat(taken)
    found = positions(*(_table(tensors, side, model)[:, ours] for side in SIDES), learned=False)
    weights |= found.parameters
    tensors.check_all_taken()
    return model.model_copy(update={"positions": found.kind}), weights


def _matrices(
    tensors: ForeignTensors, model: ModelConfig, sizes: tuple[int, int], ours: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """What has a row for each token: embeddings, output and its bias."""
    shared, src, tgt, output = (
        "model.shared.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    )
    groups: dict[str, tuple[str, ...]]
    if model.tie_embeddings == "all":
        groups = {"src_embedding.tokens": (shared, src, tgt, output)}
    elif model.tie_embeddings == "output":
        groups = {"src_embedding.tokens": (src,), "tgt_embedding.tokens": (tgt, output)}
    else:
        groups = {"src_embedding.tokens": (src,), "tgt_embedding.tokens": (tgt,), "output": (output,)}
        for name in (src, tgt):  # where both languages have one table, some versions keep it once
            if shared in tensors and name not in tensors:
                tensors.copy(shared, name)
        tensors.drop(shared)
    for name, names in groups.items():
        n_rows = sizes[0] if name == "src_embedding.tokens" else sizes[1]
        yield f"{name}.weight", tensors.take_same(names, n_rows, model.d_model)[:, ours]
    bias = "final_logits_bias"
    yield "output.bias", tensors.take(bias, 1, sizes[1])[0] if bias in tensors else torch.zeros(sizes[1])


def _table(tensors: ForeignTensors, side: str, model: ModelConfig) -> Tensor:
    """The positions of the encoder or the decoder: those in the file, or the ones that are computed."""
    name = f"model.{side}.embed_positions.weight"
    if name not in tensors:
        return sinusoids(model.max_positions, model.d_model)[:, halves(model.d_model)]
    return tensors.take(name, model.max_positions, model.d_model)


def read_weights(folder: ForeignFolder) -> ForeignTensors:
    """The weights in a folder of transformers: in one file or several, of safetensors or of torch.save.

    RunError: there are none, or a file is damaged or named outside of the folder.
    """
    for name, read_file in (("model.safetensors", read_safetensors), ("pytorch_model.bin", read_torch)):
        index = f"{name}.index.json"
        names = [name] if folder.has(name) else _parts(folder, index) if folder.has(index) else []
        if names:
            found: dict[str, Any] = {}
            for part in names:
                found |= read_file(folder.file(part))
            where = folder.path / name
            strange = [key for key, value in found.items() if not isinstance(value, Tensor)]
            if strange:
                raise RunError(f"{where}: {strange[0]} is no tensor; the file holds more than weights")
            return ForeignTensors(found, where=where)
    raise RunError(f"{folder.path}: holds neither model.safetensors nor pytorch_model.bin; is it complete?")


def _parts(folder: ForeignFolder, index: str) -> list[str]:
    """The files that an index names."""
    weight_map = folder.json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(part, str) for part in weight_map.values()):
        raise RunError(f"{folder.path / index}: names no files of weights; copy it again")
    return sorted(set(weight_map.values()))


def read_vocabularies(
    folder: ForeignFolder, settings: Settings
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Source and target: one and the same unless the folder has a target_vocab.json."""
    n_src = settings.count("vocab_size")
    n_tgt = settings.count("decoder_vocab_size", n_src)
    shared = settings.flag("share_encoder_decoder_embeddings", default=True)
    two = folder.has("target_vocab.json") and not shared
    start, eos = (settings.count(f"{name}_token_id", least=0) for name in ("decoder_start", "eos"))
    if not two and n_src != n_tgt:
        raise RunError(f"{folder.path}: has two vocabularies, and no target_vocab.json; is it complete?")
    src_ids = _ids(folder, "vocab.json")
    tgt_ids = _ids(folder, "target_vocab.json") if two else src_ids
    tgt = _vocabulary(folder, tgt_ids, n_tgt, start=start, pad=settings.count("pad_token_id", start, least=0))
    if tgt.eos != eos:
        raise RunError(
            f"{settings.where}: eos_token_id is {eos}, and </s> is {tgt.eos}; "
            "settings and vocabulary must come from the same model"
        )
    if not two:
        return tgt, tgt
    pad = src_ids.get("<pad>", src_ids["</s>"])
    return _vocabulary(folder, src_ids, n_src, start=pad, pad=pad), tgt


def _ids(folder: ForeignFolder, name: str) -> dict[str, int]:
    """The tokens in a vocabulary's file with their ids. RunError: it is none."""
    ids = folder.json(name)
    if any(type(i) is not int for i in ids.values()) or len(set(ids.values())) != len(ids):
        raise RunError(f"{folder.path / name}: does not give each token a number of its own; copy it again")
    missing = [token for token in ("</s>", "<unk>") if token not in ids]
    if missing:
        raise RunError(f"{folder.path / name}: has no {' and no '.join(missing)}; it is of another model")
    return ids


def _vocabulary(
    folder: ForeignFolder, ids: Mapping[str, int], size: int, *, start: int, pad: int
) -> ForeignVocabulary:
    """The tokens by their ids; numbers that no token has, as where a matrix was filled up, are named so."""
    if not 0 < size <= len(ids) + 1024 or not all(0 <= i < size for i in ids.values()):
        raise RunError(
            f"{folder.path}: the vocabulary has {len(ids):,} tokens, up to number {max(ids.values()):,}, and "
            f"its settings say {size:,}; they must come from the same model"
        )
    by_id = {i: token for token, i in ids.items()}
    pieces = [by_id.get(i, f"<unused{i}>") for i in range(size)]
    return ForeignVocabulary(pieces, start=start, eos=ids["</s>"], unk=ids["<unk>"], pad=pad)


def search_config(settings: Settings) -> SearchConfig:
    """The search that `generate` would make. Its length penalty is another one (`_notes`)."""
    alpha = settings.number("length_penalty", 1.0)
    if not math.isfinite(alpha):
        raise settings.refusal("length_penalty", "it is no number")
    search = {
        "beam_size": settings.count("num_beams", 1),
        "length_penalty": max(0.0, float(alpha)),
        "no_repeat_ngram": settings.count("no_repeat_ngram_size", 0, least=0),
    }
    return checked_search(search, where=settings.where)


def _segmentation(folder: ForeignFolder, given: Path | None, name: str) -> SentencePiece:
    """The sentencepiece model that the user names, else the one in the folder."""
    return SentencePiece(folder.read_given(given) if given else folder.read(name))


def _notes(settings: Settings, search: Settings, model: ModelConfig, languages: list[str]) -> Iterator[str]:
    """What did not carry over, or is another thing here."""
    if search.count("num_beams", 1) > 1:
        alpha = search.number("length_penalty", 1.0)
        yield (
            f"a beam ranks by log-probability / length^{alpha:g} there, and here by "
            f"log-probability / ((5 + length) / 6)^{max(0.0, alpha):g}: the best of a beam may be another"
        )
    if limit := search.count("max_length", 0, least=0):
        yield (
            f"a translation had at most {limit} tokens there; here it is [search] max_length_factor times "
            "the source and max_length_extra"
        )
    if search.flag("do_sample"):
        yield "do_sample is left away: a run samples where it is asked to (--method sampling)"
    if search.count("num_beam_groups", 1) > 1:
        yield "num_beam_groups is left away: a run has such beams where it is asked to (--diversity-groups)"
    if settings.number("encoder_layerdrop", 0.0) or settings.number("decoder_layerdrop", 0.0):
        yield "layers are not left out while training (layerdrop)"
    if settings.flag("share_encoder_decoder_embeddings", default=True) and model.tie_embeddings == "none":
        yield "a table of embeddings for both languages became one for each, which training tells apart"
    if model.positions == "stored":
        yield "its table of positions is not one of sinusoids, and is kept as it is"
    if languages:
        some = " ".join(languages[:5]) + " ..." * (len(languages) > 5)
        yield f"it writes several languages: a source begins with the one that is wanted ({some})"
