"""The folder of `dragoman export --to browser`, without a browser; that is tests/end_to_end."""

import json
import re
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from dragoman.data.catalog.download import DownloadError, checksum_of
from dragoman.errors import ConfigError
from dragoman.interop import browser
from dragoman.interop.browser import SETTINGS, WEB_FILES, WORKER, runtime_files
from dragoman.interop.exporting import export_run
from dragoman.predict.translator import Translator
from exports import untrained_run


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What stands for an installed npm package; no test here runs it."""
    folder = tmp_path / "package"
    for path in WEB_FILES.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "unigram"},
        {"lowercase": True},
        {"tgt_kind": "words", "shared": False},
    ],
)
def test_tokenizers_that_the_page_does_not_have_are_refused_by_name(
    settings: dict[str, Any], package: Path, tmp_path: Path
) -> None:
    run = untrained_run(tmp_path / "r", model={"tie_embeddings": "none"}, **settings)
    kind = "bpe in lower case" if "lowercase" in settings else settings.get("tgt_kind", settings.get("kind"))
    with pytest.raises(ConfigError, match=f"a tokenizer for bpe alone, and the run's is {kind}; export it"):
        export_run(run, tmp_path / "out", to="browser", onnxruntime_web=package)
    assert not (tmp_path / "out").exists()


def test_what_cannot_go_together_is_refused(
    tiny_run: Path, tiny_classifier_run: Path, package: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match="--compute-type float32: browser has int8 here"):
        export_run(tiny_run, out, to="browser", compute_type="float32", onnxruntime_web=package)
    with pytest.raises(ConfigError, match="--onnxruntime-web: is for --to browser, and this is an"):
        export_run(tiny_run, out, to="onnx", onnxruntime_web=package)
    with pytest.raises(ConfigError, match="browser is for translators; export a classifier --to onnx"):
        export_run(tiny_classifier_run, out, to="browser", onnxruntime_web=package)
    (package / WEB_FILES["ort.wasm"]).unlink()
    with pytest.raises(
        ConfigError, match=r"--onnxruntime-web .*: dist/.*\.wasm cannot be read .*npm install"
    ):
        export_run(tiny_run, out, to="browser", onnxruntime_web=package)
    assert not out.exists()


@pytest.mark.slow
def test_the_worker_keeps_all_files_of_the_page_and_is_another_for_other_contents(
    tiny_run: Path, package: Path, tmp_path: Path
) -> None:
    workers = []
    for name in ("a", "b", "c", "c"):  # the last one takes the place of the export before it
        if name == "c":
            (package / WEB_FILES["ort.js"]).write_text("newer")
        export_run(tiny_run, tmp_path / name, to="browser", onnxruntime_web=package, n_sentences=2)
        workers.append((tmp_path / name / WORKER).read_text(encoding="utf-8"))
    assert workers[0] == workers[1] != workers[2] == workers[3]
    (kept,) = re.findall(r"^const FILES = (.*);$", workers[0], re.MULTILINE)
    there = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert {*json.loads(kept), WORKER} == {*there, "./"} - {"README.md", "export.json"}
    readme = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert "python3 -m http.server" in readme


@pytest.mark.slow
def test_the_page_knows_the_tokens_of_every_direction(tiny_many: Path, package: Path, tmp_path: Path) -> None:
    export_run(tiny_many, tmp_path / "out", to="browser", onnxruntime_web=package, n_sentences=3)
    settings = json.loads((tmp_path / "out" / SETTINGS).read_bytes())
    translator = Translator.load(tiny_many)
    marks = translator.tokenizers.src.marks
    assert settings["targets"] == [
        {"language": language, "sources": sources, "before": [marks[f"<2{language}>"]]}
        for language, sources in {"de": ["en"], "en": ["de"], "fr": ["en"]}.items()
    ]
    assert sorted(settings["silent"]) == sorted(translator.tokenizers.tgt.marks.values())


def test_a_downloaded_package_is_compared_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "cache" / "onnxruntime-web" / f"onnxruntime-web-{browser.WEB_VERSION}.tgz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as tar:
        for path in WEB_FILES.values():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(path)
            tar.addfile(member, BytesIO(path.encode()))
    monkeypatch.setattr(browser, "WEB_CHECKSUM", f"sha512:{checksum_of(archive, 'sha512')}")
    assert runtime_files() == {name: path.encode() for name, path in WEB_FILES.items()}
    archive.unlink()
    monkeypatch.setattr(browser, "WEB_URL", "http://127.0.0.1:9/there-is-nobody.tgz")
    with pytest.raises(DownloadError, match=r"npm install onnxruntime-web@.*--onnxruntime-web node_modules"):
        runtime_files()
