"""The zoo, translated: the proof of every example says that both sides agree; what must be refused says why."""

from __future__ import annotations

import re
from operator import attrgetter

import pytest
import torch

import port
from port.errors import PortError

from .lengths_tried import silently_wrong
from .variables_held import targets_of, variables_held
from .zoo import EXAMPLES, Example

UNWRITTEN = ("masked_assignment",)
"""Examples in which something has no pair: what they select by a mask is as long as the mask's values say."""

TRANSLATED = [example for example in EXAMPLES if not example.refused]
REFUSED = [example for example in EXAMPLES if example.refused]


def built(example: Example) -> torch.nn.Module:
    """The example's module with distinct parameters and states: no zeros, no ones, no symmetry."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = example.build()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            if parameter.ndim < 2:
                values = 0.3 * values + (0.8 if name.endswith("weight") else 0.1)
            else:
                values *= example.gain * (parameter.shape[0] / parameter.numel()) ** 0.5
            parameter.copy_(values)
        for buffer in module.buffers():
            # A state begins with all its numbers alike. What differs is a table or a mask, and stays what it is.
            if (buffer == buffer.flatten()[0]).all():
                if buffer.is_floating_point():
                    buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
                else:
                    buffer.copy_(torch.randint(1, 9, buffer.shape, generator=generator))
    return module


@pytest.mark.daily(3)
@pytest.mark.parametrize("example", TRANSLATED, ids=attrgetter("name"))
@pytest.mark.sweep
def test_the_translation_agrees(example: Example) -> None:
    args, kwargs = example.inputs()
    module = built(example)
    translation = port.translate(module, args, kwargs)
    if example.name in UNWRITTEN:
        assert [item.what for item in translation.unwritten]
        return
    assert targets_of(translation.mapping.entries) | set(translation.hidden) == variables_held(translation)
    assert translation.proof.agrees, str(translation.proof)
    assert not silently_wrong(module, translation, args, kwargs)


@pytest.mark.parametrize("example", REFUSED, ids=attrgetter("name"))
@pytest.mark.thin(3)
def test_what_numbers_decide_is_refused(example: Example) -> None:
    args, kwargs = example.inputs()
    with pytest.raises(PortError, match=re.escape(example.refused)):
        port.translate(built(example), args, kwargs)
