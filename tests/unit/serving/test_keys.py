"""API keys of a service: a file of keys holds exactly the keys that were shown, under concurrent changes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.serving import access
from dragoman.serving.access import Keys, make_key, read_keys, revoke_key


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def test_a_key_is_made_once_for_a_name(file: Path) -> None:
    key = succeed("key", "add", "ann", "--file", file).stdout.strip()
    assert len(key) >= 43  # 256 bits in base64
    assert key not in file.read_text()
    assert Keys.load(file).user(key) == access.User("ann")
    assert "already" in error_of("key", "add", "ann", "--file", file)
    assert "is no name" in error_of("key", "add", "a b", "--file", file)
    file.write_text("keys = 3")
    assert str(file) in error_of("key", "add", "bob", "--file", file)


def test_keys_are_listed_with_their_rates_and_without_their_hashes(file: Path) -> None:
    key = succeed("key", "--file", file, "--per-minute", 600, "ann").stdout.strip()  # short for key add
    assert Keys.load(file).user(key) == access.User("ann", 600)
    make_key(file, "bob")
    assert succeed("key", "list", "--file", file).stdout == "ann\t600\nbob\t-\n"
    link = file.with_name("link")
    link.symlink_to(link)
    for command in (["key", "add", "ann"], ["key", "revoke", "ann"], ["key", "list"]):
        assert f"{link}: cannot be " in error_of(*command, "--file", link)


def test_a_revoked_key_is_refused_and_the_others_are_good(file: Path) -> None:
    ann, bob = make_key(file, "ann"), make_key(file, "bob", per_minute=3)
    assert "until then the key stays valid" in succeed("key", "revoke", "ann", "--file", file).stderr
    keys = Keys.load(file)
    assert keys.user(ann) is None
    assert keys.user(bob) == access.User("bob", 3)
    assert "has no key of the name ann; it has bob" in error_of("key", "revoke", "ann", "--file", file)
    assert "bob is its last key" in error_of("key", "revoke", "bob", "--file", file)
    assert keys == Keys.load(file)


def test_keys_that_are_made_and_revoked_at_once_are_all_kept(file: Path) -> None:
    make_key(file, "old")
    names = [f"user{i}" for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        shown = dict(zip(names, pool.map(lambda name: make_key(file, name), names), strict=True))
        list(pool.map(lambda name: revoke_key(file, name), names[::2]))
    kept = Keys.load(file)
    assert set(read_keys(file)) == {"old", *names[1::2]}
    for i, (name, key) in enumerate(shown.items()):
        assert kept.user(key) == (access.User(name) if i % 2 else None)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_key_that_cannot_be_printed_is_not_kept(file: Path) -> None:
    make_key(file, "bob")
    before = file.read_bytes()
    program = f"'{sys.executable}' -m dragoman key add ann --file '{file}' > /dev/full"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    why = "No space left on device; nobody has seen the key, so it is not kept"
    assert done.stderr == f"error: stdout: {why}\n"
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_new_file_of_keys_is_for_its_user_alone_and_another_keeps_its_rights(file: Path) -> None:
    make_key(file, "ann")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    make_key(file, "bob")
    assert file.stat().st_mode & 0o777 == 0o640
    link = file.with_name("link.toml")
    link.symlink_to(file)
    make_key(link, "eve")
    assert link.is_symlink()
    assert set(read_keys(file)) == {"ann", "bob", "eve"}
