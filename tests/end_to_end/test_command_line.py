"""The command line as its users meet it: what it prints where, with which exit code, whatever goes wrong."""

import errno
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
import typer
from typer.testing import CliRunner

import gpu_check
from commands import dragoman, error_of, succeed
from commands import folder as folder
from dragoman import __version__
from dragoman.cli.app import Commands, app
from dragoman.config import TranslationConfig, load_recipe, parse_section
from dragoman.errors import ConfigError, DataError
from dragoman.interop import REPORT
from dragoman.removed import REMOVED
from dragoman.runs import Run
from dragoman.serving.settings import ServeConfig
from tiny import TINY, damaged_run, write_corpus

COMMANDS = ("train", "translate", "evaluate", "score", "reproduce", "report", "compare", "show", "demo")
SETTINGS = [argument for override in TINY for argument in ("--set", override)]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def corpus(folder: Path) -> tuple[str, ...]:
    """The options that name a corpus of 60 pairs."""
    write_corpus(folder, "train", 60, seed=1)
    return ("--src", "train.en", "--tgt", "train.de")


@pytest.fixture
def run(tiny_run: Path, folder: Path) -> Path:
    """A run that may be changed."""
    shutil.copytree(tiny_run, folder / "run")
    return Path("run")


def process(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman", *map(str, arguments)], env=ENVIRONMENT, stdin=subprocess.PIPE,
        stdout=options.get("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
    )  # fmt: skip


# The command line as a whole


def test_help_names_every_command_and_alone_is_the_same() -> None:
    text = succeed("--help").stdout
    assert all(f"\n  {command} " in text for command in COMMANDS)
    assert succeed().stdout == text
    assert succeed("--version").stdout == f"dragoman {__version__}\n"


def test_an_unknown_or_missing_word_is_a_usage_error() -> None:
    for arguments in (["trian"], ["train", "--sorce", "x"], ["compare"]):
        result = dragoman(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert ("Missing argument" if arguments == ["compare"] else "No such") in result.stderr


def test_no_option_drops_a_value_in_silence() -> None:
    """Every option of every command takes its value once, or is a list."""
    todo, checked = [typer.main.get_command(app)], set()
    while todo:
        command = todo.pop()
        todo += getattr(command, "commands", {}).values()
        for option in command.params if not hasattr(command, "commands") else ():
            if option.param_type_name == "option" and not (option.multiple or option.is_flag):
                name = option.opts[0]
                with pytest.raises(ConfigError, match=f"^{name}: is given 2 times; give it once$"):
                    command.make_context("dragoman", [name, "1", name, "2"])
                checked.add((command.name, name))
    assert {("check", "--valid"), ("evaluate", "--ref"), ("train", "--out")} <= checked
    line = error_of("evaluate", "run", "--src", "a", "--src", "b")
    assert line == "error: --src: is given 2 times; give it once"


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (DataError("a.en: line 3 is wrong\nreally"), 1, "error: a.en: line 3 is wrong really\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "error: output: No space left on device; "),
        (PermissionError(errno.EACCES, "Permission denied", "out/a"), 1, "error: out/a: Permission denied; "),
        (MemoryError(), 1, "error: out of memory; for training set a smaller training.batch_tokens"),
        (RuntimeError("CUDA out of memory. Tried"), 1, "error: out of memory; "),
        (UnicodeEncodeError("utf-8", "caf\udce9", 3, 4, "surrogates not allowed"), 1,
         "error: 'caf\\udce9': is not valid UTF-8; rename the file, or correct the text\n"),
        (DataError(f"file: {'x' * 100_000}; try another"), 1, "error: file: xxx"),
        (RuntimeError("a bug"), 1, ""),
    ],
)  # fmt: skip
def test_what_a_user_can_cause_is_one_line_and_an_exit_code_and_a_bug_is_not_hidden(
    raised: BaseException, code: int, line: str
) -> None:
    failing = typer.Typer(cls=Commands)

    @failing.callback()
    def callback() -> None: ...

    @failing.command()
    def fails() -> None:
        raise raised

    result = CliRunner().invoke(failing, ["fails"])
    assert (result.exception is raised) == (str(raised) == "a bug")
    assert result.exit_code == code
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == (1 if line else 0)
    assert len(result.stderr) < 2000


def test_a_wrapped_cause_is_printed_on_request(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = damaged_run(tiny_run, tmp_path / "run")
    monkeypatch.setenv("DRAGOMAN_DEBUG", "0")
    assert error_of("translate", run, stdin="red cat\n").startswith("error: ")
    monkeypatch.setenv("DRAGOMAN_DEBUG", "1")
    result = dragoman("translate", run, stdin="red cat\n")
    line, *below = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.startswith("error: ")
    assert below[0] == "Traceback (most recent call last):"
    cause = next(i for i, text in enumerate(below) if text.startswith("safetensors"))
    link = below.index("The above exception was the direct cause of the following exception:")
    assert cause < link < len(below) - 1
    assert below[-1].startswith("dragoman.errors.RunError: ")


# names of earlier versions


def answer_to(name: str) -> str:
    return f"error: {name} was removed in 0.3; {REMOVED[name]}"


@pytest.mark.parametrize("name", [name for name in REMOVED if name.startswith(("dragoman ", "--"))])
def test_a_removed_command_or_option_says_what_to_do_instead(name: str) -> None:
    if name.startswith("--"):
        assert error_of("score", "a", "b", f"{name}=c") == answer_to(name)
    else:
        assert error_of(name.split()[1], "RUN", "--out", "x") == answer_to(name)


def test_a_removed_setting_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"batching\.joining was removed in 0\.3; remove it; requests are"):
        parse_section(ServeConfig, {}, overrides=["batching.joining=true"], where="test")


def test_a_removed_variable_is_named_and_nothing_else_changes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "--version"],
        env=os.environ | {"DRAGOMAN_MODELS": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.endswith(f" was removed in 0.3 and has no effect; {REMOVED['DRAGOMAN_MODELS']}\n")
    assert done.stdout.startswith("dragoman ")


def test_a_removed_prefix_says_what_to_do_instead() -> None:
    assert error_of("data", "fetch", "mtdata:en-de") == answer_to("mtdata:")


# train


def test_two_files_are_enough_and_the_settings_used_are_in_the_run(corpus: tuple[str, ...]) -> None:
    result = succeed("train", *corpus, *SETTINGS)
    assert result.stdout == "runs/en-de\n"
    assert "60 pairs, en → de (as the files say): 1+1 layers of 16, 300 tokens, 6 steps" in result.stderr
    config = load_recipe("runs/en-de/config.toml")
    assert config.data.train == ("train.en", "train.de")
    assert config.training.max_steps == 6  # --set
    assert (config.model.dropout, config.training.schedule) == (0.3, "cosine")  # the table
    assert Path("runs/en-de/curves.svg").exists()
    said = result.stderr.splitlines()  # the text is shown with its languages, and doubts are named
    start = said.index("train.en + train.de, as it is read:")
    assert [line[:6] for line in said[start + 1 : start + 7]] == ["  en: ", "  de: "] * 3
    assert said[start + 7].startswith("warning (few): only 60 pairs: ")
    assert not re.search(r"source +|hypothesis|\x1b|━", result.stderr), "what only a terminal shows"
    number = r"\d+(\.\d+)?"  # a line of the log carries its units
    line = rf"^step 2 · epoch 1 · loss {number} nats/token · {number}k? tokens/s · lr {number}e-\d$"
    assert_line(result.stderr, line)
    line = rf"^valid · step 3 · loss {number} nats/token · BLEU {number} · chrF {number} · best so far$"
    assert_line(result.stderr, line)


def assert_line(text: str, pattern: str) -> None:
    assert re.search(pattern, text, re.MULTILINE), text


def chosen(*arguments: object) -> tuple[TranslationConfig, str]:
    """What `dragoman train` would train, and what it says before."""
    configs = []

    def begin(config: TranslationConfig, *_: object, **__: object) -> NoReturn:
        configs.append(config)
        raise typer.Exit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.cli.train.run_training", begin)
        said = succeed("train", *arguments).stderr
    return configs[0], said


UNIT = '<tu><tuv xml:lang="EN-US"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'


def test_files_tell_languages_columns_and_steps() -> None:
    write_corpus(Path(), "a", 40, seed=1)
    pairs = [line.split("\t") for line in Path("a.tsv").read_text(encoding="utf-8").splitlines()]
    body = "".join(UNIT.format(*pair) for pair in pairs)
    Path("memory.tmx").write_text(f'<tmx><header srclang="de-AT"/><body>{body}</body></tmx>', "utf-8")
    for options, languages in (((), ("de", "en")), (("--tgt-lang", "de"), ("en", "de"))):
        config, said = chosen("memory.tmx", *options)
        assert (config.data.src_lang, config.data.tgt_lang) == languages
        assert f"40 pairs, {' → '.join(languages)} (as the files say): " in said
    rows = "".join(f"{i},{src},{tgt}\n" for i, (src, tgt) in enumerate(pairs[:2]))
    Path("a.csv").write_text(f"id,Quelle,Ziel\n{rows}", encoding="utf-8")
    for columns, expected in (("Quelle,Ziel", ["Quelle", "Ziel"]), ("1,2", [1, 2])):
        config, said = chosen("a.csv", "--src-lang", "en", "--tgt-lang", "de", "--columns", columns)
        assert list(config.data.columns) == expected
    assert "300 steps (about 300 passes)" in said, "not thousands for a tiny corpus"
    assert config.training.max_steps == 300


def test_the_config_of_a_run_is_a_recipe_and_a_finished_run_is_not_trained_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = chosen(run / "config.toml", "--set", "seed=7")
    assert config == load_recipe(run / "config.toml").model_copy(update={"seed": 7})
    before = [(run / name).read_bytes() for name in ("model.safetensors", "history.jsonl")]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (run / "curves.svg").unlink(missing_ok=True)
    said = succeed("train", run / "config.toml", "--out", run).stderr
    assert "run is finished" in said
    assert [(run / name).read_bytes() for name in ("model.safetensors", "history.jsonl")] == before
    assert re.search(r"pip install -e \S*\[plots\]", said), "curves cannot be drawn, which is no error"
    assert not (run / "curves.svg").exists()


TEXT = ["--src", "a.en", "--tgt", "a.de"]

REFUSED = {
    "train": [
        ([], "nothing to train on; give a recipe.toml, or --src and --tgt, or --tsv"),
        (["--src", "a.en"], "--src needs --tgt beside it"),
        ([*TEXT, "--tsv", "a.tsv"], "--src and --tgt, or --tsv, but not both"),
        (["r.toml", *TEXT], "r.toml names its own files and languages"),
        (["a.tsv"], "a.tsv: no such file in "),
        (["."], ".: is a folder; give a recipe.toml, or a file of text"),
        (["--tsv", "a.tsv", "--columns", "1"], "--columns 1: name two, as in --columns 0,1"),
        (["--tsv", "a.tsv"], "a.tsv: say its languages, as in --src-lang en --tgt-lang de"),
        (["--src", "a.txt", "--tgt", "a.de"], "a.txt: its name does not tell the language"),
    ],
    "translate": [
        (["run", "--n-best", "2"], "--n-best is for --json"),
        (["run", "--json", "--n-best", "4", "--beam-size", "2"], "n_best = 4 needs a beam at least as large"),
        (["run", "--precision", "fp16"], "--precision fp16: is not a precision"),
        (["run", "--device", "tpu9"], 'device = "tpu9"'),
        (["run", "missing.txt"], "missing.txt: no such file"),
        (["empty"], "empty: is not a run"),
        (["nowhere"], "nowhere: there is no such folder"),
    ],
    "evaluate": [
        (["run", "--split", "train"], "--split train: there are test and valid"),
        (["run", "--src", "a.en"], "give --src and --ref together and without --split"),
        (["run", "--src", "a.en", "--ref", "a.de"], "a.en: no such file"),
    ],
    "demo": [
        (["--src", "fr"], "--src fr: the phrasebook has en, de, pl, zh"),
        (["--tgt", "en"], "--src en --tgt en: choose two different languages"),
        (["--set", "training.max_stepps=3"], "did you mean training.max_steps?"),
    ],
}


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [(command, *case) for command, cases in REFUSED.items() for case in cases],
)
def test_what_cannot_be_done_is_one_line(run: Path, command: str, arguments: list[str], message: str) -> None:
    Path("empty").mkdir()
    assert message in error_of(command, *arguments, stdin="red cat\n")


