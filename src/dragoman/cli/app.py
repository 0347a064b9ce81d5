"""The command-line application: help, version, exit codes and error messages."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from dragoman import __version__
from dragoman.errors import (
    ConfigError,
    DataError,
    DragomanError,
    DragomanWarning,
    LostProcessError,
    PausedError,
    printable,
    require,
)
from dragoman.files import cannot_write, destination, refuse_overwriting
from dragoman.removed import instead_of

USER_ERROR = 1
CRASHED = 70  # EX_SOFTWARE of sysexits.h
PAUSED = 75  # EX_TEMPFAIL of sysexits.h: the same command goes on
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
TERMINATED = 143  # 128 + SIGTERM
BROKEN_PIPE = 141  # 128 + SIGPIPE: the reader has had enough

OUT_OF_MEMORY = ("out of memory", "can't allocate memory")
"""What PyTorch's errors say, in lower case."""

LONGEST_ERROR = 1800
"""Characters of an error message that are shown: its beginning, and its end, which says what to do."""


FILE_OR_STDOUT = "FILE|-"
"""Metavar of options that accept "-" for stdout."""
METAVARS = {
    "FILE": "by-score codes file glossary keys recipe ref report settings src src-spm "
    "text tgt tgt-spm test-src test-tgt tsv valid valid-src valid-tgt valid-tsv",
    "RUN": "backward ensemble forward from",
    "PATH": "onnxruntime-web out",
    "PROJECT": "wandb",
    "LANGUAGE": "src-lang tgt-lang to",
    FILE_OR_STDOUT: "pharaoh",
    "DIR": "out-dir write-clean",
    "FILES": "test",
    "KIND": "drop keep",
    "KIND,…": "protect",
    "KIND=VALUE": "threshold",
    "NAME=FILE": "scores",
    "NAME=SHARE": "mix",
    "SECTION.KEY=VALUE": "set",
    "SRC,TGT": "columns",
    "TEXT": "label-separator message protect-pattern tag",
}
"""The metavars of options that name none themselves; numbers are N, all others NAME."""


def write_panels(formatter: Any, panels: dict[str, list[tuple[str, str]]]) -> None:
    """Write the rows of a help, each group under its heading."""
    for heading, rows in panels.items():
        with formatter.section(heading):
            formatter.write_dl(rows)


class Commands(TyperGroup):
    """All commands, each under its `rich_help_panel`; errors become one line and an exit code."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", "Commands")
            panels.setdefault(panel, []).append((name, command.get_short_help_str(limit=450)))
        write_panels(formatter, panels)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if sentence := instead_of(f"dragoman {args[0]}"):
            raise ConfigError(sentence)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with errors_as_exit_codes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with errors_as_exit_codes():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn errors that a user can fix into one line on stderr and an exit code."""
    try:
        yield
    except DragomanError as error:
        fail(str(error), code=CRASHED if isinstance(error, LostProcessError) else USER_ERROR)
    except KeyboardInterrupt as error:
        give_back_ctrl_c()
        if os.environ.get("RANK", "0") != "0":  # of several processes that train together, one speaks
            raise typer.Exit(INTERRUPTED) from error
        fail("interrupted", code=INTERRUPTED, prefix="")
    except PausedError as pause:  # the listener has said so
        raise typer.Exit(TERMINATED if pause.reason == signal.SIGTERM else PAUSED) from pause
    except BrokenPipeError as error:
        discard_output()
        raise typer.Exit(BROKEN_PIPE) from error
    except UnicodeEncodeError as error:
        if error.encoding != "utf-8":
            raise
        text = error.object[max(0, error.start - 40) : error.end + 40]
        fail(f"{text!r}: is not valid UTF-8; rename the file, or correct the text")
    except OSError as error:
        discard_output()
        fail(f"{error.filename or 'output'}: {error.strerror or error}; check the path, rights and space")
    except (MemoryError, RuntimeError) as error:
        message = str(error).lower()
        if message.startswith("symlink loop"):  # of `Path.resolve`, before Python 3.13
            fail(f"{error}; name a path whose links lead to a file")
        if isinstance(error, RuntimeError) and not any(words in message for words in OUT_OF_MEMORY):
            raise
        fail(
            "out of memory; for training set a smaller training.batch_tokens (and a larger "
            "training.update_freq), for translating give a smaller --batch-sentences"
        )


