"""`port.to_optax` and `port.optax_source`: convert torch optimizers to an optax transformation, or to its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, WeightsMismatch, described
from port.mapping import FROZEN, Mapping
from port.optim.assembling import Around, assemble
from port.optim.by_hand import ByHand, with_function
from port.optim.complete import refuse_incomplete
from port.optim.contents import contents_of_torch, with_present_rates
from port.optim.layout import named_leaves, parameter_entries, prefix_of, torch_named
from port.optim.naming import Names, names_of
from port.optim.reading import ParameterGroup, read_groups
from port.optim.state import filled
from port.optim.together import WithPlateau, together
from port.pairs.expression import Function

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
    schedule: Callable[[int], float] | None = None,
    model: torch.nn.Module | None = None,
    clip_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
    accumulate: int = 1,
    accumulate_mean: bool = False,
    steps_per_epoch: int | None = None,
    steps: int | None = None,
    step: int | None = None,
) -> tuple[optax.GradientTransformationExtraArgs, Any]:
    """Convert a torch optimizer to an optax transformation and its state, whose next update is the one of torch.

    Convert between two updates: the contents of ``.grad`` are not part of the optimizer, and are not converted. With
    ``accumulate`` that means after an update, before the first of the next micro-batches.

    If the learning rate is a float32 tensor, torch rounds it with each step of its scheduler. With ``steps`` the rates
    are written out as torch computes them; otherwise, and with ReduceLROnPlateau, they are the formula's. Adam and its
    variants, Adagrad and Muon also round what they compute with it (Adam's lr / (1 − b1ᵗ), AdamW's 1 − lr · decay);
    that is not reproduced. Each rounding is up to 6e-8 of its value. A float64 tensor is equivalent to a number.

    Args:
        optimizer: any of torch.optim's, at any step of a run; or several that divide the parameters, as Muon for the
            matrices and AdamW for the rest.
        params: the Flax parameters: a tree of arrays, an `nnx.State`, or variables with them under ``params``.
        mapping: from torch's names to the parameters' paths, as `port.mapping.between` makes it.
        scheduler: torch's scheduler of this optimizer, at its current position; for several optimizers, all schedulers.
            Several of one optimizer are passed in the order in which they are stepped, one after the other.
        schedule: instead, a function from the update, counted from 0, to the learning rate of every group, if the
            training loop sets it by hand. If it contains ``if`` or ``math``, pass ``steps`` as well.
        model: the torch module that the optimizer trains. Needed only if its parameters cannot be identified by their
            names in the optimizer, their values, shapes and order.
        clip_norm: the ``max_norm`` of `torch.nn.utils.clip_grad_norm_`, if gradients are clipped by it.
        norm_type: the kind of that norm.
        clip_value: the value of `torch.nn.utils.clip_grad_value_`, if gradients are clipped by it.
        accumulate: the number of calls of ``backward`` per update.
        accumulate_mean: whether the loss is divided by that number; torch sums gradients.
        steps_per_epoch: updates between two steps of the scheduler; by default it is stepped with every update.
        steps: for how many steps the Python function of a scheduler or the schedule is called beforehand, if JAX
            cannot trace it; or a scheduler is written out that has no formula, or changes a float32 tensor.
        step: the number of updates since the scheduler was made; by default the optimizer's count. Needed with
            ``steps_per_epoch`` if the optimizer keeps none (SGD, Muon), or was stepped before it had the scheduler.

    Returns:
        The transformation, and its state with torch's moments, counts and the schedule's position, in the dtypes of
        ``params``. Parameters in no group, or without requires_grad, are not changed, weight decay included. Those that
        require a gradient and have no state yet start at step 0, as in torch. But if the loss does not depend on one,
        its gradient is zero in JAX, and None in torch, which skips it: weight decay changes it only in JAX, unless it
        is frozen there (``requires_grad_(False)``).

    Raises:
        UsageError: an optimizer, a scheduler or options without a counterpart; parameters that cannot be identified.
        WeightsMismatch: an optimizer of another model; a state with missing parts.
    """
    if params is None:
        raise UsageError("expected the Flax parameters, got None: pass params=nnx.state(model, nnx.Param)")
    around = Around(clip_norm, norm_type, clip_value, accumulate, accumulate_mean, steps_per_epoch, steps, step)
    groups = read_all(optimizer, mapping, params, model)
    prefix = prefix_of(params, mapping)
    held = named_leaves(params, mapping)
    rates = rates_of(optimizer, scheduler, schedule)
    assembly = assemble(groups, mapping, rates, around, prefix=prefix, held=held)
    transformation = assembly.build(mapping)
    state = filled(transformation.init(params), contents_of_torch(assembly, mapping), prefix=prefix)
    return transformation, with_present_rates(state, assembly)


def optax_source(
    optimizer: Optimizers,
    *,
    params: Any = None,
    mapping: Mapping | None = None,
    scheduler: Schedulers = None,
    schedule: Callable[[int], float] | None = None,
    model: torch.nn.Module | None = None,
    clip_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
    accumulate: int = 1,
    accumulate_mean: bool = False,
    steps_per_epoch: int | None = None,
    steps: int | None = None,
    step: int | None = None,
) -> str:
    """Return what `to_optax` builds as readable source: imports, and ``optimizer = …``.

    The arguments are `to_optax`'s. Without a mapping it covers one group that trains everything, and a comment says
    how many parameters torch does not train. Without ``params`` the parameters' paths are the mapping's: if they are
    distinguished and are Linen variables, which hold them under ``params``, pass the variables.

    Raises:
        UsageError, WeightsMismatch: as for `to_optax`; UsageError also for several groups without a mapping that
            names their parameters.
    """
    around = Around(clip_norm, norm_type, clip_value, accumulate, accumulate_mean, steps_per_epoch, steps, step)
    if mapping is None:
        groups = _unnamed(optimizer)
        mapping = Mapping(())
    else:
        groups = read_all(optimizer, mapping, params, model)
    prefix = "" if params is None else prefix_of(params, mapping)
    held = () if params is None else named_leaves(params, mapping)
    rates = rates_of(optimizer, scheduler, schedule)
    expression = assemble(groups, mapping, rates, around, prefix=prefix, held=held).expression
    if not isinstance(expression, Function):
        remark = _frozen_remark(optimizer) if not mapping.entries else []
        return "\n".join([*_sorted(expression.imports()), "", *remark, f"optimizer = {expression.source()}", ""])
    body = expression.body
    lines = _sorted([*body.imports(), "from port.mapping import read_mapping"])
    lines += ["", 'mapping = read_mapping("mapping.toml")  # as port.mapping.save_mapping writes it']
    return "\n".join([*lines, f"optimizer = {body.source()}", ""])


def _frozen_remark(optimizer: Optimizers) -> list[str]:
    """A comment on what the source cannot express without the parameters' names."""
    tensors = [tensor for one in several(optimizer) for group in one.param_groups for tensor in group["params"]]
    count = sum(not tensor.requires_grad for tensor in tensors)
    if not count:
        return []
    return [f"# for all but the {count} of {len(tensors)} parameters that torch does not train (requires_grad=False)"]


