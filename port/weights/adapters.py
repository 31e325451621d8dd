"""LoRA's adapters merged into the weights of the model that they adapt, on torch's side, each when it is asked for."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry
from port.mapping.names import nearest
from port.moves import Branch, EachBranch, Merge, Move, Permute
from port.weights.adapter_files import Adapter, Factors, opened_adapter
from port.weights.made_tensors import made
from port.weights.sources import Source


def adapted(base: Source, folder: Path | str | None, files: ExitStack) -> Source:
    """A model's tensors with an adapter merged that a PEFT folder holds; as they are, without one.

    Args:
        base: torch's state dict.
        folder: PEFT's.
        files: holds the adapter open.

    Raises:
        PortError: as `opened_adapter` and `merged`.
    """
    return base if folder is None else merged(base, files.enter_context(opened_adapter(folder)))


def merged(base: Source, adapter: Adapter) -> Source:
    """A model's tensors, those that an adapter is of as they are with it: ``W + scaling · B A``.

    Read a tensor at a time, or a part of one where both files give parts.

    Args:
        base: torch's state dict.
        adapter: of this model.

    Raises:
        WeightsMismatch: tensors of the adapter that the model has no place for, modules that its config names and that
            it has nothing of, shapes that do not fit; all of them.
        UsageError: Flax variables.
    """
    base = base.without_prefixes(meant_by(adapter))
    check_fits(base, adapter)
    pool = _pool(base, adapter)
    transposed, shapes = adapter.config.transposed, pool.shapes
    entries = {each.weight: entry_of(each, shapes[each.weight], transposed) for each in adapter.factors}
    result = made(pool, entries, base)
    result.origin = f"{base.origin} with {adapter.tensors.origin}"
    return result


def _pool(base: Source, adapter: Adapter) -> Source:
    """The model's tensors and the factors; what the adapter holds whole in the place of the model's own."""
    inner = {name: own for own, name in adapter.whole.items()}
    own = base.renamed({name: name for name in base if name not in adapter.whole})
    return own.beside(adapter.tensors.renamed({name: inner.get(name, name) for name in adapter.tensors}))


def adapted_whole(base: Source, adapter: Adapter) -> Source:
    """A model's tensors, those that an adapter holds whole in the place of its own; the others as they are."""
    return made(_pool(base, adapter), {}, base)


def meant_by(adapter: Adapter) -> list[str]:
    """The names of the model's tensors that an adapter speaks of."""
    return [*(factors.weight for factors in adapter.factors), *adapter.whole]


def check_fits(base: Source, adapter: Adapter) -> None:
    """See that an adapter is of a model with these tensors.

    Raises:
        WeightsMismatch: what it has too much, too little, or in other shapes; all of it.
        UsageError: Flax variables.
    """
    if base.is_flax:
        raise UsageError(
            f"{base.origin}: these are Flax variables, and an adapter of PEFT's speaks of torch's names: give the "
            "torch weights that it was trained on"
        )
    wrong = []
    for name in meant_by(adapter):
        if name not in base:
            wrong.append(f"unexpected: an adapter of {name}, which the model has not{nearest(name, base.tensors)}")
    for path in adapter.missing(base.shapes):
        wrong.append(f"missing: the adapter of {path}, which target_modules in {adapter.config.origin} names")
    shapes = _pool(base, adapter).shapes
    for factors in adapter.factors:
        if factors.weight in shapes:
            entry = entry_of(factors, shapes[factors.weight], adapter.config.transposed)
            try:
                entry.target_shapes(tuple(shapes[name] for name in entry.sources))
            except WeightsMismatch as error:
                wrong.append(str(error))
    if wrong:
        raise WeightsMismatch(
            f"the adapter {adapter.tensors.origin} does not fit {base.origin}; it may be another model's:\n  "
            + "\n  ".join(sorted(wrong))
        )


def entry_of(factors: Factors, shape: tuple[int, ...], transposed: bool) -> Entry:
    """From a weight and its factors to the weight that both make.

    Args:
        factors: of a module.
        shape: of its weight.
        transposed: whether weights of two axes are (in, out).
    """
    moves: tuple[Move, ...] = (Merge(factors.scaling),)
    if factors.is_embedding or (transposed and len(shape) == 2):
        turned = Permute((1, 0))
        moves = (EachBranch((Branch(1, (turned,), 1), Branch(2, (), 2))), *moves, turned)
    return Entry((factors.weight, factors.down, factors.up), (factors.weight,), moves)
