"""Calls of the command line that no user should make, made from its own tree of commands."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from attacks import calls
from attacks.calls import Ended, Fault, Show, Stage
from attacks.documents import SECRET, Document, document_faults, make

split = str.split
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""What no command writes on stdout or into lines."""


def hostile_text(rng: random.Random, lines: Sequence[str]) -> bytes:
    """Lines of text, mostly with something wrong in or about them."""
    lines = list(lines)
    odd = [
        "", " ", "\t", "\x00", "a\x00b", "\x1b[2J\x07", "\ufeff", "\u2028x\u2029", "\u202ex\u202c",
        "x" * 3000,
        "a " * 800, "👩‍👩‍👧 🏳️‍🌈", "Z\u0341\u0323" * 30, "\r", "a\rb", "\x85\x0b\x0c", "<b>x</b> {0} %s 12,5",
        "http://x.org/?a=b#c", "<" * 300, "0" * 400, "\udcff", "…\u200b\u00ad", "١٢٣ 中文 ไทย", "a\tb\tc",
        "<b>" * 40 + "x" + "</b>" * 40, "..." * 100, "12345", "— .", "€ 12.50",
        "İSTANBUL VE ANKARA ÇOK GÜZEL", "Die STRAßE",
        "".join(chr(rng.randrange(0x41, 0xD7FF)) for _ in range(30)).upper(),
    ]  # fmt: skip
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 5])):
        lines.insert(rng.randint(0, len(lines)), rng.choice(odd))
    text = "".join(f"{line}\n" for line in lines)
    utf8 = text.encode("utf-8", "surrogateescape")
    styles = [
        b"\xef\xbb\xbf" + utf8,
        utf8.replace(b"\n", b"\r\n"),
        utf8.replace(b"\n", b"\r"),
        utf8.rstrip(b"\n"),
        text.encode("latin-1", "replace"),
        (text + "Straße – naïve „Ü“\n").encode("cp1252", "replace"),
        text.encode("utf-16", "replace"),
        text.encode("utf-32", "replace"),
        b"",
        b"\n" * rng.randint(1, 30),
        rng.randbytes(rng.randint(1, 500)),
        utf8 + "Grüße\n".encode("latin-1"),
        utf8 + b"\x00" * 50,
        utf8 + b"word " * 6000,
    ]
    return utf8 if rng.random() < 0.26 else rng.choice(styles)


