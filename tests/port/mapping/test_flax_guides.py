"""What nnx and Linen modules tell: paths, kinds, classes; and no random stream."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

from port.errors import UsageError
from port.mapping import between, guide_of_flax


class Nested(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        inner = nnx.Sequential(nnx.Linear(2, 3, rngs=rngs), nnx.Sequential(nnx.Linear(3, 3, rngs=rngs), nnx.relu))
        self.layers = nnx.List([inner])
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.own = nnx.Variable(jnp.zeros(3, jnp.int32))


def test_a_sequential_adds_nothing_to_torchs_path_and_a_list_does():
    theirs = torch.nn.ModuleDict(
        {
            "layers": torch.nn.ModuleList(
                [
                    torch.nn.Sequential(
                        torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
                    )
                ]
            ),
            "norm": torch.nn.BatchNorm1d(3),
            "own": torch.nn.ParameterList(),
        }
    )
    theirs.own = torch.nn.Parameter(torch.arange(3, dtype=torch.int32), requires_grad=False)
    homes = {entry.sources[0]: entry.targets[0] for entry in between(theirs, Nested(nnx.Rngs(0))).entries}
    assert homes["layers.0.0.weight"] == "layers.0.layers.0.kernel"
    assert homes["layers.0.1.0.weight"] == "layers.0.layers.1.layers.0.kernel"
    assert between(None, Nested(nnx.Rngs(0))).entries[0].sources[0].startswith("layers.0.")


def test_leaves_have_their_kinds_and_random_streams_are_none():
    guide = guide_of_flax(Nested(nnx.Rngs(0)))
    kinds = {name: leaf.collection for name, leaf in guide.leaves.items()}
    assert kinds["norm.mean"] == "batch_stats"
    assert kinds["norm.scale"] == "params"
    assert not any("dropout" in name or "rng" in name for name in kinds)
    assert guide.leaves["own"].dtype == "int32"


class Setup(linen.Module):
    def setup(self) -> None:
        self.layers = [linen.Dense(3), linen.Sequential([linen.Dense(4), linen.relu, linen.Dense(2)])]
        self.norm = linen.BatchNorm(use_running_average=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def test_lists_of_setup_and_linens_sequential_have_torchs_paths():
    theirs = torch.nn.ModuleDict(
        {
            "layers": torch.nn.ModuleList(
                [
                    torch.nn.Linear(5, 3),
                    torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)),
                ]
            ),
            "norm": torch.nn.BatchNorm1d(2),
        }
    ).eval()
    x = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    mapping = between(theirs, Setup(), inputs=x)
    homes = {entry.sources[0]: entry.targets[0] for entry in mapping.entries}
    assert homes["layers.0.weight"] == "layers_0.kernel"
    assert homes["layers.1.2.weight"] == "layers_1.layers_2.kernel"
    assert {entry.collection for entry in mapping.entries} == {"params", "batch_stats", "torch_only"}


class Compact(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, scale: jax.Array) -> jax.Array:
        return linen.remat(Inner)()(linen.Dense(3)(x)) * scale


class Inner(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return linen.Dense(4)(x)


def test_compact_names_are_renamed_and_several_inputs_are_a_tuple():
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 4))
    inputs = (jnp.zeros((1, 2)), jnp.zeros(4))
    paths = list(guide_of_flax(Compact(), inputs).leaves)
    (inner,) = {path.partition(".")[0] for path in paths} - {"Dense_0"}
    mapping = between(theirs, Compact(), inputs=inputs, rename={r"^0\.": "Dense_0.", r"^1\.": f"{inner}.Dense_0."})
    assert {entry.targets[0] for entry in mapping.entries} == set(paths)
    assert all("permute" in str(entry) for entry in mapping.entries if "weight" in entry.sources[0])


def test_partitioned_variables_are_seen_through():
    class Boxed(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            init = linen.with_partitioning(linen.initializers.lecun_normal(), (None, "model"))
            return linen.Dense(3, kernel_init=init, name="fc")(x)

    theirs = torch.nn.ModuleDict({"fc": torch.nn.Linear(2, 3)})
    by_module = between(theirs, Boxed(), inputs=jnp.zeros((1, 2)))
    assert by_module == between(theirs, Boxed().init(jax.random.key(0), jnp.zeros((1, 2))))


def test_a_linen_model_alone_gives_torchs_names():
    mapping = between(None, Setup(), inputs=jnp.zeros((1, 5)))
    assert ("norm.running_var",) in {entry.sources for entry in mapping.entries}
    with pytest.raises(UsageError, match="pass an example input"):
        between(None, Setup())
