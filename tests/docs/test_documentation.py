"""Every command and every piece of Python in the documents runs, against small stand-ins.

The blocks of a document run in their order, in one folder of their own, which holds small files of the
names in STAND_INS. Trainings get the settings of a tiny one; recipes are copied with them. What is no
command of ours is checked: the target of `make`, the extras of `pip install`, the file of `python`.
A block right below

    <!-- not run: the reason -->

is left out; use it only where there is no other way.
"""

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import docx
import pytest
from typer.testing import CliRunner

from dragoman.cli import app
from dragoman.config import load_recipe, to_toml
from dragoman.removed import REMOVED
from foreign_models import write_marian
from tiny import TINY, TINY_CLASSIFIER, write_corpus, write_labelled, write_topics

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/*.md", "recipes/**/README.md")
    for path in ROOT.glob(pattern)
)
SAME_BLOCKS = Path("README_zh.md")
"""Not run: tests/docs/test_chinese_readme.py holds its blocks to those of README.md, which are."""
STAND_INS = {"train": 60, "valid": 12, "test": 8, "corpus": 60, "input": 4, "your": 60}
"""Files such as train.en, train.de and train.tsv, and their pairs."""

SMALL = {
    "train": [argument for override in TINY for argument in ("--set", override)],
    "demo": ["--set", 'data.train=["phrasebook:valid"]'],
    "export": ["--sentences", "5"],
}
SMALL["demo"] += SMALL["train"]
SMALL_CLASSIFIER = {
    "train": [argument for override in TINY_CLASSIFIER for argument in ("--set", override)],
    "demo": ["--set", 'data.train=["phrasebook:reviews-valid"]'],
}
SMALL_CLASSIFIER["demo"] += SMALL_CLASSIFIER["train"]
FOREIGN: dict[str, Callable[[Path], object]] = {
    "opus-mt-en-de": partial(
        write_marian, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16
    ),
}
"""Models of other toolkits, of the shape of a tiny training, in folders that documents name."""
REAL = ["reproduce", "phrasebook-en-de", "--quick"]
"""The one reproduction that is run, with its real expectation; of others only the plan is printed."""
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: \S.*-->\n\n?\Z")


class Block(NamedTuple):
    language: str
    text: str


def blocks_of(document: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text that are to be run."""
    for found in FENCE.finditer(document):
        if not NOT_RUN.search(document[: found.start()]):
            yield Block(found[1], found[2])


def commands_of(block: str) -> list[str]:
    """The command lines of a block. Where some begin with "$ ", the others are output."""
    lines = block.replace("\\\n", " ").splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return [line for line in commands if line.strip() and not line.lstrip().startswith("#")]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `workplace` with the stand-ins and recipes, their data, and programs, as each test has them.

    The `dragoman` among the programs makes trainings small.
    """
    original = tmp_path_factory.mktemp("stand-ins")
    folder, data, programs = (original / name for name in ("workplace", "data", "bin"))
    for name, n_pairs in STAND_INS.items():
        write_corpus(folder, name, n_pairs, seed=n_pairs)
    (folder / "corpus.pl").write_bytes((folder / "corpus.de").read_bytes())
    write_labelled(folder, "reviews", 60, seed=60)
    write_topics(folder, "topics", 60, seed=60)
    write_documents(folder)
    for recipe in ROOT.glob("recipes/*/recipe.toml"):
        _copy_recipe(recipe, folder / recipe.relative_to(ROOT), data)
    programs.mkdir()
    dragoman = programs / "dragoman"
    dragoman.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {[str(HERE), str(HERE.parent)]!r}\n"
        "from test_documentation import small\nfrom dragoman.cli import main\n"
        "sys.argv[1:] = small(sys.argv[1:])\nmain()\n",
        encoding="utf-8",
    )
    dragoman.chmod(0o755)
    return original


