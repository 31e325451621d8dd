"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from port.mapping import TORCH_ONLY
from port.parity.distance import difference, largest
from port.parity.flax_side import silence as silence_flax
from port.parity.torch_side import silence as silence_torch
from port.translation.double import default_float64, in_double, runs, twice
from port.translation.draws import jax_draws, torch_draws

if TYPE_CHECKING:
    import torch

    from port.translation.translation import Translation

FORWARD, GRADIENT, FLOOR = 1e-9, 1e-7, 1e-6
"""Limits in float64, relative: of outputs and buffers; of gradients, to the larger of their own size and this share of
the largest gradient's."""
_SINGLE = 1e5  # how much wider they are in float32
_MIXED = 1e3  # and where the model's own code computes a part in float32


@dataclass(frozen=True)
class Compared:
    """One kind of thing that was compared.

    Attributes:
        what: of which.
        difference: the largest, relative.
        limit: what it may be.
        where: the tensor with that difference.
        count: how many tensors were compared.
    """

    what: str
    difference: float
    limit: float
    where: str
    count: int

    @property
    def agrees(self) -> bool:
        return self.difference <= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.agrees else ">"
        where = "" if self.agrees or not self.where else f" at {self.where}"
        return f"{self.what}: {self.difference:.1e} {sign} {self.limit:.0e} ({self.count} tensors){where}"


@dataclass(frozen=True)
class Proof:
    """What the comparison says.

    Attributes:
        rows: what was compared.
        precision: ``"float64"``; ``"float32"`` where the original does not run in float64, and why.
        failed: the error of the Flax side, if it could not be run.
    """

    rows: tuple[Compared, ...]
    precision: str = "float64"
    failed: str = ""

    @property
    def agrees(self) -> bool:
        """Whether all of it is within its limit."""
        return not self.failed and all(row.agrees for row in self.rows)

    def __str__(self) -> str:
        head = f"{self.precision}: both sides {'agree' if self.agrees else 'DIFFER'}"
        return "\n  ".join([head, *([self.failed] if self.failed else []), *map(str, self.rows)])


def prove(module: torch.nn.Module, translation: Translation, args: Any, kwargs: Any, *, seed: int = 0) -> Proof:
    """Run both sides on the inputs and compare.

    Args:
        module: the original.
        translation: of it.
        args: inputs.
        kwargs: those by name.
        seed: of the random cotangents.
    """
    import jax

    wide = in_double(module, args, kwargs)
    precision = "float32" if wide is None else "float64"
    module, given = (copy.deepcopy(module).cpu(), (args, kwargs)) if wide is None else (wide[0], wide[1:])
    wider = _SINGLE if wide is None else _MIXED if translation.mixed else 1.0
    rows: list[Compared] = []
    with (
        jax.enable_x64(wide is not None),
        jax.default_device(jax.devices("cpu")[0]),
        jax.default_matmul_precision("highest"),
    ):
        for training in (False, True):
            with nullcontext() if wide is None else default_float64():
                if training and not runs(module, *given, training=True):
                    # One value a channel, say, which BatchNorm refuses: the same twice is no batch of one.
                    given = twice(*given)
                    if not runs(module, *given, training=True):
                        break
                theirs = _torch_run(module, given, training, seed)
            try:
                built = _built(translation, precision, training)
                with jax_draws(seed, translation.draws[training]):
                    ours = _flax_run(translation, built, precision, given, training, theirs.cotangents)
            except Exception as error:
                import traceback

                last = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
                own = [frame for frame in traceback.extract_tb(error.__traceback__) if "_translated_" in frame.filename]
                line = f" in `{own[-1].line}`" if own else f" ({last.name})"
                return Proof(tuple(rows), precision, f"the written module does not run{line}: {text}")
            rows += _compared(theirs, ours, translation, training, wider)
    return Proof(tuple(rows), precision)


@dataclass
class _Run:
    outputs: list[np.ndarray]
    cotangents: list[np.ndarray | None]
    gradients: dict[str, np.ndarray]
    input_gradients: dict[str, np.ndarray]
    buffers: dict[str, np.ndarray]


