"""Flax's side of the proof: one run of the written module, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from port.parity.flax_side import silence
from port.translation.layouts import Drawn, Layout
from port.translation.proof.draws import each_call_traced, jax_draws
from port.translation.proof.run import OtherShape, Run

if TYPE_CHECKING:
    from port.translation.translation import Translation


def flax_run(
    translation: Translation,
    precision: str,
    given: Any,
    training: bool,
    cotangents: list[np.ndarray | None],
    seed: int,
) -> Run:
    """Run the written module.

    Args:
        translation: whose module.
        precision: ``"float64"`` or ``"float32"``.
        given: torch's (args, kwargs).
        training: the mode.
        cotangents: of the outputs, in torch's layout.
        seed: of the numbers that both sides draw.
    """
    module = _built(translation, precision, training)
    draws = translation.draws[training]
    with _drawing(translation, draws, seed):
        return _differentiated(translation, module, precision, given, training, cotangents)


@contextmanager
def _drawing(translation: Translation, draws: list[Drawn], seed: int) -> Iterator[None]:
    """Within it, the written module draws the numbers of a seed."""
    checkpointed = translation.checkpointed if draws else ()
    with jax_draws(seed, draws), each_call_traced(translation.code, checkpointed):
        yield


def flax_outputs(translation: Translation, precision: str, given: Any, training: bool, seed: int) -> list[np.ndarray]:
    """What the written module gives, forward alone; arguments as of `flax_run`."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    graph, state = nnx.split(_built(translation, precision, training))
    leaves, tree = jax.tree.flatten(translation.to_flax(*given))
    smooth = [hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]

    @jax.jit
    def run(state: Any, floats: list[Any]) -> list[Any]:
        filled = iter(floats)
        taken = jax.tree.unflatten(tree, [next(filled) if s else leaf for s, leaf in zip(smooth, leaves, strict=True)])
        results = translation.boundary.call(nnx.merge(graph, state, copy=True), taken)
        return arrays_in(results, translation.boundary.outputs[training])

    draws = translation.draws[training]
    with _drawing(translation, draws, seed):
        return list(map(np.asarray, run(state, [leaf for s, leaf in zip(smooth, leaves, strict=True) if s])))


def _built(translation: Translation, precision: str, training: bool) -> Any:
    """The written module in a precision and a mode; dropout deep inside its layers is off."""
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


def _differentiated(
    translation: Translation,
    module: Any,
    precision: str,
    given: Any,
    training: bool,
    cotangents: list[np.ndarray | None],
) -> Run:
    import jax
    import jax.numpy as jnp
    from flax import nnx

    wide = precision == "float64"
    args = translation.to_flax(given[0], given[1])
    leaves, tree = jax.tree.flatten(args)
    smooth = [jnp.issubdtype(leaf.dtype, jnp.inexact) if hasattr(leaf, "dtype") else False for leaf in leaves]

    graph, params, rest = nnx.split(module, nnx.Param, ...)  # type: ignore[misc]

    def run(params: Any, floats: list[Any], rest: Any) -> Any:
        model = nnx.merge(graph, params, rest, copy=True)
        filled = iter(floats)
        taken = jax.tree.unflatten(tree, [next(filled) if s else leaf for s, leaf in zip(smooth, leaves, strict=True)])
        results = translation.boundary.call(model, taken)
        outputs = arrays_in(results, translation.boundary.outputs[training])
        total = jnp.zeros((), jnp.float64 if wide else jnp.float32)
        for number, (output, cotangent) in enumerate(zip(outputs, cotangents, strict=True)):
            if cotangent is not None:
                if output.shape != cotangent.shape:
                    raise OtherShape(number, output.shape, cotangent.shape)
                total = (
                    total + (output * cotangent).sum()
                    if not jnp.iscomplexobj(output)
                    else total + ((output.real + output.imag) * cotangent.real).sum()
                )
        return total, (outputs, nnx.state(model, nnx.All(nnx.Not(nnx.Param), nnx.Not(nnx.RngState))))

    floats = [leaf for s, leaf in zip(smooth, leaves, strict=True) if s]
    (_, (outputs, state)), (params_grad, inputs_grad) = jax.jit(
        jax.value_and_grad(run, argnums=(0, 1), has_aux=True, holomorphic=False)
    )(params, floats, rest)
    gradients = {
        ".".join(map(str, path)): np.asarray(v[...] if hasattr(v, "get_value") else v)
        for path, v in nnx.to_flat_state(params_grad)
    }
    buffers = {".".join(map(str, path)): np.asarray(variable[...]) for path, variable in nnx.to_flat_state(state)}
    layouts = translation.boundary.inputs
    into = {}
    for number, (gradient, layout) in enumerate(
        zip(_spread(translation, given, inputs_grad, smooth, leaves), layouts, strict=True)
    ):
        if gradient is not None:
            gradient = np.asarray(gradient)
            gradient = gradient.conj() if np.iscomplexobj(gradient) else gradient
            into[f"input {number}"] = gradient.transpose([layout.order.index(dim) for dim in range(layout.rank)])
    gradients = {name: g.conj() if np.iscomplexobj(g) else g for name, g in gradients.items()}
    trained = dict.fromkeys(gradients, True) | dict.fromkeys(buffers, False)
    return Run([np.asarray(output) for output in outputs], cotangents, gradients, into, buffers, trained)


def _spread(translation: Any, given: Any, inputs_grad: list[Any], smooth: list[bool], leaves: list[Any]) -> list[Any]:
    """The inputs' gradients in the order of torch's tensors; None for what the written call does not take."""
    import torch
    from torch.utils import _pytree as pytree

    numbers = iter(range(10**6))
    marked = pytree.tree_map(lambda leaf: next(numbers) if isinstance(leaf, torch.Tensor) else None, given)
    bound = translation.boundary.signature.bind(*marked[0], **marked[1])
    bound.apply_defaults()
    order: list[Any] = []
    import jax

    for name in translation.boundary.parameters:
        order += jax.tree.leaves(bound.arguments[name.lstrip("*")])
    found: list[Any] = [None] * len(translation.boundary.inputs)
    gradients = iter(inputs_grad)
    arrays = [(s, leaf) for s, leaf in zip(smooth, leaves, strict=True) if hasattr(leaf, "dtype")]
    for place, (is_smooth, _) in zip([o for o in order if isinstance(o, int)], arrays, strict=False):
        if is_smooth:
            found[place] = next(gradients)
    return found


def _silence_inside(module: Any, written: frozenset[str]) -> None:
    """Switch off dropout inside the layers that the written code calls; a dropout that it calls itself stays on."""
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
    """What ``param_dtype`` does not reach: buffers of the module's own."""
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
    """The arrays among a Flax module's results, in torch's layout and in the order of torch's leaves."""
    import jax.numpy as jnp

    match outputs:
        case Layout():
            return [jnp.transpose(results, [outputs.order.index(dim) for dim in range(outputs.rank)])]
        case dict():
            return [array for name in outputs for array in arrays_in(results[name], outputs[name])]
        case tuple() | list():
            return [array for item, layout in zip(results, outputs, strict=True) for array in arrays_in(item, layout)]
    return []
