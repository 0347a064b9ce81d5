"""A model of another toolkit becomes a run: which format it is, its rows in Dragoman's order, its files.

A run that was imported is one like any other: it translates, is scored, fine-tuned and served. It names no
corpus, and its report.json says where it came from.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from dragoman.config import TranslationConfig, usual_max_length
from dragoman.data.readers.files import hash_file
from dragoman.errors import RunError
from dragoman.files import replacing_folder
from dragoman.hardware import environment
from dragoman.interop import REPORT, fairseq, joeynmt, marian, opennmt, sockeye
from dragoman.interop.assembling import checked
from dragoman.interop.foreign import (
    Foreign,
    ForeignFolder,
    ForeignFormat,
    ForeignVocabulary,
    Imported,
    ImportOptions,
    cut_note,
)
from dragoman.predict.probe import Probe
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import BOS_ID, TokenizerPair
from dragoman.text.vocabulary import SPECIAL_TOKENS

NEVER = -1000.0
"""The output bias of a token that the other side has not: its probability is 0 in fp32. It is no lower, for
label smoothing wants a share even for it, whose loss would drown all others."""

FORMATS: dict[str, ForeignFormat] = {
    one.name: one
    for one in (
        marian.FORMAT,
        joeynmt.FORMAT,
        fairseq.FORMAT,
        opennmt.FORMAT,
        opennmt.EOLE_FORMAT,
        sockeye.FORMAT,
    )
}
"""The formats that are read: a new importer is one file, and one line here."""


def import_model(
    path: str | Path, out: str | Path, *, format_name: str | None = None, options: ImportOptions | None = None
) -> Run:
    """Return the run `out`, made of the model of another toolkit in `path`; it appears whole or not at all.

    `format_name` is one of FORMATS, None: by what files are there. RunError: it is of no known format or of
    several, damaged or incomplete; it computes what Dragoman's Transformer does not; or `out` is not empty
    or cannot be written. MissingExtraError: a package that its tokenizer needs is not installed.
    """
    folder, out = ForeignFolder(Path(path)), Path(out)
    _check_free(out)
    if format_name is not None and format_name not in FORMATS:
        raise RunError(f"--format {format_name}: there are {', '.join(FORMATS)}")
    name = format_name or detect(folder)
    foreign = FORMATS[name].read(folder, options or ImportOptions())
    return write_run(name, in_our_terms(foreign, folder), out, folder)


def _check_free(out: Path) -> None:
    """RunError: there is something in `out`."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: is there already; choose another folder, or remove it")


def detect(folder: ForeignFolder) -> str:
    """Detect the format of a folder. RunError: it is an export of ours, matches none, or several; damage."""
    origin = folder.json(REPORT).get("origin") if folder.has(REPORT) else None
    if isinstance(origin, dict):
        name = str(origin.get("name"))[:50]
        raise RunError(f"{folder.given}: was exported by Dragoman from the run {name!r}; use that run itself")
    formats = [name for name, one in FORMATS.items() if one.detects(folder)]
    if len(formats) == 1:
        return formats[0]
    if formats:
        raise RunError(f"{folder.given}: could be {' or '.join(formats)}; say which with --format")
    kind = folder.json("config.json").get("model_type") if folder.has("config.json") else None
    if isinstance(kind, str):
        raise RunError(
            f"{folder.given}: is a model of type {kind[:50]!r} (model_type in config.json), which cannot be "
            "imported; of transformers' models marian can"
        )
    expected = "; ".join(f"{name}: {one.looks_for}" for name, one in FORMATS.items())
    raise RunError(f"{folder.given}: holds no model of a known format. Looked for, {expected}")


def in_our_terms(foreign: Foreign, folder: ForeignFolder) -> Imported:
    """Return a model with its vocabularies in Dragoman's order. RunError: its parts do not fit together."""
    where, src, tgt = folder.given, foreign.src, foreign.tgt
    for vocabulary in (src, tgt):
        special = {"start": vocabulary.start, "end": vocabulary.eos, "unknown": vocabulary.unk}
        for name, i in (special | {"padding": vocabulary.pad}).items():
            if i is not None and not 0 <= i < len(vocabulary.pieces):
                raise RunError(
                    f"{where}: its {name} token is {i}, and the vocabulary has {len(vocabulary.pieces):,}; "
                    "they must come from the same model"
                )
    src_cut, tgt_cut = foreign.src_segmentation, foreign.tgt_segmentation
    try:
        tokenizer = src_cut.tokenizer(our_pieces(src))
        is_same = (src, src_cut) == (tgt, tgt_cut)
        tokenizers = TokenizerPair(tokenizer, tokenizer if is_same else tgt_cut.tokenizer(our_pieces(tgt)))
    except ValueError as error:
        raise RunError(f"{where}: its tokenizer cannot be used ({error}); copy it again") from error
    config = _config(foreign, tokenizers, where=where)
    notes = [
        *cut_note(src_cut, src.pieces, foreign.src_lang), *cut_note(tgt_cut, tgt.pieces, foreign.tgt_lang)
    ]  # fmt: skip
    return Imported(config, tokenizers, reorder(foreign), (*notes, *foreign.notes))