def _torch_run(module: Any, given: Any, training: bool, seed: int) -> _Run:
    def run(by: Callable[[int], bool]) -> _Run:
        with torch_draws(seed):
            return _differentiated(module, given, training, seed, by)

    try:
        return run(lambda number: True)
    except NotImplementedError as error:
        if "automatic differentiation" not in str(error):
            raise
        with torch_draws(seed):
            return _differentiated(module.requires_grad_(False), given, training, seed, lambda number: False)
    except RuntimeError as error:
        if _CONSTANT not in str(error):
            raise

    def smooth(number: int) -> bool:
        """Whether torch differentiates by this input, if by no other one."""
        try:
            run(lambda other: other == number)
        except RuntimeError as error:
            if _CONSTANT not in str(error):
                raise
            return False
        return True

    from torch.utils import _pytree as pytree

    by = {number for number in range(len(pytree.tree_leaves(tuple(given)))) if smooth(number)}
    return run(by.__contains__)


_CONSTANT = "is not differentiable with respect to argument"


def _differentiated(module: Any, given: Any, training: bool, seed: int, by: Callable[[int], bool]) -> _Run:
    """The run with the gradients by the inputs of these numbers, among the leaves."""
    import torch
    from torch.utils import _pytree as pytree

    from port.weights.torch import as_numpy

    module = copy.deepcopy(module).train(training)
    for inner in module.modules():
        silence_torch(inner)
    leaves, spec = pytree.tree_flatten(given)
    taken = []
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().clone()
            leaf.requires_grad_((leaf.is_floating_point() or leaf.is_complex()) and by(number))
        taken.append(leaf)
    args, kwargs = pytree.tree_unflatten(
        [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in taken], spec
    )
    torch.manual_seed(seed)
    results = [leaf for leaf in pytree.tree_leaves(module(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    generator = torch.Generator().manual_seed(seed)
    cotangents: list[Any] = []
    total = None
    for result in results:
        if not (result.is_floating_point() or result.is_complex()) or not result.requires_grad:
            cotangents.append(None)
            continue
        cotangent = torch.randn(result.shape, generator=generator, dtype=torch.float64).to(result.dtype)
        cotangents.append(as_numpy(cotangent))
        term = (
            (result * cotangent).sum()
            if not result.is_complex()
            else (torch.view_as_real(result.resolve_conj()).sum(-1) * cotangent.real).sum()
        )
        total = term if total is None else total + term
    if total is not None:
        try:
            total.backward()
        except RuntimeError:
            # torch itself has no gradient there: nothing to compare with.
            cotangents = [None] * len(results)
            module.zero_grad()
            for leaf in taken:
                if isinstance(leaf, torch.Tensor):
                    leaf.grad = None
    named = dict(module.named_parameters(remove_duplicate=False))
    gradients = {
        name: as_numpy(_gradient(p))
        for name, p in named.items()
        if p.requires_grad  # what is frozen is frozen by whoever trains it, on either side
    }
    tensors = [leaf for leaf in taken if isinstance(leaf, torch.Tensor)]
    into = {f"input {number}": as_numpy(_gradient(leaf)) for number, leaf in enumerate(tensors) if leaf.requires_grad}
    buffers = {name: as_numpy(buffer) for name, buffer in module.named_buffers()}
    return _Run(
        [as_numpy(result.detach().resolve_conj().resolve_neg()) for result in results],
        cotangents,
        gradients,
        into,
        buffers,
    )


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's gradient; zeros where it has none, or one that torch knows to be zero and keeps without numbers."""
    gradient = tensor.grad
    if gradient is None or gradient._is_zerotensor():
        import torch

        return torch.zeros_like(tensor)
    return gradient


def _built(translation: Translation, precision: str, training: bool) -> Any:
    """The written module in a precision and a mode, its dropouts off."""
    import jax.numpy as jnp
    from flax import nnx

    module = translation.build(param_dtype=jnp.dtype(precision))
    if precision == "float64":
        _widen(module)
    for _, node in nnx.iter_graph(module):
        silence_flax(node)
    if training:
        module.train()
    else:
        module.eval()
    return module


def _flax_run(
    translation: Translation,
    module: Any,
    precision: str,
    given: Any,
    training: bool,
    cotangents: list[np.ndarray | None],
) -> _Run:
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
        by_name = any(name.startswith("**") for name in translation.boundary.parameters[-1:])
        results = model(*taken[:-1], **taken[-1]) if by_name else model(*taken)
        outputs = arrays_in(results, translation.boundary.outputs[training])
        total = jnp.zeros((), jnp.float64 if wide else jnp.float32)
        for output, cotangent in zip(outputs, cotangents, strict=True):
            if cotangent is not None:
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
    return _Run([np.asarray(output) for output in outputs], cotangents, gradients, into, buffers)


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

    from port.translation.layouts import Layout

    match outputs:
        case Layout():
            return [jnp.transpose(results, [outputs.order.index(dim) for dim in range(outputs.rank)])]
        case dict():
            return [array for name in outputs for array in arrays_in(results[name], outputs[name])]
        case tuple() | list():
            return [array for item, layout in zip(results, outputs, strict=True) for array in arrays_in(item, layout)]
    return []


def _compared(theirs: _Run, ours: _Run, translation: Translation, training: bool, wider: float) -> list[Compared]:
    mode = "training" if training else "evaluation"
    rows = [
        _row(
            f"outputs in {mode}",
            FORWARD * wider,
            {f"output {n}": (a, b) for n, (a, b) in enumerate(zip(theirs.outputs, ours.outputs, strict=True))},
        )
    ]
    scale = FLOOR * largest(theirs.gradients)
    gradients = _carried(translation, ours.gradients, theirs.gradients)
    gradients = _with_lacking(translation, gradients, theirs.gradients)
    rows.append(_row(f"gradients in {mode}", GRADIENT * wider, gradients, scale))
    into = {
        name: (array, ours.input_gradients.get(name, np.zeros_like(array)))
        for name, array in theirs.input_gradients.items()
    }
    rows.append(
        _row(f"gradients of the inputs in {mode}", GRADIENT * wider, into, FLOOR * largest(theirs.input_gradients))
    )
    buffers = _carried(translation, ours.buffers, theirs.buffers)
    rows.append(_row(f"buffers after {mode}", FORWARD * wider, buffers))
    return [row for row in rows if row.count]


def _carried(translation: Translation, ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Pairs of torch's arrays and ours, brought to torch's names."""
    found = {}
    for entry in translation.mapping.entries:
        if entry.collection == TORCH_ONLY:
            continue
        if not all(target in ours for target in entry.targets):
            # The written module lacks it: nothing is as it should be.
            for name in entry.sources:
                lacking = theirs.get(f"{translation.prefix}{name}")
                if lacking is not None:
                    found[name] = (lacking, np.full(lacking.shape, np.nan))
            continue
        back = entry.inverse()(tuple(ours[target] for target in entry.targets))
        for name, array in zip(entry.sources, back, strict=True):
            if (full := f"{translation.prefix}{name}") in theirs:
                found[name] = (theirs[full], array)
    return found


def _with_lacking(translation: Translation, found: dict[str, Any], theirs: dict[str, np.ndarray]) -> dict[str, Any]:
    """With the parameters that the written module lacks: it is as if their gradient were zero."""
    lacking = {name.removeprefix(translation.prefix): array for name, array in theirs.items()}
    tied = {name for entry in translation.mapping.entries for name in entry.sources if set(entry.sources) & set(found)}
    return found | {
        name: (array, np.zeros_like(array)) for name, array in lacking.items() if name not in found and name not in tied
    }


def _row(what: str, limit: float, pairs: dict[str, Any], scale: float = 0.0) -> Compared:
    worst, where = 0.0, ""
    for name, (theirs, ours) in pairs.items():
        apart = 0.0 if not theirs.any() and not ours.any() else difference(theirs, ours, scale=scale)
        if not apart <= worst:
            worst, where = apart, name
    return Compared(what, float(worst), limit, where, len(pairs))
