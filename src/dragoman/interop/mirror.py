"""Trained models on a mirror: a folder, or a server of static files, with an index.

    models.json               what there is: `Index`
    SHA256SUMS                the same sums, as `sha256sum -c` reads them
    tatoeba-many.tar.gz       a run, in a folder of its name
    tatoeba-many.md           its model card, to read before anything is fetched
    tatoeba-many-onnx.tar.gz  the run as `dragoman export` writes it

tools/release_models.py writes such a folder.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError

from dragoman.config import Section
from dragoman.data.catalog import Progress
from dragoman.data.catalog.archives import Limits, members, write_member
from dragoman.data.catalog.download import DownloadError, check_room, checksum_of, download
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.files import cache_folder, cannot_write, new_folder, refuse_existing, room_for
from dragoman.hub import FILES, HubName, is_on_hub, is_published
from dragoman.runs import Run

SETTING = "DRAGOMAN_MODELS"
"""The environment variable that names a mirror."""
INDEX = "models.json"
MAX_INDEX = 16 << 20
"""Bytes of an index, at most."""

PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
ShortText = Annotated[str, Field(max_length=300)]


class _Entry(Section):
    """A part of an index. Later versions may say more: unknown names are skipped."""

    model_config = ConfigDict(extra="ignore")


class Archive(_Entry):
    """A .tar.gz with one folder of files."""

    file: PlainName
    size: int = Field(ge=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    n_files: int = Field(ge=1, le=100_000)
    unpacked: int = Field(ge=1, le=Limits.n_bytes)
    """Bytes of the archive, decompressed."""


class PublishedScore(_Entry):
    """The main score of a test set."""

    test_set: ShortText
    metric: ShortText
    value: float
    interval: tuple[float, float] | None
    """Of 95 %."""


class PublishedExport(_Entry):
    """A run for another runtime."""

    to: ShortText
    archive: Archive


class PublishedModel(_Entry):
    """A run on a mirror."""

    name: PlainName
    task: Literal["translation", "classification"]
    subject: ShortText
    """What it learnt, such as "en ↔ de"."""
    directions: tuple[ShortText, ...] = Field(max_length=10_000)
    """Such as "en-de"; none of a classifier."""
    licence: ShortText
    scores: tuple[PublishedScore, ...] = Field(max_length=10_000)
    archive: Archive
    exports: tuple[PublishedExport, ...] = Field(max_length=100)
    refused: dict[ShortText, str]
    """Why there is no export: the reason, by runtime."""


class Index(_Entry):
    """The content of `INDEX`."""

    format: Literal[1]
    models: tuple[PublishedModel, ...] = Field(max_length=10_000)


@dataclass(frozen=True)
class Mirror:
    """A place with models: a folder of this machine, or an http(s) address."""

    source: str
    models: tuple[PublishedModel, ...]

    @classmethod
    def open(cls, source: str | None = None) -> Mirror:
        """Read the index of a mirror. None: the one that $DRAGOMAN_MODELS names.

        ConfigError: no mirror is named. DataError: its index cannot be read.
        """
        source = (source or os.environ.get(SETTING, "")).rstrip("/")
        if not source:
            raise ConfigError(
                "there is no public address of models yet; name a mirror (an http(s) address, or a folder) "
                f"with --from or {SETTING}, name a model of the hub (hf:user/model), or train one: "
                "dragoman reproduce"
            )
        where = f"{source}/{INDEX}"
        try:
            index = Index.model_validate_json(_read_index(source, where))
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"])) or "the file"
            raise DataError(
                f"{where}: is not an index of models that this version reads ({place}: {problem['msg']}); "
                "check the address, or install a newer Dragoman"
            ) from None
        return cls(source, index.models)

    def model(self, name: str) -> PublishedModel:
        """Return the model of this name. DataError: no model has it; the message lists the names."""
        known = {model.name: model for model in self.models}
        if name in known:
            return known[name]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none'}"
        raise DataError(f"{name}: {self.source} has no model of this name; {hint}")

    @contextmanager
    def fetched(self, model: PublishedModel, progress: Progress) -> Iterator[Path]:
        """Lend the archive of a model, complete and with the sum of the index.

        It is downloaded to the cache, and removed from there when the block ends without an error. An
        interrupted download is continued by the next one.

        DataError: it cannot be had, or is not what the index says.
        """
        archive, checksum = model.archive, f"sha256:{model.archive.sha256}"
        if not _is_address(self.source):
            path = Path(self.source) / archive.file
            if (found := checksum_of(path, "sha256")) != archive.sha256:
                raise DataError(
                    f"{path}: its sha256 is {found}, the one in {INDEX} is {archive.sha256}; copy the mirror "
                    "again"
                )
            yield path
            return
        folder = cache_folder() / "models" / model.name
        try:
            arrived = download(
                [f"{self.source}/{archive.file}"],
                folder / f"{archive.sha256[:16]}-{archive.file}",
                checksum=checksum,
                checksum_origin="index's",
                max_bytes=archive.size,
                progress=lambda n_bytes, total: progress(archive.file, n_bytes, total),
            )
        except DataError as error:
            raise DataError(f"{error}; run the same command again, or name another mirror") from None
        yield arrived.path
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # there are others in it
            folder.parent.rmdir()


def get_model(
    name: str,
    out: str | Path | None = None,
    *,
    source: str | None = None,
    progress: Progress = lambda file, n_bytes, total: None,
) -> Run:
    """Fetch a run into the new folder `out`, by default runs/ and its name; return it.

    `name` is one of a mirror, or of the hub: hf:user/model. The mirror is `source`, or that of
    $DRAGOMAN_MODELS. The folder appears when all is in it.

    ConfigError: no mirror is named. DataError: the mirror has no such model, it cannot be downloaded, is not
    what the index says, or holds what a run has no use for. RunError: `out` is there already or cannot be
    written, or the hub does not give the run.
    """
    if is_on_hub(name):
        if source is not None:
            raise ConfigError(f"{name}: is a name of the hub, and --from names a mirror; omit one of them")
        hub_name = HubName.parse(name)
        out = Path(out or f"runs/{hub_name.model.partition('/')[2]}")
        refuse_existing(out)
        return _copied(Run.open(name), out)
    mirror = Mirror.open(source)
    model = mirror.model(name)
    out = Path(out or f"runs/{model.name}")
    refuse_existing(out)
    with mirror.fetched(model, progress) as archive, room_for(out):
        with new_folder(out) as folder:
            check_room(folder, model.archive.unpacked, what=model.name)
            _unpack(archive, folder, model)
            _check(folder, model.name)
        return Run.open(out)


def _unpack(archive: Path, folder: Path, model: PublishedModel) -> None:
    """Write the files of a run. DataError: the archive holds something else, or more than the index says."""
    limits = Limits(n_bytes=model.archive.unpacked, n_files=model.archive.n_files)
    for name, content in members(archive, limits=limits):
        top, _, file = name.partition("/")
        if top != model.name or not is_published(file):
            raise DataError(f"{archive}: holds {name!r}, which is not a file of a run; do not use it")
        write_member(folder.joinpath(*PurePosixPath(file).parts), content, archive=archive)


def _check(folder: Path, name: str) -> None:
    """DataError: what was fetched is not a run that can be used."""
    try:
        run = Run.open(folder)
    except RunError as error:
        raise DataError(f"{name}: holds no run ({error}); do not use it") from None
    if not run.weights_path.is_file():
        raise DataError(f"{name}: holds no {run.weights_path.name}; do not use it")
    _refuse_outside_corpus(run, name)


def _refuse_outside_corpus(run: Run, name: str) -> None:
    """DataError: the run would make this machine read files that a stranger chose."""
    if named := run.outside_corpus():
        raise DataError(
            f"{name}: names {named[1]} as data.{named[0]}; a model from elsewhere cannot choose among your "
            "files: do not use it"
        )


def _copied(run: Run, out: Path) -> Run:
    """Copy a run of the hub out of the hub's cache. DataError: it is not one that can be used."""
    files = [path for pattern in FILES for path in sorted(run.path.glob(pattern))]
    with room_for(out), new_folder(out) as folder:
        for file in files:
            target = folder / file.relative_to(run.path)
            try:
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, target)
            except OSError as error:
                raise cannot_write(out, error) from None
        _check(folder, str(run.origin))
    return Run.open(out)


def _is_address(source: str) -> bool:
    return bool(re.match("https?://", source, re.IGNORECASE))


def _read_index(source: str, where: str) -> bytes:
    """Return the content of an index. DataError: it cannot be had, or is too large."""
    if _is_address(source):
        with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
            try:
                return download([where], Path(folder) / INDEX, max_bytes=MAX_INDEX).path.read_bytes()
            except DownloadError as error:
                raise DownloadError(f"{error}; check the address in --from or {SETTING}") from None
    try:
        with Path(where).open("rb") as file:
            content = file.read(MAX_INDEX + 1)
    except OSError as error:
        raise DataError(
            f"{where}: cannot be read ({error.strerror}); name the folder, or the http(s) address, of a "
            f"mirror with --from or {SETTING}"
        ) from None
    if len(content) > MAX_INDEX:
        raise DataError(f"{where}: has more than {MAX_INDEX:,} bytes, which no index has; check the address")
    return content
