"""README_zh.md says in Chinese what README.md says: only words differ.

Both are cut at their headings and empty lines. The parts must be as many, and each must hold the same code,
links, pictures and numbers as its counterpart. Numbers are therefore written in the same digits in both: 7.6
million as 7.6M, 12,000 as 12,000. The lines `<!-- … -->` are for other tests and may be left out of the
translation.
"""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, CHINESE = "README.md", "README_zh.md"

COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def parts(document: str) -> list[str]:
    """The headings, blocks of code, rows of tables, lists and paragraphs of a Markdown text."""
    found = []
    for i, piece in enumerate(FENCE.split(COMMENT.sub("", document))):
        ends = r"\n(?=\|)|\n\s*\n"
        found += [piece] if i % 2 else filter(None, map(str.strip, re.split(ends, piece)))
    return found


def facts(part: str, headings: list[str]) -> Counter[str]:
    """What no translation changes of a part: its kind, code, addresses, numbers, rows and cells.

    A link to a section of the page itself counts as one to the n-th heading, for headings are translated;
    the links of the two pages to each other count as the same.
    """
    if part.startswith("```"):
        return Counter([part])
    found = Counter({f"kind {re.split(r'[^#|-]', part, maxsplit=1)[0]}": 1, "|": part.count("|")})
    found["item"] = len(re.findall(r"^- ", part, re.MULTILINE))
    found.update(f"`{code}`" for code in CODE.findall(part))
    text = CODE.sub("", part)
    for _, _, target in LINK.findall(text):
        place = headings.index(target[1:]) if target[1:] in headings else target
        found[f"[]({'the other page' if target in (ENGLISH, CHINESE) else place})"] += 1
    found.update(NUMBER.findall(LINK.sub(r"\2", text)))
    return found


def differences(english: str, chinese: str) -> list[str]:
    """What keeps `chinese` from being a translation of `english`, a line each."""
    ours, theirs = parts(english), parts(chinese)
    anchors = [[anchor(part) for part in page if part.startswith("#")] for page in (ours, theirs)]
    messages = []
    for a, b in zip(ours, theirs, strict=False):
        expected, actual = (facts(part, names) for part, names in zip((a, b), anchors, strict=True))
        messages += [f"{b[:60]!r} lacks {fact}" for fact in expected - actual]
        messages += [f"{b[:60]!r} has {fact}, which {ENGLISH} does not" for fact in actual - expected]
        if a == b and not a.startswith(("```", "|", "#", "[", "!")):
            messages.append(f"{b[:60]!r} is not translated")
    if len(ours) != len(theirs):
        messages.append(f"{len(theirs)} parts, and {len(ours)} in {ENGLISH}")
    return messages


def anchor(heading: str) -> str:
    """A heading as it is written in addresses, after the rule of GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def test_only_words_differ() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in (ENGLISH, CHINESE))
    assert "\n".join(differences(english, chinese)) == ""
    assert f"]({CHINESE})" in "".join(parts(english)[:3]), "each begins with a link to the other"
