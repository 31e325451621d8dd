"""Patterns: what is repeated is one rule, that says no more than the entries do."""

from __future__ import annotations

from port.mapping import Entry
from port.matching.patterns import rules_of_entries, written

from .chains import guide, unit


def test_layers_that_are_alike_are_one_rule() -> None:
    torch = guide("torch", *(unit(f"layers.{number}.fc", weight=(2, 3)) for number in range(12)))
    flax = guide("flax", *(unit(f"block_{number}", kernel=(2, 3)) for number in range(12)))
    entries = [Entry((f"layers.{i}.fc.weight",), (f"block_{i}.kernel",), (), "params") for i in range(12)]
    (rule,) = rules_of_entries(entries, torch, flax).rules
    assert rule.sources == (r"layers\.(\d+)\.fc\.weight",) and rule.targets == (r"block_\1.kernel",)
    # Of all but one, the pattern names the numbers that are meant.
    (some,) = rules_of_entries(entries[1:3], torch, flax).rules
    assert some.sources == (r"layers\.(1|2)\.fc\.weight",)


def test_numbers_that_are_not_repeated_stay_as_they_are() -> None:
    torch = guide("torch", unit("fc1", weight=(2, 3)), unit("fc2", weight=(2, 3)))
    flax = guide("flax", unit("up", kernel=(2, 3)), unit("down", kernel=(2, 3)))
    entries = [Entry((f"fc{i}.weight",), (f"{name}.kernel",), (), "params") for i, name in ((1, "up"), (2, "down"))]
    rules = rules_of_entries(entries, torch, flax)
    assert [rule.sources for rule in rules.rules] == [(r"fc1\.weight",), (r"fc2\.weight",)]
    text = written(rules, ["two lines\nof a remark"])
    assert text.startswith("# two lines\n# of a remark\n") and r"source = 'fc1\.weight'" in text
