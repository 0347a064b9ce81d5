"""The optimizers compute what PyTorch's do, and do not load its compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.training.updates.optimizer import AdamW
from tiny import TINY, write_corpus

TRAINING = """
import sys
from dragoman.config import parse_config
from dragoman.training.loop import train
data = {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"], "valid": ["valid.tsv"]}
train(parse_config({"name": "x", "data": data}, overrides=sys.argv[1:]), "run")
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_training_does_not_load_the_compiler(optimizer: str, tmp_path: Path) -> None:
    if optimizer == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    write_corpus(tmp_path, "train", 20, seed=1)
    write_corpus(tmp_path, "valid", 5, seed=2)
    overrides = [*TINY, f"training.optimizer={optimizer}", "training.device=cpu"]
    found = subprocess.run(
        [sys.executable, "-c", TRAINING, *overrides], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "False"


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
