"""The written module's side of the proof: a run with supplied random numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from port.parity.sides.calls import Arrays
from port.parity.sides.compiling import run_once
from port.parity.sides.flax_pass import flax_pass
from port.parity.sides.flax_side import silence
from port.parity.sides.run import Run, numbered
from port.translation.ir.layout import Drawn, Layout
from port.translation.verify.draws import jax_draws
from port.translation.verify.torch_run import INPUT, OUTPUT
from port.translation.verify.traced_calls import each_call_traced

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule


_SMALL = 2**25
"""The size in bytes of the weights up to which a built module is cached for the next run."""


class Written:
    """The written module in a proof's precision, split into graph and state, in either mode.

    Args:
        translation: the written module.
        precision: ``"float64"`` or ``"float32"``.
    """

    def __init__(self, translation: WrittenModule, precision: str) -> None:
        self.translation, self.precision = translation, precision
        self._kept: dict[bool, tuple[Any, Any]] = {}

    def parts(self, training: bool) -> tuple[Any, Any]:
        """Return the graph and the state, whose arrays must not be donated; small modules are cached per mode."""
        from flax import nnx

        if training in self._kept:
            return self._kept[training]
        parts = nnx.split(_built(self.translation, self.precision, training))
        if sum(array.nbytes for array in self.translation.values.values()) <= _SMALL:
            self._kept[training] = parts
        return parts


def flax_run(
    written: Written,
    call: Any,
    training: bool,
    cotangents: Arrays,
    seed: int,
    part: Collection[str] | None = None,
) -> Run:
    """Run the written module, forward and backward.

    Args:
        written: the module.
        call: torch's (args, kwargs).
        training: the mode.
        cotangents: the outputs' cotangents, in torch's layout.
        seed: seeds the numbers that both sides draw.
        part: paths of the parameters to differentiate; by default all.

    Returns:
        The run: outputs and inputs in torch's layout, with the names of `torch_run`; the rest by Flax's paths and in
        Flax's layout.

    Raises:
        OtherShape: an output's shape differs from the original's.
    """
    from flax import nnx

    translation = written.translation
    graph, state = written.parts(training)
    trained = dict.fromkeys(_paths(nnx.filter_state(state, nnx.Param)), True)
    chosen = nnx.Param if part is None else nnx.All(nnx.Param, lambda path, _: ".".join(map(str, path)) in part)
    params, rest = nnx.split_state(state, chosen, ...)
    del state
    arguments = _Arguments.of(translation, call)

    def forward(params: Any, floating: Sequence[Any], rest: Any) -> Any:
        model = nnx.merge(graph, params, rest, copy=True)
        results = translation.boundary.call(model, arguments.filled(floating))
        outputs = arrays_in(results, translation.boundary.outputs[training])
        return numbered(OUTPUT, outputs), nnx.state(model, nnx.All(nnx.Not(nnx.Param), nnx.Not(nnx.RngState)))

    with _drawing(translation, translation.draws[training], seed):
        pulled = flax_pass(forward, cotangents, params, arguments.floating, constants=(rest,), jit=True)
    gradients = _flat(pulled.gradients[0])
    buffers = _flat(pulled.kept)
    into = arguments.in_torchs(translation, call, pulled.gradients[1])
    return Run(
        pulled.outputs,
        gradients=gradients,
        input_gradients=into,
        cotangents=cotangents,
        buffers=buffers,
        trained=trained | dict.fromkeys(buffers, False),
    )


def flax_outputs(written: Written, call: Any, training: bool, seed: int) -> list[np.ndarray]:
    """Return the written module's outputs, without a backward pass; for the arguments see `flax_run`."""
    from flax import nnx

    translation = written.translation
    graph, state = written.parts(training)
    arguments = _Arguments.of(translation, call)

    def run(state: Any, floating: list[Any]) -> list[Any]:
        model = nnx.merge(graph, state, copy=True)
        results = translation.boundary.call(model, arguments.filled(floating))
        return arrays_in(results, translation.boundary.outputs[training])

    with _drawing(translation, translation.draws[training], seed):
        return list(map(np.asarray, run_once(run, state, arguments.floating)))


@contextmanager
def _drawing(translation: WrittenModule, draws: Sequence[Drawn], seed: int) -> Iterator[None]:
    """Context manager: let the written module draw the numbers of a seed."""
    checkpointed = translation.checkpointed if draws else ()
    with jax_draws(seed, draws), each_call_traced(translation.code, checkpointed):
        yield


def _built(translation: WrittenModule, precision: str, training: bool) -> Any:
    """Build the written module in a precision and a mode, with dropout inside leaf layers switched off."""
    import jax.numpy as jnp

    module = translation.build(param_dtype=jnp.dtype(precision))
    if precision == "float64":
        _widen(module)
    _silence_inside(module, translation.written_classes)
    if training:
        module.train()
    else:
        module.eval()
    return module


