"""Archives: good ones come out whole, and what an evil one tries is refused and leaves nothing behind."""

import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dragoman.data.catalog.archives import Limits, members, unpack
from dragoman.errors import DataError

FILES = {"set/a.txt": b"Zwei B\xc3\xbcsche.\n", "set/deep/er/b.txt": b"x" * 70_000, "c": b""}


def make_tar(path: Path, files: Mapping[str, bytes], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        folder = tarfile.TarInfo("set")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return path


def make_zip(path: Path, files: Mapping[str, bytes], *, mode: int = 0o644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("set/", b"")
        for name, content in files.items():
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = mode << 16
            zipped.writestr(member, content)
    return path


def make(path: Path, files: Mapping[str, bytes]) -> Path:
    return make_zip(path, files) if path.suffix == ".zip" else make_tar(path, files)


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def complaint(archive: Path) -> str:
    """What is said about the archive; nothing but the archive is there afterwards."""
    folder = archive.parent / "out"
    with pytest.raises(DataError) as error:
        unpack(archive, folder)
    assert sorted(p.name for p in archive.parent.iterdir()) == [archive.name]
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{archive}: ")
    return str(error.value)


KINDS = ["x.zip", "x.tar.gz"]


@pytest.mark.parametrize("name", KINDS)
def test_what_was_packed_comes_out(tmp_path: Path, name: str) -> None:
    archive = make(tmp_path / name, FILES)
    assert sorted(unpack(archive, tmp_path / "out")) == sorted(FILES)
    assert content_of(tmp_path / "out") == FILES
    assert {p.name for p in tmp_path.iterdir()} == {name, "out"}
    assert {name: content.read() for name, content in members(archive)} == FILES
    archive = make(tmp_path / f"other-{name}", {**FILES, "../evil": b"not asked for, so not looked at"})
    unpack(archive, tmp_path / "some", keep=lambda name: name == "set/a.txt")
    assert content_of(tmp_path / "some") == {"set/a.txt": FILES["set/a.txt"]}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("evil", ["/etc/evil", "../evil", "a/../../evil", "C:/evil", "a\\..\\evil", "a\nb"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str, evil: str) -> None:
    archive = make(tmp_path / name, {"good": b"1", evil: b"2"})
    assert complaint(archive) == (
        f"{archive}: holds a file named {evil!r}, which leads out of the folder; do not use it"
    )


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_devices_and_pipes_are_refused(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("special")
    member.type, member.linkname = kind, "../outside"
    mode = {tarfile.CHRTYPE: stat.S_IFCHR, tarfile.FIFOTYPE: stat.S_IFIFO}.get(kind, stat.S_IFLNK)
    for make_it in (
        lambda: make_tar(tmp_path / "x.tar.gz", {"good": b"1"}, member),
        lambda: make_zip(tmp_path / "x.zip", {"link": b"/etc/passwd"}, mode=mode | 0o777),
    ):
        archive = make_it()
        assert "is a link, a device or the like, not a plain file; do not use it" in complaint(archive)
        archive.unlink()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["x.zip", "x.tgz"])
def test_a_file_that_comes_twice_is_refused(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    if name == "x.zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("a", b"1")
            zipped.writestr("./a", b"2")
    else:
        make_tar(archive, {"a": b"1"}, tarfile.TarInfo("a"))
    assert complaint(archive).endswith("holds a twice; do not use it")


@pytest.mark.parametrize("name", KINDS)
def test_a_bomb_is_given_up_soon_even_if_it_is_not_wanted(tmp_path: Path, name: str) -> None:
    archive = make(tmp_path / name, {"bomb": bytes(12_000_000), "good": b"1"})
    assert "unpacks to more than 200 times its size, the most that is allowed" in complaint(archive)
    if name != "x.zip":  # where what is not wanted is not unpacked
        with pytest.raises(DataError, match="200 times"):
            unpack(archive, tmp_path / "out", keep=lambda name: name == "good")


@pytest.mark.parametrize("name", KINDS)
def test_too_much_and_too_many_are_refused(tmp_path: Path, name: str) -> None:
    archive = make(tmp_path / name, FILES)
    for limits, said in ((Limits(n_bytes=50_000), "50,000 bytes"), (Limits(n_files=2), "2 files")):
        with pytest.raises(DataError, match=f"unpacks to more than {said}, the most"):
            [content.read() for _, content in members(archive, limits=limits)]


@pytest.mark.parametrize("name", KINDS)
def test_an_archive_cut_short_is_reported(tmp_path: Path, name: str) -> None:
    archive = make(tmp_path / name, {"a": bytes(range(256)) * 300, "b": lzma.compress(bytes(range(256)) * 9)})
    data = archive.read_bytes()
    for share in (0.02, 0.6, 0.95):
        archive.write_bytes(data[: int(len(data) * share)])
        assert complaint(archive).endswith("; remove it and fetch it again")


def flipped(archive: bytes) -> bytes:
    at = archive.index(b"\xfd7zXZ") + 40
    return archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1 :]


def encrypted(archive: bytes) -> bytes:
    data = bytearray(archive)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(signature) + offset] |= 1
    return bytes(data)


PAGE = b"<!DOCTYPE html><title>Sign in</title>" * 50


@pytest.mark.parametrize(
    ("name", "member", "change", "said"),
    [
        ("x.zip", "a", flipped, "is damaged"),
        ("x.zip", "é", lambda archive: archive.replace("é".encode(), b"\xff\xfe"), "is damaged"),
        ("x.zip", "a", encrypted, "a is encrypted; there is no password to give"),
        ("x.zip", "a", lambda archive: PAGE, "is damaged, cut short or no archive of this kind"),
        ("x.rar", "a", lambda archive: b"Rar!", "is not a supported archive; give a .zip, .tar.gz or .tgz f"),
    ],
)
def test_what_is_no_archive_or_a_damaged_one_is_reported(
    tmp_path: Path, name: str, member: str, change: Callable[[bytes], bytes], said: str
) -> None:
    archive = make(tmp_path / name, {member: lzma.compress(bytes(range(256)) * 9)})
    archive.write_bytes(change(archive.read_bytes()))
    assert said in complaint(archive)


def test_a_folder_that_is_there_is_not_touched_and_one_that_cannot_be_made_is_reported(
    tmp_path: Path,
) -> None:
    archive = make(tmp_path / "x.zip", FILES)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="exists already"):
        unpack(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(DataError, match=r"cannot be written .* choose another folder"):
        unpack(archive, archive / "out")
    with pytest.raises(DataError, match="cannot be read"):
        unpack(tmp_path / "missing.zip", tmp_path / "other")
