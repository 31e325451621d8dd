"""The mapping: every tensor of the original's state dict is mapped, and comes back bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import port
from port.errors import NoPair
from port.mapping import TORCH_ONLY, Entry
from port.moves import Fold, Permute, Tie
from port.translation.artifact.calling_convention import to_jax
from port.translation.ir.layout import torchs

from ..nets import Attention, Blocks, Small, translated
from ..variables_held import targets_of, variables_held

NETS = pytest.mark.parametrize("cls", [Small, Attention, Blocks])


def entry_of(cls: type[nn.Module], name: str) -> Entry:
    return next(entry for entry in translated(cls)[1].mapping.entries if name in entry.sources)


def state_of(cls: type[nn.Module]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in translated(cls)[0].state_dict().items()}


@NETS
@pytest.mark.sweep
def test_every_tensor_has_one_place(cls: type[nn.Module]) -> None:
    module, translation = translated(cls)
    sources = [source for entry in translation.mapping.entries for source in entry.sources]
    assert sorted(sources) == sorted(module.state_dict())
    assert targets_of(translation.mapping.entries) | set(translation.hidden) == variables_held(translation)


@NETS
def test_the_inverse_gives_the_state_dict_back_bit_for_bit(cls: type[nn.Module]) -> None:
    state, mapping = state_of(cls), translated(cls)[1].mapping
    back = mapping.inverse()(mapping(state))
    assert back.keys() == state.keys()
    for name, array in state.items():
        assert back[name].dtype == array.dtype
        assert back[name].tobytes() == array.tobytes(), name


@NETS
def test_the_values_are_what_the_mapping_gives(cls: type[nn.Module]) -> None:
    translation = translated(cls)[1]
    made = translation.mapping(state_of(cls))
    for name, value in translation.values.items():
        if name not in translation.hidden:
            assert np.array_equal(value, made[name]), name


def test_moves() -> None:
    assert entry_of(Small, "conv.weight").moves == (Permute((2, 3, 1, 0)),)
    assert entry_of(Small, "head.weight").moves == (Fold(1, (4, 3, 2), (1, 2, 0)), Permute((1, 0)))
    assert entry_of(Small, "norm.running_var").targets == ("norm.var",)
    assert entry_of(Attention, "out.weight").moves == (Permute((1, 0)),)


def test_tied_weights_are_one_place_under_both_names() -> None:
    entry = entry_of(Blocks, "decode.weight")
    assert entry.sources == ("embed.weight", "decode.weight")
    assert len(entry.targets) == 1 and entry.targets[0].startswith("embed.")
    assert entry.moves[0] == Tie(2)


def test_names_within_lists_are_those_of_the_written_module() -> None:
    assert entry_of(Blocks, "blocks.1.up.weight").targets == ("blocks.1.up.kernel",)
    assert entry_of(Blocks, "gain").targets == ("gain",)


def test_a_buffer_that_no_state_dict_holds_is_filled_all_the_same() -> None:
    module, translation = translated(Blocks)
    assert translation.hidden == ("mask",)
    assert np.array_equal(translation.values["mask"], module.mask.numpy())
    assert all("mask" not in entry.targets for entry in translation.mapping.entries)


def test_a_fold_is_what_the_flattened_image_needs() -> None:
    module, translation = translated(Small)
    image = torch.randn(2, 4, 3, 2)
    theirs = torch.nn.functional.linear(image.flatten(1), module.head.weight)
    ours = np.asarray(to_jax(image.permute(0, 2, 3, 1), torchs(4))).reshape(2, -1) @ translation.values["head.kernel"]
    assert np.allclose(ours, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


class Unread(nn.Module):
    """It holds a layer, a parameter and a buffer that its call does not need."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(2, 2)
        self.spare = nn.Linear(2, 3)
        self.extra = nn.Parameter(torch.randn(2))
        self.register_buffer("noted", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def test_what_nothing_reads_is_carried_all_the_same() -> None:
    translation = port.translate(Unread(), torch.randn(3, 2), check=False)
    state = {name: tensor.numpy() for name, tensor in Unread().state_dict().items()}
    sources = [source for entry in translation.mapping.entries for source in entry.sources]
    assert sorted(sources) == sorted(state)
    assert targets_of(translation.mapping.entries) == variables_held(translation)
    back = translation.mapping.inverse()(translation.mapping(state))
    assert all(np.array_equal(back[name], array) for name, array in state.items())


class WithSparse(nn.Module):
    """Holds which of its heads are aligned, as a sparse table; who looks at its attention reads it."""

    def __init__(self, *, persistent: bool, reads: bool = False) -> None:
        super().__init__()
        self.fc, self.reads = nn.Linear(5, 4), reads
        self.register_buffer("heads", (torch.rand(4, 4) > 0.5).float().to_sparse(), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) @ self.heads.to_dense() if self.reads else self.fc(x)


@pytest.mark.thin(2)
@pytest.mark.parametrize("persistent", [True, False])
def test_a_sparse_buffer_that_nothing_reads_is_left_out(persistent: bool) -> None:
    made = port.translate(WithSparse(persistent=persistent), torch.randn(3, 5))
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    left = [entry.sources for entry in made.mapping.entries if entry.collection == TORCH_ONLY]
    assert left == ([("heads",)] if persistent else []) and "self.heads" not in made.source


def test_one_that_is_read_is_refused() -> None:
    with pytest.raises(NoPair, match=r"^WithSparse.heads is a sparse tensor, and is read: .*to_dense"):
        port.translate(WithSparse(persistent=True, reads=True), torch.randn(3, 5), check=False)


class Scaled(nn.Embedding):
    """Not a layer that a pair covers: its own code reads its weight."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids) * 3


class TiedBehind(nn.Module):
    """The layer that holds a weight comes after a module that reads it as well."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = Scaled(7, 5, padding_idx=0)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.tokens(ids)))


@pytest.mark.sweep
def test_a_weight_that_a_later_layer_holds() -> None:
    torch.manual_seed(0)
    translation = port.translate(TiedBehind(), (torch.tensor([[1, 2, 0, 6]]),))
    [entry] = translation.mapping.entries
    assert entry.sources == ("tokens.weight", "head.weight")
    assert entry.targets == ("head.kernel",)
    assert entry.collection == "params"
    assert translation.proof is not None
    assert translation.proof.agrees, str(translation.proof)
