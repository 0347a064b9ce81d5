"""Models of other toolkits in, and models for other runtimes out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dragoman.errors import RunError

REPORT = "export.json"
"""What an export says about itself; a folder that holds it may be replaced by another export."""


@dataclass(frozen=True)
class ImportOptions:
    """What a user adds where the files of a model do not say it; None: nothing."""

    src_lang: Annotated[str | None, "Source language. [default: from the model]"] = None
    tgt_lang: Annotated[str | None, "Target language. [default: from the model]"] = None
    src_spm: Annotated[Path | None, "SentencePiece model of the source, if outside the folder."] = None
    tgt_spm: Annotated[Path | None, "SentencePiece model of the target. [default: same as the source]"] = None
    codes: Annotated[Path | None, "BPE codes of subword-nmt."] = None

    def languages(self, src: str | None, tgt: str | None, *, where: Path) -> tuple[str, str]:
        """Source and target as the user says, else as the files do. RunError: neither says them."""
        src, tgt = self.src_lang or src or "", self.tgt_lang or tgt or ""
        if missing := [option for option, lang in (("--src-lang", src), ("--tgt-lang", tgt)) if not lang]:
            options = " and ".join(missing)
            raise RunError(f"{where}: does not say its languages; add {options}, as in --src-lang en")
        return src, tgt