def test_an_interrupted_training_says_how_to_continue_and_does(corpus: tuple[str, ...]) -> None:
    command = ("train", *corpus, "--out", "r", *SETTINGS)
    command += ("--set", "training.max_steps=100000", "--set", "training.valid_every=1000")
    training = process(*command)
    assert training.stderr is not None
    said = b""
    while not said.startswith(b"step "):
        said = training.stderr.readline()
    training.send_signal(signal.SIGINT)
    end = training.communicate()[1].decode()
    assert training.returncode == 130
    assert "Traceback" not in end
    assert "the same command continues from here" in end
    call = f"{sys.executable} -m dragoman train --src train.en --tgt train.de --out r --set "
    assert f"to continue: {call}" in end
    state = r"^state     not finished, step \d+ of 100,000; train again to continue$"
    assert_line(succeed("show", "r").stdout, state)
    continued = dragoman(*command, "--max-hours", "1e-9")
    assert (continued.exit_code, "continuing from step" in continued.stderr) == (75, True)


# translate


def test_stdin_file_and_out_agree(run: Path) -> None:
    text = "red cat\n\nthe big river\r\nold dog"
    Path("in.en").write_bytes(text.encode())
    out = succeed("translate", run, stdin=text).stdout
    assert succeed("translate", run, "-", stdin=text).stdout == out
    assert succeed("translate", run, stdin="").stdout == ""
    assert succeed("translate", run, "in.en").stdout == out
    assert succeed("translate", run, "in.en", "--out", "out.de").stdout == ""
    assert Path("out.de").read_text(encoding="utf-8") == out
    assert out.count("\n") == 4
    assert out.split("\n")[1] == "", "an empty line stays empty"


