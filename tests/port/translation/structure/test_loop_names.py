"""The original's names for items of lists are read from its loops."""

from __future__ import annotations

from typing import Any

from port.translation.structure.loop_names import LoopNames, loop_names


def _loops(self: Any, skips: Any) -> Any:
    for i, block in enumerate(self.blocks):
        block(i)
    for conv, skip in zip(self.ups, reversed(skips), strict=True):
        conv(skip)
    for attend, feed in self.layers:
        feed(attend)
    return [head(self) for head in self.heads]


def test_loops_and_comprehensions() -> None:
    found: dict[str, str | tuple[str, ...]] = {
        "self.blocks": "block",
        "self.ups": "conv",
        "reversed(skips)": "skip",
        "self.layers": ("attend", "feed"),
        "self.heads": "head",
    }
    assert loop_names(_loops).items == found


def _strides(self: Any, x: Any, start: int) -> Any:
    for i in range(0, len(self.ups), 2):
        x = self.ups[i + 1](self.ups[i](x)) + self.downs[i // 2](x)
    for number in range(start, 9, 3):
        x = self.others[number](x, self.single[0])
    for i in range(len(self.layers)):
        x = self.layers[i](x)
    return x


def test_the_step_by_which_a_loop_goes_through_a_list() -> None:
    assert loop_names(_strides).strides == {"self.ups": 2, "self.others": 3}


def test_what_has_no_source_has_none() -> None:
    assert loop_names(len) == LoopNames({}, {})
