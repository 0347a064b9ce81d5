"""Exports to CTranslate2 and ONNX, and the folder that an export is written to."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from dragoman.config import SearchConfig
from dragoman.data.document_batching import make_documents
from dragoman.errors import ConfigError, MissingExtraError, RunError
from dragoman.files import replacing_folder
from dragoman.hardware import processor
from dragoman.interop import REPORT, exporting, onnx
from dragoman.interop.exporting import export_run
from dragoman.interop.importing import import_model
from dragoman.interop.onnx import import_package
from dragoman.interop.parity import random_texts
from dragoman.predict.classifier import Classifier
from dragoman.predict.engine import SearchInput
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import EOS_ID
from exports import classifier_network, run_script_of_readme, untrained_run
from foreign_models import write_marian

LINES = "red\u2028cat\n\nbig\x0bold house small bird\n  \nriver </s> <unk> tree\n"
OTHER = {
    "norm": "post", "activation": "swish", "positions": "learned", "scale_embeddings": False,
    "output_bias": True, "tie_embeddings": "none", "n_encoder_layers": 2,
}  # fmt: skip
"""What the imported models of other toolkits have and ours have not."""


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_run(tmp_path_factory.mktemp("other") / "o", model=OTHER, kind="unigram", shared=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tiny", "other"])
@pytest.mark.parametrize("to", ["onnx", "ctranslate2"])
def test_an_export_finds_what_the_run_finds_and_as_probable(
    to: str, kind: str, tiny_run: Path, other_run: Path, tmp_path: Path
) -> None:
    run = tiny_run if kind == "tiny" else other_run
    report = export_run(run, tmp_path / "out", to=to, n_sentences=20)
    assert report.parity.same == {"greedy": 1.0}
    assert 0 < report.parity.largest["nats a token"] < 1e-4
    record = json.loads((tmp_path / "out" / REPORT).read_bytes())
    assert record["parity"]["n_sentences"] == 20
    assert record["origin"]["name"] == Run.open(run).config.name
    assert record["origin"]["weights"] == exporting.hash_file(Run.open(run).weights_path)
    for name, size in record["files"].items():
        assert (tmp_path / "out" / name).stat().st_size == size
    if kind == "other":
        lines = run_script_of_readme(tmp_path / "out", LINES)
        translator = Translator.load(run, precision="fp32")
        greedy: dict[str, Any] = {"beam_size": 1, "n_best": 1, "max_length_extra": 200}
        expected = [t.text for t in translator.translate(LINES.split("\n")[:-1], **greedy)]
        assert [bool(line) for line in lines] == [True, False, True, False, True]
        assert lines == expected or to != "onnx"


@pytest.mark.slow
@pytest.mark.parametrize(("to", "recase"), [("onnx", False), ("huggingface", True)])
def test_an_export_reads_capitals_titles_numbers_and_addresses_as_the_run(
    to: str, recase: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = untrained_run(tmp_path / "run", model={"output_bias": True, "max_positions": 128}, slots=True)
    config = (run / "config.toml").read_text(encoding="utf-8")
    config = config.replace("recase = true", f"recase = {str(recase).lower()}")
    (run / "config.toml").write_text(config.replace("beam_size = 3", "beam_size = 1"), encoding="utf-8")
    report = export_run(run, tmp_path / "out", to=to, n_sentences=5)
    lines = [
        "RED CAT AND BIRD", "Big Old House River", "14:30", "\x07 12", "", "red www.a.de and 25 or <b>",
        "OLD DOG 99 42",
    ]  # fmt: skip
    translator = Translator.load(run, precision="fp32")
    monkeypatch.setattr(translator, "missing_slots", lambda *_: [])  # an export searches once
    length: dict[str, Any] = {"max_length_factor": 1e-9, "max_length_extra": 256}
    expected = [t.text for t in translator.translate(lines, beam_size=1, n_best=1, **length)]
    found = run_script_of_readme(tmp_path / "out", "\n".join(lines))
    assert [text[:200] for text in found] == [text[:200] for text in expected]
    assert any(text.isupper() for text in expected) == recase
    assert expected[6].startswith("99")
    record, readme = ((tmp_path / "out" / name).read_text(encoding="utf-8") for name in (REPORT, "README.md"))
    missing = json.loads(record)["missing"]
    assert list(report.missing) == missing
    assert len(missing) == (0 if to == "onnx" else 3)
    assert all(f"Missing here: {one}." in readme for one in missing)
    assert all("by code other than translate.py" in one for one in missing)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "ctranslate2"])
def test_several_directions_have_a_tokenizer_a_target(to: str, tiny_many: Path, tmp_path: Path) -> None:
    told: list[int] = []
    report = export_run(tiny_many, tmp_path / "out", to=to, n_sentences=9, progress=told.append)
    assert report.parity.n_sentences == 9
    assert told == [3, 6, 9]
    assert report.parity.same["greedy"] == 1.0
    files = [tiny_many.parent / name for name in ("valid.en", "valid.de", "few.tsv")]
    assert report.parity.sentences_from == "{}, {}; {}".format(*files), "of every direction"
    text = "red cat\n\n<2fr> old dog\n"
    translator = Translator.load(tiny_many, precision="fp32")
    for languages in ((), ("xx",)):
        refusal = "say the language behind the folder: de, en, fr"
        assert run_script_of_readme(tmp_path / "out", text, *languages, refuses=refusal) == []
    for target in ("de", "en", "fr"):
        found = run_script_of_readme(tmp_path / "out", text, target)
        assert [bool(line) for line in found] == [True, False, True]
        if to == "onnx":
            length: dict[str, Any] = {"max_length_factor": 1e-9, "max_length_extra": 256}
            greedy = {"beam_size": 1, "n_best": 1, **length}
            assert found == [t.text for t in translator.translate(text.split("\n")[:-1], to=target, **greedy)]


@pytest.mark.slow
def test_transformers_reads_the_tokenizer_of_each_target(tiny_many: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    report = export_run(tiny_many, tmp_path / "out", to="huggingface", n_sentences=9)
    assert report.parity.same["greedy"] == 1.0
    translator = Translator.load(tiny_many, precision="fp32")
    with pytest.raises(Exception, match="none here: load that of a target language, to-de, to-en, to-fr"):
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    refusal = "say the language behind the folder: de, en, fr"
    assert run_script_of_readme(tmp_path / "out", "red cat\n", refuses=refusal) == []
    for target in ("de", "en", "fr"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / f"to-{target}")
        expected = translator.towards(target).tokenizers.src.encode("red <2de> cat")
        assert tokenizer("red <2de> cat").input_ids == [*expected, EOS_ID]


ECHO = """
def ids_of(words): return [[1] for _ in words]
def tokens_of(text): return [text]
def translate(rows, longest): return [text for (text,) in rows]
"""
"""A model.py that needs no time to be loaded."""


@pytest.mark.slow
def test_a_line_without_its_language_is_refused_where_lines_say_it(tmp_path: Path) -> None:
    opus = write_marian(tmp_path / "opus", languages=(">>deu<<", ">>nld<<"))
    run, out = import_model(opus, tmp_path / "run").path, tmp_path / "out"
    export_run(run, out, to="huggingface", n_sentences=4)
    assert not [*out.glob("to-*")]
    (out / "model.py").write_text(ECHO)
    refusal = "line 3: begin it with its language, one of >>deu<< >>nld<<"
    assert run_script_of_readme(out, ">>nld<< red\n\nred\n", refuses=refusal) == []
    lines = [">>nld<< red", "", ">>deu<< red"]
    assert run_script_of_readme(out, "\n".join(lines)) == lines


@pytest.mark.slow
@pytest.mark.parametrize(("to", "source_end"), [("onnx", False), ("ctranslate2", True)])
def test_a_script_cuts_a_long_line_and_reads_an_end_token_where_the_model_does(
    to: str, source_end: bool, tmp_path: Path
) -> None:
    model = {"output_bias": True, "max_positions": 128, "source_end": source_end}
    run = untrained_run(tmp_path / "r", model=model)
    report = export_run(run, tmp_path / "out", to=to, n_sentences=5)
    assert report.parity.same["greedy"] == 1.0
    assert report.parity.largest["nats a token"] < 1e-4
    tokenizer = Translator.load(run).tokenizers.src
    reader = Tokenizer.from_file(str(tmp_path / "out" / "source.json"))
    assert reader.encode("red cat").ids == [*tokenizer.encode("red cat"), *[EOS_ID] * source_end]
    text = "red cat " * 100
    n_tokens = len(tokenizer.encode(text)) + source_end
    warning = f"line 2: {n_tokens} tokens; only the first 128 are translated"
    found = run_script_of_readme(tmp_path / "out", f"red cat\n{text}\nold dog\n", warns=warning)
    others = run_script_of_readme(tmp_path / "out", "red cat\nold dog\n")
    assert [found[0], found[2]] == others
    assert len(found) == 3


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "ctranslate2"])
def test_control_bytes_of_a_model_end_no_line_in_any_script(to: str, tmp_path: Path) -> None:
    run = Run.open(untrained_run(tmp_path / "r", model={"output_bias": True}))
    weights = run.load_weights()
    first = Translator.load(run.path).tokenizers.tgt.pieces().index("<0x00>")
    weights["output.bias"][[first + ord(c) for c in "\n\x0b\x1b\x1e\x7f"]] += 20.0
    run.save_weights(weights)
    export_run(run.path, tmp_path / "out", to=to, n_sentences=5)
    found = run_script_of_readme(tmp_path / "out", LINES)
    assert len(found) == 5
    assert all(line.isprintable() for line in found)


@pytest.mark.slow
def test_a_beam_over_the_graphs_is_the_model_s_and_neighbours_change_nothing(
    other_run: Path, tmp_path: Path
) -> None:
    model = Translator.load(other_run, precision="fp32").model
    onnx.write_translator(model, tmp_path)
    engine = onnx.OnnxEngine(tmp_path, max_positions=64)
    sentences = [SearchInput([*ids, EOS_ID]) for ids in ([5, 6, 7, 8, 9], [5], [280, 8])]
    settings = SearchConfig(beam_size=3, n_best=3, max_length_extra=4)
    together = engine.search(sentences, settings)
    native = TorchEngine(model).search(sentences, settings)
    assert [[h.ids for h in found] for found in together] == [[h.ids for h in found] for found in native]
    for sentence, found in zip(sentences, together, strict=True):
        (alone,) = engine.search([sentence], settings)
        assert [h.ids for h in alone] == [h.ids for h in found]
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-5)
    with pytest.raises(ConfigError, match="coverage_penalty: the graphs do not say where they look"):
        engine.search(sentences, SearchConfig(coverage_penalty=0.1))


@pytest.mark.skipif(
    not {"avx512_vnni", "avx_vnni", "amx_int8"} & processor()[1],
    reason="without VNNI, CTranslate2's sums of int8 products saturate",
)
def test_int8_is_smaller_and_near(other_run: Path, tmp_path: Path) -> None:
    full = export_run(other_run, tmp_path / "full", to="ctranslate2", n_sentences=5)
    small = export_run(other_run, tmp_path / "small", to="ctranslate2", compute_type="int8", n_sentences=5)
    assert small.files["model.bin"] < full.files["model.bin"]
    assert full.parity.largest["nats a token"] < small.parity.largest["nats a token"] < 0.5


def matrices_of(graph: Path) -> dict[Any, list[int]]:
    """The sizes of a graph's matrices, by their type."""
    onnx_package = import_package("onnx")
    model = onnx_package.load(graph)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", onnx.OPSET)]
    sizes: dict[Any, list[int]] = {}
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 2:
            sizes.setdefault(onnx_package.TensorProto.DataType.Name(tensor.data_type), []).append(
                int(np.prod(tensor.dims))
            )
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("tie", ["all", "output", "none"])
def test_all_matrices_are_bytes_and_a_graph_has_a_tied_one_once(tie: str, tmp_path: Path) -> None:
    run = untrained_run(tmp_path / tie, model={"tie_embeddings": tie}, vocab_size=400)
    model = Translator.load(run, precision="fp32").model
    onnx.write_translator(model, tmp_path)
    before = onnx.OnnxEngine(tmp_path, max_positions=64)
    for name in (onnx.ENCODER, onnx.DECODER):
        onnx.quantize(tmp_path / name)
    encoder, decoder = (matrices_of(tmp_path / name) for name in (onnx.ENCODER, onnx.DECODER))
    assert encoder.keys() == decoder.keys() == {"UINT8"}
    n_table = model.output.weight.numel()
    assert decoder["UINT8"].count(n_table) == (2 if tie == "none" else 1)
    assert encoder["UINT8"].count(n_table) == 1
    sources, targets = [[5, 6, 7, 8, EOS_ID]] * 2, [[9, 10, 11], [12]]
    after = onnx.OnnxEngine(tmp_path, max_positions=64)
    for one, expected in zip(after.score(sources, targets), before.score(sources, targets), strict=True):
        assert one == pytest.approx(expected, abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("ngrams", [0, 2])
def test_onnx_has_the_logits_of_a_classifier(ngrams: int, tiny_classifier_run: Path, tmp_path: Path) -> None:
    classifier = Classifier.load(tiny_classifier_run, precision="fp32")
    model = classifier.config.model.model_copy(update={"ngrams": ngrams, "pooling": "mean+max"})
    config = classifier.config.model_copy(update={"model": model})
    network = classifier_network(tiny_classifier_run).model
    if ngrams == 0:
        network.votes = None
    onnx.write_classifier(network, tmp_path)
    tokens = [list(range(4, 4 + n)) for n in (1, 6, 7, 20)]  # windows of 6 tokens
    lengths = np.array([len(row) for row in tokens])
    documents = make_documents(np.concatenate(tokens), lengths, config)
    with torch.inference_mode():
        expected = documents.logits(network).numpy()
    found = onnx.classifier_logits(onnx.session(tmp_path / onnx.CLASSIFIER), documents)
    assert np.abs(found - expected).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "lines", "n_labels"),
    [
        ("praise", ["good cat", "", "a very long text with a dull old dog and awful river in it", "strange"],
         [1, 0, 1, 1]),
        ("topics", ["tree river old", "house street wave boat red", "", "big old red"], [1, 2, 0, 0]),
    ],
)  # fmt: skip
def test_the_script_of_a_classifier_gives_its_labels_and_probabilities(
    kind: str, lines: list[str], n_labels: list[int], tiny_classifier_run: Path, tiny_topics_run: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    run = tiny_classifier_run if kind == "praise" else tiny_topics_run
    report = export_run(run, tmp_path / "out", to="onnx", n_sentences=20)
    assert report.parity.same == {"label": 1.0}
    found = run_script_of_readme(tmp_path / "out", "\n".join(lines))
    classified = Classifier.load(run, precision="fp32").classify(lines)
    assert [len(one.labels) for one in classified] == n_labels
    for line, one in zip(found, classified, strict=True):
        labels, shares = line.split("\t")
        assert labels == "|".join(one.labels)
        expected = [one.probabilities[label] for label in one.labels]
        assert [float(share) for share in shares.split("|") if share] == pytest.approx(expected, abs=1e-4)


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("classifier", {"to": "huggingface"}, {}, "transformers has no architecture.*export it --to onnx"),
    ("classifier", {"to": "ctranslate2"}, {}, "ctranslate2 is for translators; export a classifier --to onn"),
    ("classifier", {"compute_type": "int8"}, {}, "--compute-type int8: a classifier is exported as float32"),
    ("tiny", {"to": "tensorrt"}, {}, "--to tensorrt: is not a format; there are ctranslate2, onnx, hugg"),
    ("tiny", {"to": "huggingface", "compute_type": "int8"}, {}, "int8: huggingface has float32 here"),
    ("tiny", {"n_sentences": 0}, {}, "--sentences 0: compare one sentence at least"),
    ("tiny", {}, {"LARGEST": 2**15}, "encoder.onnx: a graph in one file .*, and the model has 0.0; export"),
    ("tiny", {"n_sentences": 5}, {"FORBIDDEN": (0, 1, 3, 5, 6, 7, 8, 9)},
     r"onnx, float32: gives other probabilities than the run \(.*nothing was"),
    ("tiny", {}, {"onnxruntime": None}, "exporting to ONNX needs the package onnxruntime: pip install"),
]  # fmt: skip
"""A run, how it is to be exported, what is otherwise in the module or not installed, and what is said."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options", "otherwise", "message"), REFUSED)
def test_what_cannot_be_exported_is_refused_and_nothing_is_written(
    kind: str, options: dict[str, Any], otherwise: dict[str, Any], message: str, tiny_run: Path,
    tiny_classifier_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, value in otherwise.items():
        if value is None:
            monkeypatch.setitem(sys.modules, name, None)
        else:
            monkeypatch.setattr(onnx, name, value)
    run = tiny_run if kind == "tiny" else tiny_classifier_run
    with pytest.raises((ConfigError, RunError, MissingExtraError), match=message):
        export_run(run, tmp_path / "out", **{"to": "onnx", **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_tokenizer_that_only_dragoman_has_is_exported_with_a_note(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "r", kind="words", format_output=True, vocab_size=50)
    report = export_run(run, tmp_path / "out", to="onnx", n_sentences=3)
    (note,) = report.notes
    assert "format_output" in note
    assert "TokenizerPair.load" in note
    assert note in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert not (tmp_path / "out" / "source.json").exists()
    with pytest.raises(ConfigError, match="format_output"):
        export_run(run, tmp_path / "hf", to="huggingface")


@pytest.mark.slow
def test_sentences_come_from_validation_data_or_are_random(tiny_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    report = export_run(run, tmp_path / "a", to="onnx", n_sentences=25)
    assert report.parity.sentences_from.endswith("valid.tsv, and random tokens")  # it has 20
    text = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(text.replace("valid.tsv", "gone.tsv"), encoding="utf-8")
    report = export_run(run, tmp_path / "b", to="onnx", n_sentences=5)
    assert report.parity.sentences_from == "random tokens"
    tokenizer = Translator.load(run).tokenizers.src
    assert all(0 < len(tokenizer.encode(text)) <= 10 for text in random_texts(tokenizer, 5, 10))


# The folder.


def test_only_new_and_empty_folders_and_exports_are_written_to(tiny_run: Path, tmp_path: Path) -> None:
    taken = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    before = files_of(taken)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    for place in (taken, tmp_path / "own", taken / "config.toml"):
        with pytest.raises(RunError, match="is there already, and is no export; choose a new folder"):
            export_run(tiny_run, place, to="onnx")
    assert files_of(taken) == before


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deep/er/notes.txt", "link"])
def test_an_export_with_a_user_s_file_is_kept(name: str, tiny_classifier_run: Path, tmp_path: Path) -> None:
    out, own = tmp_path / "out", tmp_path / "out" / name
    report = export_run(tiny_classifier_run, out, to="onnx", n_sentences=2)
    assert files_of(out) == sorted([REPORT, *report.files])
    own.parent.mkdir(parents=True, exist_ok=True)
    if name == "link":
        own.symlink_to(tmp_path, target_is_directory=True)
    else:
        own.write_text("mine")
    before = files_of(out)
    message = re.escape(
        f"{own}: is not of the export in {out} and would be lost; move it, or choose a new folder"
    )
    with pytest.raises(RunError, match=f"^{message}$"):
        export_run(tiny_classifier_run, out, to="onnx", n_sentences=2)
    assert files_of(out) == before
    own.unlink()
    export_run(tiny_classifier_run, out, to="onnx", n_sentences=2)


def export_of(version: str, out: Path) -> None:
    """Write what stands for an export by this version of Dragoman."""
    with replacing_folder(out) as folder:
        (folder / REPORT).write_text(f'{{"origin": {{"dragoman": "{version}"}}}}')


def test_an_error_leaves_the_export_that_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_of("1", out)

    def fail() -> None:
        with replacing_folder(out) as folder:
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [path.name for path in out.iterdir()] == [REPORT]
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("nth", [1, 2])
def test_a_kill_between_the_renames_loses_neither_export(
    nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    export_of("1", out)
    rename, n_renames = Path.rename, 0

    def killed(path: Path, target: Path) -> Path:
        nonlocal n_renames
        n_renames += 1
        if n_renames == nth:
            raise SystemExit
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)  # a kill cleans nothing up
        with pytest.raises(SystemExit):
            export_of("2", out)
    with replacing_folder(out) as folder:
        assert json.loads((out / REPORT).read_bytes())["origin"]["dragoman"] == "1"
        (folder / REPORT).write_text('{"origin": {"dragoman": "3"}}')
    assert json.loads((out / REPORT).read_bytes())["origin"]["dragoman"] == "3"
    assert list(tmp_path.iterdir()) == [out]
