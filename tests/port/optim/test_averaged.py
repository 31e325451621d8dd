"""torch's AveragedModel moved in the middle of a run, beside torch going on; and back, bit for bit.

What is expected is laid out by hand here: neither the mapping nor what is tested makes it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn

import port
from models.recorded import LOOSE, Recorded, convnet, distance, flax_steps, loose, mlp, torch_step
from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry, Mapping
from port.moves import Permute, Sum, Tie
from port.optim import averaged_state, load_averaged_model
from port.transforms import TorchAverage, TorchAverageState, ema_average, swa_average
from port.transforms.paths import path_of

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run

LIMIT = 1e-12
VISIBLE = 1e-7
BUFFERS = ("norm.mean", "norm.var", "norm.num_batches_tracked")
AVERAGES: dict[str, tuple[dict[str, Any], TorchAverage]] = {
    "swa": ({}, swa_average()),
    "ema": ({"multi_avg_fn": get_ema_multi_avg_fn(0.9)}, ema_average(0.9)),
    "ema, a tensor at a time": ({"avg_fn": get_ema_avg_fn(0.9)}, ema_average(0.9)),
}


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with jax.enable_x64(True):
        return convnet()


def by_hand(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """The convnet's tensors as Flax lays them out."""
    axes = {"conv.weight": (2, 3, 1, 0), "out.weight": (1, 0)}
    names = {"conv.weight": "conv.kernel", "out.weight": "out.kernel", "norm.weight": "norm.scale"}
    names |= {"norm.running_mean": "norm.mean", "norm.running_var": "norm.var"}
    return {
        names.get(name, name): np.transpose(tensor.numpy().copy(), axes.get(name))
        for name, tensor in module.state_dict().items()
    }


def bare(keys: Any) -> str:
    return path_of(keys).removeprefix("params.").removeprefix("batch_stats.")


