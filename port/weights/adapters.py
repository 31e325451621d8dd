"""Merges LoRA adapters into the weights of the model that they adapt, on torch's side, one tensor at a time."""

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
    """Merge an adapter from a PEFT folder into a model's tensors; without one, return them unchanged.

    Args:
        base: torch's state dict.
        folder: the PEFT folder.
        files: keeps the adapter's files open.

    Raises:
        PortError: as for `opened_adapter` and `merged`.
    """
    return base if folder is None else merged(base, files.enter_context(opened_adapter(folder)))


def merged(base: Source, adapter: Adapter) -> Source:
    """Return a model's tensors with an adapter merged: ``W + scaling · B A``.

    Reads one tensor at a time, or a part of one if both files can read parts.

    Args:
        base: torch's state dict.
        adapter: an adapter of this model.

    Raises:
        WeightsMismatch: tensors of the adapter that do not exist in the model, modules that its config names but that
            it has nothing for, shapes that do not fit; all of them.
        UsageError: ``base`` is Flax variables.
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
    """The model's tensors and the factors; tensors that the adapter stores whole replace the model's."""
    inner = {name: own for own, name in adapter.whole.items()}
    own = base.renamed({name: name for name in base if name not in adapter.whole})
    return own.beside(adapter.tensors.renamed({name: inner.get(name, name) for name in adapter.tensors}))


def adapted_whole(base: Source, adapter: Adapter) -> Source:
    """Replace the tensors that an adapter stores whole; the others are unchanged."""
    return made(_pool(base, adapter), {}, base)


def meant_by(adapter: Adapter) -> list[str]:
    """The names of the model's tensors that an adapter covers."""
    return [*(factors.weight for factors in adapter.factors), *adapter.whole]


def check_fits(base: Source, adapter: Adapter) -> None:
    """Check that an adapter fits a model with these tensors.

    Raises:
        WeightsMismatch: everything unexpected, missing, or mis-shaped.
        UsageError: ``base`` is Flax variables.
    """
    if base.is_flax:
        raise UsageError(
            f"{base.origin}: these are Flax variables, but a PEFT adapter uses torch's names: pass the "
            "torch weights that it was trained on"
        )
    wrong = []
    for name in meant_by(adapter):
        if name not in base:
            wrong.append(f"unexpected: an adapter of {name}, which the model lacks{nearest(name, base.tensors)}")
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
    """The entry that maps a weight and its factors to the merged weight.

    Args:
        factors: a module's factors.
        shape: the shape of its weight.
        transposed: whether weights of two axes are (in, out).
    """
    moves: tuple[Move, ...] = (Merge(factors.scaling),)
    if factors.is_embedding or (transposed and len(shape) == 2):
        turned = Permute((1, 0))
        moves = (EachBranch((Branch(1, (turned,), 1), Branch(2, (), 2))), *moves, turned)
    return Entry((factors.weight, factors.down, factors.up), (factors.weight,), moves)
