"""A run directory: everything a training writes and everything a translation needs.

    config.toml            every setting, resolved
    tokenizer/             the vocabularies
    model.safetensors      the weights to use, and their hash
    shortlist.safetensors  what may translate what, of a translator (`dragoman.predict.shortlist`)
    checkpoints/           what a training continues from
    history.jsonl          one JSON object a log line
    corpora.json           the hashes of the text it is trained on
    report.json, environment.json

Files are written beside their place and renamed into it, so that a kill at any instant leaves the
old file or the new one. torch is imported where it is needed only.

A run may come from a stranger. Nothing is ever unpickled; no link leads out of its folder; and every file has
a size that is looked at before it is read.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict

from dragoman.config import Config, load_recipe, parse_json, to_toml
from dragoman.errors import ConfigError, RunError
from dragoman.files import cannot_write, locked, make_folder, write_atomically
from dragoman.hub import FILES, PREFIX, HubName, fetch, is_on_hub

if TYPE_CHECKING:
    from torch import Tensor

    from dragoman.model.weights import Weights

SCORES = "scores.json"
"""Where a run keeps the scores of its test sets."""

OURS = ("tokenizer", "checkpoints", "ctranslate2", "cache")
"""The folders of a run that Dragoman reads or writes."""

CORPORA = "corpora.json"
"""Where a run keeps the hashes of the text it is trained on, by which it recognises that text."""

OUR_FILES = {*FILES, "history.jsonl", CORPORA}
"""The files beside these folders that Dragoman reads or writes."""

LIMITS = ("max_steps", "max_epochs", "max_minutes", "patience")
"""The settings of [training] that only say when it ends; 0 = no limit."""

ABANDONED = 24 * 3600
"""Seconds after which a temporary file is nobody's."""

MAX_JSON = 16 << 20
"""Bytes of a JSON file of a run, at most; tokenizers have a limit of their own."""

MAX_HISTORY = 1 << 30
"""Bytes of history.jsonl, at most."""