def _sorted(imports: list[str]) -> list[str]:
    """Sort import lines as a formatter does: ours after the others."""
    ours = [line for line in imports if line.startswith("from port")]
    others = [line for line in imports if line not in ours]
    return [*sorted(others), *([""] if ours and others else []), *sorted(ours)]


def several(optimizer: Optimizers) -> list[torch.optim.Optimizer]:
    """Return the optimizers as a list; a single one may be passed alone.

    Raises:
        UsageError: something that is not an optimizer, or an empty list.
    """
    from torch.optim import Optimizer

    optimizers: list[Any] = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    if not optimizers:
        raise UsageError("expected a torch optimizer or several, got an empty list")
    for one in optimizers:
        if not isinstance(one, Optimizer):
            raise UsageError(
                f"expected a torch optimizer, got {described(one)}; one is torch.optim.AdamW(model.parameters()), and "
                "its load_state_dict loads what a state dict holds"
            )
    return optimizers


def rates_of(
    optimizer: Optimizers, scheduler: Schedulers, schedule: Callable[[int], float] | None
) -> Sequence[Scheduler | WithPlateau | ByHand | None]:
    """Return what sets each optimizer's learning rate: its scheduler, or the schedule's function.

    Raises:
        UsageError: both are passed; or as for `schedulers_of`.
    """
    return with_function(schedulers_of(optimizer, scheduler), several(optimizer), schedule)