def give_back_ctrl_c() -> None:
    """Make Ctrl-C end this process at once, without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


OPTIONAL_FILE = "[FILE]"
"""The metavar of options that write to stdout if no file follows."""


class Command(TyperCommand):
    """A command that refuses repeated single options, empty paths and numbers that are not finite.

    An option with OPTIONAL_FILE that no file follows means stdout, as if "-" followed.
    The plain help groups options by their `rich_help_panel`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for name in (argument.partition("=")[0] for argument in args):
            if (sentence := instead_of(name)) and not any(name in one.opts for one in self.params):
                raise ConfigError(sentence)
        may_be_alone = {name for one in self.params if one.metavar == OPTIONAL_FILE for name in one.opts}
        filled: list[str] = []
        for argument, following in zip(args, [*args, "--"][1:], strict=True):
            is_alone = argument in may_be_alone and following.startswith("-") and following != "-"
            filled += [argument, "-"] if is_alone else [argument]
        raw, _, order = self.make_parser(ctx).parse_args(args=list(filled))
        for parameter in order:
            takes_more = parameter.multiple or getattr(parameter, "is_flag", False)
            if parameter.param_type_name == "option" and not takes_more and (n := order.count(parameter)) > 1:
                raise ConfigError(f"{parameter.opts[0]}: is given {n} times; give it once")
        rest = super().parse_args(ctx, filled)
        for parameter in order:
            text, value = raw.get(parameter.name), ctx.params.get(parameter.name)
            texts, values = (text, value) if isinstance(value, (list, tuple)) else ([text], [value])
            for written, one in zip(texts or (), values, strict=False):
                _check_value(parameter, written, one)
        return rest

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first sentence of the help; a list of commands wraps it instead of cutting it."""
        return super().get_short_help_str(limit=10 * limit)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]
        return [piece if "|" in piece else piece.upper() for piece in pieces]

    def help_panels(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return the rows of the help, name and meaning, under the heading of each group."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            column, meaning = record
            name, _, kind = column.partition(" ")  # the kind is a type such as <list[str]>
            is_argument = parameter.param_type_name == "argument"
            if is_argument:
                column = re.sub(" <.+>", "", column if parameter.metavar else name.upper())
            elif not parameter.metavar and not getattr(parameter, "is_flag", False):
                named = (metavar for metavar, names in METAVARS.items() if name[2:] in names.split())
                usual = "N" if re.match("<?(int|float)", kind.lower()) else "NAME"
                column = f"{name} {next(named, usual)}"
            panel = getattr(parameter, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
            panels.setdefault(panel, []).append((column, meaning))
        return panels

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_panels(formatter, self.help_panels(ctx))


def _check_value(parameter: Any, written: Any, value: Any) -> None:
    """Check a value.

    Raises:
        ConfigError: an empty path, "-" for an option without stdout, the address of something that must be on
            this machine, or a non-finite number.
    """
    name, is_option = parameter.opts[0], parameter.param_type_name == "option"
    if isinstance(value, Path) and written == "":
        raise ConfigError(f"{name}: is empty; give a path")
    if isinstance(value, Path) and written == "-" and is_option and parameter.metavar != FILE_OR_STDOUT:
        raise ConfigError(f"{name} -: stdin and stdout are not possible here; give a path")
    if isinstance(value, Path) and "://" in written:
        raise ConfigError(f"{name} {written}: has to be on this machine; give a path, and copy from or to it")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} {written}: is not a finite number; give a finite one")


def check_outputs(*outputs: Path | None, files: Iterable[str | Path | None], runs: Iterable[Path]) -> None:
    """Check that no output is an input or a file of one of the `runs`; see `refuse_overwriting`.

    `files` are names, or paths at which files were found. Missing inputs are ignored here; the code that
    reads an input reports them. RunError: an output is a folder. MissingExtraError: a package that
    compresses one is not installed.
    """
    from dragoman.data.readers.files import find_file
    from dragoman.runs import Run

    inputs: list[str | Path] = [path for run in runs for path in Run.open(run).files()]
    for name in (file for file in files if file):
        with suppress(DataError):
            is_found = isinstance(name, Path) or name == "-"
            inputs.append(name if is_found else find_file(str(name), copied=False))
    refuse_overwriting(*outputs, inputs=inputs)
    for path in filter(None, outputs):
        try:
            destination(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        if path.suffix == ".zst":
            require("zstandard", extra="zst", purpose=f"writing {path.name}")


def check_folders(*outputs: Path | None) -> None:
    """Check, before any work, that the folders of outputs exist. ConfigError: one is missing."""
    for path in filter(None, outputs):
        if not path.parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.parent}; make it, or name another place")


def fail(message: str, *, code: int = USER_ERROR, prefix: str = "error: ") -> NoReturn:
    """Print an error in one line on stderr and exit with `code`.

    With DRAGOMAN_DEBUG=1 the traceback of the exception that is being handled follows, causes included.
    """
    line = " ".join(message.splitlines())
    if len(line) > LONGEST_ERROR:  # it quotes a file, or a very long argument
        line = f"{line[: LONGEST_ERROR // 2]} … {line[-LONGEST_ERROR // 2 :]}"
    with suppress(OSError):
        typer.echo(prefix + printable(as_called(line)), err=True)
        if os.environ.get("DRAGOMAN_DEBUG", "0") not in ("", "0"):
            traceback.print_exc()
    raise typer.Exit(code)


def say(message: str) -> None:
    """Print one line on stderr; see `as_called`."""
    typer.echo(printable(as_called(message)), err=True)


def show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Print a warning of Dragoman as one line, and others as Python does."""
    if issubclass(category, DragomanWarning):
        say(str(message))
    else:
        print_warning(message, category, *place, **more)