RUNS = split("run run run run classifier broken missing folder loop . text.en run/model.safetensors hf:a/b -")
TEXTS = split(
    "text.en text.en text.en text.de text.tsv text.gz bad.gz labelled.tsv memory.tmx table.csv lines.jsonl "
    "letter.txt app.po notes.md data.json - missing folder pipe null full zero stdin link.txt loop empty "
    "run/config.toml caf\udce9 phrasebook:test"
)
OUTS = [
    *split(
        "out.txt out.txt out.tsv out.gz out.xz out.zst out.srt out there.txt link.txt dangling loop folder "
        "filled . - null full stdout missing/out.txt text.en text.de text.tsv run run/config.toml caf\udce9"
    ),
    "", "a\nb", "n" * 300, "x/" * 3000, "\u202etxt", "-out", "~",
]  # fmt: skip
INTS = [*split("0 1 2 3 7 -1 1000000 2147483648 9223372036854775808 1e3 1.5 x nan ０"), "", " 1", "9" * 5000]
FLOATS = [*split("0 1 0.5 2 -1 nan inf -inf 1e-60 1e-7 1e39 1e308 1e400 1000 0.999999 x 1,5"), ""]
STRINGS = [
    "", "x", "-", "--", "\x1b[2J", "\u202ex", "a\nb", "caf\udce9", "x" * 5000, "../x", "%s {0} $HOME", "'\""
]  # fmt: skip
OVERRIDES = [
    *split("""
    x = a.b=1 d_model=8 training.max_steps=1 training.max_steps=-1 training.lr=1 model.d_model=7
    model.d_model=1000000000 model.n_heads=0 model.dropout=0.999999 model.dropout=1 training.learning_rate=nan
    training.learning_rate=1e300 search.beam_size=0 tokenizer.vocab_size=1 tokenizer.vocab_size=100000000
    tokenizer.kind=words tokenizer.kind=characters training.precision=fp16 training.precision=bf16
    training.batch_tokens=1 data.max_length=1 data.columns=["a","b"] data.train=[] data.train=["missing"]
    data.test=3 seed=-1 seed=99999999999999999999 training.ema_decay=1 training.ema_decay=2 data.n_held_out=0
    training.schedule=wsd model.positions=rotary model.max_positions=1 name=../../x name= limits.characters=-1
    limits.seconds=nan hosts=[1] training.valid_every=0 training.keep_checkpoints=0 training.max_disk_gb=1e-9
    training.label_smoothing=1 search.temperature=0 search.method=sampling
    """),
    "name=a\nb",
]
POOLS = {
    "method": split("beam sampling sampling greedy"), "device": split("cpu auto cuda cuda:7 mps meta"),
    "precision": split("fp32 bf16 int8 auto fp16"),
    "split": split("test valid train"), "task": split("translation classification"),
    "preset": split("fast default quality fastest"), "to": split("ctranslate2 huggingface onnx tflite"),
    "compute_type": split("float32 int8"), "columns": split("0,1 1,0 0 0,9 -1,0 , a,b"),
    "text_column": split("0 1 9 -1 text"), "label_column": split("0 1 9 -1 label"),
    "src_lang": split("en de xx EN zh-Hant"), "tgt_lang": split("de en ja zh x-x"),
    "tag": ["<BT>", "\t", "a b"], "protect": split("numbers urls,tags all none ,"),
    "protect_pattern": split(r"[0-9]+ ( (a+)+$ . .* \ ^ a{99999} (?=x)"),
    "host": split("127.0.0.1 999.1.1.1 ::1 nowhere.invalid"), "port": split("0 -1 65536 x"),
    "workers": split("1 2 0 -1 x"), "processes": split("1 0 -1 x"), "ray": ["", "x y"],
    "licence": ["cc-by-4.0", "no such"], "name": split('alice a]b """ # multi30k wmt'),
    "minutes": split("0 0.001 -1 nan"), "max_hours": split("0 1e-9 -1 nan inf 1e300"),
    "drop": split("empty copy x"), "keep": split("empty copy x"), "format": split("marian fairseq auto x"),
    "variant": split("seed x"), "wandb": [""], "message": ["new"], "src": split("en de xx"),
    "tgt": split("de en xx"), "overrides": OVERRIDES, "set_": OVERRIDES,
}  # fmt: skip
"""Values by the name of an option, good and bad ones."""

RUN_OPTIONS = {"run", "runs", "ensemble", "start"}
FILE_OPTIONS = {*split("""
    file mono hypotheses references src tgt ref tsv valid valid_src valid_tgt valid_tsv
    glossary files test recipe settings keys codes src_spm tgt_spm model
""")}  # fmt: skip
OUT_OPTIONS = {"out", "out_dir", "pharaoh", "write_clean", "to"}
ALWAYS_MILD = ("workers", "processes", "ray", "port", "minutes", "max_hours")
"""Options that are never given a number that would only wear out the machine."""

CALLS = """
8 translate run text.en
12 translate run text.en --out out.txt
3 translate run text.en --json
2 translate run app.po --out out.txt
3 translate run letter.txt --document --out out.txt
20 translate run DOCUMENT --document --out out-DOCUMENT
3 translate run text.en --method sampling --temperature 2
2 translate run text.en --protect all
2 translate run text.en --out out.txt --pharaoh links.txt
2 translate run text.en --align --json
4 classify classifier text.en
2 classify classifier text.en --out out.txt
5 backtranslate run text.en --out out.tsv
2 data check text.en text.de --write-clean out
2 data check text.tsv --src-lang en --tgt-lang de
2 data check labelled.tsv --task classification
1 data check table.csv --columns 0,1 --json
4 evaluate run --src text.en --ref text.de
2 evaluate classifier --file labelled.tsv
4 score text.de text.en --tgt-lang de
5 score-model run text.en text.de
1 train TINY --src text.en --tgt text.de --out out
2 train TINY --tsv text.tsv --src-lang en --tgt-lang de --out out
2 train recipe.toml TINY --out out
1 train labelled.tsv --task classification TINY_CLASSIFIER --out out
1 train --from run --src text.en --tgt text.de --out out --set training.max_steps=2
1 distill run --out out TINY
1 export run --to ctranslate2 --out out
1 export run --to huggingface --out out
2 import run --out out
3 show run
1 show schedule --recipe recipe.toml --out out.svg
2 card run
1 report run --out out
2 compare run run --out out
1 serve run --port 0 --keys keys.toml
2 key add alice --file keys.toml
1 push run a/b
1 demo --set 'data.train=["text.tsv"]' --set 'data.valid=["text.tsv"]' TINY --out out
3 data list multi30k
2 data fetch multi30k --to out
2 reproduce multi30k-en-de --dry-run
"""
"""How often, and a call that could succeed."""

