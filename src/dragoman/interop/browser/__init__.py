"""A folder of static files that translates in a browser: page, search and tokenizer in JavaScript."""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.data.catalog.download import DownloadError, download
from dragoman.errors import ConfigError, RunError
from dragoman.files import cache_folder, write_atomically
from dragoman.interop.onnx import DECODER, ENCODER
from dragoman.interop.portable import portable_transformations
from dragoman.predict.translator import Translator

OWN = ("index.html", "page.js", "translator.js", "tokenizer.js", "transformations.js")
SERVED = ("page.css", "icon.svg", "theme.js")
"""Files that the page of a service has, too."""
SETTINGS, WORKER, RUNTIME = "model.json", "worker.js", "onnxruntime"

WEB_VERSION = "1.30.0"
WEB_URL = f"https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-{WEB_VERSION}.tgz"
WEB_CHECKSUM = (
    "sha512:ab4cbe26baedba45d2cec05610c71c55fa97db92d19a8b171c5f8269126683ca"
    "590a5cdc57bb2f35ce2b298de32f4d956fb42644c0ecd528a0a91e025c07ca61"
)
"""Of onnxruntime-web, which runs graphs in a page: what the registry publishes as its integrity."""

WEB_FILES = {
    "ort.js": "dist/ort.wasm.bundle.min.mjs",
    "ort.wasm": "dist/ort-wasm-simd-threaded.wasm",
    "package.json": "package.json",
}
"""The files of a page, by their names there: some servers do not know that .mjs is JavaScript."""

README = """Serve this folder by any server of static files, such as

```bash
python3 -m http.server --bind 127.0.0.1 --directory FOLDER
```

and open its address (here http://127.0.0.1:8000/). The page translates in the browser. Over https, or from
localhost, the browser keeps all files, and the page works without a network from then on.

Other pages can use it so: `import { Translator } from "./translator.js"`, then `await Translator.load()`,
and `(await translator.translate("a sentence")).text`."""


def runtime_files(package: Path | None = None) -> dict[str, bytes]:
    """Return the files of onnxruntime-web, by their names in a page.

    `package` is the folder of an installed npm package; without it, WEB_VERSION is downloaded once from npm
    into Dragoman's cache, and its checksum compared each time.

    ConfigError: `package` does not have the files. DownloadError: the package is neither in the cache nor
    within reach.
    """
    if package is not None:
        return {name: _read(package, path) for name, path in WEB_FILES.items()}
    archive = cache_folder() / "onnxruntime-web" / f"onnxruntime-web-{WEB_VERSION}.tgz"
    try:
        download([WEB_URL], archive, checksum=WEB_CHECKSUM, max_bytes=10**8)
    except DownloadError as error:
        raise DownloadError(
            f"{error}; elsewhere run npm install onnxruntime-web@{WEB_VERSION} and give its folder with "
            "--onnxruntime-web node_modules/onnxruntime-web"
        ) from error
    try:
        with tarfile.open(archive) as tar:
            members = {name: tar.extractfile(f"package/{path}") for name, path in WEB_FILES.items()}
            return {name: member.read() for name, member in members.items() if member is not None}
    except (OSError, tarfile.TarError) as error:
        raise RunError(f"{archive}: cannot be read ({error}); remove it to download it again") from error


def _read(package: Path, path: str) -> bytes:
    try:
        return (package / path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--onnxruntime-web {package}: {path} cannot be read ({error.strerror}); give the folder that "
            f"npm install onnxruntime-web@{WEB_VERSION} writes, node_modules/onnxruntime-web"
        ) from error


def check_browser(translator: Translator) -> None:
    """ConfigError: the run needs what the page does not have."""
    for tokenizer in (translator.tokenizers.src, translator.tokenizers.tgt):
        if tokenizer.kind != "bpe" or tokenizer.lowercase:
            what = f"{tokenizer.kind} in lower case" if tokenizer.lowercase else tokenizer.kind
            raise ConfigError(
                f"--to browser: the page has a tokenizer for bpe alone, and the run's is {what}; export it "
                "--to onnx"
            )


def write_browser(translator: Translator, folder: Path, runtime: Mapping[str, bytes]) -> None:
    """Write what is needed beside ENCODER and DECODER, which are in `folder`: last the worker that keeps all.

    `runtime` are the `runtime_files`.
    """
    translator.tokenizers.save(folder / "tokenizer")
    contents = {SETTINGS: json.dumps(_settings(translator), indent=2, ensure_ascii=False).encode()}
    source = Path(__file__).parent
    served = source.parents[1] / "serving" / "page"
    contents |= {name: (source / name).read_bytes() for name in OWN}
    contents |= {name: (served / name).read_bytes() for name in SERVED}
    contents |= {f"{RUNTIME}/{name}": content for name, content in runtime.items()}
    (folder / RUNTIME).mkdir()
    for name, content in contents.items():
        write_atomically(folder / name, content)
    tokenizers = sorted(f"tokenizer/{path.name}" for path in (folder / "tokenizer").iterdir())
    files = [*contents, *tokenizers, ENCODER, DECODER]
    digest = hashlib.sha256()  # for other contents it is another one
    for name in files:
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    kept = json.dumps(["./", *files], ensure_ascii=False)
    code = (source / WORKER).read_text(encoding="utf-8")
    head = f'const VERSION = "{digest.hexdigest()[:16]}";\nconst FILES = {kept};\n\n'
    write_atomically(folder / WORKER, (head + code).encode())


def _settings(translator: Translator) -> dict[str, Any]:
    """Return the content of SETTINGS: what search and tokenizers need to know."""
    config, tokenizers, search = translator.config, translator.tokenizers, translator.config.search
    titles = {c: c.title() for c in map(chr, range(sys.maxunicode)) if c.title() != c.upper()}
    targets = [
        {
            "language": target,
            "sources": [source for source, written in config.directions if written == target],
            "before": list(translator.towards(target).tokenizers.src.before.values()),
        }
        for target in config.targets
    ]
    return {
        "name": config.name,
        "targets": targets,
        "tokenizers": [f"tokenizer/{name}" for name in tokenizers.file_names],
        "transformations": portable_transformations(config, tokenizers) | {"titles": titles},
        "silent": list(tokenizers.tgt.marks.values()),
        "source_end": translator.config.model.source_end,
        "max_positions": translator.max_positions,
        "max_length_factor": search.max_length_factor,
        "max_length_extra": search.max_length_extra,
    }
