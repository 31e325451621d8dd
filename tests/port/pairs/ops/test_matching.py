"""Nodes of exported programs find their pairs: overloads told apart by hand, and torch's own samples, exported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from port.pairs.ops import GIVEN, OPERATORS, OperatorPair
from port.pairs.ops.matching import matching

# torch warns of its own samples.
pytestmark = pytest.mark.filterwarnings("ignore")

_given: dict[str, Any] = {}
exec(GIVEN, _given)


@dataclass(frozen=True)
class Node:
    """A call of an ATen operator, and what it gives."""

    aten: str
    arguments: dict[str, Any]
    result: Any


class StandIn:
    """What is known of an array before anything is computed."""

    def __init__(self, array: Any) -> None:
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype
        self.array = array


def single_node(
    call: Callable[..., Any], input: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Node | None:
    """The one node that the call becomes; None if it becomes several, or none."""
    leaves, tree = tree_flatten((input, list(args), dict(kwargs or {})))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    class Calling(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            filled = list(leaves)
            for i, tensor in zip(places, tensors, strict=True):
                filled[i] = tensor
            given, more, named = tree_unflatten(filled, tree)
            return call(given, *more, **named)

    tensors = tuple(leaves[i].detach() for i in places)
    try:
        program = torch.export.export(Calling(), tensors, strict=False).run_decompositions({})
    except Exception:  # its result's shape depends on values
        return None
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    nodes = [node for node in nodes if "getitem" not in str(node.target)]
    if len(nodes) != 1 or any(node.op == "get_attr" for node in program.graph.nodes):
        return None
    # Programs take each tensor once, however often it is given.
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    if len(inputs) != len(tensors):
        return None
    values = dict(zip(inputs, tensors, strict=True))
    (node,) = nodes
    positional, named = tree_map(
        lambda x: values.get(x, x) if isinstance(x, torch.fx.Node) else x, (node.args, node.kwargs)
    )
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    arguments = {each.name: each.default_value for each in node.target._schema.arguments if each.has_default_value()}
    names = [each.name for each in node.target._schema.arguments]
    arguments |= dict(zip(names, positional, strict=False)) | named
    return Node(str(node.target), arguments, node.target(*positional, **named))


def _stand_in(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return StandIn(jnp.asarray(value.detach().resolve_conj().resolve_neg().numpy()))
    return value


def _array(value: Any) -> Any:
    return value.array if isinstance(value, StandIn) else value


def of_jax(node: Node) -> tuple[OperatorPair, Any] | None:
    """The node's pair, and what its expression gives; None if no pair speaks of it, or one that draws."""
    found = matching(node.aten, tree_map(_stand_in, node.arguments))
    if found is None:
        return None
    pair, values = found
    if pair.draws is not None:
        return None  # what it draws is another matter: `test_drawing`
    return pair, eval(pair.jax, {**_given, **tree_map(_array, values)})


def against_torch(
    node: Node, difference: Any, defined: Callable[[Any], Any] = lambda result: result
) -> tuple[OperatorPair, float] | None:
    """The pair, and how far its values are from torch's, in what of a result is ``defined``: not a vector's sign."""
    found = of_jax(node)
    if found is None:
        return None
    ours = jax.tree.map(lambda x: torch.from_numpy(np.array(x)) if hasattr(x, "dtype") else x, found[1])
    got, expected = (
        [np.asarray(_array(_stand_in(x))) for x in tree_flatten(defined(result))[0] if x is not None]
        for result in (ours, node.result)
    )
    return found[0], difference(got, expected)


# %% torch's own samples

NAMED = {pair.torch: pair for pair in OPERATORS if pair.aten and pair.draws is None}
DTYPES = (torch.float64, torch.int64, torch.complex128)
F = "nn.functional"
SAMPLES = 4  # of each variant of an operator
# What an export makes several nodes of, or none, or those of other operators: views, slices, casts …
NOT_ONE_NODE = """
    Tensor.bfloat16 Tensor.bool Tensor.byte Tensor.char Tensor.double Tensor.float Tensor.half Tensor.int Tensor.long
    Tensor.short Tensor.to Tensor.type_as allclose cov detach dropout dsplit equal
    hsplit ops.aten.copy ops.aten.index positive tensor_split vsplit conj conj_physical real
    nn.functional.hardshrink nn.functional.softshrink nn.functional.one_hot
    nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss
"""
# Those of which there are no samples, or whose samples all have what no pair speaks of: no elements, other options.
NOT_SPOKEN_OF = """
    fft.fftfreq fft.rfftfreq imag nn.functional.fold ops.aten._native_batch_norm_legit.no_stats
    ops.aten.zero
    linalg.det linalg.eigvalsh nn.functional.affine_grid polygamma
"""


@pytest.mark.daily(3)
@pytest.mark.thin(280)
@pytest.mark.parametrize("name", NAMED)
def test_the_node_of_a_sample_finds_its_pair(name: str, variants: Any, sides: Any) -> None:
    spoken_of = 0
    for info in variants(NAMED[name]) or variants(replace(NAMED[name], torch=name.replace("ops.aten.", f"{F}."))):
        dtype = next((dtype for dtype in DTYPES if dtype in info.dtypes), None)
        if dtype is None:
            continue
        with torch.random.fork_rng():
            torch.manual_seed(0)
            samples = list(islice(info.sample_inputs("cpu", dtype), 60))
        for sample in samples[:: math.ceil(len(samples) / SAMPLES)]:
            node = single_node(info, sample.input, sample.args, sample.kwargs)
            seen = node and against_torch(node, sides.difference, sample.output_process_fn_grad)
            if seen:
                spoken_of += 1
                assert seen[1] <= 1e-12, (seen[0].says, node)
    assert (spoken_of > 0) is (name.removeprefix("torch.") not in (NOT_ONE_NODE + NOT_SPOKEN_OF).split())


