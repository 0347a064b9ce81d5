"""Libraries beside our own code: mojibake (ftfy) and the language of a line (py3langid).

    pip install ftfy py3langid
    python benchmarks/libraries.py

Mojibake: lines of Tatoeba with a letter beyond ASCII, as they are and read in a wrong encoding. `mended`:
share of the damaged lines that come back exactly; `changed`: share of the honest lines that are altered.
Languages: share of honest lines, by number of words, that would be accused of being in another language,
by the most likely of all languages and by the more likely of the pair's two; the doctor's own check sees
the whole corpus. Seconds are of one thread. Corpora come from $DRAGOMAN_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path

from dragoman.data.doctor.encoding import mend
from dragoman.data.doctor.language import check_languages
from dragoman.data.doctor.words import NumberedSide, SideReader
from dragoman.data.readers.files import open_lines
from dragoman.text.languages import detect

MISREADINGS = {"de": ("cp1252", "cp1250"), "pl": ("cp1252", "cp1250"), "zh": ("cp1252", "gb18030")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, default=5000, help="of each corpus")
    options = parser.parse_args()
    data = Path(os.environ["DRAGOMAN_DATA"])
    sides = {
        lang: [
            list(islice(open_lines(data / f"tatoeba-en-{lang}" / f"train.{side}.gz"), options.lines))
            for side in ("en", lang)
        ]
        for lang in MISREADINGS
    }
    mojibake({lang: lines for lang, (_, lines) in sides.items()})
    languages(sides)


def mojibake(texts: dict[str, list[str]]) -> None:
    """Print how much of damaged text comes back, and how much of honest text is changed."""
    ftfy = import_module("ftfy")
    print("| language | read as | lines | ours: mended | changed | s | ftfy: mended | changed | s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for lang, lines in texts.items():
        honest = [line for line in lines if not line.isascii()]
        for encoding in MISREADINGS[lang]:
            pairs = [(line, misread(line, encoding)) for line in honest]
            damaged = [(line, wrong) for line, wrong in pairs if wrong not in ("", line)]
            cells = [cell for fix in (mend, ftfy.fix_encoding) for cell in judged(fix, damaged, honest)]
            print(f"| {lang} | {encoding} | {len(damaged):,} | {' | '.join(cells)} |", flush=True)


def misread(line: str, encoding: str) -> str:
    """Return UTF-8 read in another encoding; "" if it has no character for a byte."""
    try:
        return line.encode().decode(encoding)
    except UnicodeDecodeError:
        return ""


def judged(
    fix: Callable[[str], str], damaged: Sequence[tuple[str, str]], honest: Sequence[str]
) -> tuple[str, str, str]:
    """Return the shares of mended and of changed lines, and the seconds."""
    begun = time.perf_counter()
    mended = sum(fix(wrong) == line for line, wrong in damaged) / max(1, len(damaged))
    changed = sum(fix(line) != line for line in honest) / max(1, len(honest))
    return f"{mended:.1%}", f"{changed:.2%}", f"{time.perf_counter() - begun:.1f}"


def languages(sides: dict[str, list[list[str]]]) -> None:
    """Print how many honest lines each way would accuse of being in another language."""
    print("\n| corpus | words | lines | py3langid, all languages | of the two | s | the doctor | s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for lang, (english, other) in sides.items():
        begun = time.perf_counter()
        src, tgt = side_of(english), side_of(other)
        faults = check_languages(src, tgt, langs=("en", lang))
        seconds_own = time.perf_counter() - begun
        accused = set(faults.lines["language"]) | set(faults.lines["swapped"])
        for name, few, many in (("1–3", 1, 3), ("4–7", 4, 7), ("8 and more", 8, 1000)):
            chosen = [i for i, line in enumerate(english) if few <= len(line.split()) <= many]
            begun = time.perf_counter()
            wrong = [detect(english[i])[0].language != "en" for i in chosen]
            seconds = time.perf_counter() - begun
            of_two = [detect(english[i], ("en", lang))[0].language != "en" for i in chosen]
            ours = sum(i in accused for i in chosen)
            shares = [f"{sum(found) / max(1, len(chosen)):.1%}" for found in (wrong, of_two)]
            print(
                f"| en of en-{lang} | {name} | {len(chosen):,} | {shares[0]} | {shares[1]} | {seconds:.1f} | "
                f"{ours / max(1, len(chosen)):.1%} | {seconds_own:.1f} |",
                flush=True,
            )


def side_of(lines: Sequence[str]) -> NumberedSide:
    """Return lines as the doctor reads them."""
    reader = SideReader()
    reader.add(lines)
    return reader.side()


if __name__ == "__main__":
    main()
