"""A model of another toolkit in Dragoman's terms: what its reader is given, and what it hands over.

A reader says what the other side says, in its own order; `importing` makes a run of it. Nothing here is
ever executed: a folder is a stranger's, and what it names stays inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig, TranslationConfig, parse_json
from dragoman.errors import RunError
from dragoman.interop import ImportOptions as ImportOptions
from dragoman.text.foreign import CONTINUED, Segmentation
from dragoman.text.normalisation import META_SPACE
from dragoman.text.tokenizer import TokenizerPair

MAX_TEXT_BYTES = 256 * 1024 * 1024
"""Maximum size of a vocabulary, a configuration or a tokenizer."""


@dataclass(frozen=True)
class ForeignVocabulary:
    """The tokens of one side in the foreign order."""

    pieces: Sequence[str]
    start: int
    """The token with which the decoder starts: what Dragoman calls <s>."""
    eos: int
    unk: int
    pad: int | None
    """None, or the same as another of these: padding has no token of its own there."""


@dataclass(frozen=True)
class Foreign:
    """A model as its toolkit has it, but for names: parameters as `Seq2SeqTransformer.named_parameters()`.

    The rows of vocabularies are still in the foreign order. Weights may be of any floating type.
    """

    model: ModelConfig
    weights: Mapping[str, Tensor]
    src: ForeignVocabulary
    tgt: ForeignVocabulary
    """Equal to `src` where both languages have one vocabulary."""
    src_segmentation: Segmentation
    tgt_segmentation: Segmentation
    src_lang: str
    tgt_lang: str
    search: SearchConfig = field(default_factory=SearchConfig)
    notes: tuple[str, ...] = ()
    """What did not carry over, a sentence each, as the user is told; `importing` says what cuts the text."""
    directions: tuple[str, ...] = ()
    """Of a model that writes several languages: see `TranslationDataConfig.directions`."""


@dataclass(frozen=True)
class Imported:
    """What becomes a run: all of it in Dragoman's terms and order."""

    config: TranslationConfig
    tokenizers: TokenizerPair
    weights: Mapping[str, Tensor]
    """In fp32, of the shapes that `config` says, and finite."""
    notes: tuple[str, ...] = ()


