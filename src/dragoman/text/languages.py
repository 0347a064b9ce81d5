"""Language codes, their English names, and which language a text is in (by py3langid)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from dragoman.errors import require

_NAMES = """
af Afrikaans|am Amharic|an Aragonese|ar Arabic|as Assamese|az Azerbaijani|ba Bashkir|be Belarusian
bg Bulgarian|bn Bengali|br Breton|bs Bosnian|ca Catalan|cs Czech|cy Welsh|da Danish|de German|dz Dzongkha
el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|ff Fula|fi Finnish|fo Faroese
fr French|fy Western Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gn Guarani|gu Gujarati|ha Hausa
he Hebrew|hi Hindi|hr Croatian|ht Haitian Creole|hu Hungarian|hy Armenian|id Indonesian|ig Igbo|is Icelandic
it Italian|ja Japanese|jv Javanese|ka Georgian|kk Kazakh|km Khmer|kn Kannada|ko Korean|ku Kurdish|ky Kyrgyz
la Latin|lb Luxembourgish|lg Luganda|ln Lingala|lo Lao|lt Lithuanian|lv Latvian|mg Malagasy|mk Macedonian
ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|ne Nepali|nl Dutch
nn Norwegian Nynorsk|no Norwegian|oc Occitan|om Oromo|or Odia|pa Punjabi|pb Portuguese (Brazil)|pl Polish
ps Pashto|pt Portuguese|qu Quechua|ro Romanian|ru Russian|rw Kinyarwanda|sa Sanskrit|sd Sindhi
se Northern Sami|si Sinhala|sk Slovak|sl Slovenian|sn Shona|so Somali|sq Albanian|sr Serbian
st Southern Sotho|su Sundanese|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|tk Turkmen
tl Tagalog|tr Turkish|tt Tatar|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|vo Volapük|wa Walloon
wo Wolof|xh Xhosa|yi Yiddish|yo Yoruba|yue Cantonese|zh Chinese|zh-hans Chinese (simplified)
zh-hant Chinese (traditional)|zt Chinese (traditional)|zu Zulu
"""

NAMES = dict(entry.split(" ", 1) for line in _NAMES.split("\n") for entry in line.split("|") if entry)
"""English names by ISO 639-1 code, and of some other languages."""

_STANDARD_CODES = {"pb": "pt-br", "zt": "zh-hant", "zh-tw": "zh-hant", "zh-hans": "zh", "zh-cn": "zh"}
"""Codes that mean the same as others, LibreTranslate's own among them; "zh" is written as in zh-Hans."""


def language_code(language: str) -> str:
    """Return the code of a language without script and country: "zh" of "zh-TW" and "zh_Hant"."""
    return language.lower().replace("_", "-").partition("-")[0]


def standard_code(code: str) -> str:
    """Return a code in lower case, with hyphens, the same for all that mean the same: "pt-br" of "pb"."""
    plain = code.lower().replace("_", "-")
    return _STANDARD_CODES.get(plain, plain)


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if unknown."""
    return NAMES.get(code.lower(), code)


def libretranslate_code(code: str) -> str:
    """Return what LibreTranslate and Argos Translate call a language: zt is traditional Chinese."""
    return {"zh-hans": "zh", "zh-hant": "zt", "pt-br": "pb"}.get(code.lower(), code)


def known(code: str, among: Iterable[str]) -> str | None:
    """Return the language `among` others that `code` means; None = no match.

    The same code, ignoring case, or one that means the same; for a code with a country ("en-US") the language
    without one; for a language ("pt") the only variant that there is.
    """
    standards, standard = {language: standard_code(language) for language in among}, standard_code(code)
    base, _, variant = standard.partition("-")
    exact = [language for language in standards if language.lower() == code.lower()]
    if same := exact or [language for language, other in standards.items() if other == standard]:
        return same[0]
    near = [each for each, other in standards.items() if (other if variant else language_code(other)) == base]
    return near[0] if len(near) == 1 and len(variant) < 3 else None  # a script is not to be had otherwise


ENOUGH = 2000
"""Characters that are looked at, at most. It takes a few milliseconds, and more would tell little more."""


class Detected(NamedTuple):
    """A language, and how sure it is, 0 to 1."""

    language: str
    confidence: float


def detect(text: str, among: Iterable[str] | None = None) -> list[Detected]:
    """Return the languages that `text` may be in, the most likely first; of those `among`, if they are given.

    The confidences of all languages add up to 1, and a variant has that of its language. Of equals the first
    one of `among` comes first; languages that cannot be told come last, with 0. MissingExtraError: py3langid
    is not installed.
    """
    ranked: dict[str, float] = dict(_identifier().rank(text[:ENOUGH]))
    languages = ranked if among is None else dict.fromkeys(among)
    detected = [Detected(code, ranked.get(language_code(standard_code(code)), 0.0)) for code in languages]
    return sorted(detected, key=lambda each: -each.confidence)


@cache
def _identifier() -> Any:
    require("py3langid", extra="serve", purpose="detecting a language")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
