"""What cuts the text for a foreign model: files of its folder, or those that the user names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from dragoman.errors import RunError
from dragoman.interop.foreign import ForeignFolder, Options, Pieces, Segmentation, SentencePiece
from dragoman.text.foreign import CONTINUED
from dragoman.text.normalisation import META_SPACE


def beside(folder: ForeignFolder, *names: str) -> str | None:
    """Return the first of these files that is in the folder, wherever a setting says that it is."""
    bases = (PurePosixPath(name.replace("\\", "/")).name for name in names)
    return next((base for base in bases if base and folder.has(base)), None)


def segmentation(
    folder: ForeignFolder,
    options: Options,
    side: str,
    *,
    spm: str | None = None,
    codes: str | None = None,
    lowercase: bool = False,
    known_only: bool = False,
) -> Segmentation:
    """Return the segmentation of a side ("src" or "tgt"): as the user says, else from files of the folder.

    RunError: a file cannot be read, or its codes are malformed.
    """
    given = options.src_spm if side == "src" else options.tgt_spm or options.src_spm
    if given is not None:
        return SentencePiece(folder.read_given(given), lowercase)
    if options.codes is not None:
        return Pieces(_codes(folder.read_given(options.codes), str(options.codes)), lowercase, known_only)
    if spm is not None:
        return SentencePiece(folder.read(spm), lowercase)
    if codes is not None:
        return Pieces(_codes(folder.read(codes), str(folder.path / codes)), lowercase, known_only)
    return Pieces(lowercase=lowercase)


def cut_note(segmentation: Segmentation, pieces: Sequence[str], lang: str) -> list[str]:
    """Return a note for a vocabulary of subwords without the tokenizer that makes them."""
    if isinstance(segmentation, SentencePiece) or segmentation.codes is not None:
        return []
    if any(piece.startswith(META_SPACE) for piece in pieces):
        return [
            f"{lang}: its sentencepiece model is not in the folder: text must come cut into its pieces, "
            "or import again with --src-spm and --tgt-spm"
        ]
    if any(piece.endswith(CONTINUED) for piece in pieces):
        return [
            f"{lang}: its byte-pair codes are not in the folder: text must come cut into its pieces, "
            "or import again with --codes"
        ]
    return []


def _codes(content: bytes, where: str) -> str:
    """Codes as subword-nmt reads them; those of fastBPE, which count how often, lose their counts."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise RunError(f"{where}: is not UTF-8 text; give the file of byte-pair codes") from None
    lines = text.strip("\r\n ").split("\n")
    if lines[0].startswith("#version:"):
        return text
    columns = [line.split() for line in lines]
    if all(len(parts) == 3 and parts[2].isdecimal() for parts in columns):
        return "".join(["#version: 0.2\n", *(f"{a} {b}\n" for a, b, _ in columns)])
    return text
