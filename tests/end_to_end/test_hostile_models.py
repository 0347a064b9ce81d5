"""A model from a stranger: whatever is in its folder, no code of it runs, and nothing outside is touched.

Each of these folders was made to hang, to crash, to fill the memory, to read or write what is not its own, or
to give orders to the terminal. Each is answered with one line and exit code 1, soon and in little memory.
"""

import json
import os
import re
import resource
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from commands import dragoman, error_of, succeed
from dragoman.bulk.output import write_output

SECONDS = 60
"""Of this process's own time, what the slowest may take."""

GIGABYTE = 1 << 30

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    """Neither much time nor much memory."""
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.process_time() - start < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < GIGABYTE


def refusal(*arguments: object) -> str:
    """The line that a command is refused with: short, and without a control character."""
    line = error_of(*arguments, stdin="the red cat\n")
    assert len(line) < 2000
    assert line.isprintable()
    return line


def change(path: Path, *replacements: tuple[str, str]) -> None:
    """Rewrites a text file."""
    text = path.read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def change_json(path: Path, edit: Callable[[Any], Any]) -> None:
    """Rewrites a JSON file."""
    content = json.loads(path.read_bytes())
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def safetensors(header: bytes, data: bytes = b"", *, n_header: int | None = None) -> bytes:
    """A file with that header, which says that it has `n_header` bytes."""
    return struct.pack("<Q", len(header) if n_header is None else n_header) + header + data


# --- weights


def header_of(name: str, shape: list[int], end: int) -> bytes:
    return json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()


def three_weights(name: str) -> bytes:
    """A file with three small weights whose names begin so."""
    entry = {"dtype": "F32", "shape": [1]}
    header = {f"{name}{i}": {**entry, "data_offsets": [4 * i, 4 * i + 4]} for i in range(3)}
    return safetensors(json.dumps(header).encode(), b"\0" * 12)


NO_MODEL, NO_REPORT = "is damaged or cut short", "is damaged, for it holds no JSON object"
NO_TOKENIZER = "shared.json: is not a Dragoman tokenizer"
DEEP = "[" * 200_000

CONTENTS = [
    *(
        ("model.safetensors", content, NO_MODEL)
        for content in (
            b"", safetensors(b"{}", n_header=2**63), safetensors(b"[" * 100_000),
            safetensors(header_of("a", [10**12], 4 * 10**12)),
            safetensors(header_of("a", [2**62, 2**62], 16), b"\0" * 16),
            safetensors(header_of("a", [-1], 4), b"\0" * 4),
        )
    ),
    ("model.safetensors", safetensors(b"{" + b" " * (9 << 20) + b"}"), "has a header of 9,437,186 bytes"),
    *(("model.safetensors", three_weights(name), "is not for this") for name in ("\x1b[31mred", "a" * 10**6)),
    ("model.safetensors", safetensors(b"{}"), "has 0 weights for 2 layers"),
    *(("tokenizer/shared.json", content, NO_TOKENIZER) for content in (DEEP, "", "null", "[1]", "{}")),
    ("config.toml", bytes(range(256)), "config.toml"),
    ("report.json", DEEP, NO_REPORT),
    ("report.json", " " * (17 << 20), "has 17,825,792 bytes, and 16,777,216 at most can be right"),
    ("report.json", f'{{"steps": {"9" * 5000}}}', NO_REPORT),
    ("report.json", "{}", "is not one that Dragoman wrote (KeyError: 'steps')"),
    ("report.json", '{"steps": "\\u001b[2J", "epochs": [], "minutes": {}}',
     "is not one that Dragoman wrote (ValueError"),
    *(("history.jsonl", f"{line}\n", "history.jsonl") for line in (DEEP, "3", '{"best": true}', "\x00")),
]  # fmt: skip
"""What a file of a translator holds, and what is said of it."""