FIXED = {name: value for name, value in calls.TINY.items() if name != "search.beam_size"}
MADE = {"TINY": calls.settings(FIXED), "TINY_CLASSIFIER": calls.settings(calls.TINY_CLASSIFIER)}
WRITES_INTO_RUN = {*split("evaluate report show compare train distill demo reproduce")}
MAKES_FOLDERS = {
    *split("train distill demo reproduce report compare export import show"), "data fetch", "data check",
}  # fmt: skip
PRINTS = ("show", "card", "key add", "data list", "score", "score-model", "data check")
OUT_FLAGS = ("--out", "--out-dir", "--pharaoh", "--write-clean", "--to", "--file")
LINKS = {"link.txt": "there.txt", "dangling": "nowhere.txt"}
"""Names that are links to others in the folder of a case."""
STRUCTURED = ("app.po", "notes.md", "data.json")
"""Files that are more than lines, and are refused where `--lines` does not say so."""
INPUT_TEXTS = ("text.en", "text.de", "text.tsv", "text.gz", "bad.gz", "letter.txt", "memory.tmx", "table.csv",
               "lines.jsonl", "labelled.tsv", "recipe.toml", "secret.txt", *STRUCTURED)  # fmt: skip


class Option(NamedTuple):
    """A parameter of a command, as Typer has it."""

    flag: str
    """"" for an argument."""
    name: str
    kind: str
    """"flag", "int", "float", "path" or "str"."""