@pytest.fixture
def workplace(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, with that `dragoman` on the PATH."""
    shutil.copytree(stand_ins, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path / "workplace")
    return tmp_path / "workplace"


def write_documents(folder: Path) -> None:
    """A letter, subtitles and translation memories; the corpus as one of these, and as CSV."""
    pairs = [line.split("\t") for line in (folder / "corpus.tsv").read_text(encoding="utf-8").splitlines()]
    tuvs = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    units = "".join(tuvs.format(*pair) for pair in pairs)
    (folder / "corpus.tmx").write_text(f'<tmx><header srclang="en"/><body>{units}</body></tmx>', "utf-8")
    rows = "".join(f'{n},"{src}","{tgt}"\n' for n, (src, tgt) in enumerate(pairs))
    (folder / "corpus.csv").write_text(f"id,Quelle,Ziel\n{rows}", encoding="utf-8")
    document = docx.Document()
    document.add_paragraph("The red ").add_run("cat sleeps.").bold = True
    document.save(str(folder / "letter.docx"))
    (folder / "film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nThe <i>red</i> cat.\n\n", "utf-8")
    unit = '<tu><tuv xml:lang="en"><seg>The <hi>red</hi> cat.</seg></tuv></tu>'
    (folder / "memory.tmx").write_text(f"<tmx><body>{unit}</body></tmx>", encoding="utf-8")


def _copy_recipe(recipe: Path, copy: Path, data: Path) -> None:
    """Copies a recipe with the settings of a tiny training, and writes small files of the names in it."""
    classifies = is_classification(recipe)
    config = load_recipe(recipe, TINY_CLASSIFIER if classifies else TINY)
    copy.parent.mkdir(parents=True)
    copy.write_text(to_toml(config), encoding="utf-8")
    corpora = [files for _, files in config.data.files()]
    (write_labelled if classifies else write_corpus)(data, "pairs", 40, seed=1)
    for files in corpora:
        for file, suffix in zip(files, ("en", "de") if len(files) == 2 else ("tsv",), strict=False):
            if not file.startswith("phrasebook:"):
                content = (data / f"pairs.{suffix}").read_bytes()
                (data / file).parent.mkdir(parents=True, exist_ok=True)
                (data / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)


def is_classification(recipe: Path) -> bool:
    return recipe.is_file() and 'task = "classification"' in recipe.read_text(encoding="utf-8")


def run_command(command: str) -> None:
    """Runs a command line of ours in a shell; checks that of others."""
    command = command.replace("python -m dragoman", "dragoman")
    words = shlex.split(command, comments=True)
    if words[0] != "dragoman" and not ("dragoman" in words and re.search("[|<>;&]", command)):
        check_command(words)
        return
    done = subprocess.run(["sh", "-ec", command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert "error: " not in done.stderr, f"{command}\n{done.stderr}"


def small(arguments: list[str]) -> list[str]:
    """A command of ours with what makes it quick."""
    if arguments[:1] == ["reproduce"]:
        asks = {"--dry-run", "--help"} & set(arguments) or len(arguments) == 1
        return arguments if asks or arguments[: len(REAL)] == REAL else [*arguments, "--dry-run"]
    recipes = [Path(argument) for argument in arguments if argument.endswith(".toml")]
    classifies = "classification" in arguments or any(map(is_classification, recipes))
    settings = SMALL_CLASSIFIER if classifies else SMALL
    return arguments + settings.get(arguments[0] if arguments else "", [])


def check_command(words: list[str]) -> None:
    """Checks a command that is not ours, or that would take long, without running it."""
    program, arguments = words[0], words[1:]
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in arguments:
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"no target {target}"
    elif program == "pip" and arguments[0] == "install":
        for argument in arguments[1:]:
            check_requirement(argument)
    elif words[:3] == ["python3", "-m", "venv"]:
        assert arguments[2:] == [".venv"]
    elif program == "python":
        compile((ROOT / arguments[0]).read_text(encoding="utf-8"), arguments[0], "exec")
    elif program == "source":
        assert arguments == [".venv/bin/activate"]
    else:
        assert program in ("cd", "git"), f"{shlex.join(words)}: this test does not know how to check it"


def check_requirement(argument: str) -> None:
    """A thing to install is this folder, for the package is on no index; its extras are in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = re.fullmatch(r"\.(?:\[([\w,-]+)\])?", argument)
    assert found or argument in ("-e", "--editable"), f"pip install {argument}: is not this folder"
    for extra in (found[1] or "").split(",") if found else []:
        assert not extra or extra in extras, f"pip install {argument}: there is no extra {extra}"


def run_python(code: str) -> None:
    """Runs a piece of Python; the steps of its trainings are few."""
    exec(compile(re.sub(r"max_steps=\d+", "max_steps=4", code), "<doc>", "exec"), {"__name__": "__main__"})


@pytest.mark.nightly
@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != SAME_BLOCKS], ids=str)
def test_every_block_of_the_document_runs(document: Path, workplace: Path) -> None:
    content = (ROOT / document).read_text(encoding="utf-8")
    for name, write in FOREIGN.items():
        if f"dragoman import {name}" in content:
            write(workplace / name)
    for language, text in blocks_of(content):
        if language in ("sh", "bash", "shell", "console"):
            for command in commands_of(text):
                run_command(command)
        elif language == "python":
            run_python(text)


def test_commands_named_in_the_text_exist_with_their_options() -> None:
    shown: dict[tuple[str, ...], str] = {}
    for document in DOCUMENTS:
        text = FENCE.sub("", (ROOT / document).read_text(encoding="utf-8"))
        for command, rest in re.findall(r"`dragoman ([a-z][a-z-]*)([^`]*)`", text):
            options = set(re.findall(r"--[a-z-]+", rest))
            if {f"dragoman {command}", *options} & REMOVED.keys():  # CHANGELOG names it
                continue
            inner = re.match(r" (add|list|revoke)\b", rest) if command == "key" else None
            words = (command, *([inner[1]] if inner else []))
            if words not in shown:
                result = CliRunner().invoke(app, [*words, "--help"])
                assert result.exit_code == 0, f"{document}: dragoman {command}"
                shown[words] = result.stdout
            for option in options:
                assert f"{option} " in shown[words], f"{document}: dragoman {command} has no {option}"


def test_no_block_installs_from_an_index_what_is_on_none() -> None:
    for document in DOCUMENTS:
        for block in FENCE.finditer((ROOT / document).read_text(encoding="utf-8")):
            for arguments in re.findall(r"\bpip install (.*)", block[2]):
                assert not re.search(r"""(?:^|\s)['"]?dragoman\b""", arguments), f"{document}: {arguments}"
