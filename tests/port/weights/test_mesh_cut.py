"""How a mesh and its rules are said, how they cut tensors, and how large a chunk is."""

from __future__ import annotations

import pytest

from port.errors import UsageError
from port.weights.mesh_cut import Longest, MeshCut, chunk_of, mesh_axes_of, sharding_table

AXES = {"data": 2, "fsdp": 4}


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((6, 40), (None, "fsdp")),
        ((24, 10), ("fsdp",)),
        ((7, 9), ()),
        ((8, 8), ("fsdp",)),
        ((), ()),
        ((0, 4), (None, "fsdp")),
    ],
)
def test_the_longest_axis_that_the_devices_divide(shape: tuple[int, ...], spec: tuple[str | None, ...]) -> None:
    assert Longest("fsdp", 4)("kernel", shape) == spec


@pytest.mark.parametrize(
    ("shard", "limit", "is_cut", "chunk"),
    [
        ((12, 10), 10**6, True, (12, 10)),
        ((12, 10), 200, True, (4, 10)),
        ((12, 10), 200, False, (5, 10)),
        ((7, 10), 200, True, (1, 10)),
        ((4001, 10), 40 * 100, True, (4001, 10)),
        ((4001, 10), 40 * 100, False, (100, 10)),
        ((0, 10), 100, True, (1, 10)),
        ((), 100, False, ()),
    ],
)
def test_a_shard_is_a_whole_number_of_chunks(
    shard: tuple[int, ...], limit: int, is_cut: bool, chunk: tuple[int, ...]
) -> None:
    assert chunk_of(shard, 4, limit, is_cut=is_cut) == chunk


@pytest.mark.parametrize("text", ["fsdp", "fsdp=0", "=8", "fsdp=-8", "data=2,"])
def test_what_is_no_mesh(text: str) -> None:
    with pytest.raises(UsageError, match=r"axes, each with the number of its devices, as in fsdp=8 or data=2,fsdp=4"):
        mesh_axes_of(text)
    assert mesh_axes_of(" fsdp = 8 ") == {"fsdp": 8}
    assert list(mesh_axes_of("data=2, fsdp=4").items()) == [("data", 2), ("fsdp", 4)]


def test_a_table_of_patterns() -> None:
    table = sharding_table([".*=a.kernel=fsdp,-", "embed=data+fsdp", ".*bias=-", ".*=longest:fsdp"], AXES)
    assert table == {
        ".*=a.kernel": ("fsdp", None),
        "embed": (("data", "fsdp"),),
        ".*bias": (),
        ".*": Longest("fsdp", 4),
    }


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([".*"], r"takes PATTERN=AXES, as in '.\*kernel=fsdp,-'"),
        (["=fsdp"], "takes PATTERN=AXES"),
        ([".*="], "takes PATTERN=AXES"),
        ([".*=-", ".*=fsdp"], "'.\\*' occurs twice"),
        ([".*=longest:tensor"], "names tensor, but the mesh has data, fsdp"),
    ],
)
def test_what_is_no_table(texts: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        sharding_table(texts, AXES)


def test_an_axis_has_one_size_and_the_devices_are_not_countless() -> None:
    with pytest.raises(UsageError, match=r"the axis fsdp occurs twice in 'fsdp=8,fsdp=2'"):
        mesh_axes_of("fsdp=8,fsdp=2")
    with pytest.raises(UsageError, match=r"fsdp=2147483648 are 2147483648 devices.* at most 1000000"):
        MeshCut(mesh_axes_of("fsdp=2147483648"))
    with pytest.raises(UsageError, match="a=65536 × b=65536 are 4294967296 devices"):
        MeshCut(mesh_axes_of("a=65536,b=65536"), {".*": ()})


def test_a_mesh_of_several_axes_says_which_cut() -> None:
    with pytest.raises(UsageError, match=r"several axes \(data, fsdp\) needs a sharding.*longest:fsdp"):
        MeshCut(AXES)
    assert MeshCut({"fsdp": 8}).rules == {".*": Longest("fsdp", 8)}
