"""Writing systems: which one a character belongs to, and which ones a language uses."""

from __future__ import annotations

from bisect import bisect_right

from dragoman.text.languages import language_code

_STARTS: tuple[tuple[int, str], ...] = (
    (0x0000, "latin"), (0x0250, "latin"), (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "armenian"),
    (0x0590, "hebrew"), (0x0600, "arabic"), (0x0700, "syriac"), (0x0750, "arabic"), (0x0780, "thaana"),
    (0x07C0, "nko"), (0x08A0, "arabic"), (0x0900, "devanagari"), (0x0980, "bengali"), (0x0A00, "gurmukhi"),
    (0x0A80, "gujarati"), (0x0B00, "oriya"), (0x0B80, "tamil"), (0x0C00, "telugu"), (0x0C80, "kannada"),
    (0x0D00, "malayalam"), (0x0D80, "sinhala"), (0x0E00, "thai"), (0x0E80, "lao"), (0x0F00, "tibetan"),
    (0x1000, "burmese"), (0x10A0, "georgian"), (0x1100, "hangul"), (0x1200, "ethiopic"), (0x13A0, "cherokee"),
    (0x1400, "canadian"), (0x1680, "other"), (0x1780, "khmer"), (0x1800, "mongolian"), (0x18B0, "other"),
    (0x1C80, "cyrillic"), (0x1C90, "georgian"), (0x1CC0, "other"), (0x1D00, "latin"), (0x1F00, "greek"),
    (0x2000, "latin"), (0x2C00, "other"), (0x2C60, "latin"), (0x2C80, "other"), (0x2D00, "georgian"),
    (0x2D30, "other"), (0x2DE0, "cyrillic"), (0x2E00, "han"), (0x3040, "kana"), (0x3100, "han"),
    (0x3130, "hangul"), (0x3190, "han"), (0x31F0, "kana"), (0x3200, "han"), (0xA000, "other"),
    (0xA640, "cyrillic"), (0xA6A0, "other"), (0xA720, "latin"), (0xA800, "other"), (0xA960, "hangul"),
    (0xA980, "other"), (0xAB30, "latin"), (0xAB70, "other"), (0xAC00, "hangul"), (0xD800, "other"),
    (0xF900, "han"), (0xFB00, "latin"), (0xFB13, "armenian"), (0xFB1D, "hebrew"), (0xFB50, "arabic"),
    (0xFE00, "other"), (0xFE70, "arabic"), (0xFF00, "latin"), (0xFF66, "kana"), (0xFFA0, "hangul"),
    (0xFFE0, "other"), (0x20000, "han"), (0x323B0, "other"),
)  # fmt: skip
_FIRST = [start for start, _ in _STARTS]
SCRIPTS: tuple[str, ...] = tuple(dict.fromkeys(script for _, script in _STARTS))

DENSE = frozenset({"han", "kana", "hangul"})
"""Scripts whose characters say about as much as two or three letters."""

_OF_LANGUAGE = {
    "greek": "el", "cyrillic": "be bg kk ky mk mn ru sr tg uk", "armenian": "hy", "hebrew": "he yi",
    "arabic": "ar ckb fa ps sd ug ur", "devanagari": "hi mr ne sa", "bengali": "as bn", "gurmukhi": "pa",
    "gujarati": "gu", "oriya": "or", "tamil": "ta", "telugu": "te", "kannada": "kn", "malayalam": "ml",
    "sinhala": "si", "thai": "th", "lao": "lo", "tibetan": "bo dz", "burmese": "my", "georgian": "ka",
    "ethiopic": "am ti", "khmer": "km", "han": "ja lzh yue zh", "kana": "ja", "hangul": "ko",
    "latin": "af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv ms mt nb nl "
    "nn no pl pt ro sk sl sq sv sw tl tr uz vi",
}  # fmt: skip


def script_of(char: str) -> str:
    """Return the script of a letter."""
    return _STARTS[bisect_right(_FIRST, ord(char)) - 1][1]


def is_simplified(char: str) -> bool | None:
    """Whether a Han character is only in the set of simplified ones, or only in that of traditional ones.

    None: it is in both or in neither, or is no Han character. The sets are the national standards GB 2312
    and Big5.
    """
    if script_of(char) != "han":
        return None
    simplified, traditional = (_is_in(codec, char) for codec in ("gb2312", "big5"))
    return simplified if simplified != traditional else None


def _is_in(codec: str, char: str) -> bool:
    try:
        char.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def scripts_of_language(lang: str) -> frozenset[str]:
    """Return the scripts that `lang` ("de", "zh-TW") is written in; none where that is not known."""
    code = language_code(lang)
    return frozenset(script for script, codes in _OF_LANGUAGE.items() if code in codes.split())