@pytest.mark.parametrize(("name", "content", "said"), CONTENTS, ids=lambda value: str(value[:20]))
def test_a_file_of_a_translator_that_is_none(run: Path, name: str, content: str | bytes, said: str) -> None:
    (run / name).write_bytes(content.encode() if isinstance(content, str) else content)
    shown_only = name in ("report.json", "history.jsonl")
    assert said in refusal("show" if shown_only else "translate", run)


LABELS, VOCABULARY, TEMPERATURE = "labels.json", "tokenizer/text.json", "calibration.json"
CLASSIFIERS = [
    (LABELS, "labels", ["blame", "\x1b]0;owned\x07"], "holds control characters; rename it"),
    (LABELS, "labels", ["blame", "blame"], "holds a label twice"),
    *((LABELS, "labels", value, "it holds no labels") for value in (["blame"], ["blame", 3], "blame")),
    (LABELS, "labels", [str(i) for i in range(100_000)], "has shape"),
    *(
        (TEMPERATURE, "temperature", value, "it holds no temperature")
        for value in (float("nan"), float("inf"), 0.0, "1")
    ),
    *(
        (VOCABULARY, "vocabulary", value, "is not a Dragoman tokenizer")
        for value in (None, [1, 2], ["<pad>", "<s>", "</s>", "<unk>", ["deep"]], {"a": 1})
    ),
]
"""A file of a classifier, a key of it, what is there, and what is said of it."""


@pytest.mark.parametrize(("name", "key", "value", "said"), CLASSIFIERS, ids=lambda value: ascii(value)[:20])
def test_a_file_of_a_classifier_that_is_none(
    classifier_run: Path, name: str, key: str, value: object, said: str
) -> None:
    change_json(classifier_run / name, lambda content: content.update({key: value}))
    assert said in refusal("classify", classifier_run)


@pytest.mark.parametrize("name", ["config.toml", "model.safetensors", "tokenizer/shared.json"])
def test_nobody_waits_for_a_pipe_and_a_folder_or_a_link_to_itself_is_no_file(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    assert f"{name}: is neither a file nor a folder; remove it" in refusal("translate", run)
    (run / name).unlink()
    (run / name).mkdir()
    assert name in refusal("translate", run)
    (run / name).rmdir()
    (run / name).symlink_to(Path(name).name)
    assert name in refusal("translate", run)


def test_a_pickle_is_never_opened(run: Path, tmp_path: Path) -> None:
    """As torch.save writes it, and as a program in place of weights."""

    class Program:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "owned"),)

    torch.save({"weights": Program()}, run / "model.safetensors")
    assert "is damaged or cut short" in refusal("translate", run)
    for name in ("model.bin", "pytorch_model.bin", "model.pt", "training.pkl"):
        shutil.copy(run / "model.safetensors", run / name)
    (run / "model.safetensors").unlink()
    assert "holds no model.safetensors yet" in refusal("translate", run)
    assert not (tmp_path / "owned").exists()