# %% Overloads


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


A, B, ROW = array(3, 4), array(3, 4), array(4)
CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("aten.max.default", {"self": A}, "torch.max(input)"),
    (
        "aten.var_mean.dim",
        {"self": A, "dim": [0], "unbiased": False, "keepdim": True},
        "torch.var_mean(input, dim, correction=correction, keepdim=keepdim)",
    ),
    (
        "aten.std.default",
        {"self": A, "unbiased": False},
        "torch.std(input, dim, correction=correction, keepdim=keepdim)",
    ),
    ("aten.max.other", {"self": A, "other": B}, "torch.max(input, other)"),
    ("aten.max.dim", {"self": A, "dim": 1, "keepdim": False}, "torch.max(input, dim)"),
    ("aten.max.dim", {"self": A, "dim": 1, "keepdim": True}, "torch.max(input, dim, keepdim=True)"),
    ("aten.add.Tensor", {"self": A, "other": B, "alpha": 1}, "torch.add(input, other)"),
    ("aten.add.Tensor", {"self": A, "other": 2.5, "alpha": 3}, "torch.add(input, other, alpha=alpha)"),
    ("aten.pow.Scalar", {"self": 2, "exponent": A}, "torch.pow(input, exponent)"),
    ("aten.pow.Tensor_Scalar", {"self": A, "exponent": 2}, "torch.pow(input, exponent)"),
    ("aten.div.Tensor_mode", {"self": A, "other": B, "rounding_mode": None}, "torch.div(input, other)"),
    (
        "aten.div.Tensor_mode",
        {"self": A, "other": B, "rounding_mode": "trunc"},
        'torch.div(input, other, rounding_mode="trunc")',
    ),
    (
        "aten.std.correction",
        {"self": A, "dim": [1], "correction": 0, "keepdim": True},
        "torch.std(input, dim, correction=correction, keepdim=keepdim)",
    ),
    (
        "aten.sum.dim_IntList",
        {"self": A, "dim": [0, -1], "keepdim": False, "dtype": None},
        "torch.sum(input, dim, keepdim=keepdim)",
    ),
    ("aten.sum.default", {"self": A, "dtype": None}, "torch.sum(input, dim, keepdim=keepdim)"),
    (
        "aten.mse_loss.default",
        {"self": A, "target": B, "reduction": 2},
        "torch.nn.functional.mse_loss(input, target, reduction=reduction)",
    ),
    ("aten.where.self", {"condition": A, "self": A, "other": B}, "torch.where(condition, input, other)"),
    ("aten.clamp.default", {"self": A, "min": None, "max": 1.0}, "torch.clamp(input, max=max)"),
    ("aten.full_like.default", {"self": A, "fill_value": 1, "device": "cpu"}, "torch.full_like(input, fill_value)"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_overloads(case: tuple[str, dict[str, Any], str]) -> None:
    aten, arguments, says = case
    found = matching(aten, arguments)
    assert found is not None
    assert found[0].says == says


def test_what_the_variables_are() -> None:
    found = matching("aten.sum.dim_IntList", {"self": A, "dim": [0, -1], "keepdim": True, "dtype": None})
    assert found is not None
    assert found[1] == {"input": A, "dim": (0, -1), "keepdim": True}
    found = matching("aten.amax.default", {"self": A, "dim": [], "keepdim": False})
    assert found is not None
    assert found[1] == {"input": A, "dim": None, "keepdim": False}
    found = matching("aten.sum.default", {"self": A, "dtype": torch.bfloat16})
    assert found is not None
    assert found[1] == {"input": A, "dim": None, "keepdim": False, "dtype": jnp.dtype("bfloat16")}


@pytest.mark.thin(12)
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_numbered_reductions(name: str, reduction: int, sides: Any) -> None:
    input, target = torch.rand(3, 4), torch.rand(3, 4)
    node = single_node(getattr(torch.ops.aten, name), input, [target, reduction])
    assert node is not None
    assert against_torch(node, sides.difference)[1] <= 1e-12


class Size:
    """A length that is not known."""

    def __eq__(self, other: object) -> Any:
        raise RuntimeError("what a symbolic size is equal to depends on the data")

    __hash__ = None


@pytest.mark.parametrize(
    ("aten", "arguments"),
    [
        ("aten.nothing.default", {"self": A}),
        ("aten.topk.default", {"self": A, "k": 2, "dim": -1, "largest": Size(), "sorted": True}),
        ("aten.narrow.default", {"self": A, "dim": 0, "start": Size(), "length": 1}),
        ("aten.softmax.int", {"self": array(), "dim": 0, "dtype": None}),
        # only_if asks for the length of an axis that is not there.
        ("aten.squeeze.dim", {"self": A, "dim": 5}),
    ],
)
def test_nothing_fits(aten: str, arguments: dict[str, Any]) -> None:
    assert matching(aten, arguments) is None


def test_another_value_is_seen(sides: Any) -> None:
    node = single_node(torch.cumsum, torch.rand(3, 4), [1])
    assert node is not None
    assert against_torch(node, sides.difference)[1] <= 1e-12
    wrong = Node(node.aten, {**node.arguments, "dim": 0}, node.result)
    assert against_torch(wrong, sides.difference)[1] > 1e-3
