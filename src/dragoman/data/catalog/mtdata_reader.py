"""Ask the package mtdata, in a process of its own, which may be another Python's: `mtdata.py` runs this.

    python mtdata_reader.py recipes             one JSON value on stdout: the recipes
    python mtdata_reader.py pair en-de          the data sets of two languages
    python mtdata_reader.py find NAME           a recipe or a data set, with addresses and formats
    python mtdata_reader.py read ENTRY FILE…    pairs of a data set that `find` described: "source<TAB>target"
                                                a line; JSON on stderr says how many

In a process of its own, mtdata's pinned dependencies, its logging and the modules that it imports from the
working directory have no effect on Dragoman. Nothing is downloaded: mtdata's index is in its package.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PARTS = ("train", "dev", "test", "mono_train", "mono_dev", "mono_test")


class Warnings(logging.Handler):
    """Collects warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of `record`."""
        self.messages.append(" ".join(record.getMessage().split()))


def main() -> None:
    """Answer one request, that of the command line."""
    if sys.path and Path(sys.path[0]) == Path(__file__).parent:
        del sys.path[0]  # the neighbour mtdata.py is not the package
    warnings = Warnings()
    logging.basicConfig(handlers=[warnings])  # before mtdata: its own call has no effect then
    try:
        import mtdata
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    logging.getLogger().setLevel(logging.WARNING)
    mtdata.pbar_man.enabled = False
    mtdata.cache_dir.mkdir(parents=True, exist_ok=True)
    request, *arguments = sys.argv[1:]
    if request == "read":
        _read(*arguments, warnings=warnings)
        return
    if request == "recipes":
        print(json.dumps(_recipes()))
    else:
        print(json.dumps(_pair(*arguments) if request == "pair" else _find(*arguments)))


def _recipes() -> list[dict[str, Any]]:
    from mtdata.recipe import RECIPES

    return [_recipe(recipe) for recipe in RECIPES.values()]


def _recipe(recipe: Any) -> dict[str, Any]:
    parts = {part: [str(did) for did in getattr(recipe, part) or ()] for part in PARTS}
    return {
        "id": recipe.id,
        "langs": [code(lang) for lang in recipe.langs],
        "desc": recipe.desc or "",
        "url": recipe.url or "",
        **{part: ids for part, ids in parts.items() if ids},
    }


def _pair(name: str) -> list[dict[str, Any]]:
    from mtdata.entry import Langs
    from mtdata.index import get_entries

    try:
        langs = Langs(name)
        if len(langs) != 2:
            return []
    except Exception:  # mtdata raises bare exceptions for a language that it does not know
        return []
    found = get_entries(langs, fuzzy_match=True)
    return [_entry(entry) for entry in sorted(found, key=lambda entry: str(entry.did))]


def _find(name: str) -> dict[str, Any] | None:
    """Return a recipe or a data set with its `entries`; None if mtdata has neither."""
    from mtdata.entry import DatasetId
    from mtdata.index import INDEX
    from mtdata.recipe import RECIPES

    if recipe := RECIPES.get(name):
        entries = [
            {"part": part, **_entry_of(did, recipe.langs)}
            for part in PARTS
            for did in getattr(recipe, part) or ()
        ]
        return {**_recipe(recipe), "entries": entries}
    try:
        did = DatasetId.parse(name)
    except Exception:  # not the form of an id
        return None
    if did not in INDEX:
        return None
    part = "train" if len(did.langs) == 2 else "mono_train"
    langs = [code(lang) for lang in did.langs]
    entry = {"part": part, **_entry_of(did, did.langs)}
    return {"id": str(did), "langs": langs, "desc": "", "url": "", "entries": [entry]}


def _entry_of(did: Any, langs: Any) -> dict[str, Any]:
    """Describe a data set of a recipe in the languages `langs`."""
    from mtdata.index import INDEX
    from mtdata.iso.bcp47 import BCP47Tag

    described = _entry(INDEX[did]) if did in INDEX else {"id": str(did), "urls": []}
    described["langs"] = [code(lang) for lang in did.langs]
    if len(did.langs) == 2:
        fits, swap = BCP47Tag.check_compat_swap(langs, did.langs)
        if not fits:
            return {**described, "refusal": "it is in other languages than its recipe"}
        own = did.langs[::-1] if swap else did.langs
        named = [one if one.lang != "mul" else other for one, other in zip(langs, own)]  # noqa: B905 (mtdata runs on Python 3.9)
        described |= {"swap": bool(swap), "langs": [code(lang) for lang in named]}
    if did not in INDEX:
        return described
    keys = INDEX[did].cite or ()
    keys = [keys] if isinstance(keys, str) else keys
    return {**described, "cite": [INDEX.ref_db.get_bibtex(key) for key in keys]}


def _entry(entry: Any) -> dict[str, Any]:
    return {
        "id": str(entry.did),
        "langs": [code(lang) for lang in entry.did.langs],
        "urls": [entry.url] if isinstance(entry.url, str) else list(entry.url),
        "ext": entry.ext,
        "format": entry.in_ext or entry.ext,
        "in_ext": entry.in_ext,
        "in_paths": list(entry.in_paths or ()),
        "cols": entry.cols,
        "meta": entry.meta,
    }


def code(lang: Any) -> str:
    """Return a language with two letters where it has them: "de", "pt_BR", "yue"."""
    from mtdata.iso.iso639_1 import ISO693_1_to_3

    short = {three: two for two, three in ISO693_1_to_3.items()}
    _, *rest = str(lang).split("_")
    return "_".join([short.get(lang.lang, lang.lang), *rest])


def _read(described: str, *files: str, warnings: Warnings) -> None:
    """Write the pairs of a data set, or its sentences if it is of one language. The index is not needed."""
    from mtdata.entry import Entry
    from mtdata.parser import Parser

    n_written = n_skipped = 0
    problem = ""
    out = sys.stdout.buffer
    given = json.loads(described)
    url = given["urls"][0] if len(given["urls"]) == 1 else tuple(given["urls"])
    same = {name: given[name] for name in ("ext", "in_ext", "cols", "meta")}
    entry = Entry(given["id"], url, in_paths=given["in_paths"] or None, **same)
    n_sides = len(entry.did.langs)
    try:
        parser = Parser([Path(file) for file in files], ext=entry.in_ext or entry.ext, ent=entry)
        for sides in _sides(parser, n_sides):
            if len(sides) < n_sides or not all(sides):
                n_skipped += 1
                continue
            n_written += 1
            out.write(
                "\t".join(sides[::-1] if given.get("swap") else sides).encode("utf-8", "replace") + b"\n"
            )
        out.flush()
    except Exception as error:  # whatever mtdata's readers raise: a damaged file, unequal sides
        problem = " ".join(f"{type(error).__name__}: {error}".split())
    facts = {"n": n_written, "skipped": n_skipped, "problem": problem, "warnings": warnings.messages}
    sys.stderr.write("\n" + json.dumps(facts) + "\n")


def _sides(parser: Any, n_sides: int) -> Iterator[list[str]]:
    """Yield the sentences of each record, on one line each, as mtdata itself writes them."""
    spaces = str.maketrans("\n\t\r", "   ")
    for record in parser.read_segs():
        texts = [record] if isinstance(record, str) else list(record[:n_sides])
        yield [(text or "").strip().translate(spaces) for text in texts]


if __name__ == "__main__":
    main()