def by_path(tree: Any) -> dict[str, np.ndarray]:
    return {bare(keys): np.asarray(leaf) for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def filled(tree: Any, leaves: dict[str, np.ndarray]) -> Any:
    return jax.tree_util.tree_map_with_path(lambda keys, old: jnp.asarray(leaves[bare(keys)], old.dtype), tree)


def trees(recorded: Recorded) -> dict[str, Any]:
    """The convnet's variables in every form in which a person has them; with other values than are to be moved."""
    variables = jax.tree.map(jnp.zeros_like, port.to_flax(recorded.module, rename=recorded.mapping))
    return {
        "parameters": variables["params"],
        "a state of parameters": nnx.state(recorded.model, nnx.Param),
        "variables without buffers": {"params": variables["params"]},
        "variables": variables,
        "a state with buffers": nnx.state(recorded.model, (nnx.Param, nnx.BatchStat)),
    }


def train(recorded: Recorded, module: torch.nn.Module, averaged: AveragedModel, steps: slice) -> Iterator[None]:
    """torch's own run: the gradients and the running statistics of the batches."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for x, y in recorded.batches[steps]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
        averaged.update_parameters(module)
        yield


def largest_difference(tree: Any, module: torch.nn.Module) -> float:
    """Of all leaves, relative to the norm."""
    expected = by_hand(module)
    ours = by_path(tree)
    assert ours and all(ours[path].shape == expected[path].shape for path in ours)
    return max(
        float(np.linalg.norm(leaf - expected[path]) / max(np.linalg.norm(expected[path]), 1e-30))
        for path, leaf in ours.items()
    )


def gone_on(
    recorded: Recorded,
    which: str,
    form: str,
    start: int = 6,
    before: Callable[[TorchAverageState], TorchAverageState] = lambda state: state,
) -> float:
    """The largest difference over a run whose average is moved after ``start`` updates, and then fed the same."""
    options, average = AVERAGES[which]
    tree = trees(recorded)[form]
    module = recorded.fresh()
    averaged = AveragedModel(module, use_buffers="norm.mean" in by_path(tree), **options)
    for _ in train(recorded, module, averaged, slice(start)):
        pass
    state = before(averaged_state(averaged, params=tree, mapping=recorded.mapping))
    worst, update = largest_difference(state.average, averaged.module), jax.jit(average.update)
    for _ in train(recorded, module, averaged, slice(start, start + 8)):
        state = update(filled(tree, by_hand(module)), state)
        worst = max(worst, largest_difference(state.average, averaged.module))
    assert jax.tree.structure(state.average) == jax.tree.structure(tree)
    return worst


@pytest.mark.parametrize("form", ["parameters", "variables"])
@pytest.mark.parametrize("which", AVERAGES)
def test_an_average_goes_on(which: str, form: str, recorded: Recorded) -> None:
    assert gone_on(recorded, which, form) <= LIMIT


@pytest.mark.parametrize("form", ["a state of parameters", "variables without buffers", "a state with buffers"])
def test_in_every_form(form: str, recorded: Recorded) -> None:
    assert gone_on(recorded, "ema", form) <= LIMIT


@pytest.mark.parametrize("which", ["swa", "ema"])
def test_one_that_has_not_averaged_yet_copies_first(which: str, recorded: Recorded) -> None:
    assert gone_on(recorded, which, "variables", start=0) <= LIMIT
    counted = lambda state: state._replace(n_averaged=state.n_averaged + 1)  # noqa: E731
    assert gone_on(recorded, which, "variables", start=0, before=counted) > VISIBLE


@pytest.mark.parametrize("off", [-1, 1])
def test_a_count_off_by_one_is_seen(off: int, recorded: Recorded) -> None:
    counted = lambda state: state._replace(n_averaged=state.n_averaged + off)  # noqa: E731
    assert gone_on(recorded, "swa", "parameters", before=counted) > VISIBLE


def test_the_optimizer_and_the_average_go_on_together() -> None:
    run = mlp()
    module = run.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    averaged = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for gradients in run.gradients[:5]:
        torch_step(module, optimizer, gradients)
        averaged.update_parameters(module)
    params = run.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, opt_state = port.to_optax(optimizer, params=params, mapping=run.mapping)
    state = averaged_state(averaged, params=params, mapping=run.mapping)
    step, update = flax_steps(transformation), jax.jit(ema_average(0.9).update)
    for gradients in run.gradients[5:20]:
        torch_step(module, optimizer, gradients)
        averaged.update_parameters(module)
        params, opt_state = step(run.to_flax(gradients), opt_state, params)
        state = update(params, state)
    assert distance(run.to_torch(state.average), averaged.module) <= LIMIT
    assert distance(run.to_torch(params), averaged.module) > VISIBLE


# %% Back


def moved_on(recorded: Recorded, tree: Any) -> tuple[AveragedModel, TorchAverageState]:
    """An AveragedModel after four updates, and its state after three more in JAX, of random parameters."""
    averaged = AveragedModel(module := recorded.fresh(), use_buffers="norm.mean" in by_path(tree))
    for _ in train(recorded, module, averaged, slice(4)):
        pass
    state = averaged_state(averaged, params=tree, mapping=recorded.mapping)
    random, update = np.random.default_rng(2), jax.jit(swa_average().update)
    for _ in range(3):
        new = jax.tree.map(lambda leaf: jnp.asarray(random.normal(5, 3, leaf.shape), leaf.dtype), tree)
        state = update(new, state)
    return averaged, state


@pytest.mark.parametrize(
    "form", ["parameters", "a state of parameters", "variables without buffers", "variables", "a state with buffers"]
)
def test_back_into_torch_bit_for_bit(form: str, recorded: Recorded) -> None:
    averaged, state = moved_on(recorded, trees(recorded)[form])
    assert state.n_averaged.dtype == jnp.int32
    before = by_hand(averaged.module)
    held = dict(averaged.named_parameters())
    load_averaged_model(averaged, state, mapping=recorded.mapping)
    ours, theirs = by_path(state.average), by_hand(averaged.module)
    for path, leaf in theirs.items():
        assert leaf.tobytes() == np.asarray(ours.get(path, before[path]), leaf.dtype).tobytes(), path
    assert set(theirs) - set(ours) == (set() if averaged.use_buffers else set(BUFFERS))
    assert all(parameter is held[name] for name, parameter in averaged.named_parameters())
    assert averaged.n_averaged.dtype == torch.int64 and int(averaged.n_averaged) == 7
    again = averaged_state(averaged, params=state.average, mapping=recorded.mapping)
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


def test_what_was_filled_goes_on_in_torch(recorded: Recorded) -> None:
    """The state dict loads strictly in a fresh one, and that goes on as JAX does."""
    filled_one, state = moved_on(recorded, trees(recorded)["variables"])
    load_averaged_model(filled_one, state, mapping=recorded.mapping)
    module = recorded.fresh()
    averaged = AveragedModel(module, use_buffers=True)
    averaged.load_state_dict(filled_one.state_dict(), strict=True)
    off, update = state._replace(n_averaged=state.n_averaged + 1), jax.jit(swa_average().update)
    for _ in train(recorded, module, averaged, slice(5)):
        new = filled(state.average, by_hand(module))
        state, off = update(new, state), update(new, off)
    assert largest_difference(state.average, averaged.module) <= LIMIT
    assert largest_difference(off.average, averaged.module) > VISIBLE


def test_without_use_buffers_torch_copies_the_models(recorded: Recorded) -> None:
    averaged, state = moved_on(recorded, trees(recorded)["parameters"])
    load_averaged_model(averaged, state, mapping=recorded.mapping)
    module = recorded.fresh()
    for _ in train(recorded, module, averaged, slice(2)):
        assert torch.equal(averaged.module.norm.running_mean, module.norm.running_mean)


# %% Layouts


def test_what_flax_splits_and_stacks() -> None:
    run = loose()
    averaged = AveragedModel(run.module)
    averaged.n_averaged += 3
    state = averaged_state(averaged, params=run.params, mapping=LOOSE)
    tensors = {name: p.detach().numpy() for name, p in run.module.named_parameters()}
    q, k, v = (tensors["qkv"][begin : begin + 3].T for begin in (0, 3, 6))
    stack = np.stack([tensors["one"].T, tensors["two"].T])
    expected = {"q": q, "k": k, "v": v, "stack": stack, "bias": tensors["bias"]}
    assert seen(state, expected) == 0
    swapped = Mapping((replace(LOOSE.entries[0], targets=("k", "q", "v")), *LOOSE.entries[1:]))
    assert seen(averaged_state(averaged, params=run.params, mapping=swapped), expected) > VISIBLE

    state = state._replace(average=jax.tree.map(lambda leaf: 2 * leaf, state.average))
    load_averaged_model(averaged, state, mapping=LOOSE)
    assert all(np.array_equal(p.detach(), 2 * tensors[name]) for name, p in averaged.module.named_parameters())
    load_averaged_model(averaged, state, mapping=swapped)
    assert not np.array_equal(averaged.module.qkv.detach(), 2 * tensors["qkv"])


def seen(state: TorchAverageState, expected: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(state.average[path] - leaf).max()) for path, leaf in expected.items())


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7)
        self.head.weight = self.embedding.weight


def test_a_tied_weight_is_one() -> None:
    mapping = Mapping(
        (
            Entry(("embedding.weight", "head.weight"), ("embedding",), (Tie(2),)),
            Entry(("head.bias",), ("bias",)),
        )
    )
    averaged = AveragedModel(Tied().double())
    state = averaged_state(averaged, params={"embedding": jnp.zeros((7, 4)), "bias": jnp.zeros(7)}, mapping=mapping)
    assert np.array_equal(state.average["embedding"], averaged.module.head.weight.detach())
    state = state._replace(average=jax.tree.map(lambda leaf: leaf + 1, state.average))
    load_averaged_model(averaged, state, mapping=mapping)
    assert averaged.module.head.weight is averaged.module.embedding.weight
    assert np.array_equal(state.average["embedding"], averaged.module.head.weight.detach())


def test_the_average_of_a_sum_is_the_sum_of_the_averages() -> None:
    """Two biases that Flax keeps as one: an average may be moved where an optimizer may not."""
    mapping = Mapping((Entry(("one", "two"), ("both",), (Sum(2),)),))
    module = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.randn(5).double()) for name in ("one", "two")})
    averaged = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    averaged.update_parameters(module)
    state = averaged_state(averaged, params={"both": jnp.zeros(5)}, mapping=mapping)
    load_averaged_model(other := copy.deepcopy(averaged), state, mapping=mapping)
    torch.nn.init.zeros_(module["one"])
    for one in (averaged, other):
        one.update_parameters(module)
    both = jnp.asarray(module["two"].detach().numpy())
    state = ema_average(0.9).update({"both": both}, state)
    for one in (averaged, other):
        total = (one.module["one"] + one.module["two"]).detach().numpy()
        assert np.abs(state.average["both"] - total).max() <= LIMIT
        assert np.abs(both - total).max() > VISIBLE


class TorchNormed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)


class FlaxNormed(nnx.Module):
    def __init__(self) -> None:
        self.norm = nnx.BatchNorm(4, rngs=nnx.Rngs(0))


@pytest.mark.parametrize("kept", [False, True])
def test_what_flax_has_no_home_for_stays_or_is_kept_beside(kept: bool) -> None:
    module = TorchNormed()
    module.norm.num_batches_tracked += 5
    averaged = AveragedModel(module, use_buffers=True)
    mapping = port.mapping.between(module, FlaxNormed())
    variables = jax.tree.map(jnp.asarray, port.to_flax(module, rename=mapping))
    assert set(variables) == {"params", "batch_stats", "torch_only"}
    if not kept:
        del variables["torch_only"]
    state = averaged_state(averaged, params=variables, mapping=mapping)
    state = state._replace(average=jax.tree.map(lambda leaf: leaf + 1, state.average))
    load_averaged_model(averaged, state, mapping=mapping)
    assert int(averaged.module.norm.num_batches_tracked) == (6 if kept else 5)
    assert torch.equal(averaged.module.norm.running_var, torch.full((4,), 2.0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_dtypes_of_each_side(dtype: str, recorded: Recorded) -> None:
    module = recorded.fresh().to(getattr(torch, dtype))
    averaged = AveragedModel(module)
    wide = averaged_state(averaged, params=recorded.params, mapping=recorded.mapping)
    assert {leaf.dtype for leaf in jax.tree.leaves(wide.average)} == {jnp.dtype("float64")}
    before = copy.deepcopy(averaged.state_dict())
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), recorded.params)
    for state in (wide, averaged_state(averaged, params=params, mapping=recorded.mapping)):
        with torch.no_grad():
            averaged.module.out.weight.zero_()
        load_averaged_model(averaged, state, mapping=recorded.mapping)
        assert all(torch.equal(tensor, before[name]) for name, tensor in averaged.state_dict().items())


def test_inside_of_torchs_wrappers(recorded: Recorded) -> None:
    wrapped = torch.nn.DataParallel(AveragedModel(torch.nn.DataParallel(recorded.fresh()), use_buffers=True))
    state = averaged_state(wrapped, params=trees(recorded)["variables"], mapping=recorded.mapping)
    assert largest_difference(state.average, recorded.module) == 0
    state = state._replace(average=jax.tree.map(lambda leaf: leaf + 1, state.average))
    load_averaged_model(wrapped, state, mapping=recorded.mapping)
    assert largest_difference(state.average, wrapped.module.module.module) == 0


# %% Refused


def another(tree: Any, **changed: Any) -> Any:
    """The parameters with some of the last layer's replaced, or without them where that is None."""
    out = {name: leaf for name, leaf in {**tree["out"], **changed}.items() if leaf is not None}
    return {**tree, "out": out}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"kernel": jnp.zeros((3, 6))}, r"out\.kernel has shape \(3, 6\), expected \(6, 3\)"),
        ({"kernel": None}, r"missing: out\.kernel"),
        ({"gain": jnp.zeros(3)}, r"unexpected: out\.gain"),
    ],
)
def test_a_tree_of_another_model(changed: dict[str, Any], told: str, recorded: Recorded) -> None:
    averaged, state = moved_on(recorded, trees(recorded)["parameters"])
    params = another(state.average, **changed)
    with pytest.raises(WeightsMismatch, match=told):
        averaged_state(averaged, params=params, mapping=recorded.mapping)
    refused(averaged, state._replace(average=params), recorded.mapping, WeightsMismatch, told)


