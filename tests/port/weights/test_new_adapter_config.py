"""A config that is written anew says of each module what its adapter is, as it is read again."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pytest

from port.errors import UsageError
from port.weights.adapter_config import adapter_config_from
from port.weights.new_adapter_config import new_adapter_config

MODULES = {"a.up": (4, 0.5), "a.down": (4, 0.5), "b.up": (2, 0.5), "b.down": (4, 1.25), "up": (3, 4 / 3)}


def read(text):
    return adapter_config_from(text, "its config")


def test_each_module_s_rank_and_scaling_come_back():
    told = read(new_adapter_config(MODULES, saved=["head"], base="someone/net", dropout=0.1))
    assert {path: (told.rank_of(path), told.scaling_of(path)) for path in MODULES} == MODULES
    assert told.saved == ("head",)
    assert told.dropout == 0.1
    assert json.loads(told.text)["base_model_name_or_path"] == "someone/net"


@pytest.mark.parametrize("others", [[], ["a.norm", "c.up"], ["a_up"]])
def test_no_other_module_is_meant(others):
    modules = {"a.up": (4, 0.5), "up": (4, 0.5)}
    told = read(new_adapter_config(modules, [*others, *modules]))
    assert all(told.is_target(path) for path in modules)
    assert not any(told.is_target(path) for path in others)
    assert isinstance(told.targets, str) is ("c.up" in others)


def test_a_pattern_is_of_one_path_alone():
    """``up`` is the end of ``a.up`` too, and its own rank is not that one's."""
    told = read(new_adapter_config({"a.up": (4, 0.5), "up": (2, 0.5), "b.x": (4, 0.5)}))
    assert [told.rank_of(path) for path in ("a.up", "up", "a.up.up")] == [4, 2, 4]


@pytest.mark.parametrize("rank", [1, 3, 8, 49, 64])
def test_the_scaling_is_exact(rank):
    for alpha in (*range(1, 65), *np.random.default_rng(rank).uniform(0.01, 10, 20).tolist()):
        told = read(new_adapter_config({"up": (rank, alpha / rank)}))
        assert told.scaling_of("up") == alpha / rank
        assert not told.by_root
        assert read(new_adapter_config({"up": (rank, alpha / sqrt(rank))})).scaling_of("up") == alpha / sqrt(rank)


def test_a_scaling_that_no_alpha_gives():
    for scaling in np.random.default_rng(0).uniform(1, 2, 100).tolist():
        try:
            told = read(new_adapter_config({"up": (49, scaling), "down": (3, scaling)}))
        except UsageError as error:
            assert "no alpha gives these exactly: " in str(error)
            assert repr(scaling) in str(error)
            return
        assert told.scaling_of("up") == told.scaling_of("down") == scaling
    raise AssertionError("of a hundred numbers each was one by 49 and by 3")