@dataclass(frozen=True)
class _Arguments:
    """The arguments of the written module.

    Attributes:
        leaves: the arguments' leaves.
        tree: their tree structure.
        smooth: for each leaf, whether it is a floating or complex array.
    """

    leaves: list[Any]
    tree: Any
    smooth: list[bool]

    @classmethod
    def of(cls, translation: WrittenModule, call: Any) -> _Arguments:
        """Convert torch's (args, kwargs)."""
        import jax
        import jax.numpy as jnp

        leaves, tree = jax.tree.flatten(translation.to_flax(*call))
        return cls(leaves, tree, [hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.inexact) for x in leaves])

    @property
    def floating(self) -> list[Any]:
        """The smooth leaves."""
        return [leaf for leaf, is_smooth in zip(self.leaves, self.smooth, strict=True) if is_smooth]

    def filled(self, floating: Sequence[Any]) -> Any:
        """Return the arguments with other smooth leaves."""
        import jax

        others = iter(floating)
        both = zip(self.leaves, self.smooth, strict=True)
        return jax.tree.unflatten(self.tree, [next(others) if is_smooth else leaf for leaf, is_smooth in both])

    def in_torchs(self, translation: WrittenModule, call: Any, gradients: Sequence[np.ndarray]) -> Arrays:
        """Return the gradients of the inputs that the call takes, by torch's numbers and in torch's layout."""
        import jax
        import torch
        from torch.utils import _pytree as pytree

        boundary = translation.boundary
        tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
        numbers = iter(range(len(tensors)))
        marked = pytree.tree_map(lambda leaf: next(numbers) if isinstance(leaf, torch.Tensor) else None, call)
        bound = boundary.signature.bind(*marked[0], **marked[1])
        bound.apply_defaults()
        order = [n for name in boundary.parameters for n in jax.tree.leaves(bound.arguments[name.lstrip("*")])]
        arrays = [smooth for smooth, leaf in zip(self.smooth, self.leaves, strict=True) if hasattr(leaf, "dtype")]
        taken = [n for n, smooth in zip((n for n in order if isinstance(n, int)), arrays, strict=False) if smooth]
        found = {}
        for number, gradient in sorted(zip(taken, gradients, strict=False), key=itemgetter(0)):
            layout = boundary.inputs[number]
            back = [layout.order.index(dim) for dim in range(layout.rank)]
            found[f"{INPUT} {number}"] = gradient.transpose(back)
        return found


def _silence_inside(module: Any, written: frozenset[str]) -> None:
    """Switch off dropout inside leaf layers; a dropout that the written code calls itself stays on."""
    from flax import nnx

    holders = (nnx.Sequential, nnx.List, nnx.Dict)

    def walk(parent: Any, own: bool) -> None:
        for _, child in nnx.iter_children(parent):
            if not isinstance(child, nnx.Pytree):
                continue  # a variable
            if not own:
                silence(child)
            walk(child, own and (type(child).__name__ in written or isinstance(child, holders)))

    walk(module, True)


def _widen(module: Any) -> None:
    """Convert buffers, which ``param_dtype`` does not affect, to 64 bits."""
    import jax.numpy as jnp
    from flax import nnx

    flat = nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.RngState)))
    wide = []
    for path, variable in flat:
        dtype = variable.dtype
        to = (
            jnp.float64
            if jnp.issubdtype(dtype, jnp.floating)
            else jnp.complex128
            if jnp.issubdtype(dtype, jnp.complexfloating)
            else None
        )
        if to is not None:
            wide.append((path, variable[...].astype(to)))
    nnx.update(module, nnx.from_flat_state(wide))


def arrays_in(results: Any, outputs: Any) -> list[Any]:
    """Return the arrays in a Flax module's results, in torch's layout and in the order of torch's leaves."""
    import jax.numpy as jnp

    match outputs:
        case Layout():
            return [jnp.transpose(results, [outputs.order.index(dim) for dim in range(outputs.rank)])]
        case dict():
            return [array for name in outputs for array in arrays_in(results[name], outputs[name])]
        case tuple() | list():
            return [array for item, layout in zip(results, outputs, strict=True) for array in arrays_in(item, layout)]
    return []


def _paths(state: Any) -> list[str]:
    """Return a state's dotted paths."""
    from flax import nnx

    return [".".join(map(str, path)) for path, _ in nnx.to_flat_state(state)]


def _flat(state: Any) -> Arrays:
    """Return a state's arrays by dotted paths."""
    from flax import nnx

    return {
        ".".join(map(str, path)): np.asarray(held[...] if hasattr(held, "get_value") else held)
        for path, held in nnx.to_flat_state(state)
    }
