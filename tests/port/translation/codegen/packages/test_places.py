"""Paths of a package's files: the original's names and folders, relative to their common folder."""

from __future__ import annotations

import pytest

from port.translation.codegen.packages.places import FilePlace, dotted_place, places_of, relative_module

PLACES = {
    "one file": ({"/w/pkg/model.py": "pkg.model"}, [("model",)]),
    "a library": (
        {"/s/vision/models/resnet.py": "vision.models.resnet", "/s/vision/ops/misc.py": "vision.ops.misc"},
        [("models", "resnet"), ("ops", "misc")],
    ),
    "one name in two folders": (
        {"/w/pkg/a/layers.py": "pkg.a.layers", "/w/pkg/b/layers.py": "pkg.b.layers"},
        [("a", "layers"), ("b", "layers")],
    ),
    "two libraries": (
        {"/w/pkg/model.py": "pkg.model", "/s/vision/ops/misc.py": "vision.ops.misc"},
        [("pkg", "model"), ("vision", "ops", "misc")],
    ),
    "a package's own file": (
        {"/w/pkg/__init__.py": "pkg", "/w/pkg/layers/norms.py": "pkg.layers.norms"},
        [("__init__",), ("layers", "norms")],
    ),
    "loaded by hand under other names": (
        {"/w/a/model.py": "first", "/w/b/model.py": "second"},
        [("a", "model"), ("b", "model")],
    ),
    "alike for two folders": (
        {"/w/a/x/model.py": "first", "/w/b/x/model.py": "second"},
        [("a", "x", "model"), ("b", "x", "model")],
    ),
    "no name of Python's": ({"/w/my-model.py": "loaded", "/w/3d.py": "other"}, [("my_model",), ("_3d",)]),
    "made alike by that": ({"/w/my-net.py": "a", "/w/my_net.py": "my_net"}, [("my_net",), ("my_net_2",)]),
    "a file beside a folder": (
        {"/w/layers.py": "layers", "/v/layers/norms.py": "layers.norms"},
        [("layers_2",), ("layers", "norms")],
    ),
    "the written test": ({"/w/test_net.py": "test_net"}, [("test_net_2",)]),
}


@pytest.mark.parametrize("case", PLACES)
def test_places(case: str) -> None:
    files, expected = PLACES[case]
    assert list(places_of(files, reserved=["test_net"]).values()) == expected


@pytest.mark.parametrize(
    ("there", "here", "module"),
    [
        (("norms",), ("model",), ".norms"),
        (("norms",), ("layers", "attention"), "..norms"),
        (("layers", "norms"), ("layers", "attention"), ".norms"),
        (("ops", "misc"), ("models", "resnet"), "..ops.misc"),
        (("layers", "__init__"), ("model",), ".layers"),
        (("layers", "__init__"), ("layers", "attention"), "."),
        (("__init__",), ("layers", "attention"), ".."),
        (("layers", "attention"), ("layers", "__init__"), ".attention"),
    ],
)
def test_how_a_file_imports_another(there: FilePlace, here: FilePlace, module: str) -> None:
    assert relative_module(there, here) == module


def test_modules_of_places() -> None:
    assert [dotted_place(place) for place in (("__init__",), ("a", "__init__"), ("a", "b"))] == ["", "a", "a.b"]
