"""README_zh.md says in Chinese what README.md says: only words differ.

Both are cut into parts: headings, blocks of code, cells of tables, items of lists, paragraphs. They must be
of the same kinds in the same order, and each part must hold the same code, links, pictures and numbers as
its counterpart. Numbers are therefore written in the same digits in both: 7.6 million as 7.6M, 12,000 as
12,000. The lines `<!-- … -->` are for other tests and may be left out of the translation.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, CHINESE = "README.md", "README_zh.md"

FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
INLINE_CODE = re.compile(r"`([^`]+)`")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Part(NamedTuple):
    kind: str
    text: str

    def __str__(self) -> str:
        first = self.text.removeprefix("```").strip().splitlines()[0]
        return f"{self.kind} “{first if len(first) < 50 else first[:48] + '…'}”"


class Section(NamedTuple):
    heading: str
    parts: list[Part]

    @property
    def level(self) -> int:
        return len(self.heading) - len(self.heading.lstrip("#"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(document: str) -> list[Section]:
    """The headings of a Markdown text, each with the parts that follow it; first what is above them."""
    found = [Section("", [])]
    for i, piece in enumerate(FENCE.split(document)):
        if i % 2:
            found[-1].parts.append(Part("code", piece))
            continue
        for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", COMMENT.sub("", piece)))):
            if paragraph.startswith("#"):
                found.append(Section(paragraph, []))
            else:
                found[-1].parts.extend(parts(paragraph))
    return found


def parts(paragraph: str) -> Iterator[Part]:
    if paragraph.startswith("|"):
        for i, row in enumerate(paragraph.splitlines(), start=1):
            for j, cell in enumerate(row.strip().strip("|").split("|"), start=1):
                yield Part(f"cell {j} of row {i}", cell.strip())
    elif paragraph.startswith("- "):
        yield from (Part("item", item) for item in re.split(r"^- ", paragraph, flags=re.MULTILINE)[1:])
    else:
        yield Part("paragraph", paragraph)


def facts(text: str, anchors: list[str]) -> Counter[str]:
    """The code, pictures, links and numbers of a part, which no translation changes.

    A link to a section of the page itself counts as one to the n-th heading, since headings are translated;
    the links of the two pages to each other count as the same.
    """
    found = Counter(f"`{code}`" for code in INLINE_CODE.findall(text))
    text = INLINE_CODE.sub("", text)
    found.update(f"the picture {target}" for _, target in PICTURE.findall(text))
    text = PICTURE.sub(r"\1", text)
    for _, target in LINK.findall(text):
        if target.startswith("#") and target[1:] in anchors:
            found[f"a link to heading {anchors.index(target[1:])}"] += 1
        else:
            found["a link to the other page" if target in (ENGLISH, CHINESE) else f"a link to {target}"] += 1
    found.update(f"the number {number}" for number in NUMBER.findall(LINK.sub(r"\1", text)))
    return found


def anchor(heading: str) -> str:
    """A heading as it is written in addresses, after the rule of GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def differences(english: str, chinese: str) -> list[str]:
    """What keeps `chinese` from being a translation of `english`, a line each."""
    ours, theirs = sections(english), sections(chinese)
    if [section.level for section in ours] != [section.level for section in theirs]:
        pairs = zip_longest((s.heading for s in ours), (s.heading for s in theirs), fillvalue="–")
        headings = (f"  {a}  |  {b}" for a, b in pairs if a)
        return [f"the headings of {ENGLISH} and {CHINESE} do not match:", *headings]
    anchors = [[anchor(section.heading) for section in page] for page in (ours, theirs)]
    found: list[str] = []
    for a, b in zip(ours, theirs, strict=True):
        place = f"{CHINESE}, under “{b.heading}” (“{a.heading}”)"
        found += (f"{place}: {line}" for line in differences_within(a, b, *anchors))
    return found


def differences_within(
    ours: Section, theirs: Section, our_anchors: list[str], their_anchors: list[str]
) -> Iterator[str]:
    """As `differences`, within a section, up to the first part that is of another kind."""
    for a, b in zip_longest(ours.parts, theirs.parts):
        if a is None or b is None or a.kind != b.kind:
            here, there = (part or "nothing more" for part in (b, a))
            yield f"there is {here}, and in {ENGLISH} {there}"
            return
        if a.kind == "code":
            for there, here in zip_longest(a.text.splitlines(), b.text.splitlines()):
                if here != there:
                    yield f"in the {a}, a line is {here!r}, and in {ENGLISH} {there!r}"
                    break
            continue
        expected, actual = facts(a.text, our_anchors), facts(b.text, their_anchors)
        yield from (f"the {b} lacks {fact}" for fact in expected - actual)
        yield from (f"the {b} has {fact}, which {ENGLISH} does not have there" for fact in actual - expected)
        if a == b and a.kind == "paragraph":
            yield f"the {b} is not translated"


def test_only_words_differ() -> None:
    found = differences(read(ENGLISH), read(CHINESE))
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(("page", "other"), [(ENGLISH, CHINESE), (CHINESE, ENGLISH)])
def test_each_page_begins_with_a_link_to_the_other(page: str, other: str) -> None:
    targets = [target for line in read(page).splitlines()[:4] for _, target in LINK.findall(line)]
    assert other in targets


ORIGINAL = """# Title

It has 7.6 million parameters; run `dragoman show` or see [below](#results).

## Results

![a curve](docs/curve.svg)

| recipe | score |
|---|---|
| [imdb](recipes/imdb/README.md) | 91.9 |

<!-- not run: it takes an hour -->
```sh
make test
```
"""
TRANSLATED = """# 标题

参数量为 7.6M；运行 `dragoman show`，或见[下文](#结果)。

## 结果

![一条曲线](docs/curve.svg)

| 配方 | 得分 |
|---|---|
| [imdb](recipes/imdb/README.md) | 91.9 |

```sh
make test
```
"""


def test_a_translation_differs_in_nothing() -> None:
    assert not differences(ORIGINAL, TRANSLATED)


@pytest.mark.parametrize(
    ("text", "becomes", "said"),
    [
        ("## 结果", "### 结果", "## Results  |  ### 结果"),
        ("7.6M", "7.5M", "under “# 标题” (“# Title”): the paragraph “参数量为 7.5M"),
        ("`dragoman show`", "`dragoman list`", "has `dragoman list`, which README.md does not have there"),
        ("(#结果)", "(#标题)", "lacks a link to heading 2"),
        ("make test", "make tests", "a line is 'make tests', and in README.md 'make test'"),
        ("curve.svg", "curves.svg", "lacks the picture docs/curve.svg"),
        ("91.9", "91.8", "the cell 2 of row 3 “91.8” lacks the number 91.9"),
        ("```sh\nmake test\n```\n", "", "there is nothing more, and in README.md code “sh”"),
        ("一条曲线](docs/curve.svg)", "一条曲线](docs/curve.svg)\n\n另一段", "there is paragraph “另一段”"),
    ],
)
def test_a_difference_is_named_with_its_place(text: str, becomes: str, said: str) -> None:
    assert text in TRANSLATED
    found = "\n".join(differences(ORIGINAL, TRANSLATED.replace(text, becomes, 1)))
    assert said in found


def test_a_paragraph_left_in_english_is_found() -> None:
    english = next(line for line in ORIGINAL.splitlines() if line.startswith("It has"))
    chinese = next(line for line in TRANSLATED.splitlines() if line.startswith("参数量"))
    found = "\n".join(differences(ORIGINAL, TRANSLATED.replace(chinese, english)))
    assert "the paragraph “It has 7.6 million" in found
    assert "is not translated" in found
