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

RESUME = ["train", "recipe.toml", *settings(TINY), "--set", "training.max_steps=6", "--out", "paused"]
ACTIONS: dict[str, tuple[int, str, list[str]]] = {
    "translate": (4, "run", ["translate", "run", "text.en"]),
    "classify": (2, "classifier", ["classify", "classifier", "text.en"]),
    "show": (2, "run", ["show", "run"]),
    "card": (1, "run", ["card", "run"]),
    "evaluate": (1, "run", ["evaluate", "run", "--src", "test.en", "--ref", "test.de", "--json"]),
    "score": (2, "run", ["score-model", "run", "test.en", "test.de"]),
    "export": (1, "run", ["export", "run", "--to", "ctranslate2", "--out", "out", "--sentences", "2"]),
    "resume": (3, "paused", RESUME),
}
"""How often, the run that is damaged, and the command that is given it."""
DESCRIBES = ("show", "card")
"""They tell what there is; what is gone they cannot tell."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), "", "x", "../../x", "\x1b[2J", [], {},
    [[]], "x" * 10**5,
)  # fmt: skip
TOML_VALUES = ("-1", "0", "1e400", "nan", '"x"', "[]", "{}", "9" * 400, "true", "'''", "2**3", '"\\u0007"')


class Runs:
    """Damaged run directories."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.whole: dict[str, bytes] = {}
        """What the commands give before the damage."""

    def result(self, action: str, damage: Callable[[Path], object] = str) -> tuple[Ended, bytes]:
        """Return exit code and output of a command for a run damaged by `damage`."""
        _, name, argv = ACTIONS[action]
        folder = self.stage.fresh(name, "recipe.toml")
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
        [action] = rng.choices(list(ACTIONS), [weight for weight, _, _ in ACTIONS.values()])
        if action not in self.whole:
            self.whole[action] = self.result(action)[1]
        done: list[tuple[str, bool]] = []
        ended, given = self.result(action, lambda run: done.append(damage(rng, run)))
        [(what, certain)] = done
        show(
            f"{action}, {what}; files in {self.stage.case}: dragoman {' '.join(ACTIONS[action][2])}\n{ended}"
        )
        found = [(sort, f"{action}, {what}: {text}") for sort, text in faults_of(ended)]
        if not found and ended.code == 0 and given != self.whole[action]:
            certain = certain and action not in DESCRIBES
            found.append(("wrong" if certain else "undetectable", f"{action}, {what}: another result"))
        return found


def damage(rng: random.Random, run: Path) -> tuple[str, bool]:
    """Damage one file of a run: what was done, and whether that cannot have given another whole run."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    likely = [
        p for p in files if p.parent.name == "tokenizer" or p.name in ("config.toml", "model.safetensors")
    ]
    path = rng.choice(likely if likely and rng.random() < 0.5 else files)
    name, content = path.relative_to(run), path.read_bytes()
    kind = rng.choice(["content", "content", "edit", "place"])
    if kind == "edit" and (edited := _edited(rng, path.suffix, content)) is not None:
        path.write_bytes(edited)
        return f"{name} edited", False
    if kind == "place":
        act = rng.choice(list(PLACES))
        PLACES[act](rng, path, rng.choice(files))
        return f"{name} {act}", False
    contents = _damaged(rng, path.suffix, content)
    act = rng.choice(list(contents))
    path.write_bytes(contents[act])
    structured = path.suffix in (".safetensors", ".json")
    return f"{name} {act}", structured and act in ("truncated", "empty", "tensors zeroed", "nested", "binary")


def _damaged(rng: random.Random, suffix: str, content: bytes) -> dict[str, bytes]:
    """Return other contents of a file, by what they are called."""
    flipped = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 50]) * bool(content)):
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    start = rng.randint(0, len(content))
    # The head of a file of tensors stays; of another file, its first bytes.
    head = 8 + (struct.unpack("<Q", content[:8])[0] if suffix == ".safetensors" else 0)
    return {
        "truncated": content[: rng.randint(0, max(0, len(content) - 2))],
        "empty": b"",
        "flipped": bytes(flipped),
        "zeroed": content[:start] + bytes(len(content) - start),
        "tensors zeroed": content[:head] + bytes(max(0, len(content) - head)),
        "longer": content + rng.choice([b"\0", b"\0" * 4096, rng.randbytes(100), content, b"}"]),
        "nested": rng.choice([b"[", b'{"a":', b"a = ["]) * 100_000,
        "binary": rng.choice([rng.randbytes(500), b"\xff\xfe" + b"a\0" * 50, b"\x80\x04\x95", b"null", b"3"]),
    }


def _swap(_: random.Random, path: Path, other: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _replace(make: Callable[[random.Random, Path], object]) -> Callable[[random.Random, Path, Path], None]:
    def replace(rng: random.Random, path: Path, _: Path) -> None:
        path.unlink()
        make(rng, path)

    return replace


def _link(rng: random.Random, path: Path) -> None:
    path.symlink_to(rng.choice([path.name, "nowhere", "../secret.txt", "/proc/self/mem", "/"]))


PLACES: dict[str, Callable[[random.Random, Path, Path], object]] = {
    "deleted": _replace(lambda rng, path: None),
    "deleted with its folder": lambda rng, path, other: shutil.rmtree(path.parent),
    "swapped": _swap,
    "a folder": _replace(lambda rng, path: path.mkdir()),
    "a link": _replace(_link),
    "a pipe": _replace(lambda rng, path: os.mkfifo(path)),
    "with holes": lambda rng, path, other: os.truncate(path, rng.choice([1 << 28, 1 << 36])),
}
"""What stands in a file's place."""


def _edited(rng: random.Random, suffix: str, content: bytes) -> bytes | None:
    """Return a file of settings with one value or key changed; None: it holds none."""
    try:
        if suffix == ".json":
            return _edited_json(rng, content)
        lines = content.splitlines()
        if suffix == ".jsonl":
            i = rng.randrange(len(lines))
            lines[i] = _edited_json(rng, lines[i])
            return b"\n".join(lines) + b"\n"
        if suffix == ".toml":
            i = rng.choice([i for i, line in enumerate(lines) if b" = " in line])
            lines[i] = lines[i].partition(b"=")[0] + b"= " + rng.choice(TOML_VALUES).encode()
            lines += [b"extra = 1"] * (rng.random() < 0.2)
            return b"\n".join(lines) + b"\n"
        if suffix == ".safetensors":
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
