"""Names that wrappers have lengthened, against those that the wrappers themselves give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from port.errors import WeightsMismatch
from port.weights.conversion import convert
from port.weights.modules import load
from port.weights.prefixes import count_of_averages, strip_prefixes

EXPECTED = ["conv.weight", "conv.bias", "model.head.weight", "encoder.module.norm.weight"]


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "module.",
        "_orig_mod.",
        "model.",
        "module._orig_mod.",
        "_orig_mod.module.",
        "model.module.",
        "module.model._orig_mod.",
        "module.module.",
        "_fsdp_wrapped_module.",
        "module._fsdp_wrapped_module._checkpoint_wrapped_module.",
    ],
)
def test_any_combination_in_front(prefix: str) -> None:
    names = [prefix + name for name in EXPECTED]
    assert strip_prefixes(names, EXPECTED) == dict(zip(names, EXPECTED, strict=True))


@pytest.mark.parametrize("inner", ["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"])
def test_around_a_part_of_the_model(inner: str) -> None:
    """FullyShardedDataParallel and activation checkpointing wrap blocks, too."""
    names = [f"module.conv.{inner}.weight", "module.conv.bias", f"module.model.{inner}.head.{inner}.weight"]
    names.append("module.encoder.module.norm.weight")
    assert list(strip_prefixes(names, EXPECTED).values()) == EXPECTED


class Compiled(torch.nn.Module):
    """Holds a module as torch.compile does, without its imports of many seconds."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._orig_mod = module


@pytest.mark.parametrize("compiled", [Compiled, pytest.param(torch.compile, marks=pytest.mark.sweep)])
def test_the_wrappers_of_torch(compiled: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
    def model() -> torch.nn.Module:
        return torch.nn.ModuleDict({"encoder": torch.nn.Linear(2, 3), "head": torch.nn.Linear(3, 4)})

    plain, inner = model(), model()
    inner["encoder"] = compiled(torch.nn.Linear(2, 3))
    inner["head"] = torch.nn.DataParallel(torch.nn.Linear(3, 4))
    expected = list(plain.state_dict())
    for wrapped in (
        torch.nn.DataParallel(model()),
        compiled(model()),
        compiled(torch.nn.DataParallel(model())),
        torch.nn.DataParallel(compiled(model())),
        inner,
        torch.nn.DataParallel(inner),
    ):
        names = list(wrapped.state_dict())
        assert names != expected
        assert list(strip_prefixes(names, expected).values()) == expected, names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["module.weight", "module.bias"], ["module.weight", "module.bias"]),  # they fit as they are
        (["model.a.weight"], ["model.a.weight", "a.weight"]),
        (["module.x", "other"], ["y"]),  # nothing fits, so nothing is changed
        (["_orig_mod.x"], []),
        (["a._orig_mod.weight"], ["a._orig_mod.weight"]),
        ([], ["a"]),
        (["module", "model"], ["a"]),  # no name is all prefix
    ],
)
def test_names_that_stay(names: list[str], expected: list[str]) -> None:
    assert strip_prefixes(names, expected) == {name: name for name in names}


def test_the_best_reading_wins_and_of_equals_the_shortest() -> None:
    names = ["module.model.a", "module.model.b", "module.c", "module.model.d"]
    assert list(strip_prefixes(names, ["model.a", "model.b", "c"]).values())[:3] == ["model.a", "model.b", "c"]
    # one reading takes the same off all: what lacks that much keeps its name
    assert list(strip_prefixes(names, ["a", "b", "d"]).values()) == ["a", "b", "module.c", "d"]
    # a prefix that few names have is a name of the model's
    assert strip_prefixes(["module.a", "b", "c"], ["a", "b", "c"]) == {"module.a": "module.a", "b": "b", "c": "c"}
    assert strip_prefixes(["model.a", "loss.b"], ["a"]) == {"model.a": "a", "loss.b": "loss.b"}
    # a name that is expected as it stands stays, whatever becomes of the others
    assert strip_prefixes(["module.a", "module.b", "module.c"], ["module.a", "b", "c"]) == {
        "module.a": "module.a", "module.b": "b", "module.c": "c",
    }  # fmt: skip


def test_names_that_would_become_one() -> None:
    with pytest.raises(WeightsMismatch, match=r"become one:\n  a: module\.a, a"):
        strip_prefixes(["module.a", "module.b", "a"], ["a", "b"])


# %% AveragedModel's count


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)


class Counting(torch.nn.Module):
    """Has a count of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.register_buffer("n_averaged", torch.tensor(5.5))


class Holding(torch.nn.Module):
    """Is built as an AveragedModel is."""

    def __init__(self) -> None:
        super().__init__()
        self.module = torch.nn.Linear(3, 4)
        self.register_buffer("n_averaged", torch.tensor(5.5))


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("cls", [Normed, Counting])
def test_a_saved_average_is_converted_without_its_count(
    cls: type[torch.nn.Module], use_buffers: bool, tmp_path: Path
) -> None:
    model = cls()
    torch.save(AveragedModel(model, use_buffers=use_buffers).state_dict(), tmp_path / "average.pt")
    done = convert(tmp_path / "average.pt", tmp_path / "average.safetensors", torch=cls())
    assert done.left_out == {"n_averaged": "AveragedModel's count, not a weight"}
    assert [name for entry in done.moved for name in entry.sources] == list(model.state_dict())
    other = cls()
    load(other, tmp_path / "average.pt")
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor, other.state_dict()[name])


@pytest.mark.parametrize("cls", [Counting, Holding])
def test_a_models_own_count_is_a_weight(cls: type[torch.nn.Module], tmp_path: Path) -> None:
    for name, model in {"plain": cls(), "wrapped": torch.nn.DataParallel(cls())}.items():
        torch.save(model.state_dict(), tmp_path / f"{name}.pt")
        done = convert(tmp_path / f"{name}.pt", None, torch=cls())
        assert done.left_out == {} and "n_averaged" in done.dtypes


@pytest.mark.parametrize(
    "wrap",
    [
        AveragedModel,
        lambda model: torch.nn.DataParallel(AveragedModel(model)),
        lambda model: AveragedModel(torch.nn.DataParallel(model)),
        lambda model: Compiled(AveragedModel(Compiled(model))),
    ],
)
def test_the_count_inside_of_other_wrappers(wrap: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
    names, expected = list(wrap(Counting()).state_dict()), list(Counting().state_dict())
    count = count_of_averages(names, expected)
    assert count is not None
    names.remove(count)
    assert list(strip_prefixes(names, expected).values()) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["n_averaged", "module.a", "b"], ["a", "b"]),  # not all else is in the module
        (["encoder.n_averaged", "encoder.module.a"], ["a"]),  # in a part of the model's
        (["n_averaged"], ["a"]),
        (["n_averaged", "module.a"], ["n_averaged", "module.a"]),
        (["n_averaged", "module.a"], []),  # nothing is known of the model
    ],
)
def test_what_is_not_averaged_models(names: list[str], expected: list[str]) -> None:
    assert count_of_averages(names, expected) is None
