"""`dragoman serve`: run the HTTP service. `dragoman key`: manage its API keys."""

from __future__ import annotations

import signal
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dragoman.cli.app import Command, say
from dragoman.cli.options import Device, Precision, with_options
from dragoman.errors import ConfigError, printable, require

PACKAGES = (
    "fastapi",
    "uvicorn",
    "httptools",
    "python_multipart",
    "prometheus_client",
    "sentencex",
    "py3langid",
)
"""Packages of the extra "serve"."""


def serve(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or hf:user/model.")],
    host: Annotated[
        str, "Address to listen on; the default accepts connections of this machine only."
    ] = "127.0.0.1",
    port: Annotated[int, "Port; 0 = any free port.", (0, 65535)] = 8000,
    workers: Annotated[int, "Number of worker processes; they share the weights.", (1, 256)] = 1,
    settings: Annotated[Path | None, "TOML file with service settings."] = None,
    set_: Annotated[
        list[str] | None, "Change one service setting, as limits.characters=50000; repeatable."
    ] = None,
    keys: Annotated[Path | None, "File of API keys; every request then needs a key."] = None,
    force_public: Annotated[bool, "Listen on a public address without API keys."] = False,
    open_: Annotated[bool, "Open the web page in a browser."] = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Serve models over HTTP: a web page for people, and an API for programs.

    Ctrl-C or SIGTERM finishes the accepted requests and exits; a second one exits at once. SIGHUP reloads
    models and keys.
    """
    require(*PACKAGES, extra="serve", purpose="serving")
    from rich.text import Text

    from dragoman.cli.console import Console
    from dragoman.serving import running
    from dragoman.serving.access import Keys
    from dragoman.serving.models import Models
    from dragoman.serving.monitoring import set_up
    from dragoman.serving.service import Service
    from dragoman.serving.settings import load_settings
    from dragoman.serving.supervisor import Supervisor, check_workers

    config = load_settings(settings, set_ or [])
    running.check_address(host, has_keys=keys is not None, forced=force_public)
    if running.is_local(host) and keys is None and not config.hosts:
        config = config.model_copy(update={"hosts": [*running.LOCAL_NAMES, host]})
    check_workers(workers, device=device)

    api_keys = None if keys is None else Keys.load(keys)
    signals = {signal.SIGTERM: _leave, **dict.fromkeys(running.IGNORED, signal.SIG_IGN)}
    with running.listen(host, port) as listening, running.handled(signals):
        n_threads = running.prepare(config, n_workers=workers, device=device)
        with _loading(len(runs)) as note:
            models = Models(runs, device=device, precision=precision, note=note)
        set_up(config.log_format)
        url = running.url_of(listening)

        def welcome() -> None:
            names = ", ".join(dict.fromkeys(printable(model.name) for model in models.served))
            line = Text.assemble("serving ", names, " on ", (url, "bold underline"), "; Ctrl-C ends it")
            Console(stderr=True, soft_wrap=True, highlight=False).print(line)
            if open_ and workers > 1:  # where forks are made, there are no threads
                webbrowser.open(url)
            elif open_:
                Thread(target=webbrowser.open, args=[url], daemon=True).start()

        if workers == 1:
            service = Service(models, config, keys=api_keys, n_threads=n_threads)
            running.run(service, listening, on_start=welcome)
        else:
            Supervisor(
                models, config, listening, n_workers=workers, n_threads=n_threads, keys=api_keys,
                on_start=welcome,
            ).run()  # fmt: skip


def _leave(number: int, _: object) -> NoReturn:
    """Exit on a signal while models load; the first process of a container ignores signals by default."""
    raise typer.Exit(128 + number)


@contextmanager
def _loading(n_models: int) -> Iterator[Callable[[str], None]]:
    """Show on a terminal which model is being loaded; yield a callback that takes its name.

    A progress bar of rich would start a thread, and a service that forks must not have threads.
    """
    numbers = iter(range(1, n_models + 1) if sys.stderr.isatty() else ())  # of those at first

    def note(name: str) -> None:
        if number := next(numbers, 0):
            show(f"loading {printable(name)} ({number} of {n_models}) …")

    def show(line: str) -> None:
        typer.echo(f"\r\x1b[2K{line}", err=True, nl=False)

    try:
        yield note
    finally:
        if sys.stderr.isatty():
            show("")


class KeyCommands(TyperGroup):
    """Commands for keys. `dragoman key ann` is short for `dragoman key add ann`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["add", *args]
        return super().parse_args(ctx, args)


key_app = typer.Typer(
    cls=KeyCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Add, list and revoke the API keys of a service. `key NAME` is short for `key add NAME`.",
)

KeysFile = Annotated[Path, typer.Option("--file", help="File of API keys.")]
RELOAD = "restart the service (under systemd), or send it SIGHUP"


@key_app.command(cls=Command)
@with_options
def add(
    name: Annotated[str, typer.Argument(help="Name of the key's owner.")],
    file: KeysFile = Path("keys.toml"),
    per_minute: Annotated[int, "Rate limit in requests per minute; 0 = the service's.", (0, 10**9)] = 0,
) -> None:
    """Create an API key and print it once. The file, created if missing, stores only its hash."""
    from dragoman.serving.access import make_key

    def show(key: str) -> None:
        try:
            print(key, flush=True)
        except OSError as error:
            raise ConfigError(
                f"stdout: {error.strerror}; nobody has seen the key, so it is not kept"
            ) from error

    make_key(file, name, per_minute=per_minute, show=show)
    say(f"{file}: added a key for {name}, which is not shown again; {RELOAD}")


@key_app.command("list", cls=Command)
def list_(file: KeysFile = Path("keys.toml")) -> None:
    """List the names of the keys and their rate limits in requests per minute; "-" = the service's."""
    from dragoman.serving.access import read_keys

    for name, key in read_keys(file).items():
        typer.echo(f"{name}\t{key.per_minute or '-'}")


@key_app.command(cls=Command)
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the key's owner.")],
    file: KeysFile = Path("keys.toml"),
) -> None:
    """Remove a key from the file. A running service refuses the key after its next reload."""
    from dragoman.serving.access import revoke_key

    revoke_key(file, name)
    say(f"{file}: removed the key for {name}; {RELOAD}: until then the key stays valid")
