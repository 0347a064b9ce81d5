"""Load the weights of a run, and what searches with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.config import TranslationConfig
from dragoman.data.readers.files import hash_file, hash_strings
from dragoman.errors import ConfigError, optional
from dragoman.hardware import choose_precision, on_processor
from dragoman.hub import folder_of
from dragoman.model.compiled import CompiledModel, Kind, why_not_compiled
from dragoman.predict.engine import CompiledEngine, ModelEngine
from dragoman.predict.reading import TranslatorFiles
from dragoman.predict.shortlist import SHORTLIST, Shortlist
from dragoman.runs import Run

if TYPE_CHECKING:
    from typing_extensions import Self


class Pretrained:
    """What is loaded from the folder of a run, by `load`, or from the Hugging Face hub."""

    load: ClassVar[Callable[..., Any]]

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, revision: str | None = None, token: str | None = None, **options: Any
    ) -> Self:
        """Return what is on the Hugging Face hub as "user/model", or in a folder of that path.

        `revision` is a branch, a tag or a commit; errors and `token` as `hub.fetch`; `options` are those of
        `load`.
        """
        loaded: Self = cls.load(folder_of(name, revision=revision, token=token), **options)
        return loaded


def model_hash(*runs: Run) -> str:
    """Return a hash of the files that translations by `runs` depend on: weights, tokenizers and shortlists.

    RunError: one has no weights yet.
    """
    files: list[Path] = []
    for run in runs:
        run.weight_shapes()  # there are some
        tokenizers = sorted(path for path in run.tokenizer_folder.rglob("*") if path.is_file())
        files += [run.weights_path, *tokenizers, *filter(Path.exists, [run.path / SHORTLIST])]
    return hash_strings(*map(hash_file, files))


def load_engine(
    files: Sequence[TranslatorFiles], *, device: str, precision: str, shortlist: Shortlist | None
) -> ModelEngine:
    """Return the fastest engine that computes what the weights of these runs were trained to compute.

    Errors and arguments: `Translator.load`. DragomanWarning: it is not the fastest of all.
    """
    if on_processor(device):
        kind: Any = "int8" if precision == "int8" else choose_precision(precision)
        reason = why_not_searched([each.config for each in files], kind)
        if not reason:
            engines = [
                CompiledEngine(CompiledModel(each.weights(), each.config.model, kind=kind)) for each in files
            ]
            if all(map(TranslatorFiles.agrees, files, engines)):
                return CompiledEngine(*(engine.models[0] for engine in engines), shortlist=shortlist)
            reason = "the model is not the network that compiled searches compute"
    else:
        reason = "is for processors"
    if precision == "int8":
        raise ConfigError(f'precision int8: {reason}; use precision "auto"')
    optional("torch", extra="train", purpose=f"translating ({reason})")
    from dragoman.predict.torch_engine import load_torch_engine

    return load_torch_engine(files, device=device, precision=precision)


def why_not_searched(configs: Sequence[TranslationConfig], kind: Kind) -> str:
    """Return why compiled code does not search with these models in `kind` here; "": it does."""
    for config in configs:
        if config.training.kernels == "plain":
            return 'training.kernels = "plain" of its run is for PyTorch'
        if reason := why_not_compiled(config.model, kind):
            return reason
    return ""
