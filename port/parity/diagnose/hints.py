"""Hints on a layer that differs, from its options on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from port.parity.compare.findings import Finding


def hints_of(torch: Any, flax: Any) -> list[str]:
    """Return the options of one layer whose values or meanings differ between the sides.

    Args:
        torch: torch's layer.
        flax: Flax's layer.
    """
    found = []
    eps, epsilon = getattr(torch, "eps", None), getattr(flax, "epsilon", getattr(flax, "eps", None))
    if eps is not None and epsilon is not None and eps != epsilon:
        found.append(f"epsilon is {eps:g} in torch and {epsilon:g} in Flax, whose default is 1e-6 (W10)")
    if getattr(flax, "use_fast_variance", False):
        found.append("use_fast_variance=True computes the variance as E[x²] − E[x]²; torch takes two passes (W11)")
    if "BatchNorm" in type(torch).__name__:
        found += _of_batch_norm(torch, flax)
    padding, torchs = getattr(flax, "padding", None), getattr(torch, "padding", None)
    if isinstance(padding, str) and padding not in ("VALID", torchs):
        found.append(f"Flax pads by {padding!r}, torch by {torchs}: at a stride they are not the same (W3)")
    for theirs, ours in (("num_heads", "num_heads"), ("num_groups", "num_groups"), ("groups", "feature_group_count")):
        a, b = getattr(torch, theirs, None), getattr(flax, ours, None)
        if a is not None and b is not None and a != b:
            found.append(f"{theirs} is {a} in torch, {ours} is {b} in Flax")
    return found


def _of_batch_norm(torch: Any, flax: Any) -> list[str]:
    found = []
    is_flaxs = type(flax).__module__.startswith("flax.")
    theirs, ours = torch.momentum, getattr(flax, "momentum", None)
    if theirs is not None and ours is not None:
        wanted = 1 - theirs if is_flaxs else theirs
        if abs(wanted - ours) > 1e-9:
            meaning = "the share that is kept, 1 − torch's" if is_flaxs else "as torch's"
            found.append(f"momentum is {theirs:g} in torch and {ours:g} in Flax, which takes it as {meaning} (W7)")
    if is_flaxs:
        found.append("flax's BatchNorm keeps the biased variance, torch's the unbiased one: port.nn.BatchNorm (W8)")
    return found


def hints_between(kinds: Iterable[str]) -> list[str]:
    """Return hints on torch's layers at the divergence that have no Flax module.

    Args:
        kinds: the names of their classes.
    """
    known = {
        "GELU": "torch's GELU is the exact one; jax.nn.gelu is the tanh approximation unless approximate=False (W12)",
        "MaxPool2d": "torch's max pool pads with −∞, floors its output's size, and can dilate (W20)",
        "AvgPool2d": "torch's average pool counts its padding (W18)",
        "AdaptiveAvgPool2d": "torch's adaptive pool has windows of unequal sizes (W19)",
        "Upsample": "torch's interpolation takes other source points than jax.image.resize (W21)",
        "Flatten": "torch flattens channels first (W6)",
        "LeakyReLU": "the negative slope is 0.01 on both sides by default",
    }
    found = []
    for kind in kinds:
        name = kind.rpartition(".")[2]
        text = known.get(name)
        found.append(f"torch calls {name} there" + (f": {text}" if text else ""))
    return list(dict.fromkeys(found))


def hints_of_weights(findings: Iterable[Finding], *, behaviour_differs: bool) -> list[str]:
    """Return what follows from weights that differ."""
    if not any(finding.what == "weights" for finding in findings):
        return []
    if behaviour_differs:
        return ['the weights differ: weights="torch" carries torch\'s over and judges the rest alone']
    return ["the weights differ, but nothing that was compared depends on them"]
