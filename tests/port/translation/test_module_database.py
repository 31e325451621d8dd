"""torch's own module database through the translator: every entry with its own inputs, in training and evaluation."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import pytest
import torch

import port
from port.errors import PortError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about what this machine lacks
    from torch.testing._internal.common_modules import module_db

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own arguments

ENTRIES = {info.name: info for info in module_db}
MOST = 2  # ways of building and calling an entry
REFUSED: dict[str, str] = {}
"""Entries of which nothing is translated → what the refusal says."""
IN_PART: dict[str, str] = {
    # Without a reduction torch itself asks whether a variance is negative.
    "nn.GaussianNLLLoss": "depends on the values of a tensor",
}
"""Entries of which some ways of building or calling are refused → what the refusal says."""


def samples_of(name: str, most: int) -> list[tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]]:
    """Modules with random weights and their inputs, from all parts of the entry's list."""
    info = ENTRIES[name]
    found = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = list(
            info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=True)
        )
        for sample in samples[:: math.ceil(len(samples) / most)]:
            built, called = sample.constructor_input, sample.forward_input
            module = info.module_cls(*built.args, **built.kwargs).double()
            if name.startswith("nn.Lazy"):
                module(*called.args, **called.kwargs)
            with torch.no_grad():
                for tensor in module.state_dict().values():
                    if tensor.is_floating_point():
                        tensor.uniform_(0.5, 2)
            found.append((module, called.args, called.kwargs))
    return found


def refusals(name: str, most: int = MOST) -> tuple[int, list[str]]:
    """How many samples of an entry agree, and the messages with which the others are refused."""
    refused, agree = [], 0
    for module, args, kwargs in samples_of(name, most):
        try:
            made = port.translate(module, args, kwargs)
        except PortError as error:
            refused.append(str(error))
            continue
        if made.unwritten:
            refused += [item.why for item in made.unwritten]
            continue
        assert made.proof is not None and made.proof.agrees, f"{module}\n{made.proof}"
        agree += 1
    return agree, refused


def check(name: str, most: int) -> None:
    agree, refused = refusals(name, most)
    for words in refused:
        assert re.search(REFUSED.get(name) or IN_PART.get(name) or "none is refused", words), words
        assert re.match(r".*\w+ .*\w+ .*\w+", words), f"no sentence: {words}"
    assert (agree == 0) is (name in REFUSED)


@pytest.mark.daily(2)
@pytest.mark.thin(40)
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_an_entry_agrees(name: str) -> None:
    check(name, 1 if name not in IN_PART else MOST)


@pytest.mark.sweep
@pytest.mark.daily(8)
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_an_entry_agrees_with_every_other_parameter_frozen(name: str) -> None:
    (module, args, kwargs), *_ = samples_of(name, 1)
    parameters = list(module.parameters())
    for parameter in parameters[len(parameters) > 1 :: 2]:
        parameter.requires_grad_(False)
    made = port.translate(module, args, kwargs)
    named = module.named_parameters(remove_duplicate=False)
    assert set(made.frozen) == {name for name, parameter in named if not parameter.requires_grad}
    assert made.unwritten or (made.proof is not None and made.proof.agrees), f"{module}\n{made.proof}"


@pytest.mark.benchmark  # by hand: four minutes
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_way_of_calling_it(name: str) -> None:
    check(name, MOST)


def test_what_is_refused_is_there() -> None:
    assert set(REFUSED) | set(IN_PART) <= set(ENTRIES)
    assert not set(REFUSED) & set(IN_PART)
