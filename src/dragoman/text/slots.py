"""Reserved tokens in the place of what a translation carries over: numbers, addresses, tags, placeholders.

A model that writes "14:30" digit by digit has to learn to copy each of them. One that has learnt to carry a
token over writes that token, and the text that it stands for is put back (as "placeholders" in Luong et al.
2015 and after).
"""

from __future__ import annotations

SLOTS = tuple(map(chr, range(0xFDE0, 0xFDE8)))
"""The tokens, each a character that Unicode never assigns and that no normalised text holds."""

LETTER = "[^\\W_\u2e80-\u9fff\uac00-\ud7ff\u0e00-\u0eff]"
"""A letter or digit of a script that separates words: a number may stand beside a Chinese character."""

_ATTRIBUTE = (
    r"""[^\s<>"'={]+\s*=|\{|(?:data|aria|v|ng)-|(?i:async|autofocus|autoplay|checked|compact|controls|default|defer"""
    r"|disabled|download|hidden|loop|multiple|muted|noshade|novalidate|nowrap|open|readonly|required|selected)\b"
)
"""How the first attribute of a tag begins: name=value, or one without value. "a<b and c>d" has none."""

_CURRENCY = "[$€£¥₹₩₽₺]"
_UNIT = r"[%‰]|°[CF]?|km/h|mph|[kcm]?m[²³]?|[km]?g|[mcd]?l|k?Wh?|[kMGT]?(?:Hz|B)|min|h|pm|EUR|USD|GBP|CHF"
_TELEPHONE = (
    r"\+[0-9]{1,4}(?=(?:\W{0,3}[0-9]){6})(?:[ ./\-]?\([0-9]+\) ?[0-9]+|[ ./\-][0-9]+)+"
    r"|\(?0[0-9]{2,5}\)?[ /\-]{1,2}[0-9]{3,}(?:[ \-][0-9]{2,})*"
    r"|0[0-9](?:[ .][0-9]{2}){4}|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}"
)

PATTERNS = {
    "tags": (
        rf"""</?[A-Za-z][\w:.-]*(?:\s+(?:(?={_ATTRIBUTE})(?:[^<>"']|"[^"<]*"|'[^'<]*')*)?)?/?>"""
        r"|<!--(?:(?!<!--).)*?-->|&(?:[A-Za-z][A-Za-z0-9]*|\#[0-9]+|\#x[0-9A-Fa-f]+);"
    ),
    "urls": r"(?:(?:https?|ftp)://|(?<![\w.])www\.)[\w\-.~:/?\#\[\]@!$&'()*+,;=%]*[\w/~=&\#%+\-]",
    "emails": r"(?<![\w.%+\-])[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+",
    "placeholders": (
        r"\{\{[^{}]*\}\}|\$?\{[^{}\s]*\}"
        r"|%(?:\(\w+\)|[0-9]+\$)?[\-+\#0]*[0-9]*(?:\.[0-9]+)?[sdifgexXcu@](?![A-Za-z])"
    ),
    "numbers": (
        rf"(?<!\w)(?:{_TELEPHONE})(?!{LETTER})"
        rf"|(?:(?<![\w)])[+\-−±])?(?:{_CURRENCY}[ \u00a0]?)?(?<!{LETTER})[0-9]+(?:[.,:/’'\-][0-9]+)*"
        rf"(?:[ \u00a0\u202f]?(?:{_CURRENCY}|{_UNIT})(?!{LETTER}|[({{'’]|[.,]?[0-9]))?(?!{LETTER})"
    ),
}
"""What is the same in every language, by name; of several that begin at the same place, the one above counts.

Numbers are so with sign, currency and unit, though languages write thousands and decimals in different ways.
"""

_SAME_NUMBER = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?|[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{1,4}|[0-9]{2,}"
CARRIED = (
    "|".join(PATTERNS[kind] for kind in ("tags", "urls", "emails", "placeholders"))
    + rf"|(?<!{LETTER})(?<![0-9][.,:/’'\-])(?:{_SAME_NUMBER})(?!{LETTER}|[.,:/’'\-][0-9])"
    + "|[\U0001f300-\U0001faff]"
)
"""What slots stand for: times, dates and numbers of two digits and more, without thousands and decimals, and
emoji, too."""
