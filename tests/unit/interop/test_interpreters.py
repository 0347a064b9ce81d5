"""The list of transformations in exports: interpreted in Python and JavaScript as by the library."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from dragoman.config import TokenizerConfig
from dragoman.interop import browser
from dragoman.interop.portable import portable, to_json
from dragoman.text import transformations as interpreter
from dragoman.text.alterations import in_capitals, in_title_case, transformations
from dragoman.text.slots import SLOTS
from dragoman.text.tokenizer import train_tokenizer
from dragoman.text.transformations import Transformations

LINES = [
    "The dog sees John in the park.",
    "A man in Berlin sees the big dog. Don't!",
    "Die Straße ist heute gesperrt.",
    "İyi bir gün ve ılık bir akşam.",
    "Ο σκύλος και ο δρόμος. Собака бежит.",
] * 20
WORDS = [
    *" ".join(LINES[:5]).split(), "14:30", "25", "1,000", "3.14", "12.05.2024", "2024年", "{name}", "<b>",
    "</b>", "<input disabled>", "<p id=x>", "a@b.de", "www.A.de/x?y=1", "😀", "%d", "%(Man)s", "&amp;", "ﬁ",
    "ǆ", "ΣΑΣ", "ßß", "e\u0301", "½", "_", "x\x07y", "\u2028", "! … (", "v2.0", "+49 30 123456", "\ufeff",
    *SLOTS[:2],
]  # fmt: skip
TITLES = {c: c.title() for c in map(chr, range(sys.maxunicode)) if c.title() != c.upper()}
BLOCKS = [(0x21, 0x17F), (0x370, 0x587), (0x10A0, 0x10FF), (0x1E00, 0x206F), (0xFB00, 0xFB17), (0x300, 0x36F)]
"""Letters with odd capitals, marks and punctuation."""
PYTHON = """
import json, sys
sys.modules["dragoman"] = None
sys.path.insert(0, sys.argv[1])
from tokenizers import Tokenizer
from transformations import Transformations
tokenizer = Tokenizer.from_file(sys.argv[1] + "/portable.json")
encode = lambda words: [one.ids for one in tokenizer.encode_batch(words, add_special_tokens=False)]
data, vectors = json.load(sys.stdin)
given = {one: Transformations({**data, "list": listed}, encode) for one, listed in data["lists"].items()}
print(json.dumps([[*(kept := given[language].read(text)), given[language].written(answer, *kept[1:])]
                  for language, text, answer in vectors]))
"""
JAVASCRIPT = """
import { readFileSync } from "node:fs";
import { Tokenizer } from "./tokenizer.js";
import { Transformations } from "./transformations.js";
const tokenizer = new Tokenizer(JSON.parse(readFileSync("own.json")));
const [data, vectors] = JSON.parse(readFileSync(0));
const given = Object.fromEntries(Object.entries(data.lists).map(([language, list]) =>
  [language, new Transformations(data, list, (word) => tokenizer.encode(word))]));
console.log(JSON.stringify(vectors.map(([language, text, answer]) => {
  const kept = given[language].read(text);
  return [kept.text, kept.casing, kept.spans, given[language].written(answer, kept)];
})));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the interpreters of both languages need."""
    folder = tmp_path_factory.mktemp("interpreters")
    train_tokenizer(LINES, TokenizerConfig(vocab_size=400)).save(folder / "own.json")
    (folder / "portable.json").write_text(to_json(portable(folder / "own.json")), encoding="utf-8")
    shutil.copy(interpreter.__file__, folder)
    for name in ("tokenizer.js", "transformations.js"):
        shutil.copy(Path(browser.__file__).parent / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.js").write_text(JAVASCRIPT)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", [[sys.executable, "-IBc", PYTHON, "."], ["node", "main.js"]])
def test_both_interpreters_read_and_write_as_the_library(folder: Path, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip("needs Node.js: apt install nodejs")
    rng = Random(1)
    vectors, expected = [], []
    lists = {
        "de": transformations(["en", "de"], slots=True), "tr": transformations(["tr", "tr"], slots=True),
        "fr": transformations(["en", "fr"], slots=False),
        "el": transformations(["el", "el"], recase=False, slots=True),
    }  # fmt: skip
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=400))
    for _ in range(3000):
        target = rng.choice([*lists])
        odd = ["".join(chr(rng.randint(*rng.choice(BLOCKS))) for _ in range(3)) for _ in range(2)]
        text = rng.choice(["", " ", " "]).join(
            rng.choices(WORDS, k=rng.randint(1, 9)) + odd[rng.randint(0, 2) :]
        )
        cased = in_capitals(text, target), in_title_case(text, target), text.upper(), text.title()
        text = rng.choice([text, *cased])
        ours = Transformations(lists[target], tokenizer.encode_batch)
        read = ours.read(text)
        answer = read.text + rng.choice(["", f" {SLOTS[3]}abc", "Ende"])
        vectors.append([target, text, answer])
        expected.append([*read[:2], list(read.spans), ours.written(answer, *read[1:])])
    assert {casing for _, casing, *_ in expected} == {"", "capitals", "title"}
    assert sum(bool(spans) for *_, spans, _ in expected) > 1000
    data = lists["de"] | {"lists": {target: one["list"] for target, one in lists.items()}, "titles": TITLES}
    given = json.dumps([data, vectors])
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [pair for pair in zip(vectors, found, expected, strict=True) if pair[1] != pair[2]] == []
