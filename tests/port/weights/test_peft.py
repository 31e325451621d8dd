"""PEFT itself beside: what it saves is read, what it computes is computed. Skipped where it is not installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import port

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    peft = pytest.importorskip("peft", reason="PEFT is not installed", exc_type=ImportError)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 6)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 8), torch.nn.Linear(8, 6, bias=False)])
        self.conv = torch.nn.Conv1d(6, 4, 3)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        x = x + self.layers[1](torch.tanh(self.layers[0](x)))
        return self.head(self.conv(x.transpose(1, 2)).transpose(1, 2))


CONFIGS = {
    "plain": {"target_modules": ["layers.0", "layers.1"]},
    "patterns": {
        "target_modules": r".*(layers\.\d|conv|tokens)",
        "rank_pattern": {"layers.0": 4, "conv": 3},
        "alpha_pattern": {r"layers\.1": 7},
    },
    "by the rank's root, whole modules, biases": {
        "target_modules": ["0", "conv"],
        "use_rslora": True,
        "modules_to_save": ["head"],
        "bias": "all",
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_what_it_saves_is_merged_as_it_merges(tmp_path, name):
    torch.manual_seed(1)
    net = Net().double()
    base = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    adapted = peft.get_peft_model(net, peft.LoraConfig(r=2, lora_alpha=3, **CONFIGS[name])).double()
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter))
    adapted.save_pretrained(tmp_path)
    twin = Net().double()
    port.load(twin, base, adapter=tmp_path)
    ids = torch.tensor([[1, 10, 0, 4, 5]])
    with torch.no_grad():
        wanted = adapted(ids)
        assert (twin(ids) - wanted).abs().max() < 1e-12 * wanted.abs().max()
    for key, tensor in adapted.merge_and_unload().state_dict().items():
        assert np.abs(tensor.numpy() - twin.state_dict()[key].numpy()).max() < 1e-13, key
