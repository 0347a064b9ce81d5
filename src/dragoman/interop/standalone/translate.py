"""Translates the lines of stdin: `python translate.py FOLDER [LANGUAGE] < input > output`

LANGUAGE is the target of a model of several; one whose lines begin with it, as >>deu<<, needs none. Text in
capitals and in title case is read in the case of the vocabulary, and slots, if the model has learnt them,
stand for numbers and addresses, as in Dragoman: transformations.json is the list. A translation that loses a
slot is not searched for again.
"""

import json
import sys
from pathlib import Path

from transformations import REPLACED, Transformations

BATCH = 32

folder, chosen = Path(sys.argv[1]), sys.argv[2:3]
data, export = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("transformations", "export"))
longest, languages = export["max_tokens"], list(data["lists"])
in_lines = data["marked"]  # a line says its language itself, in front, as >>deu<<
asks = len(languages) > 1 and not in_lines
if asks != bool(chosen) or not {*chosen} <= {*languages}:
    known = ", ".join(sorted(languages)) if asks else "none, there is one alone"
    sys.exit(f"say the language behind the folder: {known}")
from model import ids_of, tokens_of, translate  # noqa: E402 (it loads the files of that language)

transformed = {
    language: Transformations({**data, "list": listed}, ids_of) for language, listed in data["lists"].items()
}


def marked(number, line):
    """Return the language of a line, what says it in front of the line, and the rest."""
    for language in languages if in_lines else ():
        if line.startswith(mark := f">>{language}<<"):
            return language, mark, line.removeprefix(mark)
    if in_lines and line.strip():
        marks = " ".join(f">>{language}<<" for language in languages)
        sys.exit(f"line {number}: begin it with its language, one of {marks}")
    return (chosen or languages)[0], "", line


def cut(number, tokens):
    """Return the tokens of a line, up to the number that the model reads."""
    if len(tokens) <= longest:
        return tokens
    print(f"line {number}: {len(tokens)} tokens; only the first {longest} are translated", file=sys.stderr)
    end = [token for token in tokens[-1:] if token in (2, "</s>")]
    return tokens[: longest - len(end)] + end


lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
lines = [marked(number, line) for number, line in enumerate(lines, 1)]
translations = [text.translate(REPLACED) if text.strip() else "" for _, _, text in lines]
filled = [i for i, (_, _, text) in enumerate(lines) if any(map(str.isalpha, text))]
for start in range(0, len(filled), BATCH):
    batch = filled[start : start + BATCH]
    readings = [transformed[lines[i][0]].read(lines[i][2]) for i in batch]
    rows = [
        cut(i + 1, tokens_of(lines[i][1] + reading.text)) for i, reading in zip(batch, readings, strict=True)
    ]
    for i, (_, *kept), answer in zip(batch, readings, translate(rows, longest), strict=True):
        translations[i] = transformed[lines[i][0]].written(answer, *kept)
print("\n".join(translations))
