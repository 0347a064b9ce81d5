"""Train the models worth publishing, and pack them into a folder for a server of static files.

    python tools/release_models.py                   # tatoeba-many and imdb: hours; into dist/models
    python tools/release_models.py imdb --quick      # another choice, small versions: to try it
    python tools/release_models.py runs/mine         # runs that are finished, as they are
    dragoman models --from dist/models

A recipe is trained into runs/, as by `dragoman reproduce`, and published if its scores are as expected. Each
run becomes one archive with its model card, each export of it another one. A format that cannot express a
run is named in models.json with the reason. src/dragoman/interop/mirror.py says what the folder holds; it is
replaced as a whole. The same files give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dragoman.card import licence_of, model_card
from dragoman.cli.listener import TerminalListener
from dragoman.data.catalog.download import checksum_of
from dragoman.errors import ConfigError, DragomanError, MissingExtraError, RunError
from dragoman.files import replacing_folder
from dragoman.interop.exporting import export_run
from dragoman.interop.mirror import INDEX, Archive, Index, PublishedExport, PublishedModel, PublishedScore
from dragoman.interop.publishing import CARD, published_files
from dragoman.reproduction.recipe import FULL, QUICK, Recipe, find_recipe, run_name
from dragoman.reproduction.running import REPRODUCTION, reproduce
from dragoman.runs import Run, saved_scores

RECIPES = ("tatoeba-many", "imdb")
FORMATS = ("ctranslate2", "onnx", "argos", "browser")


class Licence(NamedTuple):
    """What may be said of a model by the licence of the text that it learnt from."""

    name: str
    on_hub: str
    """The hub's identifier."""
    terms: str


LICENCES = {
    "CC BY 2.0 FR": Licence(
        "CC BY 2.0 FR",
        "cc-by-2.0",
        "CC BY 2.0 FR (https://creativecommons.org/licenses/by/2.0/fr/), as the sentences of Tatoeba "
        "(https://tatoeba.org) that the model learnt from: name Tatoeba and its contributors wherever you "
        "pass it on.",
    ),
    "none stated": Licence(
        "none stated",
        "unknown",
        "No licence is stated for the text that the model learnt from; its authors published it for "
        "research. So no licence is given for the model either: use it for research, cite the authors of the "
        "text, and ask them before any other use.",
    ),
    "MIT": Licence("MIT", "mit", "MIT, as the text that the model learnt from."),
}
"""By the beginning of a licence in the catalogue."""
UNKNOWN = Licence("unknown", "unknown", "The licence of the text that the model learnt from is not known.")


