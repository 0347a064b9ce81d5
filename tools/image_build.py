"""Build an image of deploy/Dockerfile, and check it with tools/image_check.py.

    python tools/image_build.py --most-gb 1.0
    python tools/image_build.py --most-gb 1.0 --wheels FOLDER    # a folder with a wheel of PyTorch

Docker builds it where it runs. Elsewhere Podman does, as root and without a registry of images: its store is
a temporary folder, and mmdebstrap makes the base image python:3.11-slim of Debian's packages, kept in build/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE, PYTHON = "bookworm", "3.11"
"""A release of Debian, and its Python."""
BASE = ROOT / "build" / f"{SUITE}.tar"
PACKAGES = "python3,python3-venv,python-is-python3"
CERTIFICATES = Path("/etc/ssl/certs")
NAME = "dragoman:check"
LIMIT = 32768
"""Largest limit of files and processes; Podman lowers its own to that."""


def main() -> None:
    """Build and check the image; exit code 1 if the check fails, 2 if no engine can be tried here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most-gb", type=float, required=True, help="Largest size, in 10^9 bytes.")
    parser.add_argument("--wheels", type=Path, help="Folder of wheels, for Podman; default: $PIP_FIND_LINKS.")
    given = parser.parse_args()
    if reason := obstacle():
        print(f"cannot try here: {reason}", file=sys.stderr)
        sys.exit(2)
    check: list[str | Path] = [
        sys.executable,
        ROOT / "tools" / "image_check.py",
        NAME,
        "--most-gb",
        str(given.most_gb),
    ]
    if docker_runs():
        run("docker", "build", "--file", "deploy/Dockerfile", "--tag", NAME, ".")
        run(*check)
        return
    wheels = given.wheels or find_links()
    with tempfile.TemporaryDirectory() as folder:
        environment = podman_settings(Path(folder))
        run("podman", "import", "--quiet", debian(), f"docker.io/library/python:{PYTHON}-slim", **environment)
        options = podman_options(Path(folder), wheels)
        run("podman", "build", *options, "--file", "deploy/Dockerfile", "--tag", NAME, ".", **environment)
        run(*check, "--engine", "podman", **environment)


def obstacle() -> str | None:
    """Return why neither Docker nor Podman can build an image here, or None."""
    if docker_runs():
        return None
    missing = [name for name in ("podman", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        return f"no Docker, and no {' and no '.join(missing)}"
    return None if os.geteuid() == 0 else "no Docker, and Podman with a base of Debian needs root"


def find_links() -> Path | None:
    """Return the folder that pip's setting names, if it is one."""
    folder = os.environ.get("PIP_FIND_LINKS", "")
    return Path(folder) if folder and Path(folder).is_dir() else None


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


def podman_options(folder: Path, wheels: Path | None) -> list[str]:
    """Return options of a build: no registry, this machine's certificates, and `wheels` for pip."""
    options = ["--isolation=chroot", "--pull=never", "--layers=false", "--format=docker"]
    options.append(f"--build-arg=PYTHON={PYTHON}")
    if CERTIFICATES.is_dir():
        options.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
    if wheels is not None:
        settings = folder / "pip.conf"
        settings.write_text("[global]\nfind-links = /wheels\n")
        options.append(f"--volume={settings}:/etc/pip.conf:ro")
        options.append(f"--volume={wheels.resolve()}:/wheels:ro")
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


def run(*command: str | Path, **environment: str) -> None:
    """Run a program in the repository; exit with 1 if it fails."""
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False)
    if done.returncode:
        sys.exit(f"$ {' '.join(map(str, command))}: exit code {done.returncode}")


if __name__ == "__main__":
    main()
