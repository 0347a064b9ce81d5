"""The optimizers compute what PyTorch's do, and do not load its compiler."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.config import TranslationTrainingConfig
from dragoman.training.updates import optimizer as optimizer_module
from dragoman.training.updates.optimizer import AdamW, MuonAndAdamW, orthogonalised
from tiny import TINY, write_corpus

TRAINING = """
import sys
from dragoman.config import parse_config
from dragoman.tasks.training import train
data = {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"], "valid": ["valid.tsv"]}
for optimizer in ("adamw", "muon"):
    overrides = [*sys.argv[1:], f"training.optimizer={optimizer}"]
    train(parse_config({"name": "x", "data": data}, overrides=overrides), optimizer)
    print("torch._dynamo" in sys.modules)
"""


@pytest.mark.slow
def test_a_training_does_not_load_the_compiler(tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", 20, seed=1)
    write_corpus(tmp_path, "valid", 5, seed=2)
    overrides = [*TINY, "training.device=cpu"]
    found = subprocess.run(
        [sys.executable, "-c", TRAINING, *overrides], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-2:] == ["False", "False"]


def test_updates_and_states_are_those_of_pytorch() -> None:
    """Also when a state is read back in the middle."""

    def trained(kind: type[torch.optim.Optimizer]) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(1)
        model = nn.Linear(5, 3)
        options = {"lr": 0.1, "betas": (0.8, 0.9), "fused": True}
        optimizer = kind([{"params": [model.weight], "weight_decay": 0.1}], **options)
        optimizer.add_param_group({"params": [model.bias], "weight_decay": 0.0})
        for step in range(6):
            optimizer.zero_grad()
            model(torch.full((2, 5), 0.1 * step)).square().sum().backward()
            optimizer.step()
            if step == 3:
                state = optimizer.state_dict()
                optimizer = kind([{"params": [model.weight]}, {"params": [model.bias]}], **options)
                optimizer.load_state_dict(state)
        return model, optimizer

    (ours, our_optimizer), (theirs, their_optimizer) = trained(AdamW), trained(torch.optim.AdamW)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    our_state, their_state = our_optimizer.state_dict(), their_optimizer.state_dict()
    assert our_state["param_groups"] == their_state["param_groups"]
    for number, state in their_state["state"].items():
        assert all(torch.equal(our_state["state"][number][name], value) for name, value in state.items())


def muon_of(hidden: dict[nn.Parameter, int], decay: float) -> MuonAndAdamW:
    bias = nn.Parameter(torch.zeros(3))
    others = AdamW([{"params": [bias]}], lr=0.1, fused=True)
    config = TranslationTrainingConfig(optimizer="muon", learning_rate=0.1, weight_decay=decay)
    return MuonAndAdamW(hidden, others, config)


def test_muon_is_that_of_pytorch() -> None:
    """Which computes in bf16 everywhere: an update differs by a hundredth or two."""
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    torch.manual_seed(1)
    weights = [torch.randn(*shape) for shape in ((12, 40), (40, 12), (16, 16), (48, 16))]
    ours, theirs = ([nn.Parameter(weight.clone()) for weight in weights] for _ in range(2))
    our_muon = muon_of(dict(zip(ours, (1, 1, 1, 3), strict=True)), 0.1)
    single = [*theirs[:3], *(nn.Parameter(part.clone()) for part in theirs[3].chunk(3))]
    their_muon = torch.optim.Muon(single, lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for mine, others in zip(ours, [[p] for p in single[:3]] + [single[3:]], strict=True):
            mine.grad = torch.randn(mine.shape)
            for part, gradient in zip(others, mine.grad.chunk(len(others)), strict=True):
                part.grad = gradient.clone()
        our_muon.step()
        their_muon.step()
    for before, mine, others in zip(weights, ours, [*single[:3], torch.cat(single[3:])], strict=True):
        assert torch.linalg.norm(mine - others) < 0.03 * torch.linalg.norm(others - before)


@pytest.mark.parametrize("shape", [(3, 8, 30), (2, 30, 8), (1, 9, 9)])
@pytest.mark.parametrize("has_bf16", [True, False])
def test_orthogonalised_matrices_keep_their_vectors_and_move_as_far_in_every_direction(
    shape: tuple[int, ...], has_bf16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizer_module, "has_bf16", lambda device: has_bf16)
    matrices = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    found = orthogonalised(matrices)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    assert found.dtype == torch.float32
    between = left.mT @ found @ right.mT  # diagonal, if the vectors are the same
    values = between.diagonal(dim1=1, dim2=2)
    assert ((values > 0.6) & (values < 1.3)).all()
    assert (between - torch.diag_embed(values)).abs().max() < (0.1 if has_bf16 else 1e-4)


def test_an_update_that_is_left_out_changes_nothing_of_muon() -> None:
    matrix = nn.Parameter(torch.randn(6, 4))
    muon = muon_of({matrix: 1}, 0.1)
    matrix.grad = torch.randn(6, 4)
    muon.step()
    weight, momentum = matrix.detach().clone(), muon.state[matrix]["momentum_buffer"].clone()
    matrix.grad = torch.full((6, 4), torch.nan)
    muon.found_inf = torch.tensor(1.0)  # type: ignore[attr-defined]
    muon.step()
    assert torch.equal(matrix, weight)
    assert torch.equal(muon.state[matrix]["momentum_buffer"], momentum)
    matrix.grad = torch.randn(6, 4)
    muon.found_inf = torch.tensor(0.0)  # type: ignore[attr-defined]
    muon.step()
    assert not torch.equal(matrix, weight)
    assert torch.isfinite(matrix).all()
