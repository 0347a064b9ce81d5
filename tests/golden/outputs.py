"""What a small run of the embedded corpus answers, in every way it can be asked, kept in expected.json.

    PYTHONPATH=src:tests:benchmarks python tests/golden/outputs.py   # records it again

The run is trained once (recipe.toml) and kept; tests/end_to_end/test_compatibility.py compares. A change
that is meant to alter an output records it again, so that its diff shows what it altered.
"""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from commands import succeed
from services import ask, service_in_thread

HERE = Path(__file__).parent
RUN, EXPECTED = HERE / "run", HERE / "expected.json"
PLAIN = ("--device", "cpu", "--precision", "fp32")
SENTENCES = [
    "They have three dogs at home.",
    "Maria did not eat an apple the day before yesterday.",
    "",
    "MY SON HAS NINE BROWN SCARVES.",
    "The Post Office Is Closed On Wednesdays.",
    "Write to anna@example.org, or see https://example.org/a?b=1 before 17:30.",
    "My son has 12 scarves and {name} has <b>2</b> of them.",
    "We are at the station. Where is my bread? I do not know.",
    "The xylophone of Ümit — 日本 😀 — is old.",
    "dogs " * 120,
]
GERMAN = [
    "Sie haben drei Hunde zu Hause.",
    "Mein Sohn hat neun braune Schals.",
    "Die Post ist mittwochs geschlossen.",
]
GLOSSARY = "dogs\tRüden\nscarves\tHalstücher\n"

SRT = """1
00:00:01,000 --> 00:00:03,000
They have three dogs
at home. <i>Maria</i> did not eat.

2
00:00:03,500 --> 00:00:05,000
- My son has nine scarves.
- The post office is closed.
"""
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en" datatype="plaintext" segtype="sentence" adminlang="en"
 creationtool="t" creationtoolversion="1" o-tmf="t"/><body>
<tu><tuv xml:lang="en">
<seg>They have <bpt i="1">&lt;b&gt;</bpt>three<ept i="1">&lt;/b&gt;</ept> dogs.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>My son has nine scarves.</seg></tuv></tu>
</body></tmx>
"""
HTML = """<!DOCTYPE html><html lang="en"><head><title>My dog</title><style>p { color: red }</style></head>
<body><p>They have <b>three dogs</b> at <a href="/home">home</a>.</p>
<ul><li>My son has nine scarves.<li>The post office is closed.</ul><pre>no  text</pre></body></html>
"""
PARAGRAPHS = "They have three dogs at home.  Maria did not eat an apple.\n\n\tThe post office is closed.\n"


def translated(*options: object, lines: list[str] = SENTENCES, to: str = "de") -> list[str]:
    """What `dragoman translate` writes for lines."""
    stdin = "".join(f"{line}\n" for line in lines)
    return succeed("translate", RUN, "--to", to, *PLAIN, *options, stdin=stdin).stdout.splitlines()


def as_json(*options: object, lines: list[str] = SENTENCES) -> list[Any]:
    return [json.loads(line) for line in translated("--json", *options, lines=lines)]


def document(name: str, content: str | bytes, *options: object) -> str:
    """The translation of a file, as its format writes it."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    out = Path(f"out-{name}")
    succeed("translate", RUN, name, "--to", "de", "--out", out, *PLAIN, *options)
    if out.suffix == ".docx":
        return zipfile.ZipFile(out).read("word/document.xml").decode()
    return out.read_text(encoding="utf-8")


def word_document() -> bytes:
    """A letter with a heading, formatting within a sentence and a table."""
    import docx

    letter = docx.Document()
    letter.add_heading("My dog", 1)
    paragraph = letter.add_paragraph("They have ")
    paragraph.add_run("three dogs").bold = True
    paragraph.add_run(" at home. My son has nine scarves.")
    letter.add_table(1, 2).rows[0].cells[1].text = "The post office is closed."
    content = io.BytesIO()
    letter.save(content)
    return content.getvalue()


def documents() -> dict[str, str]:
    return {
        "srt": document("a.srt", SRT),
        "tmx": document("a.tmx", TMX),
        "html": document("a.html", HTML),
        "docx": document("a.docx", word_document()),
        "paragraphs": document("a.txt", PARAGRAPHS, "--document"),
        "protected": document("b.html", HTML.replace("three", "3"), "--protect", "all"),
    }


def constrained() -> dict[str, Any]:
    Path("terms.tsv").write_text(GLOSSARY, encoding="utf-8")
    return {
        "glossary": translated("--glossary", "terms.tsv"),
        "inflected": translated("--glossary", "terms.tsv", "--inflect"),
        "protected": translated("--protect", "all"),
        "pattern": translated("--protect-pattern", r"dogs|\d+"),
    }