def test_json_holds_source_translation_score_and_alternatives(run: Path) -> None:
    out = succeed("translate", run, "--json", "--n-best", 2, stdin="red cat\n\n").stdout
    filled, empty = map(json.loads, out.splitlines())
    assert filled["source"] == "red cat"
    assert filled["alternatives"][0]["translation"] == filled["translation"]
    scores = [a["score"] for a in filled["alternatives"]]
    assert len(scores) == 2
    assert scores[0] == filled["score"] == max(scores)
    assert (empty["source"], empty["translation"]) == ("", "")
    out = succeed("translate", run, "--json", "--n-best", 5, stdin="red cat\n").stdout
    assert len(json.loads(out)["alternatives"]) == 5, "a larger n-best widens the beam of 3"


def test_a_sentence_too_long_is_named_by_its_line_and_translated_nevertheless(run: Path) -> None:
    text = "red\n" * 1499 + "cat " * 600
    Path("long.en").write_text(text, encoding="utf-8")
    result = succeed("translate", run, "--beam-size", 1, "long.en")
    assert result.stderr.startswith("line 1500 is longer than the model's 512 tokens: translated in ")
    assert len(result.stderr.splitlines()) == 1
    assert len(result.stdout.splitlines()) == 1500


def test_a_pipe_is_answered_line_by_line(run: Path) -> None:
    translating = process("translate", run)
    assert translating.stdin is not None
    assert translating.stdout is not None
    for sentence in (b"red cat\n", b"old house\n"):
        translating.stdin.write(sentence)
        translating.stdin.flush()
        assert translating.stdout.readline().endswith(b"\n")  # before the input has come to its end
    rest, said = translating.communicate()
    assert (rest, said, translating.returncode) == (b"", b"", 0)