def test_a_file_of_holes_that_is_larger_than_memory(run: Path) -> None:
    """A terabyte that takes no room on the disk."""
    size = 1 << 40
    header = safetensors(header_of("a", [size // 4], size))
    (run / "model.safetensors").write_bytes(header)
    os.truncate(run / "model.safetensors", len(header) + size)
    assert "of memory; take another" in refusal("translate", run)


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("decoder_norm.weight", torch.full((16,), float("nan")), "numbers that are not finite"),
        ("decoder_norm.weight", torch.ones(17), "has shape (17,), the configuration says (16,)"),
        ("decoder_norm.weight", torch.ones(16, dtype=torch.int64), "holds int64"),
        ("one.more", torch.ones(1), "unknown ['one.more']; config.toml and weights must come from the same"),
        ("decoder_norm.bias", None, "is not for this configuration; missing ['decoder_norm.bias']"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_weights_that_do_not_fit(run: Path, name: str, tensor: torch.Tensor | None, said: str) -> None:
    weights = load_file(run / "model.safetensors")
    weights.pop(name, None)
    changed = {} if tensor is None else {name: tensor}
    save_file(weights | changed, run / "model.safetensors")
    assert said in refusal("translate", run)


# --- settings


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("d_model = 16", "d_model = 1000000000000", "model.d_model = 1000000000000: input should be less"),
        ("d_model = 16", "d_model = 100000", "the configuration says"),
        ("n_encoder_layers = 1", "n_encoder_layers = 1000", "weights for 1001 layers"),
        ("d_model = 16", f"d_model = 1{'0' * 5000}", "is not valid TOML"),
        ("beam_size = 3", "beam_size = 1000000000", "beam_size = 1000000000: input should be less than"),
        ("max_length_factor = 2.0", "max_length_factor = inf", "finite number"),
        ('name = "tiny"', 'name = "../../tiny"', "name = '../../tiny': string should match pattern"),
        ('name = "tiny"', "__import__('os')", "is not valid TOML"),
        ("[data.test]", '[data.test]\n"../../escaped" = ["a.tsv"]', "'../../escaped' is no name for a test "),
        ("[search]", f"[{'a.' * 4000}a]\nb = 1\n[search]", "a is not a setting; known are"),
        ("[search]", f"x = {'[' * 50000}\n[search]", "is nested too deeply"),
        ("[search]", f"[{'a.' * 60000}a]\nb = 1\n[search]", "more than 131,072 bytes or 5,000 points"),
        ("[search]", "".join(f"[z{i}]\n" for i in range(9000)) + "[search]", "and 8,980 more"),
    ],
    ids=lambda value: value[:30],
)
def test_settings_that_ask_for_too_much(run: Path, old: str, new: str, said: str) -> None:
    change(run / "config.toml", (old, new))
    assert said in refusal("translate", run)


# --- links, pipes and other things that are no files


LINKED = ["config.toml", "model.safetensors", "report.json", "history.jsonl", ".scores.json.tmp", "tokenizer"]


@pytest.mark.parametrize("name", LINKED)
def test_no_link_leads_out_of_the_folder(run: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "of-the-user"
    outside.mkdir()
    (outside / "file").write_text("precious")
    target = outside if name == "tokenizer" else outside / "file"
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(os.path.relpath(target, run))
    for command in ("translate", "show", "evaluate", "card"):
        assert f"{name}: is a link out of the run's folder" in refusal(command, run)
    assert (outside / "file").read_text() == "precious"


def test_no_link_leads_out_of_a_folder_in_it(run: Path, tmp_path: Path) -> None:
    (run / "checkpoints" / "step-000099").symlink_to(tmp_path)
    assert "step-000099: is a link out of the run's folder" in refusal("translate", run)


def test_a_link_in_the_folder_and_a_link_to_it_are_followed(run: Path, tmp_path: Path) -> None:
    (run / "model.safetensors").rename(run / "weights")
    (run / "model.safetensors").symlink_to("weights")
    (tmp_path / "newest").symlink_to(run)
    assert succeed("translate", tmp_path / "newest", stdin="the red cat\n").stdout.count("\n") == 1


# --- tokenizers


def shared(run: Path) -> Path:
    return run / "tokenizer" / "shared.json"


def test_a_tokenizer_of_100_megabytes_is_not_read(run: Path) -> None:
    with shared(run).open("r+b") as file:
        file.truncate(100 << 20)
    assert "shared.json: is not a Dragoman tokenizer (it has 104,857,600 bytes" in refusal("translate", run)


REDOS = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
REPLACE = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b" * 10**6}
TOKEN = {"id": 0, "content": "x", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda s: s.update(pre_tokenizer=REDOS), "its pre_tokenizer is not what Dragoman writes"),
        (lambda s: s.update(decoder=REPLACE), "its decoder is not what Dragoman writes"),
        (lambda s: s.update(normalizer={"type": "NFD"}), "is not a way in which Dragoman normalises text"),
        (lambda s: s.update(added_tokens=[TOKEN]), "its added_tokens is not what Dragoman writes"),
        (lambda s: s["model"].update(type="WordPiece"), "its model is neither BPE nor unigram"),
        (lambda s: s["model"]["vocab"].update(x=2**32 - 1), "its ids are not 0, 1, 2 and so on"),
        (lambda s: s["model"]["merges"].append(["no", "where"]), "is not a Dragoman tokenizer"),
        (lambda s: s["model"].update(dropout=7.0), "is not a Dragoman tokenizer"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_is_a_program(run: Path, edit: Callable[[Any], Any], said: str) -> None:
    change_json(shared(run), edit)
    assert said in refusal("translate", run)


@pytest.mark.parametrize("kind", ["translate", "classify"])
def test_an_expression_that_takes_for_ever_is_never_tried(run: Path, classifier_run: Path, kind: str) -> None:
    """Of words, that is; the vocabulary of the translator becomes one of words."""
    folder = {"translate": run, "classify": classifier_run}[kind]
    [path] = (folder / "tokenizer").iterdir()
    words = {
        "kind": "words", "splitter": "regex", "pattern": "(a+)+$", "format_output": False, "lowercase": False,
        "vocabulary": ["<pad>", "<s>", "</s>", "<unk>", "a"],
    }  # fmt: skip
    path.write_text(json.dumps(words))
    assert "an expression that Dragoman has never written" in refusal(kind, folder)


@pytest.mark.parametrize("language", ["../../evil", "en.evil.module", "..", "x" * 10_000])
def test_a_language_names_no_module(classifier_run: Path, language: str) -> None:
    """spaCy makes the name of a module of it, and imports that."""

    def edit(settings: dict[str, Any]) -> None:
        settings.pop("pattern")
        settings.update(splitter="spacy", language=language)

    change_json(classifier_run / "tokenizer" / "text.json", edit)
    line = refusal("classify", classifier_run)
    assert "language" in line or "spacy" in line


# --- what is shown


def test_nothing_in_a_run_reaches_the_terminal_as_an_order(run: Path) -> None:
    order = "\x1b]0;owned\x07\x9b31m<script>alert(1)</script>"
    report = json.loads((run / "report.json").read_bytes())
    (run / "report.json").write_text(json.dumps({**report, "kept": order, order: order}))
    for results in ([], [3], [{"name": "a\x1b[2J"}], [{"name": "a", "scores": 1}]):
        (run / "scores.json").write_text(json.dumps({"results": results}))
        for command in ("show", "card"):
            shown = dragoman(command, run)
            assert not set(shown.stdout) & {"\x1b", "\x07", "\x9b"}
            assert shown.exception is None or isinstance(shown.exception, SystemExit)
            assert "<script>" not in shown.stdout.replace("\\<script\\>", "") or command == "show"


# --- our own code


def test_a_run_to_start_from_is_measured_first(run: Path, tiny_run: Path, tmp_path: Path) -> None:
    change(run / "config.toml", ("d_ff = 16", "d_ff = 1000000"))
    texts = ("--src", tiny_run.parent / "train.en", "--tgt", tiny_run.parent / "train.de")
    line = refusal("train", "--from", run, *texts, "--out", tmp_path / "new")
    assert "the configuration says (1000000,)" in line
    assert not (tmp_path / "new" / "model.safetensors").exists()


def test_a_terminal_gets_no_order_and_a_pipe_what_was_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = "\x1b[2J\x9b31m\x07 a\tא\u200fb\n"
    write_output(None, written)
    assert capsys.readouterr().out == written
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_output(None, written)
    assert capsys.readouterr().out == "\\x1b[2J\\x9b31m\\x07 a\tא\u200fb\n"


def test_no_module_trusts_what_a_file_says() -> None:
    """What ruff's rules (S and TID251 in pyproject.toml) do not see: options that allow code in files."""
    trusting = re.compile(r"(allow_pickle|trust_remote_code)=True|weights_only=False")
    assert [path for path in SOURCE.rglob("*.py") if trusting.search(path.read_text(encoding="utf-8"))] == []