def schedulers_of(optimizer: Optimizers, scheduler: Schedulers) -> list[Scheduler | WithPlateau | None]:
    """Return each optimizer's scheduler; several are combined into one.

    Raises:
        UsageError: not a scheduler, or one of another optimizer; several that cannot be combined.
    """
    schedulers: list[Any] = list(scheduler) if isinstance(scheduler, list | tuple) else [scheduler]
    optimizers = several(optimizer)
    found: list[list[Scheduler]] = [[] for _ in optimizers]
    for one in schedulers:
        if one is None:
            continue
        if not hasattr(one, "optimizer"):
            raise UsageError(
                f"expected a scheduler of torch.optim.lr_scheduler, got {described(one)}; "
                "one is torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)"
            )
        own = [place for place, other in enumerate(optimizers) if one.optimizer is other]
        if not own:
            raise UsageError(f"the {type(one).__qualname__} is attached to another optimizer; pass that one's own")
        found[own[0]].append(one)
    return [together(held) if held else None for held in found]


def read_all(
    optimizer: Optimizers, mapping: Mapping, params: Any, model: torch.nn.Module | None
) -> list[ParameterGroup]:
    """Read the groups of all the optimizers.

    Raises:
        UsageError: two of them step the same parameter.
        WeightsMismatch: a part of a state is missing.
    """
    groups: list[ParameterGroup] = []
    for number, one in enumerate(several(optimizer)):
        named = resolved_names(one, mapping, params, model)
        groups += read_groups(one, named, number=number)
        refuse_incomplete(one, named)
    names = [name for group in groups for name in group.names]
    _refuse_frozen_here(names, mapping, params)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"more than one optimizer steps {', '.join(twice)}")
    return groups


def _refuse_frozen_here(stepped: list[str], mapping: Mapping, params: Any) -> None:
    """Check that Flax does not hold a parameter that torch trains as `port.nn.Frozen`, outside of its parameters."""
    here = {} if params is None else named_leaves(params, mapping)
    lacking = [entry for entry in parameter_entries(mapping) if entry.collection == FROZEN]
    frozen = {name for entry in lacking if not set(entry.targets) & set(here) for name in entry.sources}
    if both := [name for name in stepped if name in frozen]:
        raise WeightsMismatch(
            f"torch trains {', '.join(both)} (requires_grad=True), which the Flax module holds as port.nn.Frozen: make "
            "it an nnx.Param there, or freeze it in torch"
        )


def resolved_names(
    optimizer: torch.optim.Optimizer, mapping: Mapping, params: Any, model: torch.nn.Module | None
) -> Names:
    """Identify an optimizer's parameters by torch's names.

    Raises:
        UsageError: no mapping, or one without shapes if nothing else identifies them.
    """
    if not isinstance(mapping, Mapping):
        raise UsageError(
            f"expected a port.mapping.Mapping, got {'None' if mapping is None else described(mapping)}; "
            "one is port.mapping.between(torch_module, flax_module), or read_mapping of a file"
        )
    values: dict[str, np.ndarray] | None = None
    if params is not None:
        values = {name: np.asarray(value) for name, value in torch_named(params, mapping).items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in parameter_entries(mapping):
        if values is not None and values.keys() >= set(entry.sources):
            shapes |= {name: values[name].shape for name in entry.sources}
        elif entry.shapes is not None:
            # Flax parameters that are frozen may be missing.
            if values is None or entry.collection == FROZEN:
                shapes |= zip(entry.sources, entry.shapes, strict=True)
        elif values is None:
            raise UsageError("the mapping does not know the shapes of its tensors; pass the Flax parameters too")
    return names_of(optimizer, shapes, model=model, values=values)


def _unnamed(optimizer: Optimizers) -> list[ParameterGroup]:
    groups: list[ParameterGroup] = []
    for number, one in enumerate(several(optimizer)):
        sizes = [len(group["params"]) for group in one.param_groups]
        names = [[f"{number}.{index}.{place}" for place in range(size)] for index, size in enumerate(sizes)]
        groups += read_groups(one, names, number=number)
    if len(groups) != 1:
        raise UsageError(
            f"there are {len(groups)} groups of parameters, which are identified by their names: "
            "pass mapping=port.mapping.between(torch_module, flax_module)"
        )
    return groups