print_warning = warnings.showwarning


def as_called(text: str) -> str:
    """Return `text` with its `dragoman …` and `pip install …` commands as they work in this shell."""
    commands = [str(command.name) for command in app.registered_commands]
    names = "|".join([*commands, *(str(group.name) for group in app.registered_groups)])
    text = re.sub(rf"(?<![\w./-])(?<!-m )dragoman(?= (?:{names})\b)", lambda _: program(), text)
    return re.sub(r"(?<!-m )\bpip install 'dragoman(\[[\w,]+\])'", lambda match: _install(match[1]), text)


def program() -> str:
    """Return the name of this program: `dragoman` if the shell finds it, else the path that was typed."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("dragoman", "__main__.py"):
        return f"{_word(sys.orig_argv[0])} -m dragoman"
    path = shutil.which("dragoman")
    if called.stem != "dragoman" or (path and Path(path).parent.resolve() == called.parent.resolve()):
        return "dragoman"
    return _word(sys.argv[0])


def command_line(*arguments: object) -> str:
    """Return a `dragoman` command with `arguments`, quoted for a shell; default: those of this process."""
    return shlex.join(["dragoman", *map(str, arguments or sys.argv[1:])])


def _install(extras: str) -> str:
    """Return the command that installs extras, as "[plots]": pip finds an installed copy by its name."""
    path, python, checkout = shutil.which("pip"), Path(sys.executable), Path(__file__).parents[3]
    pip = "pip" if path and Path(path).parent == python.parent else f"{_word(sys.executable)} -m pip"
    is_checkout = (checkout / "pyproject.toml").is_file()
    named = f"{checkout if is_checkout else 'dragoman'}{extras}"
    return f"{pip} install {'-e ' * is_checkout}{_word(named)}"


def _word(path: str) -> str:
    return shlex.quote(path) if os.name == "posix" else f'"{path}"'


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,  # the plain help takes half the time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train, use and evaluate translators (from parallel text) and classifiers (from labelled text).",
    epilog="Start with: dragoman demo",
)


@app.callback(invoke_without_command=True)
def dragoman(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    warnings.showwarning = show_warning
    if version:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def discard_output() -> None:
    """Point stdout at the null device, so that Python's flush at exit cannot fail again."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
