"""`port.to_optax` and `port.optax_source`: torch optimizers as an optax transformation, and as its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError
from port.mapping import Mapping
from port.optim.assembling import Around, Assembly, assemble
from port.optim.layout import prefix_of, torch_named, trained_entries
from port.optim.memory import in_order
from port.optim.naming import Names, names_of
from port.optim.reading import Group, read_groups, scalar_dtype
from port.optim.state import Contents, filled
from port.pairs.expression import Function
from port.pairs.schedules import Plateau

if TYPE_CHECKING:
    import optax
    import torch

    Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]
    Scheduler = torch.optim.lr_scheduler.LRScheduler
    Schedulers = Scheduler | Sequence[Scheduler] | None


def to_optax(
    optimizer: Optimizers,
    *,
    params: Any,
    mapping: Mapping,
    scheduler: Schedulers = None,
    model: torch.nn.Module | None = None,
    clip_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
    accumulate: int = 1,
    accumulate_mean: bool = False,
    steps_per_epoch: int | None = None,
    steps: int | None = None,
) -> tuple[optax.GradientTransformationExtraArgs, Any]:
    """A torch optimizer as an optax transformation and its state: the next update is the one torch would have made.

    Args:
        optimizer: any of torch.optim's, at any step of a run; or several that share the parameters out, as Muon for the
            matrices and AdamW for the rest.
        params: the Flax parameters: a tree of arrays, an `nnx.State`, or variables that hold them under ``params``.
        mapping: from torch's names to the parameters' paths, as `port.mapping.between` makes it.
        scheduler: torch's scheduler of this optimizer, where it stands; of several optimizers, those there are.
        model: the torch module that the optimizer trains. Needed only where its parameters cannot be told apart by
            their names in the optimizer, their values, shapes and order.
        clip_norm: the ``max_norm`` of `torch.nn.utils.clip_grad_norm_`, if gradients are clipped so.
        norm_type: the kind of that norm.
        clip_value: the value of `torch.nn.utils.clip_grad_value_`, if gradients are clipped so.
        accumulate: how many calls of ``backward`` there are to one update.
        accumulate_mean: whether the loss is divided by that number; torch sums gradients.
        steps_per_epoch: updates between two steps of the scheduler; by default it is stepped with every update.
        steps: for how many of its steps a scheduler that has no formula (a Python function) is tabulated.

    Returns:
        The transformation, and its state with torch's moments, counts and the schedule's place, in the dtypes of
        ``params``. What is in no group, or requires no gradient, is not touched.

    Raises:
        UsageError: an optimizer, a scheduler or options that have no counterpart; parameters that cannot be told apart.
        WeightsMismatch: an optimizer of another model.
    """
    around = Around(clip_norm, norm_type, clip_value, accumulate, accumulate_mean, steps_per_epoch, steps)
    prefix = prefix_of(params, mapping)
    groups = read_all(optimizer, mapping, params, model)
    assembly = assemble(groups, mapping, schedulers_of(optimizer, scheduler), around, prefix=prefix)
    transformation = assembly.build(mapping)
    return transformation, filled(transformation.init(params), _contents(assembly, mapping), prefix=prefix)


def optax_source(
    optimizer: Optimizers,
    *,
    params: Any = None,
    mapping: Mapping | None = None,
    scheduler: Schedulers = None,
    model: torch.nn.Module | None = None,
    clip_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
    accumulate: int = 1,
    accumulate_mean: bool = False,
    steps_per_epoch: int | None = None,
    steps: int | None = None,
) -> str:
    """What `to_optax` builds, as the lines that a person would write: imports, and ``optimizer = …``.

    The arguments are `to_optax`'s. Without a mapping it speaks of one group that trains everything.

    Raises:
        UsageError: as `to_optax`; several groups, and no mapping that names their parameters.
    """
    around = Around(clip_norm, norm_type, clip_value, accumulate, accumulate_mean, steps_per_epoch, steps)
    if mapping is None:
        groups = _unnamed(optimizer)
        mapping = Mapping(())
    else:
        groups = read_all(optimizer, mapping, params, model)
    prefix = "" if params is None else prefix_of(params, mapping)
    expression = assemble(groups, mapping, schedulers_of(optimizer, scheduler), around, prefix=prefix).expression
    if not isinstance(expression, Function):
        return "\n".join([*_sorted(expression.imports()), "", f"optimizer = {expression.source()}", ""])
    body = expression.body
    lines = _sorted([*body.imports(), "from port.mapping import read_mapping"])
    lines += ["", 'mapping = read_mapping("mapping.toml")  # as port.mapping.save_mapping writes it']
    return "\n".join([*lines, f"optimizer = {body.source()}", ""])


def _sorted(imports: list[str]) -> list[str]:
    """Import lines as a formatter leaves them: ours behind the others'."""
    ours = [line for line in imports if line.startswith("from port")]
    others = [line for line in imports if line not in ours]
    return [*sorted(others), *([""] if ours and others else []), *sorted(ours)]


