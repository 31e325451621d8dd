"""Builds the mapping between two models, from whatever is known of them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Tree
from dataclasses import replace
from pathlib import Path
from typing import Any

from port.errors import UsageError, WeightsMismatch, described
from port.mapping.entry import FROZEN, Entry
from port.mapping.file import read_mapping
from port.mapping.folding import folded, folds
from port.mapping.given import checked
from port.mapping.guide import Guide
from port.mapping.linen_guide import linen_guide, tree_guide
from port.mapping.mapping import Mapping
from port.mapping.names import nearest
from port.mapping.nnx_guide import nnx_guide
from port.mapping.one_sided import one_sided, tree_of_twins
from port.mapping.renaming import Renaming
from port.mapping.rules import Rules
from port.mapping.torch_guide import state_guide, torch_guide
from port.mapping.two_sided import two_sided


def between(
    torch: Any = None,
    flax: Any = None,
    *,
    rename: Tree[str, str] | Rules | Mapping | Path | str | None = None,
    fold: Tree[str, tuple[int, ...]] | None = None,
    inputs: Any = None,
    spare: bool = False,
) -> Mapping:
    """Build the mapping from a torch model's state dict to a Flax model's variables.

    Args:
        torch: a torch module (on the meta device too), a state dict, or a `Guide`; None if only Flax's is known.
        flax: an nnx module (an abstract one too), a Linen module, a tree of variables, or a `Guide`; None for the
            twins of torch's layers under torch's names.
        rename: where names differ: pattern → replacement for torch's keys, or a mapping file, or its contents:
            `Rules`, or a whole `Mapping`, which is then checked.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        inputs: an example input of a Linen module, or a tuple of its arguments.
        spare: leave out a bias, or a norm's scale, that the same layer has on one side only, instead of raising:
            torch's then gets the collection `TORCH_ONLY`, Flax's has no entry. For comparing, never for converting.

    Returns:
        torch's keys → Flax's dotted paths.

    Raises:
        WeightsMismatch: tensors that are missing, unexpected, mis-shaped, or have two readings: all in one message.
        NoPair: layers that no pair covers.
        UsageError: invalid modules or rules.
    """
    rules, fold = rules_of(rename), folds(fold)
    left = None if torch is None else guide_of_torch(torch)
    right = None if flax is None else guide_of_flax(flax, inputs)
    kept = rules.kept if isinstance(rules, Mapping) else rules.keep
    right = _without(right, kept)
    if isinstance(rules, Mapping):
        if fold:
            raise UsageError("a mapping of entries is complete: write the fold among its moves")
        return Mapping(tuple(_in_their_kinds(checked(rules, left, right).entries, right)), kept)
    entries = _in_their_kinds(_entries(left, right, rules, spare=spare), right)
    return Mapping(tuple(folded(entries, {**rules.fold, **fold})), kept)


def _without(flax: Guide | None, kept: tuple[str, ...]) -> Guide | None:
    """Remove from Flax's guide the tensors that keep their values, which no mapping mentions."""
    if flax is None or not kept:
        return flax
    if absent := [path for path in kept if path not in flax.leaves]:
        lines = [f"Flax has no {path}, which the mapping keeps{nearest(path, flax.leaves)}" for path in absent]
        raise WeightsMismatch("the mapping does not fit the models:\n  " + "\n  ".join(lines))
    return replace(flax, leaves={path: leaf for path, leaf in flax.leaves.items() if path not in kept})


def _in_their_kinds(entries: Iterable[Entry], flax: Guide | None) -> list[Entry]:
    """Set the collection of the parameters' entries to the Flax model's: trained, or `FROZEN`."""
    leaves = {} if flax is None else flax.leaves
    made = []
    for entry in entries:
        kinds = {leaves[target].collection for target in entry.targets if target in leaves}
        if entry.collection in ("params", FROZEN) and kinds:
            entry = replace(entry, collection=FROZEN if kinds == {FROZEN} else "params")
        made.append(entry)
    return made


def _entries(torch: Guide | None, flax: Guide | None, rules: Rules, *, spare: bool) -> list[Entry]:
    renaming = Renaming(rules.rename)
    if torch is not None and flax is not None:
        ours = None if flax.layers or rules.rules else tree_of_twins(torch, flax, renaming)
        return ours or two_sided(torch, flax, renaming=renaming, user_entries=rules.entries(torch, flax), spare=spare)
    if rules.rules:
        raise UsageError("a mapping's rules are about both models: pass the torch and the Flax one")
    if torch is not None and torch.layers:
        return one_sided(torch, renaming)
    if flax is not None and flax.layers:
        if rules.rename:
            raise UsageError("a renaming applies to torch's keys: pass torch's names too, a module or a state dict")
        return one_sided(flax)
    raise UsageError("expected a torch module or a Flax module: names alone do not determine the layout")


def guide_of_flax(module: Any, inputs: Any = None) -> Guide:
    """Build the guide of an nnx module, a Linen module (with an example input) or a tree of variables.

    Raises:
        UsageError: ``module`` is something else.
    """
    families = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(module).__mro__}
    if isinstance(module, Guide):
        return module
    if "flax.nnx.module.Module" in families:
        return nnx_guide(module)
    if "flax.linen.module.Module" in families:
        return linen_guide(module, inputs)
    if isinstance(module, Tree):
        return tree_guide(module)
    raise UsageError(f"expected an nnx module, a Linen module or a tree of variables, got {described(module)}")


def guide_of_torch(module: Any) -> Guide:
    """Build the guide of a torch module or, with names only, of a state dict.

    Raises:
        UsageError: ``module`` is something else.
    """
    if isinstance(module, Guide):
        return module
    if isinstance(module, Tree):
        return state_guide(module)
    if any(f"{cls.__module__}.{cls.__qualname__}" == "torch.nn.modules.module.Module" for cls in type(module).__mro__):
        return torch_guide(module)
    raise UsageError(f"expected a torch.nn.Module or a state dict, got {described(module)}")


def rules_of(rename: Tree[str, str] | Rules | Mapping | Path | str | None) -> Rules | Mapping:
    """Return the user's rules about names, as `between` takes them, read from a file if necessary.

    Raises:
        UsageError: a file that cannot be read or is invalid, or something that is not names.
    """
    if isinstance(rename, str | Path):
        return read_mapping(rename)
    if isinstance(rename, Rules | Mapping):
        return rename
    if not isinstance(rename, Tree | None):
        raise UsageError(f"rename is pattern → replacement, or a mapping file; got {described(rename)}")
    return Rules(rename=dict(rename or {}))
