"""Copies of small runs with one file damaged, and the commands that read them."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attacks.calls import TINY, Ended, Fault, Show, Stage, call, faults_of, settings

ACTIONS: dict[str, tuple[str, list[str]]] = {
    "translate": ("run", ["translate", "run", "text.en"]),
    "classify": ("classifier", ["classify", "classifier", "text.en"]),
    "show": ("run", ["show", "run"]),
    "card": ("run", ["card", "run"]),
    "evaluate": ("run", ["evaluate", "run", "--src", "test.en", "--ref", "test.de", "--json"]),
    "score": ("run", ["score-model", "run", "test.en", "test.de"]),
    "export": ("run", ["export", "run", "--to", "ctranslate2", "--out", "out", "--sentences", "2"]),
    "resume": (
        "paused",
        ["train", "recipe.toml", *settings(TINY), "--set", "training.max_steps=6", "--out", "paused"],
    ),
}
"""The run that is damaged, and the command that is given it."""
WEIGHTS = {
    "translate": 4,
    "classify": 2,
    "show": 2,
    "card": 1,
    "evaluate": 1,
    "score": 2,
    "export": 1,
    "resume": 3,
}

DESCRIBES = ("show", "card")
"""They tell what there is; what is gone they cannot tell."""

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), "", "x", "../../x", "\x1b[2J", [], {},
    [[]], "x" * 10**5,
)  # fmt: skip


class Runs:
    """Damaged run directories."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.whole: dict[str, bytes] = {}
        """What the commands give before the damage."""

    def close(self) -> None:
        """There is nothing to close."""

    def result(self, action: str, damage: Callable[[Path], None] = lambda run: None) -> tuple[Ended, bytes]:
        """Return exit code and output of a command for a run damaged by `damage`."""
        name, argv = ACTIONS[action]
        texts = [f"{part}.{side}" for part in ("train", "valid", "test") for side in ("en", "de")]
        folder = self.stage.fresh(name, "recipe.toml", *texts)
        shutil.copy(folder / "test.en", folder / "text.en")
        (folder / "secret.txt").write_text("secret\n")
        damage(folder / name)
        ended = call(argv, folder)
        given = ended.stdout
        if action in ("export", "resume"):
            files = [*(folder / "out").rglob("*.bin"), folder / name / "model.safetensors"]
            given = b"".join(path.read_bytes() for path in files if path.is_file())
        return ended, re.sub(rb'"[a-z_]*second[a-z_]*": [0-9.e-]+', b"", given)

    def faults(self, seed: int, show: Show) -> list[Fault]:
        rng = random.Random(f"runs:{seed}")
        action = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if action not in self.whole:
            self.whole[action] = self.result(action)[1]
        done: list[str] = []
        ended, given = self.result(action, lambda run: done.extend(damage(rng, run)))
        what, certain = done[0], done[1] == "certain"
        show(f"{action}, {what}; files in {self.stage.case}: dragoman {' '.join(ACTIONS[action][1])}")
        show(f"exit code {ended.code}\nstdout {ended.stdout[:1500]!r}\nstderr {ended.stderr[-3000:]}")
        found = [(sort, f"{action}, {what}: {text}") for sort, text in faults_of(ended)]
        if not found and ended.code == 0 and given != self.whole[action]:
            certain = certain and action not in DESCRIBES
            found.append(("wrong" if certain else "undetectable", f"{action}, {what}: another result"))
        return found


