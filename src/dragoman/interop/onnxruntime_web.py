"""Files of onnxruntime-web, which runs graphs in a page: of an installed npm package, or downloaded once."""

from __future__ import annotations

import tarfile
from pathlib import Path

from dragoman.data.catalog.download import DownloadError, download
from dragoman.errors import ConfigError, RunError
from dragoman.files import cache_folder

VERSION = "1.30.0"
URL = f"https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-{VERSION}.tgz"
CHECKSUM = (
    "sha512:ab4cbe26baedba45d2cec05610c71c55fa97db92d19a8b171c5f8269126683ca"
    "590a5cdc57bb2f35ce2b298de32f4d956fb42644c0ecd528a0a91e025c07ca61"
)
"""What the registry publishes as the integrity of VERSION."""

FILES = {
    "ort.js": "dist/ort.wasm.bundle.min.mjs",
    "ort.wasm": "dist/ort-wasm-simd-threaded.wasm",
    "package.json": "package.json",
}
"""The files of a page, by their names there: some servers do not know that .mjs is JavaScript."""


def runtime_files(package: Path | None = None) -> dict[str, bytes]:
    """Return the content of FILES, by their names in a page.

    `package` is the folder of an installed npm package; without it VERSION is downloaded once from the npm
    registry into Dragoman's cache, and its checksum compared each time.

    ConfigError: `package` does not have the files. DownloadError: the package is neither in the cache nor
    within reach.
    """
    if package is not None:
        return {name: _read(package, path) for name, path in FILES.items()}
    archive = cache_folder() / "onnxruntime-web" / f"onnxruntime-web-{VERSION}.tgz"
    try:
        download([URL], archive, checksum=CHECKSUM, max_bytes=10**8)
    except DownloadError as error:
        raise DownloadError(
            f"{error}; elsewhere run npm install onnxruntime-web@{VERSION} and give its folder with "
            "--onnxruntime-web node_modules/onnxruntime-web"
        ) from error
    try:
        with tarfile.open(archive) as tar:
            members = {name: tar.extractfile(f"package/{path}") for name, path in FILES.items()}
            return {name: member.read() for name, member in members.items() if member is not None}
    except (OSError, tarfile.TarError) as error:
        raise RunError(f"{archive}: cannot be read ({error}); remove it to download it again") from error


def _read(package: Path, path: str) -> bytes:
    try:
        return (package / path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--onnxruntime-web {package}: {path} cannot be read ({error.strerror}); give the folder that "
            f"npm install onnxruntime-web@{VERSION} writes, node_modules/onnxruntime-web"
        ) from error