@dataclass(frozen=True)
class Run:
    """One run directory. Make it with `create` or `open`."""

    path: Path
    config: Config
    origin: HubName | None = None
    """Where on the hub it is from: then it lies in the hub's cache, which keeps no scores."""

    @classmethod
    def create(cls, path: str | Path, config: Config) -> Run:
        """Return the run in `path`, made with its config.toml if it is not there yet.

        A run that is there already is returned, to be continued; test sets that it does not name yet, and
        LIMITS above its own, are written to its config.toml. One that has learnt nothing yet takes other
        settings. RunError: a run that has begun has other settings (the message names them), or is damaged,
        or holds no checkpoint to continue from, or the folder cannot be written.
        """
        run = cls(Path(path), config)
        leftover = [p.name for p in (run.weights_path, run.checkpoints, run.history_path) if p.exists()]
        if not run.config_path.exists():
            if leftover:
                raise RunError(
                    f"{run.path}: holds {', '.join(leftover)} but no config.toml; choose another folder"
                )
            make_folder(run.path)
            write_atomically(run.config_path, to_toml(config).encode())
            return run
        existing = cls.open(path)
        old, new = existing.config.data.test, config.data.test
        raised = _with_raised_limits(existing.config, config)
        merged = _with_tests(raised, {**new, **old})
        asked = _with_tests(config, {**old, **new})
        changed = list(differences(merged.model_dump(), asked.model_dump()))
        if changed and leftover:
            raise RunError(
                f"{run.path}: holds a run with other settings ({'; '.join(changed)}); "
                "choose another folder, or use the same settings to continue it"
            )
        if changed:
            if run.tokenizer_folder.exists():
                shutil.rmtree(run.tokenizer_folder)
            for name in ("labels.json", CORPORA):
                (run.path / name).unlink(missing_ok=True)
            merged = config
        if raised is not existing.config and (run.path / "report.json").exists():
            if not any(run.checkpoints.glob("step-*")):
                raise RunError(
                    f"{run.path}: is finished and holds no checkpoint to continue from; train it further in "
                    f"another folder, with --from {run.path}"
                )
            (run.path / "report.json").unlink()
        if merged == existing.config:
            return existing
        write_atomically(run.config_path, to_toml(merged).encode())
        return cls(Path(path), merged, existing.origin)

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open the run in the folder `path`, or on the hub: hf:user/model or hf:user/model@revision.

        RunError: there is none, its config.toml cannot be understood, or a link leads out of its folder; the
        hub does not give it. MissingExtraError: huggingface_hub is not installed.
        """
        if is_on_hub(path):
            name = HubName.parse(Path(path).as_posix())
            run = cls.open(fetch(name))
            return cls(run.path, run.config, name)
        path = Path(path)
        if not path.is_dir():
            raise RunError(f"{path}: there is no such folder; give the path of a run that was trained")
        _check_files(path)
        config_path = path / "config.toml"
        if not config_path.exists():
            raise RunError(f"{path}: is not a run, for it holds no config.toml; give the path of a run")
        try:
            return cls(path, load_recipe(config_path))
        except ConfigError as error:
            raise RunError(f"{error} (the file was edited, or written by another version)") from error

    @property
    def config_path(self) -> Path:
        return self.path / "config.toml"

    @property
    def tokenizer_folder(self) -> Path:
        return self.path / "tokenizer"

    @property
    def weights_path(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def history_path(self) -> Path:
        return self.path / "history.jsonl"

    def files(self) -> list[Path]:
        """Return the files that the run consists of; none that a user put beside them."""
        return [path for path in _entries(self.path) if path.parent != self.path or path.name in OUR_FILES]

    def save_weights(self, weights: Mapping[str, Tensor], *, probe: str = "") -> None:
        """Write model.safetensors, with what is computed with them. RunError: it cannot be written."""
        from dragoman.tensors import save_tensors

        save_tensors(self.weights_path, weights, probe=probe)

    def load_weights(self) -> dict[str, Tensor]:
        """Read the weights to use. RunError: there are none yet, or the file is damaged."""
        from dragoman.tensors import to_tensors

        return to_tensors(self.load_arrays())

    def load_arrays(self) -> Weights:
        """Read the same as arrays of NumPy. RunError: as `load_weights`."""
        from dragoman.tensors import load_arrays

        return load_arrays(self._trained_weights())

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the name and shape of every weight, without reading them. RunError: as `load_weights`."""
        from dragoman.tensors import tensor_shapes

        return tensor_shapes(self._trained_weights())

    def _trained_weights(self) -> Path:
        """Return `weights_path`. RunError: there is no such file yet."""
        if not self.weights_path.exists():
            raise RunError(
                f"{self.path}: holds no model.safetensors yet; train it until its first validation"
            )
        return self.weights_path

    def text_hashes(self) -> dict[str, Any]:
        """Return the hashes of the text that it is trained on, as `hashes_of` has them; {} if none are kept.

        RunError: the file is damaged.
        """
        return self.read_json(CORPORA) if (self.path / CORPORA).exists() else {}

    def check_corpora(self) -> None:
        """RunError: it is a run of the hub, and names corpora that are files of this machine."""
        for name, files in self.config.data.files() if self.origin else ():
            for file in filter(is_private, files):
                raise RunError(
                    f"{self.origin}: names {file} as data.{name}; a run of the hub cannot choose among your "
                    "files: say what to score it on"
                )

    def append_history(self, record: Mapping[str, Any]) -> None:
        """Add one line to history.jsonl; NaN and infinity, which JSON has not, become null.

        RunError: it cannot be written.
        """
        line = json.dumps(_jsonable(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            with self.history_path.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 1))
                if size and file.read(1) != b"\n":  # what a kill left half-written
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
                file.write(line)
        except OSError as error:
            raise cannot_write(self.history_path, error) from error

    def history(self) -> list[dict[str, Any]]:
        """Return the records of history.jsonl; a last line that a kill left half-written is no record.

        RunError: a line is not a JSON object, or the file is too large.
        """
        check_size(self.history_path, MAX_HISTORY)
        try:
            *lines, _ = self.history_path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                record = parse_json(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise RunError(f"{self.history_path}, line {number}: is not a JSON object; remove the line")
            if not isinstance(record.get("step", 0), int):
                raise RunError(f"{self.history_path}, line {number}: its step is no number; remove the line")
            records.append(record)
        return records

    def truncate_history(self, step: int, *, also: Sequence[str] = ()) -> None:
        """Remove what a training continued at `step` writes again: later steps, and a closing average.

        `also`: kinds of lines about `step` itself that came after its checkpoint.
        """
        if not self.history_path.exists():
            return
        kept = [
            record
            for record in self.history()
            if record.get("step", 0) <= step
            and record.get("kind") != "average"
            and not (record.get("step") == step and record.get("kind") in also)
        ]
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in kept]
        write_atomically(self.history_path, "".join(lines).encode())

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file such as report.json; NaN and infinity become null. RunError: it cannot be written."""
        text = json.dumps(_jsonable(content), indent=2, ensure_ascii=False, allow_nan=False)
        write_atomically(self.path / name, text.encode() + b"\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a file such as report.json. RunError: it is missing, damaged or too large."""
        path = self.path / name
        check_size(path, MAX_JSON)
        try:
            content = parse_json(path.read_bytes())
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); is the training finished?") from error
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise RunError(f"{path}: is damaged, for it holds no JSON object; remove it and write it again")
        return content