def main() -> None:
    """Train, pack and print what was published; exit code 1 if something cannot be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"Recipes, or finished runs. Default: {', '.join(RECIPES)}.")
    parser.add_argument("--quick", action="store_true", help="Train the quick version of each recipe.")
    parser.add_argument("--out", type=Path, default=Path("dist/models"), help="Default: dist/models.")
    parser.add_argument("--onnxruntime-web", type=Path, help="As for dragoman export --to browser.")
    given = parser.parse_args()
    try:
        runs = [finished_run(name, QUICK if given.quick else FULL) for name in given.names or RECIPES]
        index = release(runs, given.out, onnxruntime_web=given.onnxruntime_web)
    except DragomanError as error:
        sys.exit(f"error: {error}")
    for model in index.models:
        print(f"{model.name}: {model.archive.size / 1e6:.1f} MB, {model.licence}")
        for export in model.exports:
            print(f"  {export.to}: {export.archive.size / 1e6:.1f} MB")
        for to, reason in model.refused.items():
            print(f"  no {to}: {reason}")
    print(f"next: dragoman models --from {given.out}; then copy the folder to a server of static files")


def finished_run(name: str, version: str) -> Run:
    """Return the run in the folder `name`, or train the recipe of this name.

    RunError: its scores are not as expected.
    """
    if (Path(name) / "model.safetensors").is_file():
        return Run.open(name)
    recipe = find_recipe(name)
    path = Path("runs") / run_name(recipe, version, seed=None)
    if not (path / REPRODUCTION).exists():
        train(recipe, version, path)
    run = Run.open(path)
    if not run.read_json(REPRODUCTION).get("passed"):
        raise RunError(
            f"{path}: not published, for its scores are not as expected; {REPRODUCTION} in it says which"
        )
    return run


def train(recipe: Recipe, version: str, path: Path) -> None:
    """Train, score and judge a recipe; continue what was interrupted."""
    with TerminalListener() as listener:
        reproduce(recipe, version, out=path, robustness=True, listener=listener)


def release(runs: Sequence[Run], out: Path, *, onnxruntime_web: Path | None = None) -> Index:
    """Write the folder `out` with all runs, and return its index.

    RunError: the folder is not free, or cannot be written. ConfigError: two runs have one name.
    MissingExtraError: a package that an export needs is not installed.
    """
    if out.exists() and any(out.iterdir()) and not (out / INDEX).is_file():
        raise RunError(f"{out}: holds something else than models; choose a new folder")
    if len({run.path.resolve().name for run in runs}) < len(runs):
        raise ConfigError("two runs have the same name, that of their folders; rename one")
    with replacing_folder(out) as folder:
        models = sorted((publish(run, folder, onnxruntime_web) for run in runs), key=lambda m: m.name)
        index = Index(format=1, models=tuple(models))
        (folder / INDEX).write_bytes(index.model_dump_json(indent=2).encode() + b"\n")
        archives = [a for m in models for a in (m.archive, *(export.archive for export in m.exports))]
        sums = "".join(f"{archive.sha256}  {archive.file}\n" for archive in archives)
        (folder / "SHA256SUMS").write_bytes(sums.encode())
    return index


def publish(run: Run, folder: Path, onnxruntime_web: Path | None) -> PublishedModel:
    """Write the archives and the card of a run into `folder`, and return its entry for the index."""
    name, licence = run.path.resolve().name, licence_of_run(run)
    contents = published_files(run)
    if CARD not in contents:
        card = model_card(run, licence=licence.on_hub, terms=licence.terms, place=f"runs/{name}")
        contents[CARD] = card.encode()
    with opened(contents[CARD]) as source:
        (folder / f"{name}.md").write_bytes(source.read())
    exports, refused = publish_exports(run, name, folder, onnxruntime_web)
    return PublishedModel(
        name=name,
        task=run.config.task,
        subject=run.config.subject,
        directions=tuple(f"{src}-{tgt}" for src, tgt in run.config.directions if src != tgt),
        licence=licence.name,
        scores=tuple(main_scores(run)),
        archive=pack(contents, name, folder),
        exports=tuple(exports),
        refused=refused,
    )


def licence_of_run(run: Run) -> Licence:
    """Return the licence of the text that a run learnt from, joined where there are several."""
    stated = {
        licence_of(files)[0]
        for part, files in run.config.data.files()
        if part.partition(".")[0] == "train" and files
    }
    known = sorted({next((LICENCES[k] for k in LICENCES if s.startswith(k)), UNKNOWN) for s in stated})
    if len(known) == 1:
        return known[0]
    return Licence(
        " + ".join(one.name for one in known) or UNKNOWN.name,
        "other" if known else UNKNOWN.on_hub,
        " ".join(one.terms for one in known) or UNKNOWN.terms,
    )


def main_scores(run: Run) -> list[PublishedScore]:
    """Return the first score of each test set, such as BLEU or accuracy: that of its newest record."""
    scores = {}
    for record in saved_scores(run):
        if "alterations" not in record and record["scores"]:
            first = record["scores"][0]
            interval = first.get("interval")
            scores[record["name"]] = PublishedScore(
                test_set=record["name"],
                metric=first["name"],
                value=round(first["value"], 2),
                interval=None if interval is None else (round(interval[0], 2), round(interval[1], 2)),
            )
    return list(scores.values())


def publish_exports(
    run: Run, name: str, folder: Path, onnxruntime_web: Path | None
) -> tuple[list[PublishedExport], dict[str, str]]:
    """Write an archive for each format that can express the run; return them, and why others cannot."""
    exports, refused = [], {}
    for to in FORMATS:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / to
            package = onnxruntime_web if to == "browser" else None
            try:
                export_run(run.path, out, to=to, onnxruntime_web=package)
            except MissingExtraError:
                raise
            except DragomanError as error:
                refused[to] = str(error)
                continue
            files: dict[str, bytes | str] = {
                path.relative_to(out).as_posix(): str(path) for path in out.rglob("*") if path.is_file()
            }
            exports.append(PublishedExport(to=to, archive=pack(files, f"{name}-{to}", folder)))
    return exports, refused


def pack(contents: Mapping[str, bytes | str], name: str, folder: Path) -> Archive:
    """Write name.tar.gz: files, given as content or where it is, in a folder `name`.

    Equal files give equal bytes: no times, owners or rights of this machine are written.
    """
    path = folder / f"{name}.tar.gz"
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for file in sorted(contents):
                member = tarfile.TarInfo(f"{name}/{file}")
                with opened(contents[file]) as source:
                    member.size = source.seek(0, io.SEEK_END)
                    source.seek(0)
                    tar.addfile(member, source)
        unpacked = packed.tell()
    return Archive(
        file=path.name,
        size=path.stat().st_size,
        sha256=checksum_of(path, "sha256"),
        n_files=len(contents),
        unpacked=unpacked,
    )


def opened(content: bytes | str) -> BinaryIO:
    """Open a file that is given as its content, or as where it is."""
    return io.BytesIO(content) if isinstance(content, bytes) else Path(content).open("rb")


if __name__ == "__main__":
    main()
