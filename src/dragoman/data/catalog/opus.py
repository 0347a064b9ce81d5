"""Corpora of OPUS (Tiedemann 2012), as its public interface lists them: https://opus.nlpl.eu/opusapi/.

A corpus is called opus:Books/en-pl, for its newest version, or opus:Books/v1/en-pl. Its texts, which OPUS has
in zipped "Moses" files, become train.en.gz and train.pl.gz, line by line.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from dragoman.config import parse_json
from dragoman.data.catalog.download import download
from dragoman.data.datasets import Dataset, Download, PreparedFile
from dragoman.errors import DataError

PREFIX = "opus:"
API = "https://opus.nlpl.eu/opusapi/"
"""Where the interface is, unless $DRAGOMAN_OPUS names another place."""

_NAME = re.compile(
    r"opus:(?:(?P<corpus>[A-Za-z0-9][\w.-]*)/(?:(?P<version>[A-Za-z0-9][\w.-]*)/)?)?"
    r"(?P<src>[A-Za-z]{2,3}(?:_\w+)?)-(?P<tgt>[A-Za-z]{2,3}(?:_\w+)?)"
)

CITATION = """
@inproceedings{tiedemann-2012-parallel,
  title = "Parallel Data, Tools and Interfaces in {OPUS}",
  author = {Tiedemann, J{\\"o}rg},
  booktitle = "Proceedings of the Eighth International Conference on Language Resources and Evaluation",
  year = "2012",
  pages = "2214--2218",
}"""


def _parsed(name: str) -> tuple[str, str, tuple[str, str]]:
    """Return corpus, version and languages of opus:Corpus/en-pl, opus:Corpus/version/en-pl or opus:en-pl.

    What it lacks is "". DataError: another name.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["src"] == match["tgt"]:
        raise DataError(
            f"{name}: is not a corpus of OPUS; write opus:Books/en-pl or opus:Books/v1/en-pl; opus:en-pl "
            "is for the list"
        )
    return match["corpus"] or "", match["version"] or "", (match["src"], match["tgt"])


class Release(NamedTuple):
    """A version of a corpus in two languages."""

    corpus: str
    version: str
    n_pairs: int
    size: int
    """Bytes of the download, in steps of 1024."""
    url: str


def releases(name: str) -> list[Release]:
    """Return the newest version of each corpus for opus:en-pl, or of the named corpus; most pairs first.

    DataError: there is none, or OPUS cannot be reached.
    """
    corpus, version, languages = _parsed(name)
    src, tgt = sorted(languages)  # as OPUS orders them
    query = {"source": src, "target": tgt, "preprocessing": "moses", "version": version or "latest"}
    if corpus:
        query["corpus"] = corpus
    url = f"{os.environ.get('DRAGOMAN_OPUS') or API}?{urlencode(query)}"
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        answer = download([url], Path(folder) / "opus.json", max_bytes=50_000_000).path.read_bytes()
    try:
        corpora = [
            Release(
                str(record["corpus"]),
                str(record["version"]),
                int(record["alignment_pairs"] or 0),
                1024 * int(record["size"] or 0),
                str(record["url"]),
            )
            for record in parse_json(answer)["corpora"]
            if record["target"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{url}: is not an answer of OPUS ({error!r}); try again later") from error
    if not corpora:
        raise DataError(f"{name}: OPUS has no such corpus; see: dragoman data list opus:{src}-{tgt}")
    return sorted(corpora, key=lambda release: (-release.n_pairs, release.corpus))


def named(name: str) -> Dataset:
    """Return the data set of a name, without what only OPUS knows. DataError: it names no corpus."""
    corpus, version, languages = _parsed(name)
    if not corpus:
        raise DataError(f"{name}: names no corpus; choose one with: dragoman data list {name}")
    ordered = sorted(languages)
    pair = "-".join(ordered)
    files = *(f"train.{lang}.gz" for lang in ordered), "LICENSE", "README"
    return Dataset(
        name=name,
        folder=f"opus/{'-'.join(filter(None, (corpus, version)))}/{pair}",
        title=f"{corpus} of OPUS, {pair}",
        task="translation",
        languages=languages,
        n_examples="unknown",
        licence="see LICENSE in its folder, and the page of the corpus",
        citation=CITATION,
        homepage=f"https://opus.nlpl.eu/{corpus}",
        note="cite the corpus as its page asks for, and OPUS",
        step="opus",
        downloads=(),
        parts=tuple(PreparedFile(file, 0, "", optional=not file.endswith(".gz")) for file in files),
    )


def resolved(dataset: Dataset) -> Dataset:
    """Return a data set of `named` with its version, size and address. DataError: OPUS does not have it."""
    release, (src, tgt) = releases(dataset.name)[0], sorted(dataset.languages)
    page = quote(f"{release.corpus}/{src}&{tgt}/{release.version}/{release.corpus}", safe="/&")
    return replace(
        dataset,
        title=f"{dataset.title}, {release.version}",
        n_examples=f"{release.n_pairs:,}",
        homepage=f"https://opus.nlpl.eu/{page}",
        downloads=(Download(f"{release.corpus}.{src}-{tgt}.zip", (release.url,), "", release.size),),
    )
