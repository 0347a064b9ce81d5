"""The command line as its users meet it: what it prints where, with which exit code, whatever goes wrong."""

import errno
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
import typer
from typer.testing import CliRunner

from commands import dragoman, error_of, succeed
from commands import folder as folder
from dragoman import __version__
from dragoman.cli.app import Commands, app
from dragoman.config import TranslationConfig, load_recipe
from dragoman.errors import ConfigError, DataError
from dragoman.runs import Run
from tiny import TINY, write_corpus

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


def test_version_is_the_package_s() -> None:
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
        (RuntimeError("a bug"), 1, ""),
    ],
)
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


def test_equal_sides_are_refused_before_there_is_a_run_unless_they_are_meant(corpus: object) -> None:
    command = ("train", "--src", "train.en", "--tgt", "train.en", "--tgt-lang", "de", *SETTINGS)
    line = error_of(*command, silent=False)
    assert "train.en + train.en: both sides are equal in 100 % of the pairs; " in line
    assert "--no-check" in line
    assert not Path("runs").exists()
    assert "warning (equal): both sides are equal" in succeed(*command, "--no-check").stderr


def test_shifted_sides_are_refused_before_processes_are_started() -> None:
    write_corpus(Path(), "train", 300, seed=1)
    lines = Path("train.de").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("train.de").write_text("".join([*lines[3:], *lines[:3]]), encoding="utf-8")
    command = ("train", "--src", "train.en", "--tgt", "train.de", "--processes", 2, *SETTINGS)
    line = error_of(*command, silent=False)
    assert "train.en + train.de: the sides are shifted: " in line
    assert "most of them 3 lines above; " in line
    assert not Path("runs").exists()


def assert_line(text: str, pattern: str) -> None:
    assert re.search(pattern, text, re.MULTILINE), text


def test_several_files_are_one_corpus_whose_parts_are_counted() -> None:
    for name, n_pairs in {"a": 40, "b": 30, "valid": 8, "more": 7}.items():
        write_corpus(Path(), name, n_pairs, seed=n_pairs)
    files = [f"--{o}={name}.{end}" for name in ("a", "b") for o, end in (("src", "en"), ("tgt", "de"))]
    valid = ("--valid-tsv", "valid.tsv", "--valid-tsv", "more.tsv", "--src-lang", "en", "--tgt-lang", "de")
    said = succeed("train", *files, *valid, "--out", "r", *SETTINGS).stderr
    assert "70 pairs, en → de:" in said
    assert "70 training pairs (" in said
    assert "15 validation pairs" in said
    assert "a.en + a.de: 40 pairs\nb.en + b.de: 30 pairs\n" in said
    config = load_recipe("r/config.toml")
    assert config.data.train == (("a.en", "a.de"), ("b.en", "b.de"))
    assert config.data.valid == (("valid.tsv",), ("more.tsv",))


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
    for source, options, languages in (
        ("en", (), ("en", "de")), ("de-AT", (), ("de", "en")), ("en", ("--tgt-lang", "en"), ("de", "en")),
    ):  # fmt: skip
        memory = f'<tmx><header srclang="{source}"/><body>{body}</body></tmx>'
        Path("memory.tmx").write_text(memory, encoding="utf-8")
        config, said = chosen("memory.tmx", *options)
        assert (config.data.src_lang, config.data.tgt_lang) == languages
        assert f"40 pairs, {' → '.join(languages)} (as the files say): " in said
    rows = "".join(f"{i},{src},{tgt}\n" for i, (src, tgt) in enumerate(pairs))
    Path("a.csv").write_text(f"id,Quelle,Ziel\n{rows}", encoding="utf-8")
    for columns, number in (
        (("--columns", "Quelle,Ziel"), False), (("--set", 'data.columns=["Quelle","Ziel"]'), False),
        (("--columns", "1,2"), True),
    ):  # fmt: skip
        config, said = chosen("a.csv", "--src-lang", "en", "--tgt-lang", "de", *columns)
        assert "40 pairs, en → de: " in said
        assert list(config.data.columns) == ([1, 2] if number else ["Quelle", "Ziel"])
    Path("few.tsv").write_text("red\trot\nblue\tblau\n", encoding="utf-8")
    config, said = chosen("--tsv", "few.tsv", "--src-lang", "en", "--tgt-lang", "de")
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
        (["--src", "a.en", "--src", "b.en", "--tgt", "a.de"], "--src needs --tgt beside it"),
        ([*TEXT, "--valid-tgt", "b.de"], "--valid-tgt needs --valid-src beside it"),
        ([*TEXT, "--tsv", "a.tsv"], "--src and --tgt, or --tsv, but not both"),
        (["r.toml", *TEXT], "r.toml names its own files and languages"),
        (["r.toml"], "r.toml: cannot be read"),
        (["a.tsv"], "a.tsv: no such file in "),
        (["."], ".: is a folder; give a recipe.toml, or a file of text"),
        (["--tsv", "a.tsv", "--columns", "1"], "--columns 1: name two, as in --columns 0,1"),
        (["--tsv", "a.tsv", "--columns", "0,1,2"], "--columns 0,1,2: name two, as in --columns 0,1"),
        (["r.toml", "--columns", "0,1"], "r.toml names its own files and languages"),
        (["--tsv", "a.tsv"], "a.tsv: say its languages, as in --src-lang en --tgt-lang de"),
        (["--src", "a.txt", "--tgt", "a.de"], "a.txt: its name does not tell the language"),
        (TEXT, "a.en: no such file"),
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
        (["run", "--src", "a.en", "--ref", "a.de", "--split", "test"], "give --src and --ref together"),
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
    said = interrupt_after_first_log_line(*command)
    assert "continuing" not in said
    assert "the same command continues from here" in said
    call = f"{sys.executable} -m dragoman train --src train.en --tgt train.de --out r --set "
    assert f"to continue: {call}" in said
    state = r"^state     not finished, step \d+ of 100,000; train again to continue$"
    assert_line(succeed("show", "r").stdout, state)
    continued = dragoman(*command, "--max-hours", "1e-9")
    assert (continued.exit_code, "continuing from step" in continued.stderr) == (75, True)