def damage(rng: random.Random, run: Path) -> tuple[str, str]:
    """Damage one file of a run: what was done, and "certain" if it cannot have given another whole run."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    likely = [
        path
        for path in files
        if path.parent.name == "tokenizer" or path.name in ("config.toml", "model.safetensors")
    ]
    path = rng.choice(likely if likely and rng.random() < 0.5 else files)
    name, content = path.relative_to(run), path.read_bytes()
    act = rng.choice(ACTS + [_edited] * 5)
    if act is _edited:
        edited = _edited(rng, path, content)
        if edited is not None:
            path.write_bytes(edited)
            return f"{name} edited", "perhaps"
        act = _flip
    certain = act(rng, path, content, files)
    structured = path.suffix in (".safetensors", ".json")
    return f"{name} {act.__name__.strip('_')}", "certain" if certain and structured else "perhaps"


def _truncate(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.write_bytes(content[: rng.randint(0, max(0, len(content) - 2))])
    return True


def _empty(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.write_bytes(b"")
    return True


def _delete(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.unlink()
    return False


def _delete_folder(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    shutil.rmtree(path.parent)
    return False


def _flip(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 50])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    path.write_bytes(changed)
    return False


def _zeros(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    start = rng.randint(0, len(content))
    path.write_bytes(content[:start] + bytes(len(content) - start))
    return False


def _zero_tensors(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    """Zero the numbers of a file of tensors and leave its head; of another file, all but its first bytes."""
    start = 8 + struct.unpack("<Q", content[:8])[0] if path.suffix == ".safetensors" else 8
    path.write_bytes(content[:start] + bytes(max(0, len(content) - start)))
    return True


def _append(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.write_bytes(content + rng.choice([b"\0", b"\0" * 4096, rng.randbytes(100), content, b"}"]))
    return False


def _swap(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    other = rng.choice(files)
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return False


def _folder(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.unlink()
    path.mkdir()
    return False


def _link(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.unlink()
    path.symlink_to(rng.choice([path.name, "nowhere", "../secret.txt", "/proc/self/mem", "/"]))
    return False


def _pipe(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.unlink()
    os.mkfifo(path)
    return False


def _holes(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    with path.open("r+b") as file:
        file.truncate(rng.choice([1 << 28, 1 << 36]))
    return False


def _nested(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.write_bytes(rng.choice([b"[", b'{"a":', b"a = ["]) * 100_000)
    return True


def _binary(rng: random.Random, path: Path, content: bytes, files: list[Path]) -> bool:
    path.write_bytes(
        rng.choice([rng.randbytes(500), b"\xff\xfe" + b"a\0" * 50, b"\x80\x04\x95", b"null", b"3"])
    )
    return True


ACTS = [
    _truncate, _truncate, _empty, _delete, _delete_folder, _flip, _flip, _flip, _zeros, _zero_tensors,
    _append, _swap, _folder, _link, _pipe, _holes, _nested, _binary,
]  # fmt: skip


def _edited(rng: random.Random, path: Path, content: bytes, *_: object) -> bytes | None:
    """Return a file of settings with one value or key changed; None: it holds none."""
    try:
        if path.suffix == ".json":
            return _edited_json(rng, content)
        if path.suffix == ".jsonl":
            lines = content.splitlines()
            i = rng.randrange(len(lines))
            lines[i] = _edited_json(rng, lines[i])
            return b"\n".join(lines) + b"\n"
        if path.suffix == ".toml":
            lines = content.splitlines()
            i = rng.choice([i for i, line in enumerate(lines) if b" = " in line])
            value = rng.choice(
                ["-1", "0", "1e400", "nan", '"x"', "[]", "{}", "9" * 400, "true", "'''", "2**3", '"\\u0007"']
            )
            lines[i] = lines[i].partition(b"=")[0] + b"= " + value.encode()
            lines += [b"extra = 1"] * (rng.random() < 0.2)
            return b"\n".join(lines) + b"\n"
        if path.suffix == ".safetensors":
            (length,) = struct.unpack("<Q", content[:8])
            header = _edited_json(rng, content[8 : 8 + length])
            return struct.pack("<Q", len(header)) + header + content[8 + length :]
    except (ValueError, IndexError):
        pass
    return None


def _edited_json(rng: random.Random, content: bytes) -> bytes:
    """JSON with one value, somewhere in it, replaced, removed or added."""
    value = json.loads(content)
    places = list(_places(value))
    if not places:
        return json.dumps(rng.choice(VALUES)).encode()
    holder, key = rng.choice(places)
    act = rng.random()
    if act < 0.7:
        holder[key] = rng.choice(VALUES)
    elif act < 0.85:
        del holder[key]
    elif isinstance(holder, dict):
        holder[rng.choice(["extra", "", "__class__", "x" * 5000])] = rng.choice(VALUES)
    else:
        holder.insert(0, rng.choice(VALUES))
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every key and index in `value`, with what it is in."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from _places(value[key])