# evaluate, score, show


def results_of(run: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((run / "scores.json").read_text(encoding="utf-8"))["results"]
    return results


def test_evaluate_searches_as_translate_scores_as_score_and_keeps_what_differs_apart(run: Path) -> None:
    options = ["--beam-size", 2, "--no-repeat-ngram", 2, "--coverage-penalty", 0.5, "--ensemble", run]
    result = succeed("evaluate", run, "--out", "h.de.gz", *options)
    assert (
        "tiny-test · 15 sentences · beam 2 · length penalty 1 · coverage penalty 0.5 · no re" in result.stdout
    )
    for name in ("BLEU", "chrF2", "TER", "BLEU (lower-cased)"):
        assert_line(result.stdout, rf"^  {re.escape(name)} +[\d.]+ +-?[\d.]+ – [\d.]+ +nrefs:1")
    assert "sentences/s" in result.stderr
    source, reference = load_recipe(run / "config.toml").data.test["tiny-test"]
    translated = succeed("translate", run, source, *options).stdout
    assert gzip.decompress(Path("h.de.gz").read_bytes()).decode() == translated
    scores = json.loads(succeed("score", "h.de.gz", reference, "--tgt-lang", "de", "--json").stdout)

    for beam_size in (1, 1, 2):
        succeed("evaluate", run, "--beam-size", beam_size)
    first, second, third = results_of(run)
    assert first["search"] == {"coverage_penalty": 0.5, "no_repeat_ngram": 2, "ensemble": [str(run)]}
    assert first["scores"] == scores
    assert [second["beam_size"], third["beam_size"]] == [1, 2]
    assert "search" not in third
    text = succeed("show", run).stdout
    assert f"score     tiny-test · BLEU {scores[0]['value']:.1f}" in text
    assert "beam 2 · coverage penalty 0.5" in text
    for place in ("one", "two", "one"):  # texts of one name
        write_corpus(Path(place), "test", 5, seed=len(place))
        succeed("evaluate", run, "--json", "--src", f"{place}/test.en", "--ref", f"{place}/test.de")
    assert [result["n_sentences"] for result in results_of(run)[3:]] == [5, 5]


def test_a_folder_as_output_is_refused_before_the_work(run: Path) -> None:
    Path("folder").mkdir()
    (run / "model.safetensors").unlink()  # what needs it would complain of that
    line = error_of("evaluate", run, "--out", "folder")
    assert line == "error: folder: cannot be written (it is a folder); name a file"
    line = error_of("translate", run, "--out", "nowhere/out", stdin="red cat\n")
    assert line == "error: nowhere/out: there is no folder nowhere; make it, or name another place"


def test_without_a_test_set_the_validation_pairs_are_translated(run: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    config = re.sub(r"tiny-test = \[[^]]*\]", "", config)
    (run / "config.toml").write_text(config, encoding="utf-8")
    result = succeed("evaluate", run)
    assert "names no test set, so its validation pairs are translated" in result.stderr
    assert_line(result.stdout, r"^valid · 20 sentences")
    line = error_of("evaluate", run, "--split", "test")
    assert "names no test set; say --split valid, or give --src and --ref" in line


def test_damaged_scores_are_an_error_and_not_overwritten(run: Path) -> None:
    (run / "scores.json").write_text('{"results": [3]}', encoding="utf-8")
    assert "scores.json: is damaged; remove it and evaluate again" in error_of("evaluate", run, silent=False)
    assert (run / "scores.json").read_text(encoding="utf-8") == '{"results": [3]}'


def test_a_perfect_translation_scores_100_and_a_missing_line_is_an_error() -> None:
    write_corpus(Path(), "a", 20, seed=1)
    out = succeed("score", "a.de", "a.de", "--tgt-lang", "de").stdout
    assert_line(out, r"^  BLEU +100\.0 +100\.0 – 100\.0")
    assert_line(out, r"^  TER +0\.0 ")
    Path("b.de").write_text("eins\nzwei\n", encoding="utf-8")
    assert "b.de has 2 lines and a.de 20" in error_of("score", "b.de", "a.de", "--tgt-lang", "de")


def test_show_tells_state_size_best_files_and_settings(run: Path) -> None:
    text = succeed("show", run).stdout
    assert_line(text, r"^run · tiny · en → de$")
    assert_line(text, r"^state     finished after 6 steps, ")
    assert_line(text, r"^size      [\d,]+ parameters, [\d.]+ MB$")
    assert_line(text, r"^best      step [36] · loss [\d.]+ nats/token · BLEU ")
    assert_line(text, r"^curves    dragoman show --plot run$")
    assert_line(text, r"^  d_model = 16$")
    assert "model.safetensors" in text
    assert_line(succeed("show", run, "--plot").stdout, r"^curves    run/curves\.svg$")
    # one that an earlier version merged
    Run.open(run).write_json("report.json", {"merged": {"runs": ["a", "b"], "weight": 0.3, "tried": []}})
    assert_line(succeed("show", run).stdout, r"^state     merged from a and b, 0\.3 of the second$")


# demo


def test_the_demo_trains_scores_and_shows_translations_beside_references() -> None:
    small = ("--set", 'data.train=["phrasebook:valid"]', "--set", "training.valid_every=6")
    result = succeed("demo", "--src", "de", "--tgt", "en", *SETTINGS, *small)
    config = load_recipe("runs/demo-de-en/config.toml")
    assert (config.data.src_lang, config.data.tgt_lang) == ("de", "en")
    for heading in ("source", "translation", "reference", "BLEU", "chrF2"):
        assert heading in result.stdout
    assert "dragoman translate runs/demo-de-en" in result.stderr
    assert Path("runs/demo-de-en/curves.svg").exists()
    names = [result["name"] for result in results_of(Path("runs/demo-de-en"))]
    assert names[0] == "phrasebook"
    assert len(names) == 3


# export, and tools/gpu_check.py


def test_the_command_writes_an_export_and_prints_how_near_it_is(tiny_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    for _ in range(2):  # the second in place of the first
        result = succeed("export", tiny_run, "--to", "onnx", "--out", out, "--sentences", "4")
        lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if "same" not in line)
        assert lines["format"] == "onnx, float32"
        assert lines["sentences"].startswith("4 (")
        assert "nats a token" in lines["largest"]
        assert "same, greedy                              100.0%" in result.stdout
        assert result.stderr == f"next: see {out / 'README.md'}\n"
        assert (out / REPORT).exists()


def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(tiny_run: Path, tmp_path: Path) -> None:
    run = damaged_run(tiny_run, tmp_path / "run")
    assert "is damaged or cut short" in error_of("export", run, "--to", "onnx", "--out", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    (tmp_path / "file").touch()
    to_onnx = ("--to", "onnx", "--out", tmp_path / "file" / "out")
    assert "no such folder" in error_of("export", tmp_path / "none", *to_onnx)
    assert "cannot be written" in error_of("export", tiny_run, *to_onnx)
    assert "--to marian: is not a format" in error_of("export", tiny_run, "--to", "marian", *to_onnx[2:])


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_it_says_so_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == 1
    assert capsys.readouterr() == ("", "error: no GPU here; --device cpu tries the checks on the processor\n")