def searched() -> dict[str, Any]:
    return {
        "greedy": translated("--beam-size", 1),
        "beam": translated(),
        "back": translated(lines=GERMAN, to="en"),
        "n-best": as_json("--n-best", 3),
        "diverse": as_json("--n-best", 4, "--diversity-groups", 2, "--diversity-penalty", 0.5),
        "sampled": as_json("--method", "sampling", "--seed", 7, "--top-k", 5, "--n-best", 2),
        "top-p": translated("--method", "sampling", "--seed", 8, "--top-p", 0.9, "--temperature", 0.7),
        "aligned": as_json("--align", lines=SENTENCES[:8]),
        "coverage": translated("--coverage-penalty", 0.2, "--length-penalty", 0.5, "--no-repeat-ngram", 2),
        "ensemble": translated("--ensemble", RUN),
    }


def pivoted() -> list[Any]:
    """English by way of German into English: texts, what they go through, links."""
    from dragoman.predict.flow import Pivot, aligned, searched
    from dragoman.predict.threads import finish
    from dragoman.predict.translator import Translator

    both = Translator.load(RUN, device="cpu", precision="fp32")
    pivot = Pivot(both.towards("en-de"), both.towards("de-en"))
    search = pivot.config.search.changed({"n_best": 2}, where="test")
    translations = finish(searched(pivot, SENTENCES[:8], search))
    links = finish(aligned(pivot, translations))
    return [
        [t.text, t.through, [tuple(link)[:4] for link in found]]
        for t, found in zip(translations, links, strict=True)
    ]


def in_bulk() -> dict[str, Any]:
    Path("many.en").write_text("".join(f"{line}\n" for line in SENTENCES * 3), encoding="utf-8")
    succeed("translate", RUN, "many.en", "--to", "de", "--out", "many.de", *PLAIN)
    Path("pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in SENTENCES[:2]), encoding="utf-8")
    scored = succeed("score-model", RUN, "pairs.tsv", "--to", "de", *PLAIN).stdout
    return {"lines": Path("many.de").read_text(encoding="utf-8").splitlines(), "scored": scored.splitlines()}


def records() -> dict[str, Any]:
    """Scores of a test set, and the figures of a comparison."""
    Path("t.en").write_text("".join(f"{line}\n" for line in SENTENCES[:2] + SENTENCES[3:5]), encoding="utf-8")
    Path("t.de").write_text("Sie haben drei Hunde.\nMaria hat keinen Apfel gegessen.\n" * 2, encoding="utf-8")
    files = ("--src", "t.en", "--ref", "t.de", "--to", "de")
    for name in ("copy", "other"):
        shutil.copytree(RUN, name)
    scores = json.loads(succeed("evaluate", "copy", *files, *PLAIN, "--json").stdout)
    for result in scores["results"]:
        del result["seconds"], result["sentences_per_second"]
    table = json.loads(succeed("compare", "copy", "other", *files, *PLAIN, "--json").stdout)
    return {"scores": scores, "compared": table}


V1: list[dict[str, Any]] = [
    {"text": SENTENCES[0]},
    {"text": SENTENCES[:2] + SENTENCES[3:8], "n_best": 2, "align": True, "confidence": True},
    {"text": SENTENCES[7], "glossary": [["bread", "Brötchen"]], "inflect": True, "protect": True},
    {"text": SENTENCES[0], "method": "sampling", "seed": 3, "beam_size": 2},
    {"text": SENTENCES[0], "split": False, "prefix": "Sie", "required": ["drei"]},
    {"text": GERMAN, "source": "de", "target": "en"},
    {"text": ""},
]
LIBRE: list[dict[str, Any]] = [
    {"q": SENTENCES[0], "source": "en", "target": "de"},
    {"q": SENTENCES[:2], "source": "auto", "target": "de", "alternatives": 2},
    {"q": "<p>They have <b>three</b> dogs.</p>", "source": "en", "target": "de", "format": "html"},
    {"q": GERMAN[0], "source": "de", "target": "en"},
]


def served() -> dict[str, Any]:
    """The answers of a service."""
    with service_in_thread([RUN]) as (port, _):
        streamed = {"text": SENTENCES[7], "source": "en", "target": "de", "stream": True}
        last = ask(port, "POST", "/v1/translate", streamed).body.split(b"event: done")[-1]
        return {
            "v1": [
                ask(port, "POST", "/v1/translate", {"source": "en", "target": "de", **body}).json
                for body in V1
            ],
            "translate": [ask(port, "POST", "/translate", body).json for body in LIBRE],
            "streamed": json.loads(last.split(b"data: ")[1].splitlines()[0]),
        }


KINDS: dict[str, Callable[[], Any]] = {
    "searched": searched,
    "constrained": constrained,
    "documents": documents,
    "pivoted": pivoted,
    "bulk": in_bulk,
    "records": records,
    "served": served,
}
"""Every way to ask, by name. Each works in the current folder and leaves files in it."""


def main() -> None:
    """Record the outputs of this tree."""
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        expected = {name: outputs() for name, outputs in KINDS.items()}
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
