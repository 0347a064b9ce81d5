"""API keys and rate limits of a service."""

from __future__ import annotations

import hashlib
import hmac
import mmap
import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from pydantic import Field, PrivateAttr

from dragoman.config import MAX_COUNT, Settings, parse_section, read_settings
from dragoman.errors import ConfigError, DataError
from dragoman.files import cannot_write, destination, locked, replacing

LOCK_SECONDS = 10.0
"""Seconds that a change of the key file waits for the lock."""

N_SLOTS = 1 << 16
"""Hash slots of the rate limiter; users that share a slot, which is improbable, share a rate."""


class KeyConfig(Settings):
    """The stored data of a key, without the key itself."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Hash of the key. Keys have 256 random bits, so that a fast hash is sufficient."""
    per_minute: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Rate limit in requests per minute; 0 = limits.per_minute."""


@dataclass(frozen=True)
class User:
    """The sender of a request: the name of a key, or an address."""

    name: str
    per_minute: int = 0


class Keys(Settings):
    """The keys of a service: the content of a key file."""

    keys: dict[str, KeyConfig]
    """Keys by user name."""
    _path: Path = PrivateAttr()
    """The file that they were read from."""

    @classmethod
    def load(cls, path: Path) -> Keys:
        """Return the keys in a file that `make_key` wrote.

        ConfigError: it is missing or damaged, or has none.
        """
        keys = read_keys(path)
        if not keys:
            raise ConfigError(
                f"{path}: holds no key; make one with: dragoman key add NAME --file {shlex.quote(str(path))}"
            )
        loaded = cls(keys=keys)
        loaded._path = path
        return loaded

    def reloaded(self) -> Keys:
        """Return the keys that their file holds now. ConfigError: as `load`."""
        return Keys.load(self._path)

    def user(self, key: str) -> User | None:
        """Return the user of a key; compares with all keys in constant time."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        owner = None
        for name, entry in self.keys.items():
            if hmac.compare_digest(digest, entry.sha256):
                owner = User(name, entry.per_minute)
        return owner


def make_key(
    path: Path, name: str, *, per_minute: int = 0, show: Callable[[str], object] = lambda key: None
) -> str:
    """Make a key for `name` and add its hash to the file `path`. The key itself is kept nowhere.

    `show` is given the key before the file is replaced: what it raises leaves the file as it was.

    Raises:
        ConfigError: the file is damaged.
        DataError: the file has a key of that name, or the name is malformed.
        RunError: the file cannot be written, or another process keeps it locked.
    """
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise DataError(f"{name!r}: is no name for a key; take up to 64 letters, digits, and . _ - @")
    key = secrets.token_urlsafe(32)
    with _changing(path) as keys:
        if name in keys:
            raise DataError(
                f"{path}: has a key of the name {name} already; take another name, or revoke that key first"
            )
        keys[name] = KeyConfig(sha256=hashlib.sha256(key.encode()).hexdigest(), per_minute=per_minute)
        show(key)
    return key


def revoke_key(path: Path, name: str) -> None:
    """Take the key of `name` out of the file `path`.

    Raises:
        ConfigError: the file is missing or damaged.
        DataError: the file has no key of that name, or only that one.
        RunError: as `make_key`.
    """
    with _changing(path, is_there=True) as keys:
        if keys.pop(name, None) is None:
            raise DataError(f"{path}: has no key of the name {name}; it has {', '.join(keys) or 'none'}")
        if not keys:
            raise DataError(
                f"{path}: {name} is its last key, without which no service starts; add another one first, or "
                "stop the service"
            )


def read_keys(path: Path) -> dict[str, KeyConfig]:
    """Read the keys of the file `path`, by user name. ConfigError: missing or damaged."""
    return parse_section(Keys, read_settings(path), where=str(path)).keys


@contextmanager
def _changing(path: Path, *, is_there: bool = False) -> Iterator[dict[str, KeyConfig]]:
    """Yield the keys of a file, to be changed, then replace it; only this user can read a new one."""
    try:
        target = destination(path) or path
    except OSError as error:
        raise cannot_write(path, error) from error
    with locked(target.with_name(f".{target.name}.lock"), what=path, wait=LOCK_SECONDS):
        keys = read_keys(path) if is_there or path.exists() else {}
        with replacing(path, mode=None if path.exists() else 0o600) as file:
            yield keys
            file.write(tomli_w.dumps(Keys(keys=keys).model_dump()).encode())


class Rates:
    """A rate limiter in memory that all workers of a service share.

    The generic cell rate algorithm stores one time per user: when the requests so far would have arrived at
    the allowed rate. A burst of one minute's requests is allowed. Create it before the workers are forked.
    """

    def __init__(self) -> None:
        self._due = memoryview(mmap.mmap(-1, 8 * N_SLOTS)).cast("d")

    def wait(self, user: str, per_minute: int) -> float:
        """Count a request of `user`; return 0, or the seconds until the next allowed request.

        The update is not atomic among workers: in a race, one request more is allowed.
        """
        now = time.time()
        slot = int.from_bytes(hashlib.sha256(user.encode("utf-8", "replace")).digest()[:4], "big") % N_SLOTS
        due = max(self._due[slot], now) + 60 / per_minute
        early = due - now - 60
        if early > 1e-9:
            return early
        self._due[slot] = due
        return 0.0