def several(optimizer: Optimizers) -> list[torch.optim.Optimizer]:
    """The optimizers, where one may stand for itself."""
    return list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]  # type: ignore[list-item]


def schedulers_of(optimizer: Optimizers, scheduler: Schedulers) -> list[Scheduler | None]:
    """Each optimizer's scheduler.

    Raises:
        UsageError: a scheduler of another optimizer; two of one, which torch's ChainedScheduler says as one.
    """
    given: list[Any] = list(scheduler) if isinstance(scheduler, list | tuple) else [scheduler]
    optimizers = several(optimizer)
    found: list[Scheduler | None] = [None] * len(optimizers)
    for one in filter(None, given):
        own = [place for place, other in enumerate(optimizers) if getattr(one, "optimizer", None) is other]
        if not own:
            raise UsageError(f"the {type(one).__qualname__} is attached to another optimizer; give that one's own")
        if found[own[0]] is not None:
            raise UsageError(
                f"{type(found[own[0]]).__qualname__} and {type(one).__qualname__} move one learning rate; "
                "say both as one torch.optim.lr_scheduler.ChainedScheduler"
            )
        found[own[0]] = one
    return found


def read_all(optimizer: Optimizers, mapping: Mapping, params: Any, model: torch.nn.Module | None) -> list[Group]:
    """The groups of all the optimizers.

    Raises:
        UsageError: a parameter that two of them step.
    """
    groups: list[Group] = []
    for number, one in enumerate(several(optimizer)):
        groups += read_groups(one, resolved_names(one, mapping, params, model), number=number)
    names = [name for group in groups for name in group.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"more than one optimizer steps {', '.join(twice)}")
    return groups


def resolved_names(
    optimizer: torch.optim.Optimizer, mapping: Mapping, params: Any, model: torch.nn.Module | None
) -> Names:
    """torch's names of an optimizer's parameters, by whatever tells them."""
    values: dict[str, np.ndarray] | None = None
    shapes: dict[str, tuple[int, ...]] = {}
    if params is not None:
        values = {name: np.asarray(value) for name, value in torch_named(params, mapping).items()}
        shapes = {name: value.shape for name, value in values.items()}
    else:
        for entry in trained_entries(mapping):
            if entry.shapes is None:
                raise UsageError("the mapping does not know the shapes of its tensors; give the Flax parameters too")
            shapes |= zip(entry.sources, entry.shapes, strict=True)
    return names_of(optimizer, shapes, model=model, values=values)


def _unnamed(optimizer: Optimizers) -> list[Group]:
    groups: list[Group] = []
    for number, one in enumerate(several(optimizer)):
        sizes = [len(group["params"]) for group in one.param_groups]
        names = [[f"{number}.{index}.{place}" for place in range(size)] for index, size in enumerate(sizes)]
        groups += read_groups(one, names, number=number)
    if len(groups) != 1:
        raise UsageError(
            f"there are {len(groups)} groups of parameters; which is which is told by their names: "
            "give mapping=port.mapping.between(torch_module, flax_module)"
        )
    return groups


def _contents(assembly: Assembly, mapping: Mapping) -> dict[str, Contents]:
    return {
        label: Contents(
            group.pair,
            group.numbers,
            {key: _carried(arrays, assembly, mapping) for key, arrays in group.arrays.items()},
            assembly.places.get(label),
            _rates(assembly.plateaus.get(label)),
            scalar_dtype(),
            in_order(group.memory, group.sizes, sorted(group.sizes)) if group.memory else {},
        )
        for label, group in assembly.groups.items()
    }


def _rates(plateau: Plateau | None) -> dict[str, Any]:
    """Where ReduceLROnPlateau stands, by the fields of its state."""
    fields = ("learning_rate", "best", "num_bad_epochs", "cooldown_counter")
    return {} if plateau is None else {name: getattr(plateau, name) for name in fields}


def _carried(arrays: dict[str, np.ndarray], assembly: Assembly, mapping: Mapping) -> dict[str, np.ndarray]:
    """A moment in the layout of the state: every move of its weight is a move of it."""
    if assembly.in_torch_layout:
        return arrays
    carried: dict[str, np.ndarray] = {}
    for entry in trained_entries(mapping):
        if all(source in arrays for source in entry.sources):
            given = tuple(arrays[source] for source in entry.sources)
            carried |= zip(entry.targets, entry(given), strict=True)
    return carried