class ForeignFolder:
    """The files of a model: those in a folder, or the one file that was named and what lies beside it.

    Only regular files of the folder itself are read. Links lead out of it in one place: a snapshot in the
    cache of Hugging Face's hub, whose files are links to the folder blobs two levels up.
    """

    def __init__(self, path: Path) -> None:
        """RunError: there is no such folder or file."""
        if not path.exists():
            raise RunError(f"{path}: there is no such folder; give the folder of a model")
        self.given = path
        self.path = path if path.is_dir() else path.parent
        self.checkpoint = None if path.is_dir() else path.name
        """The name of the file that was named, where it was not a folder."""
        self.used: dict[str, Path] = {}
        """What was read, by name: the origin of the run."""

    def names(self, pattern: str = "*") -> list[str]:
        """Return the files of the folder, in the order of their names."""
        return sorted(path.name for path in self.path.glob(pattern) if path.is_file())

    def has(self, *names: str) -> bool:
        """All these files are there."""
        return all((self.path / name).is_file() for name in names)

    def weights(self, pattern: str, *usual: str) -> Path:
        """Return the checkpoint: the file that was named, the first of the `usual` names, or the only one.

        RunError: there is none, or there are several.
        """
        names = self.names(pattern)
        name = self.checkpoint or next((name for name in usual if name in names), None)
        if name is None and len(names) != 1:
            held = ", ".join(names[:3]) or f"no {pattern}"
            raise RunError(f"{self.path}: holds {held}; name the checkpoint itself")
        return self.file(name or names[0])

    def file(self, name: str) -> Path:
        """Where the file `name` is. RunError: it is not there, or is elsewhere."""
        pure = PurePosixPath(name)
        outside = pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name
        if not name or outside:
            raise RunError(f"{self.path}: names a file outside of its folder, {name!r}; it is not read")
        path = self.path / pure
        if not path.is_file():
            raise RunError(f"{self.path}: holds no {name}; is the folder complete?")
        target, root = path.resolve(), self.path.resolve()
        blobs = root.parent.parent / "blobs"
        if not target.is_relative_to(root) and target.parent != blobs:
            raise RunError(f"{path}: is a link that leads out of its folder; copy the file itself there")
        self.used[name] = path
        return path

    def read(self, name: str) -> bytes:
        """Return the bytes of a file of text or settings. RunError: as `read_given`."""
        return self.read_given(self.file(name))

    def read_given(self, path: Path) -> bytes:
        """Return the bytes of a file that the user has named, wherever it is.

        RunError: it cannot be read, or is absurdly large.
        """
        try:
            if path.stat().st_size > MAX_TEXT_BYTES:
                raise RunError(
                    f"{path}: has more than {MAX_TEXT_BYTES >> 20} MB, too many to be right; copy it again"
                )
            content = path.read_bytes()
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); check the path") from error
        self.used.setdefault(path.name, path)
        return content

    def text(self, name: str) -> str:
        """Read a text file. RunError: as `read`, or not UTF-8."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise RunError(f"{self.path / name}: is not UTF-8 text; copy it again") from error

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file. RunError: as `text`, or it holds none."""
        try:
            content = parse_json(self.text(name))
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise RunError(f"{self.path / name}: holds no JSON object; copy it again")
        return content

    def token_ids(self, name: str, special: Sequence[str]) -> dict[str, int]:
        """Return the id of each token in a JSON file. RunError: as `json`, or one of `special` is missing."""
        ids = self.json(name)
        if any(type(i) is not int or i < 0 for i in ids.values()) or len(set(ids.values())) != len(ids):
            raise RunError(f"{self.path / name}: does not give each token a number of its own; copy it again")
        if missing := [token for token in special if token not in ids]:
            raise RunError(f"{self.path / name}: has no {' and no '.join(missing)}; it is of another model")
        return ids

    def beside(self, *names: str) -> str | None:
        """Return the first of these files that is in the folder, wherever a setting says that it is."""
        bases = (PurePosixPath(name.replace("\\", "/")).name for name in names)
        return next((base for base in bases if base and self.has(base)), None)

    def segmentation(
        self,
        options: ImportOptions,
        side: str,
        *,
        spm: str | None = None,
        codes: str | None = None,
        lowercase: bool = False,
        known_only: bool = False,
    ) -> Segmentation:
        """Return what cuts the text of a side, "src" or another: as the user says, else files of the folder.

        RunError: a file cannot be read, or its codes are malformed.
        """
        model = options.src_spm if side == "src" else options.tgt_spm or options.src_spm
        if model is not None:
            return Segmentation(self.read_given(model), lowercase=lowercase)
        if options.codes is None and spm is not None:
            return Segmentation(self.read(spm), lowercase=lowercase)
        path = options.codes or (self.file(codes) if codes is not None else None)
        if path is None:
            return Segmentation(lowercase=lowercase)
        return Segmentation(None, _codes(self.read_given(path), str(path)), lowercase, known_only)


class ForeignFormat(NamedTuple):
    """A format of another toolkit: how it is told from others, and read."""

    name: str
    looks_for: str
    """What tells it, in words."""
    detects: Callable[[ForeignFolder], bool]
    read: Callable[[ForeignFolder, ImportOptions], Foreign]
    """RunError: it is not whole, or computes what our Transformer does not."""


def cut_note(segmentation: Segmentation, pieces: Sequence[str], lang: str) -> list[str]:
    """Return a note for a vocabulary of subwords without the tokenizer that makes them."""
    if segmentation.model is not None or segmentation.codes is not None:
        return []
    if any(piece.startswith(META_SPACE) for piece in pieces):
        missing, options = "sentencepiece model is", "--src-spm and --tgt-spm"
    elif any(piece.endswith(CONTINUED) for piece in pieces):
        missing, options = "byte-pair codes are", "--codes"
    else:
        return []
    return [
        f"{lang}: its {missing} not in the folder: text must come cut into its pieces, "
        f"or import again with {options}"
    ]


def _codes(content: bytes, where: str) -> str:
    """Codes as subword-nmt reads them; those of fastBPE, which count how often, lose their counts."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"{where}: is not UTF-8 text; give the file of byte-pair codes") from error
    lines = text.strip("\r\n ").split("\n")
    if lines[0].startswith("#version:"):
        return text
    columns = [line.split() for line in lines]
    if all(len(parts) == 3 and parts[2].isdecimal() for parts in columns):
        return "".join(["#version: 0.2\n", *(f"{a} {b}\n" for a, b, _ in columns)])
    return text
