"""Recipes and data sets of mtdata (Gowda et al. 2021), by the index in its package.

    mtdata:vaswani_etal_2017_ende        a recipe: training, development and test sets
    mtdata:Statmt-europarl-10-deu-eng    one data set, by its id
    mtdata:en-de                         for the list: the data sets of two languages

mtdata knows addresses, formats and languages, and reads the formats. The downloads are Dragoman's own:
resumable, checked, and unpacked as untrusted archives. mtdata runs in a process of its own, mtdata_reader.py.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from dragoman.config import parse_json
from dragoman.data.catalog import archives
from dragoman.data.catalog.sources import Listing
from dragoman.data.datasets import Dataset, Download, Part
from dragoman.errors import DataError, MissingExtraError, require

PREFIX = "mtdata:"
PYTHON = "DRAGOMAN_MTDATA_PYTHON"
"""Variable that names another Python, one that has mtdata."""
READER = Path(__file__).with_name("mtdata_reader.py")
FACTS = "mtdata.json"
"""File with what each data set gave, and which are left out."""
HOMEPAGE = "https://github.com/thammegowda/mtdata"
_ARCHIVES = ("zip", "tar", "tar.gz", "tgz")
_PART_NAMES = {"train": "train", "dev": "dev", "test": "test", "mono_train": "mono", "mono_dev": "mono_dev",
               "mono_test": "mono_test"}  # fmt: skip


def listing(name: str) -> Listing:
    """List the recipes, the data sets of two languages, or those of one recipe.

    Raises:
        DataError: mtdata has nothing of this name.
        MissingExtraError: mtdata is not installed.
    """
    short = name.removeprefix(PREFIX)
    if not short:
        recipes = _ask("recipes")
        rows = [
            (
                f"{PREFIX}{one['id']}",
                " → ".join(one["langs"]),
                *(str(len(one.get(part, ()))) for part in ("train", "dev", "test")),
                one["desc"],
            )
            for one in recipes
        ]
        return Listing(("name", "languages", ">train", ">dev", ">test", "description"), rows, recipes)
    found = _find(name)
    entries = found["entries"] if found else _ask("pair", short)
    if not entries:
        raise _unknown(name)
    rows = [
        (
            f"{PREFIX}{one['id']}",
            one.get("part", ""),
            one.get("format", ""),
            _refusal(one) or urlsplit(one["urls"][0]).hostname or "",
        )
        for one in entries
    ]
    return Listing(("name", "part", "format", "from"), rows, entries)


def named(name: str) -> Dataset:
    """Return the recipe or data set of a name. Errors as for `listing`."""
    found = _find(name)
    if not found:
        raise _unknown(name)
    files = list(_files(found))
    citation = "\n".join(dict.fromkeys(cite for one in found["entries"] for cite in one.get("cite", ())))
    return Dataset(
        name=name,
        folder=f"mtdata/{_plain(found['id'])}",
        title=found["desc"] or found["id"],
        task="translation",
        languages=tuple(found["langs"]),
        n_examples="unknown",
        licence="each data set has its own; mtdata does not know them",
        citation=citation,
        homepage=found["url"] or HOMEPAGE,
        note=f"its data sets and what they gave are in {FACTS}; cite them as source.json says",
        step="mtdata",
        downloads=(),
        parts=tuple(Part(file, 0, "") for file in dict.fromkeys(file for _, pair in files for file in pair)),
    )


def resolved(dataset: Dataset) -> Dataset:
    """Return a data set of `named` with its addresses."""
    needed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    refused = []
    found = _find(dataset.name)
    assert found, "`named` has found it"
    for entry in found["entries"]:
        if reason := _refusal(entry):
            refused.append(Download(entry["id"], (), "", 0, (entry["id"],), reason))
        for url in [] if reason else entry["urls"]:
            needed[url, entry["ext"]].append(entry["id"])
    downloads = [
        Download(_file(url, extension), (url,), "", 0, tuple(dict.fromkeys(ids)))
        for (url, extension), ids in needed.items()
    ]
    return replace(dataset, downloads=(*downloads, *refused))


def prepare(dataset: Dataset, downloads: Path, folder: Path, report: Callable[[str], None]) -> None:
    """Write the texts of each part, one data set after the other, and what each of them gave.

    Raises:
        DataError: a data set whose files arrived cannot be read, unless all parts of `dataset` are optional.
    """
    found = _find(dataset.name)
    assert found, "`named` has found it"
    is_partial = all(part.optional for part in dataset.parts)
    facts, problems = [], []
    with ExitStack() as stack:
        opened: dict[str, IO[bytes]] = {}
        for entry, files in _files(found):
            given = [downloads / _file(url, entry["ext"]) for url in entry["urls"]]
            fact = _take(entry, given, folder, files, opened, stack)
            facts.append(fact)
            if fact["problem"]:
                problems.append(f"{entry['id']}: {fact['problem']}")
                continue
            report(f"{entry['part']}: {entry['id']}, {fact['n']:,} {_unit(entry)}")
            if fact["skipped"]:
                report(f"left out {fact['skipped']:,} {_unit(entry)} of {entry['id']} with an empty side")
            for warning in fact["warnings"]:
                report(f"mtdata, of {entry['id']}: {warning}")
    if problems and not is_partial:
        raise DataError(f"{'; '.join(problems)}; --partial makes the set without them")
    for problem in problems:
        report(f"left out: {problem}")
    if not any(fact["n"] for fact in facts):
        raise DataError(f"{dataset.name}: no data set of it could be had: {'; '.join(problems)}")
    text = json.dumps({"recipe": dataset.name, "data": facts}, indent=2, ensure_ascii=False)
    (folder / FACTS).write_text(f"{text}\n", encoding="utf-8")


def _take(
    entry: dict[str, Any],
    given: Sequence[Path],
    folder: Path,
    files: Sequence[str],
    opened: dict[str, IO[bytes]],
    stack: ExitStack,
) -> dict[str, Any]:
    """Append the text of one data set to its files; return what it gave.

    The text goes to a file of its own first: what cannot be read to its end is in none of the others.
    """
    fact = {"id": entry["id"], "part": entry["part"], "urls": entry["urls"], "n": 0, "skipped": 0,
            "problem": _refusal(entry), "warnings": []}  # fmt: skip
    missing = [path.name for path in given if not path.exists()]
    if fact["problem"] or missing:
        return fact | {"problem": fact["problem"] or f"{', '.join(missing)} could not be downloaded"}
    with tempfile.TemporaryDirectory(dir=folder) as own:
        try:
            paths = list(_unpacked(entry, given, Path(own)))
        except DataError as error:
            return fact | {"problem": str(error)}
        text = Path(own) / "text"
        fact |= _read(entry, paths, text)
        if not fact["n"] and not fact["problem"]:
            fact["problem"] = "no text is in it"
        if fact["problem"]:
            return fact | {"n": 0}
        for file in files:
            if file not in opened:
                raw = stack.enter_context((folder / file).open("wb"))
                opened[file] = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, 0))  # type: ignore[arg-type]
        with text.open("rb") as lines:
            for line in lines:
                for side, file in zip(line.rstrip(b"\n").split(b"\t"), files, strict=True):
                    opened[file].write(side + b"\n")
    return fact


def _unpacked(entry: dict[str, Any], given: Sequence[Path], folder: Path) -> Iterator[Path]:
    """Yield the files that mtdata's reader is given. DataError: an archive lacks one, or is damaged."""
    if entry["ext"] not in _ARCHIVES:
        yield from given
        return
    (archive,) = given
    patterns = entry["in_paths"]
    names = archives.unpack(
        archive,
        folder / "archive",
        wanted=lambda name: any(fnmatchcase(name, pattern) for pattern in patterns),
        limits=archives.Limits(n_bytes=2 * 10**12),
    )
    for pattern in patterns:
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        if len(fitting) != 1:
            said = ", ".join(fitting) or "no such file"
            raise DataError(f"{archive}: mtdata expects one file {pattern} in it, and there is {said}")
        yield folder / "archive" / fitting[0]


