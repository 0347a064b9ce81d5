"""Every benchmark runs at its smallest size, ends with exit code 0 and prints its figure.

The corpora of $DRAGOMAN_DATA are stand-ins: phrases of the embedded corpus under the names of real files.
"""

import gzip
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from faulty import phrases
from sharing import made_once
from tiny import TINY

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"

PARTS = {
    "multi30k": ("train", "val", "test_2016_flickr"),
    "tatoeba-en-de": ("train", "val", "test"),
    "tatoeba-en-pl": ("train", "val", "test"),
    "tatoeba-en-zh": ("train", "val", "test"),
    "iwslt17": ("train_small", "dev2010", "tst2010", "tst2011", "tst2012", "tst2013"),
}
"""The parts of each corpus that has a file for each language."""


class Benchmark(NamedTuple):
    """A script with its smallest arguments, a pattern of the figure that it prints, and packages it needs."""

    command: str
    figure: str
    packages: tuple[str, ...] = ()


SMALL = " ".join(f"--set {setting}" for setting in TINY)
FEW = "--rounds 1 --limit 24 --cores 1"
BENCHMARKS = (
    Benchmark(
        f"before_after.py {ROOT} {{run}} --only decoding --only serving --rounds 1 --limit 4 --clients 2 "
        "--seconds 0.5",
        r"serving one client, ms \| \d",
    ),
    Benchmark(
        "browser_page.py {run} --rounds 1 --sentences 4 --onnxruntime-web {web}",
        r"sentences/s",
        ("playwright", "onnx"),
    ),
    Benchmark(f"decode_speed.py {{run}} {FEW}", r"\| Dragoman, fp32 \| \d", ("ctranslate2",)),
    Benchmark("doctor.py", r"\| duplicate \| [\d,]+ \| [\d,]+ \| \d+\.\d% \|"),
    Benchmark("gpu_decode.py {run} --device cpu --batches 4 --repeat 1", r"\| \d+\.\d\d \|$"),
    Benchmark("gpu_speed.py --device cpu --steps 4 --batch-tokens 64", r"\d+\.\d%"),
    Benchmark("hostile.py --seed 7 --cases 5", r"runs \| 5 \| 0 \| 0 \| 0 \|"),
    Benchmark("protection.py {run}", r"100\.0%"),
    Benchmark("rank_faults.py --kills 1 --steps 60", r"of 1 kills continued exactly"),
    Benchmark(
        f"decode_speed.py {{run}} --exports --sentences 4 {FEW}",
        r"\| onnx, float32 \| \d",
        ("ctranslate2", "onnxruntime"),
    ),
    Benchmark("scale.py doctor --pairs 2000 --folder {folder}", r"\| 2,000 \|", ("psutil",)),
    Benchmark(
        "scale.py tokens --pairs 2000 --shard-pairs 500 --folder {folder}",
        r"tokenizers alone \| \d",
        ("psutil",),
    ),
    Benchmark(
        "scale.py training --pairs 2000 --kills 20 --folder {folder}",
        r"a warm start, and an update \| \d",
        ("psutil",),
    ),
    Benchmark("scale.py translating --lines 600 2000 --workers 2", r"equals that without", ("psutil",)),
    Benchmark("scale.py scoring --lines 600 2000 --workers 2", r"data filter --keep 0\.8", ("psutil",)),
    Benchmark("scaling.py --pairs 2e6", r"\| token store \|"),
    Benchmark("searches.py methods {run} {run} --limit 4 --methods greedy samples", r"samples \| \d"),
    Benchmark("searches.py constraints {run} --limit 6 --beam-sizes 3", r"100\.0%"),
    Benchmark("searches.py glossary {run} --limit 6", r"inflected \| \d"),
    Benchmark(
        "serve_faults.py {run} --scale 0.02 --only 'malformed requests' --only 'clients that leave'",
        r"malformed requests \|[^|]+\|[^|]+\| 0 \| 0 \|",
        ("fastapi",),
    ),
    Benchmark("serve_load.py {run} --clients 2 --seconds 5 --limit 4", r"% of offline", ("fastapi",)),
    Benchmark("serve_memory.py {run} 1", r"\| 1 \| \d", ("fastapi",)),
    Benchmark(f"time_to_bleu.py --aims 99 {SMALL}", r"BLEU 99 was not passed"),
    Benchmark("train_speed.py --rounds 1 --threads 1", r"\| torch\.nn\.Transformer \| \d"),
    Benchmark("update_profile.py --batches 1 --rounds 1", r"TFLOP/s"),
)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of $DRAGOMAN_DATA, each of few lines."""

    def write(path: Path, lines: list[str]) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))

    def make(folder: Path) -> None:
        for corpus, (train, *others) in PARTS.items():
            langs = ("en", corpus[-2:] if corpus.startswith("tatoeba") else "de")
            pairs = phrases(1900, tgt_lang=langs[1])
            parts = {train: pairs[:1500], **dict.fromkeys(others, pairs[1400:1800])}
            if corpus == "multi30k":  # with which models of real size are validated
                parts["val"] = pairs[1500:1540]
            for part, some in parts.items():
                for i, lang in enumerate(langs):
                    write(folder / corpus / f"{part}.{lang}.gz", [pair[i] for pair in some])
        chinese = ["\t".join(pair) for pair in phrases(1900, tgt_lang="zh")]
        write(folder / "small-en-zh" / "train.tsv.gz", chinese[:1500])
        write(folder / "small-en-zh" / "dev.tsv.gz", chinese[1500:])

    return made_once(tmp_path_factory, "benchmark-data", make)


@pytest.mark.nightly
@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.command.partition(" -")[0])
def test_it_runs_and_prints_its_figure(
    benchmark: Benchmark, data: Path, tiny_run: Path, tmp_path: Path
) -> None:
    for package in benchmark.packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    web = os.environ.get("DRAGOMAN_ONNXRUNTIME_WEB")
    if "{web}" in benchmark.command and not web:
        pytest.skip("needs onnxruntime-web (DRAGOMAN_ONNXRUNTIME_WEB names an installed one)")
    run = shutil.copytree(tiny_run, tmp_path / "run")
    config = (run / "config.toml").read_text(encoding="utf-8")
    for side in ("en", "de"):  # a test set that is long enough for every benchmark
        config = config.replace(
            f"{tiny_run.parent}/test.{side}", f"{data}/multi30k/test_2016_flickr.{side}.gz"
        )
    (run / "config.toml").write_text(config, encoding="utf-8")
    places = {"run": run, "folder": tmp_path / "folder", "web": web}
    places["folder"].mkdir()
    script, *arguments = shlex.split(benchmark.command.format(**places))
    keeps = script != "scaling.py"  # which measures nothing
    if keeps:
        arguments = ["--results", str(tmp_path / "results"), *arguments]
    environment = {
        **os.environ, "DRAGOMAN_DATA": str(data), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, FOLDER / script, *arguments],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(benchmark.figure, done.stdout, re.MULTILINE), done.stdout
    if keeps:
        [record] = json.loads(next((tmp_path / "results").iterdir()).read_text(encoding="utf-8"))
        assert {"machine", "date", "commit", "command", "rows"} <= record.keys()


def test_every_script_is_run() -> None:
    scripts = {path for path in FOLDER.glob("*.py") if 'if __name__ == "__main__"' in path.read_text("utf-8")}
    assert {path.name for path in scripts} == {one.command.split()[0] for one in BENCHMARKS}
