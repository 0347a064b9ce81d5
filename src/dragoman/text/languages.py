"""Language codes and their English names."""

from __future__ import annotations

from collections.abc import Iterable

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

_OTHER_CODES = {"zh-hans": "zh", "zh-hant": "zt", "pt-br": "pb"}
"""Alternative codes of LibreTranslate since version 1.7."""


def language_code(language: str) -> str:
    """Return the code of a language without script and country: "zh" of "zh-TW" and "zh_Hant"."""
    return language.lower().replace("_", "-").partition("-")[0]


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if unknown."""
    return NAMES.get(code.lower(), code)


def libretranslate_code(code: str) -> str:
    """Return what LibreTranslate and Argos Translate call a language: zt is traditional Chinese."""
    return _OTHER_CODES.get(code.lower(), code)


def known(code: str, among: Iterable[str]) -> str | None:
    """Return the language `among` others that matches `code`, ignoring case; None = no match."""
    languages = {language.lower(): language for language in among}
    lower = code.lower()
    for other in (lower, _OTHER_CODES.get(lower), *(o for o, c in _OTHER_CODES.items() if c == lower)):
        if other in languages:
            return languages[other]
    return None
