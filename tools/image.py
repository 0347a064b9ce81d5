"""Build an image of deploy/Dockerfile, and check it, started as in docs/operating.md.

    python tools/image.py --most-gb 1.0                     # builds dragoman:check, and checks it
    python tools/image.py --most-gb 1.0 --wheels FOLDER     # a folder with a wheel of PyTorch
    python tools/image.py --most-gb 1.0 --image IMAGE       # checks one that is there

The check looks at size, rights, compiled parts, a translation and health; the run that is served is the tiny
one of tests/compatibility. Docker builds where it runs. Elsewhere Podman does, as root and without a registry
of images: its store is a temporary folder, and mmdebstrap makes the base image python:3.11-slim of Debian's
packages, kept in build/. No Python package is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
SUITE, PYTHON = "bookworm", "3.11"
"""A release of Debian, and its Python."""
BASE = ROOT / "build" / f"{SUITE}.tar"
PACKAGES = "python3,python3-venv,python-is-python3"
CERTIFICATES = Path("/etc/ssl/certs")
NAME = "dragoman:check"
LIMIT = 32768
"""Largest limit of files and processes; Podman lowers its own to that."""
RUN = ROOT / "tests" / "compatibility" / "0.2" / "translation"
PORT = 18000
START_SECONDS = 120.0
SAFE = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
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
assert not native().reason, native().reason
print(f"searches: {native()}")
"""


def main() -> None:
    """Build and check the image; exit code 1 if it fails, 2 if no engine can be tried here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most-gb", type=float, required=True, help="Largest size, in 10^9 bytes.")
    parser.add_argument("--wheels", type=Path, help="Folder of wheels, for Podman; default: $PIP_FIND_LINKS.")
    parser.add_argument("--image", help="Name of an image that is there.")
    given = parser.parse_args()
    if given.image:
        check(given.image, given.most_gb)
    elif reason := obstacle():
        print(f"cannot try here: {reason}", file=sys.stderr)
        sys.exit(2)
    elif docker_runs():
        run("docker", "build", "--file", "deploy/Dockerfile", "--tag", NAME, ".")
        check(NAME, given.most_gb)
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= podman_settings(Path(folder))
            run("podman", "import", "--quiet", debian(), f"docker.io/library/python:{PYTHON}-slim")
            options = podman_options(Path(folder), given.wheels or os.environ.get("PIP_FIND_LINKS"))
            run("podman", "build", *options, "--file", "deploy/Dockerfile", "--tag", NAME, ".")
            check(NAME, given.most_gb)


def obstacle() -> str | None:
    """Return why neither Docker nor Podman can build an image here, or None."""
    if docker_runs():
        return None
    missing = [name for name in ("podman", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        return f"no Docker, and no {' and no '.join(missing)}"
    return None if os.geteuid() == 0 else "no Docker, and Podman with a base of Debian needs root"


def docker_runs() -> bool:
    """Return whether there is Docker, and its service answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def podman_settings(folder: Path) -> dict[str, str]:
    """Write settings of Podman, with its store in `folder`, and return the variables that name them."""
    import resource  # Unix has it

    limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    most = {name: min(resource.getrlimit(kind)[1] % 2**63, LIMIT) for name, kind in limits.items()}
    kept = ", ".join(f'"{name}={value}:{value}"' for name, value in most.items())
    # A virtual machine may not let root raise limits, and crun wants cgroups of one version.
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(f"[containers]\ndefault_ulimits = [{kept}]\n[engine]\n{runtime}")
    places = f'graphroot = "{folder / "store"}"\nrunroot = "{folder / "run"}"\n'
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\n{places}')
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


def podman_options(folder: Path, wheels: str | Path | None) -> list[str]:
    """Return options of a build: no registry, this machine's certificates, and `wheels` for pip."""
    options = ["--isolation=chroot", "--pull=never", "--layers=false", "--format=docker"]
    options.append(f"--build-arg=PYTHON={PYTHON}")
    if CERTIFICATES.is_dir():
        options.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
    if wheels and Path(wheels).is_dir():
        settings = folder / "pip.conf"
        settings.write_text("[global]\nfind-links = /wheels\n")
        options.append(f"--volume={settings}:/etc/pip.conf:ro")
        options.append(f"--volume={Path(wheels).resolve()}:/wheels:ro")
        options.append("--build-arg=TORCH_INDEX=https://pypi.org/simple")  # for what PyTorch needs
    return options


def debian() -> Path:
    """Return a root file system with Python, as an archive; make it if it is not there."""
    if not BASE.exists():
        BASE.parent.mkdir(exist_ok=True)
        part = BASE.with_suffix(".part.tar")
        slim = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", *slim, SUITE, part)
        part.rename(BASE)
    return BASE


def run(*command: str | Path) -> None:
    """Run a program in the repository; exit with 1 if it fails."""
    if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"$ {' '.join(map(str, command))}: exit code {code}")


def engine(*command: str) -> str:
    """Return the output of a command of Docker, or of Podman in its place."""
    program = "docker" if docker_runs() else "podman"
    return subprocess.run([program, *command], check=True, stdout=subprocess.PIPE, text=True).stdout


def check(image: str, most_gb: float) -> None:
    """Print the size of the image and a translation by it; exit code 1 if one is not as it should be."""
    size = int(engine("image", "inspect", "--format", "{{.Size}}", image)) / 1e9
    print(f"{image}: {size:.2f} GB, at most {most_gb:.2f}")
    if size > most_gb:
        sys.exit("the image is too large")
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder)
        keys.chmod(0o777)  # the image's user, 10001, writes the file
        mounted = ("--volume", f"{keys}:/keys")
        add = ("dragoman", image, "key", "add", "smoke", "--file", "/keys/keys.toml")
        key = engine("run", "--rm", *mounted, "--entrypoint", *add).split()[-1]
        served = ("--publish", f"127.0.0.1:{PORT}:8000", "--volume", f"{RUN}:/runs/model:ro")
        name = engine("run", "--detach", "--no-healthcheck", *SAFE, *served, *mounted, image).strip()
        try:
            print(translate(f"http://127.0.0.1:{PORT}", key), flush=True)
            engine("exec", name, "python", "-c", RIGHTS)
            print(engine("exec", name, "python", "-c", COMPILED).strip())
            health = json.loads(engine("image", "inspect", "--format", "{{json .Config.Healthcheck}}", image))
            if not health:
                raise OSError("the image has no HEALTHCHECK")
            engine("exec", name, *health["Test"][1:])
        except subprocess.CalledProcessError as error:
            sys.exit(f"the image is not as it should be: {error}")
        except OSError as error:
            print(engine("logs", name), file=sys.stderr)
            sys.exit(f"the service of the image does not answer: {error}")
        finally:
            engine("rm", "--force", name)


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
