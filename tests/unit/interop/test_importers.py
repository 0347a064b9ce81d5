"""What every importer owes: it tells its own files, names what does not fit, and says damage in one line.

The tests run over all registered formats, each with a small folder as that toolkit writes it. A new importer
adds its folder to SAMPLES; what is special to a format is in its own file.
"""

import argparse
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import test_import_fairseq
import test_import_opennmt
import test_import_sockeye
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import RunError
from dragoman.interop import REPORT, fairseq, joeynmt, opennmt, sockeye
from dragoman.interop.assembling import model_config, their_names
from dragoman.interop.foreign import ForeignFolder
from dragoman.interop.importing import FORMATS, detect, import_model
from dragoman.interop.settings import ForeignSettings, Setting, parse_yaml
from dragoman.model.architecture import SIDES, parameters
from dragoman.model.layers import sinusoids
from foreign_checkpoints import HERE, WORDS, Attack, random_tensors
from foreign_models import write_marian
from migrating import run_section

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the other side's packages


def write_joeynmt(folder: Path) -> None:
    """A model_dir of JoeyNMT, of the names in its importer's table: what it computes is tested elsewhere."""
    folder.mkdir(parents=True)
    side = {"type": "transformer", "num_layers": 2, "num_heads": 2, "hidden_size": 8, "ff_size": 12}
    data = {side: {"lang": lang, "level": "word"} for side, lang in (("src", "en"), ("trg", "de"))}
    model = {name: {**side, "layer_norm": "pre"} for name in SIDES}
    (folder / "config.yaml").write_text(json.dumps({"data": data, "model": model}), encoding="utf-8")
    for name in data:
        (folder / f"{name}_vocab.txt").write_text("\n".join(["<unk>", "<pad>", "<s>", "</s>", *WORDS]))
    n = 4 + len(WORDS)
    settings = {"d_model": 8, "d_ff": 12, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}
    shapes = {}
    for parameter in parameters(ModelConfig.model_validate(settings | {"tie_embeddings": "none"}), n, n):
        names = their_names(joeynmt.NAMES, parameter)
        shapes |= {name: (parameter.shape[0] // len(names), *parameter.shape[1:]) for name in names}
    tables = {f"{name}.pe.pe": sinusoids(20, 8)[None] for name in SIDES}
    torch.save({"model_state": random_tensors(shapes) | tables}, folder / "best.ckpt")


class Sample(NamedTuple):
    """A small folder of a format, and where things are in it."""

    write: Callable[[Path], Any]
    weights: str
    """The file of the weights."""
    inside: str
    """The key of the weights in that file; "": they are all that is there."""
    matrix: str
    """A matrix of the first layer."""
    settings: str = ""
    """The file with the settings of the model, or the key of them in the file of weights."""


SAMPLES = {
    "marian": Sample(
        write_marian, "model.safetensors", "", "model.encoder.layers.0.fc1.weight", "config.json"
    ),
    "joeynmt": Sample(
        write_joeynmt, "best.ckpt", "model_state", "encoder.layers.0.feed_forward.pwff_layer.0.weight",
        "config.yaml",
    ),
    "fairseq": Sample(
        test_import_fairseq.write, "checkpoint_best.pt", "model", "encoder.layers.0.fc1.weight", "args"
    ),
    "opennmt": Sample(
        test_import_opennmt.write_onmt, "model_step_1000.pt", "model",
        "encoder.transformer.0.feed_forward.w_1.weight", "opt",
    ),
    "eole": Sample(
        test_import_opennmt.write_eole, "model.00.safetensors", "",
        "encoder.transformer_layers.0.mlp.gate_up_proj.weight", "config.json",
    ),
    "sockeye": Sample(
        test_import_sockeye.write, "params.best", "", "encoder.layers.0.ff.ff1.weight", "config"
    ),
}  # fmt: skip
IN_TORCH = [name for name, sample in SAMPLES.items() if not sample.weights.endswith(".safetensors")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sound folder of each format."""
    made = {}
    for name, sample in SAMPLES.items():
        made[name] = tmp_path_factory.mktemp(name) / "there"
        sample.write(made[name])
    return made


@pytest.fixture
def there(name: str, folders: dict[str, Path], tmp_path: Path) -> Path:
    """A folder of the format `name` that may be damaged."""
    return Path(shutil.copytree(folders[name], tmp_path / "there"))


def change(folder: Path, sample: Sample, changed: Callable[[dict[str, Tensor]], dict[str, Any]]) -> None:
    """Writes other weights."""
    path = folder / sample.weights
    if path.suffix == ".safetensors":
        save_file(changed(load_file(path)), path, metadata={"format": "pt"})
        return
    state = torch.load(path, weights_only=False)
    inner = changed(state[sample.inside] if sample.inside else state)
    torch.save(state | {sample.inside: inner} if sample.inside else inner, path)


def set_setting(folder: Path, sample: Sample, name: str, value: object) -> None:
    """Writes another value of a setting, "*" on both sides."""

    def put(settings: Any, parts: list[str]) -> None:
        for part in parts[:-1]:
            settings = settings.setdefault(part, {})
        settings[parts[-1]] = value

    path = folder / sample.settings
    in_weights = not path.exists()
    state: Any = None
    if in_weights:
        state = torch.load(folder / sample.weights, weights_only=False)
        settings = vars(state[sample.settings])
    elif path.suffix == ".json":
        settings = json.loads(path.read_bytes())
    else:
        settings = parse_yaml(path.read_text(encoding="utf-8"), where=path)
    for one in {name.replace("*", side) for side in SIDES}:
        put(settings, one.split("."))
    if in_weights:
        state[sample.settings] = argparse.Namespace(**settings)
        torch.save(state, folder / sample.weights)
    else:
        path.write_text(json.dumps(settings), encoding="utf-8")


def refused(folder: Path, run: Path, **given: Any) -> str:
    """The one line with which a folder is refused; nothing is left behind."""
    with pytest.raises(RunError) as error:
        import_model(folder, run, options=HERE, **given)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 700
    assert not run.exists()
    return message


def test_every_format_is_tested() -> None:
    assert SAMPLES.keys() == FORMATS.keys()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("section", "folders_of"),
    [
        ("fairseq", {"checkpoints": "fairseq"}),
        ("OpenNMT-py and eole", {"checkpoints": "opennmt", "eole": "eole"}),
        ("Sockeye", {"model": "sockeye"}),
    ],
)
def test_the_commands_of_the_page_run(
    section: str, folders_of: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in folders_of.items():
        SAMPLES[name].write(tmp_path / folder)
    run_section(section, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_told_by_its_files(name: str, there: Path, tmp_path: Path) -> None:
    assert detect(ForeignFolder(there)) == name
    run = import_model(there, tmp_path / "run", options=HERE)
    origin = run.read_json("report.json")["imported"]
    assert origin["format"] == name
    assert SAMPLES[name].weights in origin["files"]
    assert origin["n_parameters"] == sum(tensor.numel() for tensor in run.load_weights().values())


def test_an_export_of_ours_is_refused_and_names_its_run(folders: dict[str, Path], tmp_path: Path) -> None:
    there = Path(shutil.copytree(folders["marian"], tmp_path / "there"))
    (there / REPORT).write_text(json.dumps({"origin": {"name": "my-run"}}))
    said = "there: was exported by Dragoman from the run 'my-run'; use that run itself"
    assert said in refused(there, tmp_path / "run")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_folder_of_another_format_is_refused(name: str, there: Path, tmp_path: Path) -> None:
    for other in FORMATS.keys() - {name}:
        refused(there, tmp_path / "run", format_name=other)


DAMAGES: dict[str, tuple[Callable[[dict[str, Tensor], str], dict[str, Any]], str]] = {
    "missing": (lambda found, name: {key: found[key] for key in found if key != name}, "holds no {}"),
    "of another shape": (lambda found, name: found | {name: found[name][:-1].clone()}, "{} has shape"),
    "not finite": (
        lambda found, name: found | {name: torch.full_like(found[name], torch.inf)},
        "{} holds numbers that are not finite",
    ),
    "of whole numbers": (lambda found, name: found | {name: found[name].int()}, "{} is of torch.int32"),
    "unknown": (
        lambda found, name: found | {f"{name}_of_an_adapter": torch.ones(2)}, "no place for: {}_of_an_adapter"
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_weight_that_does_not_fit_is_named(name: str, damage: str, there: Path, tmp_path: Path) -> None:
    sample, (changed, said) = SAMPLES[name], DAMAGES[damage]
    change(there, sample, lambda found: changed(found, sample.matrix))
    assert said.format(sample.matrix) in refused(there, tmp_path / "run")


@pytest.mark.parametrize(
    ("default", "value"),
    [("", 3.5), (False, "wide"), *((int, each) for each in ("wide", [1], 0, -1, 24.5, 1e300, math.inf))],
)
def test_a_setting_of_another_kind_is_named(default: Any, value: object) -> None:
    """Infinite numbers, too, which the search for a whole one must not count up to."""
    settings = ForeignSettings({"encoder": {"width": value}, "decoder": {"width": value}}, where=Path("x"))
    with pytest.raises(RunError, match=r"^x: encoder.width is .* where .* belongs; copy the file again$"):
        settings.value(Setting("*.width", default))


UNKNOWN = {
    "fairseq": fairseq.UNKNOWN_HERE,
    "opennmt": opennmt.UNKNOWN_HERE,
    "eole": {f"model.{name}": reason for name, reason in opennmt.UNKNOWN_HERE.items()},
    "sockeye": sockeye.UNKNOWN_HERE,
}


REFUSED: list[tuple[str, str, Any, str]] = [
    ("fairseq", "arch", "fconv_iwslt_de_en", "'fconv_iwslt_de_en': only fairseq's transformer is imported"),
    ("fairseq", "activation_fn", "gelu_fast", "'gelu_fast': only relu, gelu, swish can be expressed here"),
    ("fairseq", "encoder_normalize_before", True, "encoder_normalize_before = True: the decoder has False"),
    ("fairseq", "*_ffn_embed_dim", 99, "fc1.weight has shape (12, 8), its settings say (99, 8)"),
    ("marian", "activation_function", "new", "'new': only relu, gelu, swish, silu can be expressed here"),
    ("marian", "encoder_ffn_dim", 9, "encoder_ffn_dim = 9: the decoder has 24"),
    ("joeynmt", "model.encoder.type", "recurrent", "'recurrent': only transformer can be expressed here"),
    ("joeynmt", "data.src.level", "char", "data.src.level = 'char': only word, bpe can be expressed here"),
    ("joeynmt", "model.decoder.layer_norm", "post", "layer_norm = 'pre': the decoder has 'post'"),
    ("joeynmt", "model.*.layer_norm", "post", "no place for: decoder.layer_norm"),
    ("joeynmt", "model.initializer", "xavier_normal", "weighted residuals (DeepNet) are not ours"),
    ("joeynmt", "model.*.activation", "tanh", "'tanh': only relu, gelu, swish can be expressed here"),
    ("joeynmt", "model.*.alpha", 2.0, "model.encoder.alpha = 2.0: only 1.0 can be expressed here"),
    ("joeynmt", "model.encoder.num_layers", 3, "holds no encoder.layers.2"),
    ("opennmt", "encoder_type", "brnn", "encoder_type = 'brnn': only transformer can be expressed here"),
    ("opennmt", "position_encoding", False, "position_encoding = False: positions are told in another way"),
    ("opennmt", "self_attn_type", "average", "'average': only scaled-dot, scaled-dot-flash can be expressed"),
    ("opennmt", "layer_norm", "rms", "layer_norm = 'rms': only standard, standardFP32 can be expressed"),
    ("opennmt", "generator_function", "sparsemax", "'sparsemax': only softmax can be expressed here"),
    ("opennmt", "pos_ffn_activation_fn", "silu", "'silu': only relu, gelu can be expressed here"),
    ("opennmt", "num_kv", 1, "num_kv = 1: only 0, 2 can be expressed here"),
    ("opennmt", "position_encoding_type", "SinusoidalConcat", "only SinusoidalInterleaved can be expressed"),
    ("eole", "model.embeddings.position_encoding_type", "Rotary", "only SinusoidalInterleaved can be"),
    ("eole", "model.heads_kv", 1, "heads_kv = 1: only 0, 2 can be expressed here"),
    ("eole", "model.mlp_activation_fn", "gated-silu", "'gated-silu': only relu, gelu, silu can be expressed"),
    ("eole", "model.decoder.decoder_type", "rnn", "decoder_type = 'rnn': only transformer can be expressed"),
    ("sockeye", "config_decoder.decoder_type", "ssru_transformer", "only transformer can be expressed here"),
    ("sockeye", "config_*.preprocess_sequence", "dn", "preprocess_sequence = 'dn': only n, nothing can be"),
    ("sockeye", "config_*.postprocess_sequence", "rn", "postprocess_sequence = 'rn': only dr, r can be"),
    ("sockeye", "config_decoder.act_type", "gelu", "act_type = 'relu': the decoder has 'gelu'"),
    ("sockeye", "config_*.attention_heads", 3, "d_model = 8 is not a multiple of n_heads = 3"),
    *(
        (name, setting, True, f" = True: {reason}; the model cannot be imported")
        for name, reasons in UNKNOWN.items()
        for setting, reason in reasons.items()
    ),
]


@pytest.mark.parametrize(("name", "setting", "value", "said"), REFUSED)
def test_what_cannot_be_expressed_is_refused_with_the_reason(
    name: str, setting: str, value: Any, said: str, there: Path, tmp_path: Path
) -> None:
    set_setting(there, SAMPLES[name], setting, value)
    assert said in refused(there, tmp_path / "run")


def test_tables_of_positions_that_want_all_memory_are_refused() -> None:
    with pytest.raises(RunError, match=r"there: 100,000 positions of 4,096 are too many to be read"):
        model_config({"d_model": 4096, "max_positions": 100_000}, where=Path("there"))


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[: len(content) // 2]
    yield b"\x80\xff{" * 50
    yield b'{"a":' * 50_000
    yield b"[1, 2]"


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_any_damage_is_refused_in_one_line_or_harmless(name: str, there: Path, tmp_path: Path) -> None:
    n_refused = 0
    for path in sorted(path for path in there.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for content in (None, *damaged(whole)):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            try:
                import_model(there, tmp_path / "run", options=HERE)
                shutil.rmtree(tmp_path / "run")
            except RunError:
                n_refused += 1
                refused(there, tmp_path / "run")
        path.write_bytes(whole)
    assert n_refused >= 5


@pytest.mark.parametrize("name", IN_TORCH)
def test_a_checkpoint_that_runs_code_is_not_read(name: str, there: Path, tmp_path: Path) -> None:
    change(there, SAMPLES[name], lambda found: found | {"x": Attack(tmp_path / "trace")})
    assert "mkdir, which could run code; it is not read" in refused(there, tmp_path / "run")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", SAMPLES)
def test_weights_that_are_elsewhere_are_not_read(name: str, there: Path, tmp_path: Path) -> None:
    path = there / SAMPLES[name].weights
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert "is a link that leads out of its folder" in refused(there, tmp_path / "run")
