"""Check an image of deploy/Dockerfile, started as in docs/operating.md.

    python tools/image_check.py dragoman:cpu --most-gb 1.0

It looks at size, rights, compiled parts, a translation and health. The run that is served is the tiny one of
tests/compatibility. Needs Docker, or a program with the same command line (--engine podman), and no package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

RUN = Path(__file__).resolve().parents[1] / "tests" / "compatibility" / "0.2" / "translation"
PORT = 18000
START_SECONDS = 120.0
RIGHTS = """
import os
from pathlib import Path
assert (os.getuid(), os.getgid()) == (10001, 10001), f"runs as {os.getuid()}:{os.getgid()}"
for folder in ("/", "/opt/dragoman", "/runs/model"):
    try:
        Path(folder, "written").touch()
    except OSError:
        continue
    raise SystemExit(f"{folder} can be written")
Path("/tmp/written").touch()
"""
COMPILED = """
from dragoman.native import native
reason = native().reason
assert not reason or reason.startswith("the processor has no"), reason
print(f"compiled steps: {reason or 'used'}")
"""


def main() -> None:
    """Print the size of the image and a translation by it; exit code 1 if one is not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("image")
    parser.add_argument("--most-gb", type=float, required=True, help="Largest size, in 10^9 bytes.")
    parser.add_argument("--engine", default="docker", help="Program that runs images.")
    given = parser.parse_args()
    size = int(engine(given.engine, "image", "inspect", "--format", "{{.Size}}", given.image)) / 1e9
    print(f"{given.image}: {size:.2f} GB, at most {given.most_gb:.2f}")
    if size > given.most_gb:
        sys.exit("the image is too large")
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder)
        keys.chmod(0o777)  # the image's user, 10001, writes the file
        mounted = ("--volume", f"{keys}:/keys")
        add = ("dragoman", given.image, "key", "add", "smoke", "--file", "/keys/keys.toml")
        key = engine(given.engine, "run", "--rm", *mounted, "--entrypoint", *add).split()[-1]
        safe = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        served = ("--publish", f"127.0.0.1:{PORT}:8000", "--volume", f"{RUN}:/runs/model:ro")
        name = engine(
            given.engine, "run", "--detach", "--no-healthcheck", *safe, *served, *mounted, given.image
        ).strip()
        try:
            print(translate(f"http://127.0.0.1:{PORT}", key), flush=True)
            engine(given.engine, "exec", name, "python", "-c", RIGHTS)
            print(engine(given.engine, "exec", name, "python", "-c", COMPILED).strip())
            engine(given.engine, "exec", name, *health_check(given.engine, given.image))
        except subprocess.CalledProcessError as error:
            sys.exit(f"the image is not as it should be: {error}")
        except OSError as error:
            print(engine(given.engine, "logs", name), file=sys.stderr)
            sys.exit(f"the service of the image does not answer: {error}")
        finally:
            engine(given.engine, "rm", "--force", name)


def engine(*command: str) -> str:
    """Return the output of a command of the engine."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def health_check(program: str, image: str) -> list[str]:
    """Return the command of an image's HEALTHCHECK. OSError: it has none."""
    found = json.loads(engine(program, "image", "inspect", "--format", "{{json .Config.Healthcheck}}", image))
    if not found:
        raise OSError("the image has no HEALTHCHECK")
    return [str(word) for word in found["Test"][1:]]


def translate(address: str, key: str) -> str:
    """Return a translation by a service, when it is ready; a request without a key must be refused.

    Raises:
        TimeoutError: the service is not ready in time.
        OSError: it answers with an error, or without a key.
    """
    end = time.monotonic() + START_SECONDS
    while not is_ready(address):
        if time.monotonic() > end:
            raise TimeoutError(f"not ready after {START_SECONDS:.0f} s")
        time.sleep(0.2)
    body = json.dumps({"text": "They have three dogs at home."}).encode()
    request = Request(f"{address}/v1/translate", body, {"Content-Type": "application/json"})
    try:
        urlopen(request).close()
    except HTTPError as refusal:
        if refusal.code != 401:
            raise
    else:
        raise OSError("a request without a key is answered")
    request.add_header("Authorization", f"Bearer {key}")
    with urlopen(request) as answer:
        return str(json.load(answer)["translations"][0]["text"])


def is_ready(address: str) -> bool:
    """Return whether a service has loaded its models."""
    try:
        with urlopen(f"{address}/ready"):
            return True
    except (URLError, ConnectionError):
        return False


if __name__ == "__main__":
    main()
