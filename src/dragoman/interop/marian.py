"""Marian as Hugging Face keeps it: `MarianMTModel`, the OPUS-MT models (Tiedemann and Thottingal 2020).

The format is that of transformers' own `save_pretrained`, and of the older folders of the hub: config.json,
generation_config.json, tokenizer_config.json, vocab.json, source.spm and target.spm, and the weights as
safetensors or as torch.save wrote them.

Its sinusoids have the sines in the first half of the width and the cosines in the second, where ours take
turns. So the dimensions of everything that reads or writes the residual stream are put in another order,
which changes no result, and the positions need not be kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.assembling import assemble, checked, model_config
from dragoman.interop.foreign import Foreign, ForeignFolder, ForeignFormat, ForeignVocabulary, ImportOptions
from dragoman.interop.huggingface import NAMES, SETTINGS, halves, read_weights
from dragoman.interop.settings import ForeignSettings, Setting, read_settings
from dragoman.interop.torch_files import ForeignTensors
from dragoman.model.architecture import SIDES
from dragoman.model.layers import sinusoids
from dragoman.text.foreign import LANGUAGE


def read(folder: ForeignFolder, options: ImportOptions) -> Foreign:
    """Return the model in a folder. RunError: it is incomplete or damaged, or computes something else."""
    settings = read_settings(folder, "config.json")
    settings.check([Setting("model_type", "marian", ("marian",))])
    search, tokens = settings, ForeignSettings({}, where=folder.path / "tokenizer_config.json")
    if folder.has("generation_config.json"):  # in old folders it is among the settings
        search = read_settings(folder, "generation_config.json")
    if folder.has("tokenizer_config.json"):
        tokens = read_settings(folder, "tokenizer_config.json")
    src, tgt = read_vocabularies(folder, settings)
    model, weights = our_weights(read_weights(folder), settings, (src, tgt))
    src_lang, tgt_lang = options.languages(
        tokens.text("source_lang"), tokens.text("target_lang"), where=folder.given
    )
    languages = [piece for piece in src.pieces if LANGUAGE.fullmatch(piece)]
    # A source may begin with its target language, as ">>deu<<"; the one that is said comes first.
    plain = re.compile(r"[A-Za-z0-9_]+")
    codes = [code for piece in languages if plain.fullmatch(code := piece[2:-2]) and code != src_lang]
    codes.sort(key=lambda code: code != tgt_lang)
    directions = tuple(f"{src_lang}-{code}" for code in codes) if plain.fullmatch(src_lang) else ()
    beam = {  # as `generate` would search, but for the length penalty (`_notes`)
        "beam_size": search.count("num_beams", 1),
        "length_penalty": max(0.0, float(search.number("length_penalty", 1.0))),
        "no_repeat_ngram": search.count("no_repeat_ngram_size", 0, least=0),
    }
    names = {"src": "source.spm", "tgt": "target.spm"}
    cut = [folder.segmentation(options, side, spm=name) for side, name in names.items()]
    first = directions[0].partition("-")[2] if directions else tgt_lang
    notes, ours = tuple(_notes(search, languages)), checked(SearchConfig, beam, where=search.where)
    return Foreign(model, weights, src, tgt, cut[0], cut[1], src_lang, first, ours, notes, directions)


FORMAT = ForeignFormat(
    "marian",
    "config.json with model_type marian, vocab.json, source.spm and target.spm",
    lambda folder: folder.has("config.json") and folder.json("config.json").get("model_type") == "marian",
    read,
)


def our_weights(
    tensors: ForeignTensors,
    settings: ForeignSettings,
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary],
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return the architecture and its weights by our names, rows of tokens in Marian's order.

    RunError: a weight is missing, is left over, or is not as config.json says.
    """
    values = settings.read(SETTINGS) | {"norm": "post", "output_bias": True}
    model = model_config(values, where=settings.where)
    shared = "model.shared.weight"
    src, tgt, output = (f"{NAMES[part]}.weight" for part in ("src_embedding", "tgt_embedding", "output"))
    if not settings.flag("tie_word_embeddings", True):
        tensors.repeat(shared, src, tgt)  # where both languages have one table, some versions keep it once
    elif settings.flag("share_encoder_decoder_embeddings", True):
        tensors.unite(shared, src, tgt, output)
    else:
        tensors.unite(tgt, output)
    tensors.pop(shared, None)
    n_tgt = len(vocabularies[1].pieces)
    tensors.setdefault("final_logits_bias", torch.zeros(1, n_tgt))
    tensors[f"{NAMES['output']}.bias"] = tensors.take("final_logits_bias", 1, n_tgt)[0]
    order = halves(model.d_model)

    def table(name: str) -> Tensor:
        """Positions (P, D) of a side: those in the file, or the ones that are computed."""
        if name in tensors:
            return tensors.take(name, model.max_positions, model.d_model)
        return sinusoids(model.max_positions, model.d_model)[:, order]

    tables = [f"model.{side}.embed_positions.weight" for side in SIDES]
    return assemble(tensors, NAMES, model, vocabularies, lambda: map(table, tables), order=order.argsort())


def read_vocabularies(
    folder: ForeignFolder, settings: ForeignSettings
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Source and target: one and the same unless the folder has a target_vocab.json."""
    n_src = settings.count("vocab_size")
    n_tgt = settings.count("decoder_vocab_size", n_src)
    shared = settings.flag("share_encoder_decoder_embeddings", True)
    two = folder.has("target_vocab.json") and not shared
    start, eos = (settings.count(f"{name}_token_id", least=0) for name in ("decoder_start", "eos"))
    if not two and n_src != n_tgt:
        raise RunError(f"{folder.path}: has two vocabularies, and no target_vocab.json; is it complete?")
    special = ("</s>", "<unk>")
    src_ids = folder.token_ids("vocab.json", special)
    tgt_ids = folder.token_ids("target_vocab.json", special) if two else src_ids
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


def _vocabulary(
    folder: ForeignFolder, ids: Mapping[str, int], size: int, *, start: int, pad: int
) -> ForeignVocabulary:
    """Return the tokens by their ids.

    Numbers that no token has, as where a matrix was filled up, are named so.
    """
    if not 0 < size <= len(ids) + 1024 or not all(0 <= i < size for i in ids.values()):
        raise RunError(
            f"{folder.path}: the vocabulary has {len(ids):,} tokens, up to number {max(ids.values()):,}, and "
            f"its settings say {size:,}; they must come from the same model"
        )
    by_id = {i: token for token, i in ids.items()}
    pieces = [by_id.get(i, f"<unused{i}>") for i in range(size)]
    return ForeignVocabulary(pieces, start=start, eos=ids["</s>"], unk=ids["<unk>"], pad=pad)


def _notes(search: ForeignSettings, languages: list[str]) -> Iterator[str]:
    """Yield notes on settings that differ, and on several target languages."""
    if search.count("num_beams", 1) > 1:
        alpha = search.number("length_penalty", 1.0)
        yield (
            f"a beam ranks by log-probability / length^{alpha:g} there, and here by "
            f"log-probability / ((5 + length) / 6)^{max(0.0, alpha):g}: the best of a beam may be another"
        )
    if languages:
        some = " ".join(languages[:5]) + " ..." * (len(languages) > 5)
        yield f"it writes several languages: say which with --to, by its code in the model ({some})"