@contextmanager
def only_writer(path: str | Path) -> Iterator[None]:
    """Keep other processes from writing the run in the folder `path`, which is made if need be.

    Temporary files that a killed process left there are deleted.

    Raises:
        RunError: another process is writing the run; the message names it. The folder cannot be written.
    """
    path = Path(path)
    make_folder(path)
    with locked(path / ".lock", what=path):
        for leftover in path.glob(".*.tmp"):
            with suppress(OSError):
                if time.time() - leftover.stat().st_mtime > ABANDONED:
                    leftover.unlink()
        yield


def is_private(file: str) -> bool:
    """Whether a file of a corpus is outside the working directory, or at an address that is not of the web.

    Only relative names, the web and the hub are open to others; "hf:../folder" is a folder of this machine.
    """
    if "://" in file:
        return not file.startswith(("http://", "https://"))
    path = Path(file.removeprefix(PREFIX))
    return path.is_absolute() or ".." in path.parts


def _with_tests(config: Config, tests: Mapping[str, Any]) -> Config:
    return config.model_copy(update={"data": config.data.model_copy(update={"test": tests})})


def _with_raised_limits(config: Config, newer: Config) -> Config:
    """Return `config` with the LIMITS of `newer`, or as it is if these are the same or one is lower."""
    before, after = ([getattr(one.training, name) or math.inf for name in LIMITS] for one in (config, newer))
    if before == after or any(new < old for old, new in zip(before, after, strict=True)):
        return config
    limits = {name: getattr(newer.training, name) for name in LIMITS}
    return config.model_copy(update={"training": config.training.model_copy(update=limits)})


class _Score(TypedDict):
    name: str
    value: float
    interval: NotRequired[Annotated[list[float], Field(min_length=2, max_length=2)] | None]
    signature: NotRequired[str]


class _Evaluation(TypedDict):
    name: str
    scores: list[_Score]


_KEPT_SCORES = TypeAdapter(list[_Evaluation])


def saved_scores(run: Run) -> list[dict[str, Any]]:
    """Return the scores that a run's scores.json holds, oldest first. RunError: the file is damaged."""
    if not (run.path / SCORES).exists():
        return []
    results: Any = run.read_json(SCORES).get("results")
    try:
        _KEPT_SCORES.validate_python(results, strict=True)
    except ValidationError as error:
        raise RunError(f"{run.path / SCORES}: is damaged; remove it and evaluate again") from error
    return list(results)


def differences(earlier: Mapping[str, Any], current: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Each setting that differs, in words; nested settings by their dotted names."""
    for name in sorted({*earlier, *current}):
        old, new = earlier.get(name), current.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name} is {_said(old)} there, {_said(new)} here"


def check_size(path: Path, n_bytes: int) -> None:
    """RunError: the file `path` is larger than `n_bytes`, which none that Dragoman writes is."""
    with suppress(OSError):
        if path.stat().st_size > n_bytes:
            raise RunError(
                f"{path}: has {path.stat().st_size:,} bytes, and {n_bytes:,} at most can be right; "
                "it is no file of Dragoman's"
            )


def _check_files(folder: Path) -> None:
    """RunError: something in the run's folder is neither file nor folder, or a link that leads out of it.

    The hub's cache keeps files in a folder beside that of a version, to which links may lead.
    """
    root = folder.resolve()
    homes = [root, *([root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [])]
    for path in _entries(folder):
        try:
            target = path.resolve() if path.is_symlink() else path
        except (OSError, RuntimeError) as error:  # which of the two it is depends on Python's version
            raise RunError(f"{path}: is a link that leads nowhere; remove it") from error
        if target is not path and not any(target.is_relative_to(home) for home in homes):
            raise RunError(
                f"{path}: is a link out of the run's folder, to {target}; a run holds its own files: copy it"
            )
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise RunError(f"{path}: is neither a file nor a folder; remove it")


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a run's folder, and of its own subfolders at any depth."""
    try:
        yield from folder.iterdir()
    except OSError as error:
        raise RunError(f"{folder}: cannot be read ({error.strerror}); check its rights") from error
    for name in OURS:
        for inner, folders, files in os.walk(folder / name):  # follows no link
            yield from (Path(inner, entry) for entry in (*folders, *files))


def _jsonable(value: Any) -> Any:
    """`value` with every NaN and infinity in it replaced by None."""
    if isinstance(value, Mapping):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _said(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
