"""A translation is the same while hooks are registered for all modules."""

from __future__ import annotations

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from port.translation.frontend.global_hooks import without_global_hooks
from tests.port.translation.agreeing import translated
from tests.port.translation.window_nets import Shifted


@pytest.mark.sweep
def test_a_watched_module_is_written_as_one_that_is_not() -> None:
    torch.manual_seed(0)
    module, x = Shifted(4, 3), torch.randn(2, 5, 4)

    def source() -> str:
        return translated(module, x, construct=lambda: Shifted(4, 3), static=True, sizes_limit=0.0).source

    alone = source()
    seen: list[str] = []
    with register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__)):
        assert source() == alone
        module(x)
    assert "Shifted" in seen, "the hook works again afterwards"


def test_hooks_come_back_and_those_registered_meanwhile_stay() -> None:
    layer, called = torch.nn.Linear(2, 3), []
    first = register_module_forward_pre_hook(lambda module, args: called.append("first"))
    with without_global_hooks():
        layer(torch.randn(4, 2))
        assert not called
        second = register_module_forward_hook(lambda module, args, output: called.append("second"))
    layer(torch.randn(4, 2))
    assert called == ["first", "second"]
    first.remove()
    second.remove()
    layer(torch.randn(4, 2))
    assert called == ["first", "second"]