def refused(given: Any, state: Any, mapping: Mapping, error: type[Exception], told: str) -> None:
    """The AveragedModel is as it was."""
    before = copy.deepcopy(given.state_dict())
    with pytest.raises(error, match=told):
        load_averaged_model(given, state, mapping=mapping)
    assert all(torch.equal(tensor, before[name]) for name, tensor in given.state_dict().items())


def test_the_average_of_another_model(recorded: Recorded) -> None:
    _, state = moved_on(recorded, trees(recorded)["parameters"])
    other = AveragedModel(mlp().module)
    with pytest.raises(WeightsMismatch, match=r"(?s)missing: conv\.weight.*unexpected: fc1\.weight"):
        averaged_state(other, params=recorded.params, mapping=recorded.mapping)
    refused(other, state, recorded.mapping, WeightsMismatch, r"missing: conv\.weight")


def test_a_mapping_without_shapes_sees_them_too() -> None:
    run = loose()
    params = {**run.params, "bias": jnp.zeros(5)}
    with pytest.raises(WeightsMismatch, match=r"bias has shape \(5,\), expected \(6,\)"):
        averaged_state(AveragedModel(run.module), params=params, mapping=LOOSE)
    turned = Mapping(
        (*LOOSE.entries[:1], replace(LOOSE.entries[1], moves=LOOSE.entries[1].moves[1:]), LOOSE.entries[2])
    )
    assert Permute((1, 0)) not in turned.entries[1].moves
    with pytest.raises(WeightsMismatch, match=r"stack has shape \(2, 3, 5\), expected \(2, 5, 3\)"):
        averaged_state(AveragedModel(run.module), params=run.params, mapping=turned)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_that_one_side_alone_averages(use_buffers: bool, recorded: Recorded) -> None:
    form, told = ("parameters", "pass the variables") if use_buffers else ("variables", "pass the parameters alone")
    tree = trees(recorded)[form]
    averaged = AveragedModel(recorded.fresh(), use_buffers=use_buffers)
    with pytest.raises(UsageError, match=rf"norm\.running_mean.*{told}"):
        averaged_state(averaged, params=tree, mapping=recorded.mapping)
    refused(averaged, TorchAverageState(jnp.int32(1), tree), recorded.mapping, UsageError, told)


def test_what_is_no_average(recorded: Recorded) -> None:
    _, state = moved_on(recorded, trees(recorded)["parameters"])
    with pytest.raises(UsageError, match=r"expected a torch\.optim\.swa_utils\.AveragedModel, got TorchConvNet"):
        averaged_state(recorded.module, params=recorded.params, mapping=recorded.mapping)
    refused(recorded.fresh(), state, recorded.mapping, UsageError, "got TorchConvNet; pass the AveragedModel itself")
    averaged = AveragedModel(recorded.fresh())
    refused(averaged, state._asdict(), recorded.mapping, UsageError, r"TorchAverageState, got dict")
    for count in (jnp.array([7, 7]), jnp.array(7.0)):
        wrong = state._replace(n_averaged=count)
        refused(averaged, wrong, recorded.mapping, WeightsMismatch, "n_averaged must be one whole number")