def interrupt_after_first_log_line(*command: str) -> str:
    """What a training says on stderr that gets Ctrl-C as soon as it runs."""
    training = process(*command)
    assert training.stderr is not None
    said = b""
    for line in training.stderr:
        said += line
        if line.startswith(b"step "):
            break
    training.send_signal(signal.SIGINT)
    said += training.communicate()[1]
    assert training.returncode == 130
    assert b"Traceback" not in said
    return said.decode()


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


def test_an_output_without_its_folder_is_refused_at_once(run: Path, tiny_classifier_run: Path) -> None:
    for name in ("a.en", "a.de"):
        Path(name).write_text("red cat\n", encoding="utf-8")
    for command in (
        ("translate", run, "--out", "nowhere/out"),
        ("classify", tiny_classifier_run, "--out", "nowhere/out"),
    ):
        said = error_of(*command, stdin="red cat\n")
        assert said == "error: nowhere/out: there is no folder nowhere; make it, or name another place"


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


def test_evaluate_prints_scores_with_signatures_and_keeps_them(run: Path) -> None:
    result = succeed("evaluate", run, "--out", "hypotheses.de")
    assert "tiny-test · 15 sentences · beam 3 · length penalty 1" in result.stdout
    for name in ("BLEU", "chrF2", "TER", "BLEU (lower-cased)"):
        assert_line(result.stdout, rf"^  {re.escape(name)} +[\d.]+ +-?[\d.]+ – [\d.]+ +nrefs:1")
    assert "sentences/s" in result.stderr
    assert len(Path("hypotheses.de").read_text(encoding="utf-8").splitlines()) == 15
    (kept,) = results_of(run)
    assert kept["name"] == "tiny-test"
    assert f"score     tiny-test · BLEU {kept['scores'][0]['value']:.1f}" in succeed("show", run).stdout


