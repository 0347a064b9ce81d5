"""Models from strangers: whatever is in a folder, nothing runs, nothing outside is read, one line is said."""

import errno
import json
import os
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_importers import SAMPLES, change, set_setting

from commands import error_of
from dragoman.errors import RunError
from dragoman.interop.foreign import ForeignFolder, ImportOptions
from dragoman.interop.importing import FORMATS, import_model
from dragoman.interop.torch_files import read_torch
from foreign_checkpoints import Attack
from foreign_models import write_marian

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian(tmp_path_factory.mktemp("sound") / "there", encoder_layers=1)


@pytest.fixture
def there(sound: Path, tmp_path: Path) -> Path:
    """A model that may be damaged."""
    return Path(shutil.copytree(sound, tmp_path / "there"))


def settings(**changed: Any) -> Damage:
    def damage(folder: Path) -> None:
        for name, value in changed.items():
            set_setting(folder, SAMPLES["marian"], name, value)

    return damage


def weight(name: str, changed: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    return lambda folder: change(
        folder, SAMPLES["marian"], lambda found: found | {name: changed(found.get(name, torch.zeros(2)))}
    )


def content(name: str, value: bytes | Callable[[bytes], bytes]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(value if isinstance(value, bytes) else value(path.read_bytes()))

    return damage


def as_torch(make: Callable[[Path, dict[str, Any]], Any], then: Damage = lambda _: None) -> Damage:
    """The weights by torch.save, as `make` makes them; `then` changes the file."""

    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save(make(folder, weights), folder / "pytorch_model.bin")
        then(folder)

    return damage


def packed(folder: Path) -> None:
    """pytorch_model.bin, compressed: a few bytes could become as many as they like."""
    as_torch(lambda _, weights: weights)(folder)
    path = folder / "pytorch_model.bin"
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def vocabulary(change: Callable[[dict[str, Any]], Any]) -> Damage:
    return content("vocab.json", lambda old: json.dumps(change(json.loads(old))).encode())


LINEAR = "model.encoder.layers.0.fc1.weight"
HOSTILE: dict[str, tuple[Damage, str]] = {
    "a huge header": (
        content("model.safetensors", struct.pack("<Q", 2**60) + b"{}"),
        r"model\.safetensors: is damaged or cut short \(.*header",
    ),
    "two embeddings that are said to be one": (
        weight("lm_head.weight", lambda _: torch.zeros(58, 16)),
        "model.shared.weight and lm_head.weight differ",
    ),
    "a pickle that is a program alone": (
        as_torch(lambda folder, _: Attack(folder.parent / "trace")),
        r"asks for \S*mkdir, which could run code",
    ),
    "a pickle that torch did not write": (
        as_torch(lambda _, w: w, content("pytorch_model.bin", b"\x80\x04\x95")),
        "bin: is no file of weights; it is not read. Save its weights alone",
    ),
    "a list of tensors": (as_torch(lambda _, w: list(w.values())), "holds a list, not a dictionary"),
    "a tensor of a thousand billion numbers in four bytes": (
        as_torch(lambda _, w: {**w, LINEAR: torch.zeros(1).expand(10**6, 10**6)}),
        f"{LINEAR} is no plain tensor with all of its numbers",
    ),
    "a sparse tensor": (as_torch(lambda _, w: {**w, LINEAR: torch.eye(3).to_sparse()}), "is no plain tensor"),
    "more than weights": (as_torch(lambda _, w: {**w, "epoch": 3}), "epoch is no tensor"),
    "an archive that is packed": (packed, "is a packed archive"),
    "a vast width": (settings(d_model=2**20), "less than or equal to 100000"),
    "a vocabulary without end": (
        settings(vocab_size=10**8, decoder_vocab_size=None), "its settings say 100,000,000"
    ),
    "a start beyond the vocabulary": (settings(decoder_start_token_id=99), "its start token is 99"),
    "an end that is another": (settings(eos_token_id=5), "eos_token_id is 5, and </s> is 0"),
    "a penalty that overflows": (
        content("generation_config.json", b'{"length_penalty": 1000}'), "length_penalty = 1000.0: input"
    ),
    "a beam of none": (content("generation_config.json", b'{"num_beams": 0}'), "num_beams is 0 where"),
    "ids twice": (vocabulary(lambda ids: dict.fromkeys(ids, 1)), "give each token a number of its own"),
    "no end token": (vocabulary(lambda ids: {t: i for t, i in ids.items() if t != "</s>"}), "has no </s>"),
    "a vocabulary that is a list": (vocabulary(list), "vocab.json: holds no JSON object"),
    "no sentencepiece model": (lambda folder: (folder / "source.spm").unlink(), "holds no source.spm"),
    "a sentencepiece model of noise": (content("target.spm", b"\x01hello" * 99), "is no sentencepiece model"),
    "a sentencepiece model cut short": (content("source.spm", lambda old: old[:500]), "sentencepiece model"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_in_one_line(name: str, there: Path, tmp_path: Path) -> None:
    damage, message = HOSTILE[name]
    damage(there)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(RunError, match=message) as error:
        import_model(there, tmp_path / "run")
    assert not re.search("\n|weights_only|safe_globals", str(error.value)), "torch's advice is dangerous"
    assert len(str(error.value)) < 700
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "nothing is left behind, nothing ran"


def test_links_of_the_hubs_cache_are_followed(there: Path, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--x--y" / "snapshots" / "1a2b", tmp_path / "models--x--y" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(there.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", str(number)))
    assert import_model(snapshot, tmp_path / "run").config.name == "1a2b"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", "a\\b", "x\0y"])
def test_names_that_lead_outside_are_not_followed(name: str, there: Path) -> None:
    with pytest.raises(RunError, match="names a file outside of its folder"):
        ForeignFolder(there).file(name)


@pytest.mark.slow
def test_what_is_no_model_is_said_to_be_none(tmp_path: Path) -> None:
    for given, message in (
        (tmp_path / "nowhere", "there is no such folder"),
        (tmp_path, f"holds no model of a known format. Looked for, {next(iter(FORMATS))}: "),
    ):
        assert message in error_of("import", given, "--out", tmp_path / "run")
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    for command, message in (
        ((), "is a model of type 't5' (model_type in config.json), which cannot be imported"),
        (("--format", "marian"), "model_type = 't5': only marian can be expressed here"),
    ):
        assert message in error_of("import", tmp_path, "--out", tmp_path / "run", *command)
    line = error_of("import", tmp_path, "--out", tmp_path / "run", "--format", "olm")
    assert "--format olm: there are marian" in line


def test_a_folder_that_is_not_empty_is_left_alone(there: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    assert "is there already" in error_of("import", there, "--out", tmp_path / "run")
    (tmp_path / "run" / "thesis.txt").unlink()
    import_model(there, tmp_path / "run", options=ImportOptions(src_lang="xx"))
    assert "is there already" in error_of("import", there, "--out", tmp_path / "run")


def test_a_run_that_computes_nonsense_leaves_nothing(there: Path, tmp_path: Path) -> None:
    """Weights that are finite, and whose products are not."""
    for name in (LINEAR, LINEAR.replace("fc1", "fc2")):
        weight(name, lambda old: old.sign() * 3e38)(there)
    assert "computes what is no probability" in error_of("import", there, "--out", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_full_disk_leaves_nothing(there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    monkeypatch.setattr(Path, "replace", full)
    message = error_of("import", there, "--out", tmp_path / "run")
    assert "cannot be written (No space left on device)" in message
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_legacy_file_of_torch_is_read(tmp_path: Path) -> None:
    torch.save({"x": torch.arange(3.0)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert torch.equal(read_torch(tmp_path / "old.pt")["x"], torch.arange(3.0))
