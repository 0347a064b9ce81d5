"""Write the embedded corpus, `src/dragoman/data/phrasebook/*.xz`, from the grammar in tools/phrasebook.

    python tools/make_phrasebook.py

The files are part of the package, and the scores of recipes rest on them: a change of the grammar that
changes them is a change of those recipes. A test compares the files with what the grammar generates.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from pathlib import Path

from phrasebook.corpus import labelled_reviews, sentences

FOLDER = Path(__file__).parents[1] / "src" / "dragoman" / "data" / "phrasebook"


def main() -> None:
    """Write both files."""
    (FOLDER / "sentences.xz").write_bytes(lzma.compress(sentences_text(), preset=9 | lzma.PRESET_EXTREME))
    (FOLDER / "reviews.xz").write_bytes(lzma.compress(reviews_text(), preset=9 | lzma.PRESET_EXTREME))


def sentences_text() -> bytes:
    """Test, valid and train, a language after the other, so that they compress well.

    Train is in the order of constructions; its place in the corpus follows from a hash of the English text.
    """
    splits = sentences(1)
    train = sorted(splits["train"], key=lambda sentence: (sentence.construction, sentence.texts))
    rows = [sentence.texts for sentence in (*splits["test"], *splits["valid"], *train)]
    return _lines(text for column in zip(*rows, strict=True) for text in column)


def reviews_text() -> bytes:
    """Test, valid and train: a label and a text a line."""
    splits = labelled_reviews(1)
    rows = (review for split in ("test", "valid", "train") for review in splits[split])
    return _lines(f"{review.label}\t{review.text}" for review in rows)


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


if __name__ == "__main__":
    main()