def _read(entry: dict[str, Any], paths: Sequence[Path], text: Path) -> dict[str, Any]:
    """Write the pairs of a data set to `text`, by mtdata's readers; return what they say."""
    with text.open("wb") as out:
        done = _run("read", json.dumps(entry), *map(str, paths), stdout=out)
    fact = {"problem": f"mtdata's reader ended with exit code {done.returncode}"}
    with suppress(ValueError, TypeError):  # it died before it could say anything
        fact |= _last_json(done.stderr)
    return fact


def _last_json(text: bytes) -> Any:
    """Return the JSON value in the last line of `text`. ValueError: that line is not JSON."""
    return parse_json(text.strip().rpartition(b"\n")[2])


def _files(found: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield each data set with the files that hold its text.

    train.en.gz, train.de.gz; train.kn-en.kn.gz where a recipe has several pairs of languages. Several test
    sets stay apart, test.NAME.en.gz, all else is put together.
    """
    entries = found["entries"]
    pairs = {tuple(one["langs"]) for one in entries if len(one["langs"]) == 2}
    n_tests = sum(one["part"] == "test" for one in entries)
    for one in entries:
        stem = _PART_NAMES[one["part"]]
        langs = one["langs"]
        if one["part"] == "test" and n_tests > 1:
            stem = f"test.{one['id']}"
        elif len(langs) == 2 and len(pairs) > 1:
            stem = f"{stem}.{'-'.join(langs)}"
        yield one, tuple(f"{stem}.{lang}.gz" for lang in langs)


def _refusal(entry: dict[str, Any]) -> str:
    """Why a data set cannot be downloaded; "" = it can be tried."""
    if entry.get("refusal"):
        return str(entry["refusal"])
    if not entry["urls"]:
        return "mtdata's index has no data set of this id"
    if entry["ext"] == "hfds":
        name = entry["urls"][0].partition("/datasets/")[2]
        return f"it is on the Hugging Face hub: name hf:{name} as a corpus"
    return ""


def _file(url: str, extension: str) -> str:
    """Return the name that a download gets: that of its address, made unique, with the right ending."""
    stem = _plain(url.partition("?")[0].rstrip("/").rpartition("/")[2]).removesuffix(f".{extension}")
    return f"{stem}.{hashlib.sha256(url.encode()).hexdigest()[:8]}.{extension}"


def _plain(text: str) -> str:
    """Return `text` as the name of a file: a recipe's id may be anything."""
    return re.sub(r"[^\w.-]", "_", text).lstrip(".") or "_"


def _find(name: str) -> dict[str, Any] | None:
    return _asked_once("find", name.removeprefix(PREFIX), os.environ.get("MTDATA_RECIPES") or str(Path.cwd()))


@cache
def _asked_once(request: str, name: str, recipes: str) -> Any:
    return _ask(request, name) if name else None


def _ask(*request: str) -> Any:
    """Return the answer of mtdata. MissingExtraError: it is not installed. DataError: it cannot be used."""
    done = _run(*request, stdout=subprocess.PIPE)
    try:
        answer = _last_json(done.stdout)
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise DataError(
            f"mtdata cannot be used: {' '.join(said) or f'exit code {done.returncode}'}"
        ) from None
    if isinstance(answer, dict) and "missing" in answer:
        python = os.environ.get(PYTHON)
        if python is None:
            raise MissingExtraError("mtdata", extra="mtdata", purpose=PREFIX)
        raise DataError(f"{python}: has no usable package mtdata ({answer['missing']}); install it there")
    return answer


def _run(*request: str, stdout: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the reader, in an empty folder: mtdata imports files named mtdata*.py from the one it is in."""
    python = os.environ.get(PYTHON) or sys.executable
    if python == sys.executable:
        require("mtdata", extra="mtdata", purpose=PREFIX)
    own = {"MTDATA_RECIPES": os.environ.get("MTDATA_RECIPES") or str(Path.cwd()), "USE_PIGZ": "no",
           "PYTHONWARNINGS": "ignore"}  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="dragoman-") as empty:
        try:
            return subprocess.run(
                [python, str(READER), *request],
                cwd=empty,
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            raise DataError(f"{python}: cannot be started ({error.strerror}); set {PYTHON}") from None


def _unknown(name: str) -> DataError:
    return DataError(
        f"{name}: mtdata has no recipe and no data set of this name; for recipes: dragoman data list mtdata: "
        "for data sets: dragoman data list mtdata:en-de"
    )


def _unit(entry: dict[str, Any]) -> str:
    return "pairs" if len(entry["langs"]) == 2 else "sentences"
