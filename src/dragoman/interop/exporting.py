"""Runs as other runtimes load them: written beside their place, compared with the run, then put there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from dragoman.config import parse_json
from dragoman.data.document_batching import make_documents
from dragoman.data.readers.files import hash_file
from dragoman.errors import ConfigError, RunError, require
from dragoman.files import replacing_folder, write_atomically
from dragoman.hardware import environment
from dragoman.interop import REPORT, argos, browser, huggingface, onnx
from dragoman.interop.browser import check_browser, runtime_files, write_browser
from dragoman.interop.ctranslate2 import CTranslate2Engine, convert, write_vocabulary_map
from dragoman.interop.parity import (
    ExportedModel,
    Parity,
    check,
    compare,
    describe,
    sentences_to_compare,
)
from dragoman.interop.portable import check_portable, portable, portable_transformations, to_json
from dragoman.predict.classifier import TOKENIZER, Classifier, max_tokens
from dragoman.predict.engine import StepEngine
from dragoman.predict.loading import classifier_weights
from dragoman.predict.networks import load_classifier
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text import transformations
from dragoman.text.slots import SLOTS
from dragoman.text.tokenizer import TokenizerPair

Progress: TypeAlias = Callable[[int], None]

MISSING = {
    "copy": "a text without a letter is translated{}; the run copies it",
    "case": "text in capitals and in title case is read as it is{}; the run reads it in the case of its "
    "vocabulary, and puts the case back (search.recase)",
    "slots": "numbers and addresses are translated{}; the run carries them over in slots (modifiers.slots)",
}
"""What a run does around its model, by the kind of transformation, where an export has the model alone."""
STANDALONE = Path(__file__).parent / "standalone"
N_SENTENCES = 200
LOGIT_TOLERANCE = 1e-3
"""Nats by which the logit of a class may differ."""


@dataclass(frozen=True)
class ExportReport:
    """An export, and how far it is from its run."""

    folder: Path
    to: str
    compute_type: str
    parity: Parity
    files: dict[str, int]
    """Their sizes in bytes."""
    notes: tuple[str, ...]
    """What a user of the export should know."""
    missing: tuple[str, ...]
    """What the run does and the export does not, a sentence each."""
    max_tokens: int | None = None
    """Those of a source that a translator reads at once, its end included."""

    def describe(self) -> dict[str, str]:
        """Return the report in words."""
        size = f"{sum(self.files.values()) / 1e6:.1f} MB in {len(self.files)} files"
        return {"format": f"{self.to}, {self.compute_type}", "size": size, **describe(self.parity)}


class ExportOptions(NamedTuple):
    """What a user chooses about an export."""

    compute_type: str
    onnxruntime_web: Path | None
    """The folder of the npm package, where it is not to be downloaded."""
    n_sentences: int
    """Those that are compared."""
    progress: Progress | None


class Exporter(NamedTuple):
    """What is needed to write for a runtime."""

    title: str
    packages: tuple[str, ...]
    script: str
    """What translate.py runs without Dragoman: a file of the folder standalone, or "" for no script."""
    write: Callable[[Run, Translator, Path, ExportOptions], ExportedModel | StepEngine]
    """Write a translator, and start the runtime on what was written."""
    compute_types: tuple[str, ...] = ("float32",)
    """The first is taken if none is chosen."""
    usage: str = ""
    """How it is used, in place of a script."""


def export_run(
    run_path: str | Path,
    out: str | Path,
    *,
    to: str,
    compute_type: str = "",
    onnxruntime_web: str | Path | None = None,
    n_sentences: int = N_SENTENCES,
    progress: Progress | None = None,
) -> ExportReport:
    """Write the run at `run_path` into the folder `out` for another runtime, and compare the two.

    `to` is "ctranslate2", "onnx", "huggingface", "browser" or "argos". `compute_type` is "float32", or for
    ctranslate2, onnx and argos "int8", as it always is for a browser. A browser's folder holds
    onnxruntime-web, from the folder of its npm package, `onnxruntime_web`, or downloaded once. Greedy
    translations and log-probabilities are compared on `n_sentences` of the run's validation data, or random
    ones. The folder is there whole, or not at all; it must be new, empty, or an earlier export and nothing
    else. `progress` is called with the number of sentences compared.

    ConfigError: there is no such format or compute type, or the format cannot express the run. RunError: the
    runtime computes something else, there is no run, or the folder is not free or cannot be written.
    MissingExtraError: the runtime is not installed.
    """
    if to not in EXPORTERS:
        raise ConfigError(f"--to {to}: is not a format; there are {', '.join(EXPORTERS)}")
    exporter = EXPORTERS[to]
    compute_type = compute_type or exporter.compute_types[0]
    if onnxruntime_web is not None and to != "browser":
        raise ConfigError(
            f"--onnxruntime-web: is for --to browser, and this is an export to {to}; leave it out"
        )
    extra = "onnx" if to == "browser" else to
    require(*exporter.packages, extra=extra, purpose=f"exporting to {exporter.title}")
    if compute_type not in exporter.compute_types:
        available = " and ".join(exporter.compute_types)
        raise ConfigError(f"--compute-type {compute_type}: {to} has {available} here")
    if n_sentences < 1:
        raise ConfigError(f"--sentences {n_sentences}: compare one sentence at least")
    run = Run.open(run_path)
    if run.path.resolve().is_relative_to(Path(out).resolve()):
        raise ConfigError(f"{out}: holds the run {run.path}, which would be lost; choose another folder")
    package = None if onnxruntime_web is None else Path(onnxruntime_web)
    options = ExportOptions(compute_type, package, n_sentences, progress)
    with replacing_folder(Path(out)) as folder:
        _check_free(Path(out))
        if run.config.task == "translation":
            parity, notes, missing = _export_translator(run, folder, to, options)
            max_tokens: int | None = run.config.model.max_positions
        else:
            parity = _export_classifier(run, folder, to, options)
            notes, missing, max_tokens = (), (), None
        files = {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        report = ExportReport(Path(out), to, compute_type, parity, files, notes, missing, max_tokens)
        version, weights = environment()["dragoman"], hash_file(run.weights_path)
        origin = {"dragoman": version, "name": run.config.name, "weights": weights}
        record = {"origin": origin, **asdict(report)}
        del record["folder"]
        write_atomically(folder / REPORT, huggingface.as_json(record))
    return report


def _export_translator(
    run: Run, folder: Path, to: str, options: ExportOptions
) -> tuple[Parity, tuple[str, ...], tuple[str, ...]]:
    translator = Translator.load(run.path, device="cpu", precision="fp32")
    config = translator.config
    engine = EXPORTERS[to].write(run, translator, folder, options)
    script, listed = EXPORTERS[to].script, portable_transformations(config, translator.tokenizers)
    targets = config.targets
    parity, origins = Parity(), []
    notes: tuple[str, ...] = ()
    for i, target in enumerate(targets):  # each reads its own share of the sentences
        one = translator.towards(target)
        n_own = len(range(i, options.n_sentences, len(targets))) or 1
        texts, origin = sentences_to_compare(
            one.config, one.tokenizers.src, n_own, translator.max_positions - 1
        )
        origins.append(origin)
        if isinstance(engine, huggingface.HuggingFaceEngine):
            place = huggingface.tokenizer_folder(folder, config, target)
            read = (translator if place == folder else one).tokenizers  # there the text says the language
            huggingface.check_tokenizer(place, read, texts, first=engine.first, end=engine.source_end)
        elif script:  # a page has a tokenizer of its own
            side = f"source.{target}" if len(targets) > 1 else "source"
            notes = _write_tokenizers(run, one, folder, texts, side=side)
        compare(one, texts, engine, parity, progress=options.progress)
        if isinstance(engine, CTranslate2Engine) and to == "argos":
            source = run.tokenizer_folder / one.tokenizers.file_names[0]
            package = argos.write_packages(config, target, one, source, folder)
            alike = argos.check_package(package, one, engine, texts)
            parity.same[argos.ALIKE] = min(alike, parity.same.get(argos.ALIKE, 1.0))
    parity.sentences_from = "; ".join(dict.fromkeys(origins))
    check(parity, options.compute_type, what=f"{to}, {options.compute_type}")
    if to == "argos":
        shutil.rmtree(folder / argos.MODEL)  # it is in the packages
    scripts: dict[str, Path] = {}
    if script and not notes:
        write_atomically(folder / "transformations.json", huggingface.as_json(listed))
        scripts = {
            "translate.py": STANDALONE / "translate.py",
            "model.py": STANDALONE / f"{script}.py",
            "transformations.py": Path(transformations.__file__),
        }
    missing: tuple[str, ...] = ()
    if notes or to in ("argos", "huggingface"):
        by_whom = " by code other than translate.py" * bool(scripts)
        kinds = [one["kind"] for one in listed["lists"][targets[0]]]
        missing = tuple(MISSING[kind].format(by_whom) for kind in ("copy", *kinds))
    _write_readme(folder, run, to, scripts, notes, missing)
    return parity, notes, missing


def _write_tokenizers(
    run: Run, translator: Translator, folder: Path, texts: Sequence[str], *, side: str
) -> tuple[str, ...]:
    """Dragoman's tokenizers as they are, and, if that can be, files for `tokenizers`.

    These are `side`.json for sources towards the language of the translator, and target.json.
    """
    tokenizers, end = translator.tokenizers, translator.config.model.source_end
    tokenizers.save(folder / "tokenizer")
    src, tgt = (run.tokenizer_folder / name for name in tokenizers.file_names)
    source, target = folder / f"{side}.json", folder / "target.json"
    try:
        before = tokenizers.src.before
        slots = "".join(SLOTS) * (translator.config.modifiers.slots > 0)
        specs = portable(src, end=end, before=before, slots=slots), portable(tgt, end=end, slots=slots)
        contents = map(to_json, specs)
    except ConfigError as error:
        hint = "" if end else "; the model reads no end token of a source"
        return (f"{error}; read and write text with TokenizerPair.load of dragoman.text.tokenizer{hint}",)
    for path, content in zip((source, target), contents, strict=True):
        write_atomically(path, content.encode())
    check_portable(source, target, tokenizers, texts, end=end)
    return ()


def _to_ctranslate2(
    run: Run, translator: Translator, folder: Path, options: ExportOptions
) -> CTranslate2Engine:
    model, tokenizers = translator.model, translator.tokenizers
    convert(model, tokenizers, folder, compute_type=options.compute_type)
    if shortlist := Shortlist.load(run.path, tokenizers):
        write_vocabulary_map(shortlist, tokenizers, folder)
    return CTranslate2Engine(folder, tokenizers, model.config)


def _to_onnx(run: Run, translator: Translator, folder: Path, options: ExportOptions) -> onnx.OnnxEngine:
    onnx.write_translator(translator.model, folder)
    if options.compute_type == "int8":
        for name in (onnx.ENCODER, onnx.DECODER):
            onnx.quantize(folder / name)
    source_end = translator.config.model.source_end
    return onnx.OnnxEngine(folder, max_positions=translator.max_positions, source_end=source_end)


def _to_browser(run: Run, translator: Translator, folder: Path, options: ExportOptions) -> onnx.OnnxEngine:
    check_browser(translator)
    runtime = runtime_files(options.onnxruntime_web)
    engine = _to_onnx(run, translator, folder, options)
    write_browser(translator, folder, runtime)
    return engine


def _to_huggingface(
    run: Run, translator: Translator, folder: Path, options: ExportOptions
) -> huggingface.HuggingFaceEngine:
    huggingface.write_huggingface(run, translator, folder)
    return huggingface.HuggingFaceEngine(folder, source_end=translator.model.config.source_end)


def _to_argos(run: Run, translator: Translator, folder: Path, options: ExportOptions) -> CTranslate2Engine:
    argos.check_argos(translator.config)
    argos.lengthen(translator.model)
    return _to_ctranslate2(run, translator, folder / argos.MODEL, options)


EXPORTERS: dict[str, Exporter] = {
    "ctranslate2": Exporter(
        "CTranslate2", ("ctranslate2",), "model_of_ctranslate2", _to_ctranslate2, ("float32", "int8")
    ),
    "onnx": Exporter(
        "ONNX", ("onnx", "onnxscript", "onnxruntime"), "model_of_onnx", _to_onnx, ("float32", "int8")
    ),
    "huggingface": Exporter("Hugging Face", ("transformers",), "model_of_transformers", _to_huggingface),
    "browser": Exporter(
        "a page", ("onnx", "onnxscript", "onnxruntime"), "", _to_browser, ("int8",), browser.README
    ),
    "argos": Exporter(
        "Argos Translate", ("ctranslate2", "sentencepiece"), "", _to_argos, ("float32", "int8"), argos.README
    ),
}


def _export_classifier(run: Run, folder: Path, to: str, options: ExportOptions) -> Parity:
    """Write a classifier as ONNX, its tokenizer, and classifier.json with labels and settings.

    ConfigError: another format or type, or a tokenizer that only Dragoman has.
    """
    if to == "huggingface":
        raise ConfigError(
            "transformers has no architecture for a classifier with window pooling and n-gram votes, and "
            "custom code beside the weights would have to be trusted; export it --to onnx"
        )
    if to != "onnx":
        raise ConfigError(f"{to} is for translators; export a classifier --to onnx")
    if options.compute_type != "float32":
        type_ = options.compute_type
        raise ConfigError(f"--compute-type {type_}: a classifier is exported as float32; leave it out")
    classifier = Classifier.load(run.path, device="cpu", precision="fp32")
    config = classifier.config
    write_atomically(folder / "text.json", to_json(portable(run.tokenizer_folder / TOKENIZER)).encode())
    settings = {
        "labels": list(classifier.labels), "separator": classifier.labelling.separator,
        "temperature": classifier.temperature, "threshold": classifier.threshold,
        "max_length": config.data.max_length, "max_windows": config.data.max_windows,
        "ngrams": config.model.ngrams, "ngram_bits": config.model.ngram_bits,
    }  # fmt: skip
    write_atomically(folder / "classifier.json", huggingface.as_json(settings))
    weights = classifier_weights(run, config, classifier.tokenizer.vocab_size, len(classifier.labels))
    network = load_classifier(weights, config, classifier.tokenizer, device="cpu", precision="fp32")
    onnx.write_classifier(network.model, folder)
    _write_readme(folder, run, to, {"classify.py": STANDALONE / "classify.py"})
    texts, origin = sentences_to_compare(config, classifier.tokenizer, options.n_sentences, 10**6)
    text, tokenizer = folder / "text.json", classifier.tokenizer
    check_portable(text, text, TokenizerPair(tokenizer, tokenizer), texts)
    return _compare_logits(classifier, folder, texts, origin, options.progress)


def _compare_logits(
    classifier: Classifier, folder: Path, texts: Sequence[str], origin: str, progress: Progress | None
) -> Parity:
    """RunError: the graph gives other logits."""
    expected = classifier.logits(texts).values
    graph = onnx.session(folder / onnx.CLASSIFIER)
    limit = max_tokens(classifier.config) or None
    rows = [ids[:limit] for ids in classifier.tokenizer.encode_batch(texts)]
    actual = np.zeros_like(expected)
    for start in range(0, len(rows), 20):
        batch = rows[start : start + 20]
        lengths = np.array([len(ids) for ids in batch], dtype=np.int64)
        documents = make_documents(np.concatenate(batch).astype(np.int64), lengths, classifier.config)
        actual[start : start + 20] = onnx.classifier_logits(graph, documents)
        if progress is not None:
            progress(start + len(batch))
    parity = Parity(len(texts), origin)
    labels = [classifier.give(logits).reshape(len(texts), -1) for logits in (actual, expected)]
    parity.same["label"] = float((labels[0] == labels[1]).all(1).mean())
    apart = float(np.abs(actual - expected).max())
    parity.widen("nats of a logit", apart)
    if not apart <= LOGIT_TOLERANCE:
        allowed = f"({apart:.2g} apart, {LOGIT_TOLERANCE} allowed)"
        raise RunError(f"onnx: gives other logits than the run {allowed}; nothing was written")
    return parity


def _write_readme(
    folder: Path,
    run: Run,
    to: str,
    scripts: Mapping[str, Path],
    notes: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> None:
    """Write how the folder is used without Dragoman, what it lacks, and its scripts."""
    use = [EXPORTERS[to].usage]
    if scripts:
        code = [path.read_text(encoding="utf-8") for path in scripts.values()]
        use = [*(text.split('"""')[1].strip() for text in code[:2])]
        for name, text in zip(scripts, code, strict=True):
            write_atomically(folder / name, text.encode())
    lines = [
        f"# {run.config.name}: {run.config.subject}",
        f"Written by Dragoman for {to}; {REPORT} says how exactly it repeats the run.",
        *(notes or use),
        *(f"Missing here: {one}." for one in missing),
    ]
    write_atomically(folder / "README.md", ("\n\n".join(lines) + "\n").encode())


def _check_free(out: Path) -> None:
    """RunError: there is something in `out` that is not an export, or not of that export."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = parse_json((out / REPORT).read_bytes())
        if "dragoman" in content["origin"] and not (out / "config.toml").exists():
            names = {REPORT, *content["files"]}
            paths = (path for path in sorted(out.rglob("*")) if path.is_symlink() or not path.is_dir())
            paths = (path for path in paths if "__pycache__" not in path.parts)  # of the scripts
            other = next((path for path in paths if path.relative_to(out).as_posix() not in names), None)
            if other is None:
                return
            raise RunError(
                f"{other}: is not of the export in {out} and would be lost; move it, or choose a new folder"
            )
    raise RunError(f"{out}: is there already, and is no export; choose a new folder")