def our_rows(vocabulary: ForeignVocabulary) -> list[int | None]:
    """Return the foreign row of each of Dragoman's tokens: special ones first, then the others as they were.

    None where the other side has no such token.
    """
    start, eos, unk = vocabulary.start, vocabulary.eos, vocabulary.unk
    pad = vocabulary.pad if vocabulary.pad not in (start, eos, unk) else None
    special = {pad, start, eos, unk}
    return [pad, start, eos, unk, *(i for i in range(len(vocabulary.pieces)) if i not in special)]


def our_pieces(vocabulary: ForeignVocabulary) -> list[str]:
    """Return the vocabulary in Dragoman's order; a duplicate piece gets its number as a suffix."""
    pieces = list(SPECIAL_TOKENS)
    seen = set(pieces)
    for i in our_rows(vocabulary)[len(SPECIAL_TOKENS) :]:
        assert i is not None
        piece = vocabulary.pieces[i]
        while piece in seen:
            piece = f"{piece}#{i}"
        seen.add(piece)
        pieces.append(piece)
    return pieces


def reorder(foreign: Foreign) -> dict[str, Tensor]:
    """Return the weights, what has a row a token in Dragoman's order.

    A token that the other side has not gets zeros, and the output bias NEVER; so does <s> where the decoder
    starts with the end token, for its row is that one's.
    """
    ours = dict(foreign.weights)
    for name, vocabulary in (
        ("src_embedding.tokens.weight", foreign.src),
        ("tgt_embedding.tokens.weight", foreign.tgt),
        ("output.weight", foreign.tgt),
        ("output.bias", foreign.tgt),
    ):
        if name in ours:
            rows = our_rows(vocabulary)
            missing = torch.tensor([i is None for i in rows])
            if name == "output.bias" and vocabulary.start == vocabulary.eos:
                missing[BOS_ID] = True
            taken = ours[name][torch.tensor([i or 0 for i in rows])]
            taken[missing] = NEVER if name == "output.bias" else 0.0
            ours[name] = taken
    return ours


def write_run(format_name: str, imported: Imported, out: Path, folder: ForeignFolder) -> Run:
    """Write a complete run, and try it. RunError: it cannot be written, or do not translate."""
    with replacing_folder(out) as partial:
        run = Run.create(partial, imported.config)
        imported.tokenizers.save(run.tokenizer_folder)
        run.save_weights(imported.weights)  # to be loaded, and asked for a probe
        run.write_json("environment.json", environment())
        origin = {
            "format": format_name,
            "path": str(folder.given),
            "files": {
                name: {"bytes": path.stat().st_size, "blake2b": hash_file(path)}
                for name, path in sorted(folder.used.items())
            },
            "n_parameters": sum(tensor.numel() for tensor in imported.weights.values()),
            "notes": list(imported.notes),
        }
        run.write_json("report.json", {"imported": origin})
        damaged = f"{folder.given}: computes what is no probability; the model is damaged, copy it again"
        try:
            translator = Translator.load(run.path, device="cpu", precision="fp32")
            sizes = translator.tokenizers.src.vocab_size, translator.tokenizers.tgt.vocab_size
            probe = Probe.of(TorchEngine(translator.model), *sizes)
        except RunError as error:  # weights of one number alone
            raise RunError(damaged) from error
        if not probe.is_finite:
            raise RunError(damaged)
        run.save_weights(imported.weights, probe=probe.text())
        _check_free(out)  # still
    return Run.open(out)


def _config(foreign: Foreign, tokenizers: TokenizerPair, *, where: Path) -> TranslationConfig:
    """Return the configuration of the run: what the model says, and defaults for the rest."""
    src_kind, tgt_kind = foreign.src_segmentation.kind, foreign.tgt_segmentation.kind
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", where.resolve().name).lstrip("._-")
    settings = {
        "name": name or "imported",
        "data": {
            "src_lang": foreign.src_lang, "tgt_lang": foreign.tgt_lang, "directions": foreign.directions,
            "train": [], "max_length": usual_max_length(foreign.model),
        },
        "tokenizer": {
            "kind": src_kind, "tgt_kind": "same" if src_kind == tgt_kind else tgt_kind,
            "vocab_size": max(10, tokenizers.tgt.vocab_size), "shared": foreign.src == foreign.tgt,
            "lowercase": foreign.src_segmentation.lowercase,
        },
        "model": foreign.model.model_dump(), "search": foreign.search.model_dump(),
    }  # fmt: skip
    return checked(TranslationConfig, settings, where=where)