def results_of(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run / "scores.json").read_text(encoding="utf-8"))["results"]
    return found


def test_evaluating_again_replaces_the_same_and_adds_what_differs(run: Path) -> None:
    for beam_size in (1, 1, 2):
        succeed("evaluate", run, "--beam-size", beam_size)
    assert [result["beam_size"] for result in results_of(run)] == [1, 2]


def test_evaluate_searches_as_translate_does_and_writes_down_how(run: Path) -> None:
    options = ["--beam-size", 2, "--no-repeat-ngram", 2, "--coverage-penalty", 0.5, "--ensemble", run]
    result = succeed("evaluate", run, "--out", "hypotheses.de", *options)
    assert "beam 2 · length penalty 1 · coverage penalty 0.5 · no repeat ngram 2 · ensemble" in result.stdout
    source = load_recipe(run / "config.toml").data.test["tiny-test"][0]
    assert succeed("translate", run, source, *options).stdout == Path("hypotheses.de").read_text("utf-8")
    succeed("evaluate", run, "--beam-size", 2)  # another search of the same test, kept beside it
    first, second = results_of(run)
    assert first["search"] == {"coverage_penalty": 0.5, "no_repeat_ngram": 2, "ensemble": [str(run)]}
    assert "search" not in second
    assert "beam 2 · coverage penalty 0.5" in succeed("show", run).stdout


def test_scores_of_texts_of_the_same_name_are_kept_apart(run: Path) -> None:
    for place in ("one", "two"):
        write_corpus(Path(place), "tiny-test", 5, seed=len(place))
        Path(place, "tiny-test.en").rename(Path(place, "tiny-test"))
    for place in ("one", "two", "one"):
        succeed("evaluate", run, "--src", f"{place}/tiny-test", "--ref", f"{place}/tiny-test.de")
    succeed("evaluate", run)
    assert [result["n_sentences"] for result in results_of(run)] == [5, 5, 15]


@pytest.mark.parametrize("command", [("evaluate",), ("translate", "words.en", "--glossary", "terms.tsv")])
def test_a_folder_as_output_is_refused_before_the_work(run: Path, command: tuple[str, ...]) -> None:
    Path("words.en").write_text("red cat\n", encoding="utf-8")
    Path("terms.tsv").write_text("red\trot\n", encoding="utf-8")
    Path("folder").mkdir()
    (run / "model.safetensors").unlink()  # what needs it would complain of that
    line = error_of(command[0], run, *command[1:], "--out", "folder")
    assert line == "error: folder: cannot be written (it is a folder); name a file"


def test_evaluate_json_and_score_agree(run: Path) -> None:
    test = load_recipe(run / "config.toml").data.test["tiny-test"]
    out = succeed("evaluate", run, "--json", "--src", test[0], "--ref", test[1], "--out", "h.de.gz").stdout
    (evaluated,) = json.loads(out)["results"]
    scored = json.loads(succeed("score", "h.de.gz", test[1], "--tgt-lang", "de", "--json").stdout)
    assert scored == evaluated["scores"]
    assert evaluated["name"] == "test.en"


def test_without_a_test_set_the_validation_pairs_are_translated(run: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    config = re.sub(r"tiny-test = \[[^]]*\]", "", config)
    (run / "config.toml").write_text(config, encoding="utf-8")
    result = succeed("evaluate", run)
    assert "names no test set, so its validation pairs are translated" in result.stderr
    assert_line(result.stdout, r"^valid · 20 sentences")
    line = error_of("evaluate", run, "--split", "test")
    assert "names no test set; say --split valid, or give --src and --ref" in line


def test_a_test_set_with_an_empty_side_is_an_error(run: Path) -> None:
    Path("a.en").write_text("red cat\nold dog\n", encoding="utf-8")
    Path("a.de").write_text("rote Katze\n\n", encoding="utf-8")
    assert "pair 2: the target is empty" in error_of("evaluate", run, "--src", "a.en", "--ref", "a.de")


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