def command_tree() -> dict[str, list[Option]]:
    """Every command, and its parameters."""
    import typer

    from dragoman.cli import app

    found: dict[str, list[Option]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        if hasattr(command, "commands"):
            for name, sub in command.commands.items():
                walk(sub, (*path, name))
            return
        found[" ".join(path)] = [
            Option(each.opts[-1] if each.param_type_name == "option" else "", each.name, _kind(each))
            for each in command.params
        ]

    walk(typer.main.get_command(app), ())
    return found


def _kind(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    described = getattr(parameter, "type_descriptor", None)
    wanted = str(getattr(described, "annotation", getattr(parameter, "type", "")))
    return next((kind for kind in ("int", "float", "path") if kind in wanted.lower()), "str")


def value_for(rng: random.Random, command: str, option: Option) -> str:
    """Something to give an option: of its kind, or not."""
    name = option.name
    pool = {"int": INTS, "float": FLOATS}.get(option.kind, POOLS.get(name, STRINGS))
    if rng.random() < 0.08:
        pool = STRINGS
    elif name in ALWAYS_MILD:
        pool = POOLS[name]
    elif name in RUN_OPTIONS:
        pool = RUNS
    elif name in OUT_OPTIONS and option.kind == "path":
        pool = OUTS
    elif command.startswith("key ") and name == "file":
        pool = [*OUTS, "keys.toml"]
    elif name in FILE_OPTIONS and not (command == "demo" and name in POOLS):
        pool = TEXTS
    return rng.choice(pool)


def calls_of(tree: dict[str, list[Option]]) -> list[tuple[int, str, list[str]]]:
    """Weight, command and the rest of each call; a command that is not among `CALLS` is called bare."""
    found = []
    for line in CALLS.strip().splitlines():
        weight, *argv = shlex.split(line)
        command = next((name for name in (" ".join(argv[:2]), argv[0]) if name in tree), None)
        if command is not None:
            rest = argv[len(command.split()) :]
            found.append((int(weight), command, [w for word in rest for w in MADE.get(word, [word])]))
    return found + [(2, name, []) for name in sorted(tree.keys() - {command for _, command, _ in found})]


@dataclass
class CommandCase:
    """A call that could have been one of a user, and what surrounds it."""

    command: str
    options: list[Option]
    arguments: list[str]
    stdin: bytes | None
    stdout: str
    stderr: str
    texts: dict[str, bytes]
    document: Document

    @property
    def argv(self) -> list[str]:
        return [*self.command.split(), *self.arguments]

    def parsed(self) -> tuple[list[str], dict[str, str]]:
        """Return the words that belong to no option, and the last value of each option; a flag's is ""."""
        taking = {option.flag for option in self.options if option.flag and option.kind != "flag"}
        found: list[str] = []
        given: dict[str, str] = {}
        words = iter(self.arguments)
        for word in words:
            name, equals, value = word.partition("=")
            if word == "--":
                return [*found, *words], given
            if name in taking:
                given[name] = value if equals else next(words, "")
            elif word.startswith("-") and word != "-":
                given[word] = ""
            else:
                found.append(word)
        return found, given


def mutate(rng: random.Random, command: str, base: list[str], options: Sequence[Option]) -> None:
    """One change to a call."""
    named = [option for option in options if option.flag]
    words = [
        i for i, word in enumerate(base) if not word.startswith("-") and (not i or base[i - 1] != "--set")
    ]
    act = rng.random()
    if act < 0.55 and named:
        option = rng.choice(named)
        given = [option.flag] if option.kind == "flag" else [option.flag, value_for(rng, command, option)]
        base += given if rng.random() < 0.9 else ["=".join(given)]
    elif act < 0.85 and words:
        i = rng.choice(words)
        fitting = [o for o in named if i and o.flag == base[i - 1] and o.kind != "flag"]
        for each in (fitting or [o for o in options if not o.flag])[:1]:
            base[i] = value_for(rng, command, each)
    elif act < 0.92 and base:
        del base[rng.randrange(len(base))]
    else:
        odd = ["--nonsense", "", "--", "-", "text.en", "--out", "-x", "--help"]
        base.insert(rng.randint(0, len(base)), rng.choice(odd))


def make_texts(rng: random.Random, pairs: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    """Return the files of a case."""
    src, tgt = [en for en, _ in pairs], [de for _, de in pairs]
    lines = {"en": src, "de": tgt, "tsv": [f"{en}\t{de}" for en, de in pairs]}
    odd = {name: "".join(f"{line}\n" for line in each).encode() for name, each in lines.items()}
    plain = odd["en"]
    if rng.random() < 0.5:
        odd = {name: hostile_text(rng, each) for name, each in lines.items()}
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{en}</seg></tuv><tuv xml:lang="de"><seg>{de}</seg></tuv></tu>'
        for en, de in pairs
    )
    return {
        "text.en": odd["en"], "text.de": odd["de"], "text.tsv": odd["tsv"],
        "text.gz": gzip.compress(odd["en"], mtime=0), "bad.gz": gzip.compress(plain, mtime=0)[:-9],
        "letter.txt": odd["en"].replace(b"\n", b"\n\n"), "there.txt": b"it was here before\n", "empty": b"",
        "memory.tmx": f'<?xml version="1.0"?><tmx version="1.4"><header/><body>{units}</body></tmx>'.encode(),
        "table.csv": "".join(f'"{en}","{de}"\n' for en, de in pairs).encode(),
        "app.po": "".join(f'msgid "{en}"\nmsgstr ""\n\n' for en in src).encode(),
        "notes.md": "".join(f"# {en}\n" for en in src).encode(), "data.json": json.dumps(src).encode(),
        "lines.jsonl": "".join(f"{json.dumps({'en': en, 'de': de})}\n" for en, de in pairs).encode(),
        "caf\udce9": odd["en"],
    }  # fmt: skip


class Commands:
    """Calls of the command line, made from its own tree of commands."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.tree = stage, command_tree()
        self.calls = calls_of(self.tree)

    def case(self, seed: int) -> CommandCase:
        rng, pairs = random.Random(f"commands:{seed}"), self.stage.pairs
        [(_, command, base)] = rng.choices(self.calls, [weight for weight, _, _ in self.calls])
        base, options = list(base), self.tree[command]
        if command == "reproduce":
            options = [one for one in options if one.name in ("name", "json_", "seed", "variant", "quick")]
            base.append("--dry-run")
        for _ in range(rng.choice([0, 0, 1, 1, 1, 2, 3])):
            mutate(rng, command, base, options)
        chosen = rng.sample(pairs, k=rng.randint(1, 12))
        if command in ("train", "demo", "distill"):
            chosen = pairs[:60]
        document = make(rng, [en for en, _ in pairs])
        return CommandCase(
            command, self.tree[command], [word.replace("DOCUMENT", document.name) for word in base],
            stdin=None if rng.random() < 0.05 else hostile_text(rng, [en for en, _ in chosen]),
            stdout="file" if rng.random() < 0.85 else rng.choice(["closed", "full", "broken"]),
            stderr="file" if rng.random() < 0.97 else rng.choice(["closed", "full"]),
            texts={**make_texts(rng, chosen), document.name: document.content},
            document=document,
        )  # fmt: skip

    def faults(self, seed: int, show: Show) -> list[Fault]:
        case = self.case(seed)
        folder = self.prepare(case)
        show(f"in {folder}: dragoman {json.dumps(case.argv)[1:-1]}")
        show(f"stdin {case.stdin!r:.300}, stdout {case.stdout}, stderr {case.stderr}")
        before = calls.snapshot(folder)
        # Somebody writes into the pipe once it is read.
        with subprocess.Popen(["sh", "-c", "exec cat text.en > pipe"], cwd=folder) as writer:
            ended = calls.call(case.argv, folder, stdin=case.stdin, stdout=case.stdout, stderr=case.stderr)
            writer.kill()
        show(str(ended))
        found = list(
            calls.faults_of(ended, has_stderr=case.stderr == "file", longest=max(map(len, case.argv)))
        )
        if not found:
            found += self.changes(case, ended, before, calls.snapshot(folder))
            found += self.results(case, ended, folder)
        return found

    def prepare(self, case: CommandCase) -> Path:
        """Return the folder of a case, with everything that its words name."""
        folder = self.stage.fresh("run", "classifier", "recipe.toml", "labelled.tsv")
        for name, content in case.texts.items():
            (folder / name).write_bytes(content)
        (folder / "secret.txt").write_bytes(SECRET)
        (folder / "there.txt").chmod(0o600)
        (folder / "folder").mkdir()
        (folder / "filled").mkdir()
        (folder / "filled" / "mine.txt").write_text("mine\n")
        shutil.copytree(folder / "run", folder / "broken")
        (folder / "broken" / "model.safetensors").write_bytes(b"\0" * 100)
        streams = {"loop": "loop", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1"}
        for name, target in {**LINKS, **streams}.items():
            (folder / name).symlink_to(target)
        os.mkfifo(folder / "pipe")
        for name, minor in {"null": 3, "zero": 5, "full": 7}.items():
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        return folder

    def changes(
        self, case: CommandCase, ended: Ended, before: dict[str, str], after: dict[str, str]
    ) -> Iterator[Fault]:
        """Files that should not have changed, or should not be there."""
        options = case.parsed()[1]
        given = {os.path.normpath(options[flag]) for flag in OUT_FLAGS if options.get(flag)}
        for path in sorted({*before, *after}):
            old, new = before.get(path), after.get(path)
            if old == new:
                continue
            is_read = sum(os.path.normpath(word or ".") == path for word in case.argv) > 1
            if path in (*INPUT_TEXTS, case.document.name) and old and (path not in given or is_read):
                yield "wrong", f"input {path} has changed"
            elif not may_change(path, case, given, succeeded=ended.code == 0):
                yield "wrong", f"{path}: {old} became {new}"
            elif old and new and old[:10] != new[:10]:
                yield "wrong", f"{path}: mode {old[:10]} became {new[:10]}"
            elif ended.code in (1, 2) and not stays_behind(path, case):
                yield "wrong", f"exit code {ended.code}, and {path} has changed"
        if left := self.stage.left_in_tmp():
            yield "wrong", f"left in TMPDIR: {left[:5]}"

    def results(self, case: CommandCase, ended: Ended, folder: Path) -> Iterator[Fault]:
        """Promises of an exit code of 0."""
        words, given = case.parsed()
        out = given.get("--out")
        if ended.code != 0 or given.keys() & {"--help", "-h"}:
            return
        if case.stdout in ("full", "closed") and case.command in PRINTS and out in (None, "-"):
            yield "wrong", f"exit code 0, and stdout is {case.stdout}"
        if case.stdout != "file":
            return
        if case.command in ("translate", "classify"):
            name = words[1] if len(words) > 1 else "-"
            if "--out-dir" in given:
                out = f"{given['--out-dir']}/{Path(name).name}"
            yield from lines(case, ended, folder, out, name)
        if "--json" in given and not out and ended.stdout:
            in_lines = case.command in ("translate", "classify", "score-model")
            try:
                whole = ended.stdout.decode()
                for text in whole.split("\n") if in_lines else [whole]:  # JSON may hold other line ends
                    json.loads(text or "0", parse_constant=_refuse)
            except ValueError as error:
                yield "wrong", f"--json printed invalid JSON: {error}"
        if CONTROL.search(ended.stdout):
            yield "wrong", "control characters on stdout"


def may_change(path: str, case: CommandCase, given: set[str], *, succeeded: bool) -> bool:
    """Whether a command with these outputs may write here."""
    top, makes_folders = path.partition("/")[0], case.command in MAKES_FOLDERS
    allowed = given | {LINKS[name] for name in given & LINKS.keys()}
    allowed |= {"keys.toml"} if case.command.startswith("key ") else set()
    if path in (*INPUT_TEXTS, case.document.name):
        return path in given
    if top in ("run", "classifier") and case.command in WRITES_INTO_RUN:
        return True
    if path.removesuffix(".partial").removesuffix(".journal") in allowed:  # the latter to continue from
        return True
    if not makes_folders and "--out-dir" not in case.parsed()[1]:
        return False
    # The folders above a folder that was asked for are made with it, if the command succeeds.
    above = succeeded and any(each.startswith(f"{path}/") for each in given)
    inside = any(path.startswith(f"{each}/") or each == "." for each in allowed)
    return inside or above or (makes_folders and path.startswith("runs"))


def stays_behind(path: str, case: CommandCase) -> bool:
    """Whether a command that fails may leave this."""
    return path.endswith((".partial", ".journal")) or case.command in MAKES_FOLDERS


def lines(case: CommandCase, ended: Ended, folder: Path, out: str | None, name: str) -> Iterator[Fault]:
    """Line in, line out, nothing else, nothing invented; `name` is that of the input."""
    words = case.parsed()[1]
    if name in STRUCTURED and case.command == "translate" and "--lines" not in words:
        yield "wrong", f"{name} was taken for lines"
    if name == case.document.name and out and (folder / out).is_file():
        yield from (("wrong", what) for what in document_faults(case.document, (folder / out).read_bytes()))
        return
    given = (case.stdin or b"") if name in ("-", "stdin") else case.texts.get(name)
    if given is None or name.endswith((".tmx", ".csv", ".jsonl")):
        return
    given = gzip.decompress(given) if name.endswith(".gz") else given
    if given[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    written = ended.stdout
    if out is not None and out not in ("-", "stdout"):
        path = folder / out
        if not path.is_file():
            if out != "null":
                yield "wrong", f"exit code 0 without {out}"
            return
        written = path.read_bytes()
        if out.endswith((".gz", ".xz", ".zst")):
            from dragoman.data.readers.files import open_lines

            written = "".join(f"{line}\n" for line in open_lines(path)).encode()
    expected, got = (
        text.count(b"\n") + (not text.endswith(b"\n") and text != b"") for text in (given, written)
    )
    if got != expected:
        yield "wrong", f"{expected} lines became {got}"
    found = CONTROL.search(written)
    if found and not ("--document" in words and found[0] in given):  # a document keeps what it had
        yield "wrong", f"control character {found[0]!r} in the output"
    if case.command == "translate" and words.keys() <= {"--out"} and got == expected:
        sides = (given.decode(errors="replace").split("\n"), written.decode().split("\n"))
        for line, translation in zip(*sides, strict=False):
            if has_letter(translation) and not has_letter(line):
                yield "wrong", f"{line!r} has no letter and became {translation!r}"


def has_letter(text: str) -> bool:
    return any(character.isalpha() or character == "\ufffd" for character in text)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
