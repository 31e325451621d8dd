"""A model is constructed once more as the script did, with modules of its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from port.errors import UsageError
from port.scripts.writing.constructions import Constructions


class Coder(nn.Module):
    """Is given modules: one by itself, and several in a dict."""

    def __init__(self, encoder: nn.Module, width: int, *, heads: dict[str, nn.Module]) -> None:
        super().__init__()
        self.encoder, self.out = encoder, nn.Linear(4, width)
        self.heads = nn.ModuleDict(heads)


def noted(constructions: Constructions, module: nn.Module, *args: object, **kwargs: object) -> nn.Module:
    constructions.note(module, args, kwargs)
    return module


def test_modules_that_it_is_given_are_constructed_once_more() -> None:
    known = Constructions()
    encoder = noted(known, nn.Linear(3, 4), 3, 4)
    heads = {"a": noted(known, nn.Linear(4, 2), 4, 2), "b": noted(known, nn.Linear(4, 5, bias=False), 4, 5, bias=False)}
    coder = noted(known, Coder(encoder, 6, heads=heads), encoder, 6, heads=heads)
    with torch.no_grad():
        encoder.weight.fill_(0.5)
    again = known.constructor_of(coder)()
    assert type(again) is Coder and again.encoder is not encoder and again.heads["a"] is not heads["a"]
    assert {name: tensor.shape for name, tensor in again.state_dict().items()} == {
        name: tensor.shape for name, tensor in coder.state_dict().items()
    }
    assert not torch.equal(again.encoder.weight, encoder.weight)


def test_what_was_loaded_is_said() -> None:
    known = Constructions()
    construct = known.constructor_of(noted(known, Coder(nn.Linear(3, 4), 6, heads={}), nn.Linear(3, 4), 6, heads={}))
    with pytest.raises(UsageError, match="this Linear was not constructed by its class"):
        construct()
