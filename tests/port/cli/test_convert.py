"""`port convert`: what it writes, what it prints, and that whatever is wrong with the input writes nothing."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch import nn

from port.cli import main
from port.errors import BrokenWeights
from port.mapping import Mapping, read_mapping

MODELS = '''
"""Models as a user has them."""

import torch
from flax import linen, nnx
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, width, (3, 2)), nn.BatchNorm2d(width), nn.ReLU())
        self.classifier = nn.Linear(width * 6, 5)


class FlaxNet(nnx.Module):
    def __init__(self, width: int = 4, *, rngs: nnx.Rngs):
        self.conv = nnx.Conv(3, width, (3, 2), padding="VALID", rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.classifier = nnx.Linear(width * 6, 5, rngs=rngs)


class LinenNet(linen.Module):
    width: int = 4

    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.BatchNorm(use_running_average=True)(linen.Conv(self.width, (3, 2), padding="VALID")(x)))
        return linen.Dense(5)(x.reshape(x.shape[0], -1))


class Looks(Net):
    """Looks at a value while it is built: no meta device for it."""

    def __init__(self):
        super().__init__(width=int(torch.tensor([4]).item()))


def fails():
    raise RuntimeError("no luck today")
'''
RENAMES = ("--rename", r"features\.0=conv", "--rename", r"features\.1=norm")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models and a checkpoint of them, where the user stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "user_models", raising=False)
    (tmp_path / "user_models.py").write_text(MODELS)
    torch.save({"epoch": 7, "state_dict": {f"module.{key}": value for key, value in state().items()}}, "net.pth")
    return tmp_path


def state(seed: int = 0) -> dict[str, torch.Tensor]:
    """Random non-zero weights of the Net."""
    random = np.random.default_rng(seed)
    shapes = {
        "features.0.weight": (4, 3, 3, 2),
        "features.0.bias": (4,),
        "features.1.weight": (4,),
        "features.1.bias": (4,),
        "features.1.running_mean": (4,),
        "features.1.running_var": (4,),
        "classifier.weight": (5, 24),
        "classifier.bias": (5,),
    }
    tensors = {key: torch.from_numpy(random.uniform(0.5, 2, shape).astype(np.float32)) for key, shape in shapes.items()}
    return tensors | {"features.1.num_batches_tracked": torch.tensor(11)}


def run(*arguments: str) -> int:
    return main(["convert", *arguments])


def written(folder: Path) -> set[str]:
    """What a command may have left, whole, half or hidden."""
    inputs = {"user_models.py", "__pycache__", "net.pth", "bad", "bad.pth", "bad.safetensors", "mapping.toml", "hit"}
    return {path.name for path in folder.iterdir()} - inputs


# %% What it does


def test_names_in_a_file_do_not_act_on_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "strange name\n\x1b[31m"
    torch.save(state() | {name: torch.ones(2)}, "bad.pth")
    assert run("bad.pth", "--torch", "user_models:Net", "-o", "x.npz") == 2
    assert "  unexpected: strange name\\x0a\\x1b[31m" in capsys.readouterr().err.splitlines()
    torch.save({"state_dict": state(), name: 3}, "bad.pth")
    for options in (("--dry-run",), ("-o", "x\x1b[31m.npz")):
        assert run("bad.pth", "--torch", "user_models:Net", *options) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said and "strange name\\x0a\\x1b[31m" in said
    assert run("gone\x1b[31m.pth", "--torch", "user_models:Net", "-o", "x.npz") == 2
    assert capsys.readouterr().err == "port: gone\\x1b[31m.pth: there is no such file or folder\n"


def test_what_is_no_file_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    assert run("net.pth", "--torch", "user_models:Net", "-o", "pipe", "--overwrite") == 2
    assert "pipe is neither a file nor a folder" in capsys.readouterr().err
    assert Path("pipe").is_fifo()
    Path("x.npz").touch()
    assert run("net.pth", "--torch", "user_models:Net", "-o", "x.npz") == 2
    assert "x.npz is there already: choose another name, or replace it with --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["safetensors", "msgpack", "orbax"])
def test_there_and_back_by_the_torch_model(form: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "-o", "flax", "--format", form) == 0
    assert "9 tensors of net.pth fit, written to flax" in capsys.readouterr().out
    assert run("flax", "--torch", "user_models:Net", "--reverse", "-o", "back.safetensors") == 0
    back = load_file("back.safetensors")
    assert set(back) == set(state())
    for key, tensor in state().items():
        np.testing.assert_array_equal(back[key], tensor.numpy(), strict=True)
    assert written(folder) == {"flax", "back.safetensors"}


def test_by_the_flax_model_alone_and_back(folder: Path) -> None:
    by = ("--flax", "user_models:FlaxNet", *RENAMES)
    assert run("net.pth", *by, "--fold", "classifier=4,3,2", "-o", "flax.safetensors", "--save-mapping", "m.toml") == 0
    flax = load_file("flax.safetensors")
    weight = state()["classifier.weight"].numpy()
    np.testing.assert_array_equal(
        flax["params.classifier.kernel"], weight.reshape(5, 4, 3, 2).transpose(0, 2, 3, 1).reshape(5, 24).T
    )
    assert flax["torch_only.features.1.num_batches_tracked"] == 11
    assert run("flax.safetensors", "--mapping", "m.toml", "--reverse", "-o", "back.safetensors") == 0
    back = load_file("back.safetensors")
    for key, tensor in state().items():
        np.testing.assert_array_equal(back[key], tensor.numpy(), strict=True)


def test_a_linen_model_by_an_example_input(folder: Path) -> None:
    renames = ("features.0=Conv_0", "features.1=BatchNorm_0", "classifier=Dense_0")
    by = [word for text in renames for word in ("--rename", text.replace(".", r"\."))]
    by += ["--flax", "user_models:LinenNet", "--input", "1,5,3,3", "--torch", "user_models:Net"]
    assert run("net.pth", *by, "--fold", "classifier=4,3,2", "-o", "flax.safetensors") == 0
    flax = load_file("flax.safetensors")
    assert set(flax) >= {"params.Conv_0.kernel", "batch_stats.BatchNorm_0.var", "params.Dense_0.kernel"}


def test_a_dry_run_prints_every_tensor_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "--dry-run", "--dtype", "bfloat16") == 0
    printed = capsys.readouterr().out
    for key in state():
        assert key in printed
    assert "params.features.0.kernel" in printed
    assert "(4, 3, 3, 2) → (3, 2, 3, 4)" in printed
    assert "permute(2, 3, 1, 0)" in printed
    assert "float32 → bfloat16" in printed
    assert "epoch" in printed  # left out, with the reason
    assert "--fold classifier=4,HEIGHT,WIDTH" in printed  # a linear layer behind a spatial one
    assert written(folder) == set()


def test_dtype_casts_the_floating_ones(folder: Path) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "--dtype", "float16", "-o", "flax.safetensors") == 0
    flax = load_file("flax.safetensors")
    assert {array.dtype.name for array in flax.values()} == {"float16", "int64"}


def test_nan_is_kept_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = state()
    weights["classifier.weight"][1, 2:4] = torch.nan
    torch.save(weights, "net.pth")
    assert run("net.pth", "--torch", "user_models:Net", "-o", "flax.safetensors") == 0
    assert "classifier.weight: 2 of its elements" in capsys.readouterr().out
    assert np.isnan(load_file("flax.safetensors")["params.classifier.kernel"]).sum() == 2


def test_a_constructor_that_takes_a_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("user_configured.py").write_text(
        "from dataclasses import dataclass\nfrom user_models import Net\n\n\n"
        "@dataclass\nclass Config:\n    width: int = 3\n\n\ndef made():\n    return {'config': Config(4)}\n\n\n"
        "class Configured(Net):\n    def __init__(self, config):\n        super().__init__(config.width)\n"
    )
    target = ("net.pth", "--torch", "user_configured:Configured")
    for given in ('{"config": {"@user_configured:Config": {"width": 4}}}', "user_configured:made"):
        assert run(*target, "--kwargs", given, "-o", "a.safetensors", "--overwrite") == 0
    assert run(*target, "-o", "b.safetensors") == 2
    said = capsys.readouterr().err
    assert "missing 1 required positional argument: 'config'" in said
    assert """--kwargs '{"config": {"@user_configured:Config": {"width": …}}}'""" in said


def test_the_file_says_what_the_flax_module_is_constructed_with(folder: Path) -> None:
    torch.save({"fc.weight": torch.ones(3, 4)}, "fc.pth")
    Path("sized.py").write_text(
        "from dataclasses import dataclass\nfrom flax import nnx\n"
        "from port.nn import load_weights, saved_arguments\n\n\n"
        "@dataclass\nclass Config:\n    width: int = 3\n\n\n"
        "class Sized(nnx.Module):\n    def __init__(self, config, out=2, *, rngs):\n"
        "        self.fc = nnx.Linear(config.width, out, use_bias=False, rngs=rngs)\n\n\n"
        "def load(path):\n    model = Sized(**saved_arguments(path, Sized, {}, config=Config()), rngs=nnx.Rngs(0))\n"
        "    load_weights(model, path)\n    return model\n"
    )
    arguments = '{"config": {"@sized:Config": {"width": 4}}, "out": 3}'
    assert run("fc.pth", "--flax", "sized:Sized", "--flax-kwargs", arguments, "-o", "sized.safetensors") == 0
    with safe_open("sized.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["port.arguments"]) == {"config": {"width": 4}, "out": 3}
    import sized  # type: ignore[import-not-found]

    np.testing.assert_array_equal(sized.load("sized.safetensors").fc.kernel[...], np.ones((4, 3)))
    assert run("sized.safetensors", "--reverse", "-o", "back.safetensors") == 0
    np.testing.assert_array_equal(load_file("back.safetensors")["fc.weight"], np.ones((3, 4)))


def test_shards_and_back(folder: Path) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "--max-shard-size", "400B", "-o", "flax") == 0
    assert len(list(Path("flax").glob("*.safetensors"))) > 1
    assert run("flax", "--torch", "user_models:Net", "--reverse", "-o", "back.safetensors") == 0
    np.testing.assert_array_equal(load_file("back.safetensors")["classifier.weight"], state()["classifier.weight"])


def test_a_folder_of_the_hub_to_orbax_for_a_mesh_and_back(folder: Path) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "-o", "plain.orbax") == 0
    assert run("plain.orbax", "--reverse", "--format", "hf", "--max-shard-size", "400B", "-o", "hub/") == 0
    assert not Path("hub/config.json").exists()
    Path("hub/config.json").write_text('{"architectures":  ["Net"]}')
    Path("hub/tokenizer.json").write_text("{}\n\n")
    assert run("hub", "--torch", "user_models:Net", "--mesh", "fsdp=2", "-o", "cut.orbax") == 0
    again = ("--mesh", "data=3,fsdp=2", "--sharding", ".*kernel=longest:fsdp", "--sharding", ".*=-")
    assert run("hub", "--torch", "user_models:Net", *again, "-o", "cut.orbax", "--overwrite") == 0
    assert "longest" not in (folder / "cut.orbax" / "_sharding").read_text()
    assert run("cut.orbax", "--reverse", "--format", "hf", "--like", "hub", "-o", "back") == 0
    for name in ("config.json", "tokenizer.json"):
        assert (folder / "back" / name).read_bytes() == (folder / "hub" / name).read_bytes()
    back = load_file("back/model.safetensors")
    for name, tensor in state().items():
        np.testing.assert_array_equal(back[name], tensor.numpy())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--mesh", "2", "-o", "w.orbax"], "axes, each with the number of its devices, as in fsdp=8"),
        (
            ["--mesh", "data=2,fsdp=2", "-o", "w.orbax"],
            "needs a sharding, which says which of them a tensor is sharded by",
        ),
        (["--mesh", "a=2", "--sharding", "none=a", "-o", "w.orbax"], "the pattern 'none' matches no tensor"),
        (["--sharding", ".*=fsdp", "-o", "w.orbax"], "pass the mesh too"),
        (["--mesh", "fsdp=2", "-o", "w.msgpack"], "mesh needs format='orbax'; msgpack cannot store it"),
        (["--format", "hf", "-o", "w"], "Flax variables are not written as hf"),
        (["--like", "hub", "-o", "w.orbax"], "hub is not a folder of the hub: it has no config.json"),
    ],
)
def test_what_a_mesh_and_a_folder_of_the_hub_are_for(
    options: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("net.pth", "--torch", "user_models:Net", *options) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert written(folder) == set()


def test_a_constructor_that_looks_at_values_and_one_with_arguments(folder: Path) -> None:
    assert run("net.pth", "--torch", "user_models:Looks", "-o", "a.safetensors") == 0
    assert run("net.pth", "--torch", "user_models:Net", "--kwargs", '{"width": 4}', "-o", "b.safetensors") == 0
    assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()


def test_the_mapping_that_is_saved_is_the_mapping(folder: Path) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "-o", "a.safetensors", "--save-mapping", "m.toml") == 0
    mapping = read_mapping("m.toml")
    assert isinstance(mapping, Mapping)
    assert {source for entry in mapping.entries for source in entry.sources} == set(state())
    assert run("net.pth", "--mapping", "m.toml", "-o", "b.safetensors") == 0
    assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()


def test_pairs_of_the_users_own(folder: Path) -> None:
    (folder / "own.py").write_text(
        "import torch\nfrom torch import nn\n\n\n"
        "class Turned(nn.Linear):\n"
        "    def forward(self, x):\n        return x @ self.weight.flip(0).T\n"
    )
    (folder / "pairs.py").write_text(
        "from port.moves import Permute\nfrom port.pairs import LayerPair, ParamPair\n\n"
        'PAIRS = [LayerPair("own.Turned", "flax.nnx.Linear", '
        '(ParamPair("weight", "kernel", (Permute((1, 0)),)), ParamPair("bias", "bias")))]\n'
    )
    torch.save({"weight": torch.randn(3, 2), "bias": torch.randn(3)}, "own.pth")
    arguments = ("own.pth", "--torch", "own:Turned", "--kwargs", '{"in_features": 2, "out_features": 3}')
    assert run(*arguments, "-o", "own.safetensors") == 2
    try:
        assert run(*arguments, "-o", "own.safetensors", "--pairs", "pairs.py") == 0
    finally:
        import port.pairs.registered

        port.pairs.registered._pairs.clear()
    assert load_file("own.safetensors")["params.kernel"].shape == (2, 3)


# %% What is wrong with the checkpoint: one message, exit 2, nothing written


def renamed(weights: dict[str, torch.Tensor]) -> None:
    weights["classifier.wieght"] = weights.pop("classifier.weight")


def transposed(weights: dict[str, torch.Tensor]) -> None:
    weights["classifier.weight"] = weights["classifier.weight"].T.contiguous()


def added(weights: dict[str, torch.Tensor]) -> None:
    weights["classifier.extra"] = torch.ones(3)


def dropped(weights: dict[str, torch.Tensor]) -> None:
    del weights["features.1.running_var"]


def another(weights: dict[str, torch.Tensor]) -> None:
    weights.clear()
    weights.update(nn.LSTM(3, 4).state_dict())


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (renamed, ["missing: classifier.weight (nearest: classifier.wieght)", "unexpected: classifier.wieght"]),
        (transposed, ["classifier.weight has shape (24, 5), expected (5, 24)"]),
        (added, ["unexpected: classifier.extra"]),
        (dropped, ["missing: features.1.running_var"]),
        (another, ["missing: classifier.bias", "missing: features.0.weight", "unexpected: weight_ih_l0"]),
    ],
)
def test_a_wrong_tensor_is_named(
    fault: Callable[[dict[str, torch.Tensor]], None],
    named: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    weights = state()
    fault(weights)
    torch.save(weights, "bad.pth")
    assert run("bad.pth", "--torch", "user_models:Net", "-o", "out.safetensors") == 2
    told = capsys.readouterr().err
    for text in named:
        assert text in told
    assert written(folder) == set()


class Bomb:
    """Would make a file if it were unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (open, ("hit", "w"))


def _truncated(folder: Path) -> None:
    whole = (folder / "net.pth").read_bytes()
    (folder / "bad").write_bytes(whole[: len(whole) // 2])


def _lying(folder: Path) -> None:
    save_file({"classifier.weight": np.ones((5, 24), np.float32)}, "bad")
    contents = bytearray((folder / "bad").read_bytes())
    place = contents.index(b"480]")
    contents[place : place + 3] = b"980"
    (folder / "bad").write_bytes(contents)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda folder: None, id="missing"),
        pytest.param(lambda folder: (folder / "bad").write_bytes(b""), id="empty"),
        pytest.param(lambda folder: (folder / "bad").write_bytes(b"\x93NUMPY" + bytes(99)), id="wrong magic"),
        pytest.param(lambda folder: (folder / "bad").mkdir(), id="an empty folder"),
        pytest.param(_truncated, id="truncated"),
        pytest.param(_lying, id="a header that lies"),
        pytest.param(lambda folder: (folder / "bad").write_bytes(pickle.dumps(Bomb())), id="a pickle that runs code"),
        pytest.param(lambda folder: torch.save(Bomb(), folder / "bad"), id="a pickle that runs code, zipped"),
        pytest.param(lambda folder: torch.save(nn.Linear(2, 3), folder / "bad"), id="a whole module"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_of_it_is_run(
    make: Callable[[Path], None], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(folder)
    assert run("bad", "--torch", "user_models:Net", "-o", "out.safetensors") == 2
    told = capsys.readouterr().err
    assert told.startswith("port: bad")
    assert not (folder / "hit").exists()
    assert written(folder) == set()


# %% What is wrong with the command


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--torch", "user_models:Net"], "-o PATH to write the result, or --dry-run"),
        (["--torch", "user_models:Net", "-o", "x", "--dry-run"], "one of them"),
        (["-o", "x"], "pass a model, --torch MODULE:NAME or --flax MODULE:NAME (in Python"),
        (["--torch", "user_models:Net", "-o", "x" * 300], "the name is too long"),
        (["--torch", "user_models:Net", "-o", "x/", "--max-shard-size", "1KB"], "x/: the slash at its end"),
        (["--torch", "user_models:Net", "-o", "x.orbax", "--mesh", "fsdp=2147483648"], "are 2147483648 devices"),
        (["--torch", "user_models:Net", "-o", "x.orbax", "--mesh", "fsdp=8,fsdp=2"], "the axis fsdp occurs twice"),
        (["--torch", "user_models", "-o", "x"], "takes module:name"),
        (["--torch", "no_such_module:Net", "-o", "x"], "no_such_module cannot be imported"),
        (["--torch", "user_models:Nett", "-o", "x"], "unknown name in user_models 'Nett'; there are: Net"),
        (["--torch", "user_models:fails", "-o", "x"], "no luck today"),
        (["--torch", "user_models:FlaxNet", "-o", "x"], "user_models:FlaxNet is a Flax module: use --flax"),
        (["--torch", "user_models:LinenNet", "-o", "x"], "use --flax"),
        (["--torch", "user_models:Net", "--kwargs", '{"width": "w"}', "-o", "x"], "cannot be built"),
        (["--torch", "user_models:Net", "--reverse", "-o", "x"], "a torch state dict already"),
        (["--torch", "user_models:Net", "--save-mapping", "x", "-o", "x"], "choose another path for it"),
        (["--torch", "user_models:Net", "--save-mapping", "x/m.toml", "-o", "x"], "choose another path for it"),
        (["--torch", "user_models:Net", "--save-mapping", "x", "-o", "x/flax"], "choose another path for it"),
        (["--torch", "user_models:Net", "--save-mapping", "./net.pth", "-o", "x"], "where the source is"),
        (["--torch", "user_models:Net", "--save-mapping", "mapping.toml", "-o", "x"], "is there already"),
        (["--torch", "user_models:Net", "--save-mapping", "bad", "-o", "x", "--overwrite"], "bad is a folder"),
        (["--torch", "user_models:Net", "--save-mapping", "mapping.toml/m", "-o", "x"], "mapping.toml is a file"),
        (["--torch", "user_models:Net", "--save-mapping", "m.toml", "--dry-run"], "leave one of them out"),
        (["--torch", "user_models:Net", "-o", "net.pth/x"], "net.pth is a file, not a folder"),
        (["--flax", "user_models:Net", "-o", "x"], "not an nnx or Linen module"),
        (["--flax", "user_models:LinenNet", "-o", "x"], "--input"),
        (["--flax", "user_models:LinenNet", "--input", "1,x", "-o", "x"], "an input is a shape"),
        (["--torch", "user_models:Net", "--kwargs", "{width: 4}", "-o", "x"], "JSON"),
        (["--torch", "user_models:Net", "--kwargs", "[4]", "-o", "x"], "JSON object"),
        (["--torch", "user_models:Net", "--kwargs", '{"height": 4}', "-o", "x"], "height"),
        (["--torch", "user_models:Net", "--dtype", "float23", "-o", "x"], "unknown dtype 'float23'"),
        (["--torch", "user_models:Net", "--fold", "classifier", "-o", "x"], "LAYER=C,H,W"),
        (["--torch", "user_models:Net", "--fold", "classifier=5,7", "-o", "x"], "35 elements"),
        (["--torch", "user_models:Net", "--fold", "nothing=4,6", "-o", "x"], "no nothing.weight"),
        (["--torch", "user_models:Net", "--rename", "(=x", "-o", "x"], "not a regular expression"),
        (["--torch", "user_models:Net", "--mapping", "mapping.toml", "-o", "x"], "mapping.toml"),
        (["--torch", "user_models:Net", "--pairs", "none.py", "-o", "x"], "none.py"),
        (["--torch", "user_models:Net", "--max-shard-size", "much", "-o", "x"], "as in 500MB"),
        (["--torch", "user_models:Net", "--reverse", "--format", "orbax", "-o", "x"], "safetensors"),
        (["--torch", "user_models:Net", "--key", "optimizer", "-o", "x"], "optimizer"),
        (["--torch", "user_models:Net", "-o", "net.pth"], "net.pth"),
    ],
)
def test_a_wrong_option_is_told(
    arguments: list[str], named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mapping.toml").write_text("[[rename]\n")
    (folder / "bad").mkdir()
    before = (folder / "net.pth").read_bytes()
    assert run("net.pth", *arguments) == 2
    assert named in capsys.readouterr().err
    assert written(folder) == set()
    assert (folder / "net.pth").read_bytes() == before
    assert (folder / "mapping.toml").read_text() == "[[rename]\n"


def test_a_mapping_that_is_there_is_replaced_only_when_that_is_said(folder: Path) -> None:
    (folder / "m.toml").write_text("mine")
    arguments = ("net.pth", "--torch", "user_models:Net", "-o", "x", "--save-mapping", "m.toml")
    assert run(*arguments) == 2
    assert ((folder / "m.toml").read_text(), (folder / "x").exists()) == ("mine", False)
    assert run(*arguments, "--overwrite") == 0
    assert isinstance(read_mapping("m.toml"), Mapping)
    assert written(folder) == {"x", "m.toml"}


def test_weights_that_cannot_be_written_leave_no_mapping(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise BrokenWeights("no space left")

    monkeypatch.setattr("port.weights.conversion.write_checkpoint", full)
    assert run("net.pth", "--torch", "user_models:Net", "-o", "x", "--save-mapping", "m.toml") == 2
    assert written(folder) == set()


@pytest.mark.parametrize("model", [("--torch", "user_models:Net"), ("--flax", "user_models:FlaxNet", *RENAMES)])
def test_the_wrong_direction_is_told_in_a_sentence(
    model: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("net.pth", "--torch", "user_models:Net", "-o", "bad.safetensors") == 0
    save_file(load_file("bad.safetensors"), "bare.safetensors")  # without saying that they are Flax's
    capsys.readouterr()
    for file in ("bad.safetensors", "bare.safetensors"):
        assert run(file, *model, "-o", "x") == 2
        told = capsys.readouterr().err
        assert told == f"port: {file}: these are Flax variables already: did you mean --reverse?\n"
    weights = {key: tensor for key, tensor in state().items() if key != "classifier.bias"}
    torch.save(weights, "bad.pth")
    assert run("bad.pth", *model, "-o", "x") == 2
    assert "missing: classifier.bias" in capsys.readouterr().err, "torch's, the right way, and not whole"


def test_a_renaming_that_is_wrong_is_told_as_it_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by = ("--flax", "user_models:FlaxNet", "--rename", r"features\.0=convv", "--rename", r"features\.1=norm")
    assert run("net.pth", *by, "--rename", "head=classifier", "-o", "x") == 2
    told = capsys.readouterr().err
    assert "missing: conv.bias (nearest: convv.bias)" in told
    assert "unexpected: features.0.bias (renamed to convv.bias)" in told
    assert "rename: 'head' matches none of torch's names" in told
    assert "'features" not in told


def test_a_renaming_with_nothing_to_rename_is_remarked_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by = ("--flax", "user_models:FlaxNet", *RENAMES, "--rename", "head=classifier")
    assert run("net.pth", *by, "-o", "x") == 0
    told = capsys.readouterr().out
    assert "look: rename: 'head' matches none of torch's names" in told
    assert told.count("matches none") == 1


def test_an_embedding_whose_options_flax_lacks_is_remarked_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "embeddings.py").write_text(
        "from flax import nnx\nfrom torch import nn\n\n\n"
        "class Torch(nn.Module):\n    def __init__(self, padding):\n        super().__init__()\n"
        "        self.emb = nn.Embedding(5, 3, padding_idx=padding)\n\n\n"
        "class Flax(nnx.Module):\n    def __init__(self, *, rngs):\n        self.emb = nnx.Embed(5, 3, rngs=rngs)\n"
    )
    torch.save({"emb.weight": torch.randn(5, 3)}, "bad.pth")
    by = ("bad.pth", "--torch", "embeddings:Torch", "--flax", "embeddings:Flax", "--dry-run", "--torch-kwargs")
    assert run(*by, '{"padding": 0}') == 0
    assert "look: emb: padding_idx=0 in torch: its row gets no gradient" in capsys.readouterr().out
    assert run(*by, '{"padding": null}') == 0
    assert "padding_idx" not in capsys.readouterr().out


@pytest.mark.sweep
def test_an_index_of_shards_by_the_command_itself(folder: Path) -> None:
    weights = {key: tensor.numpy() for key, tensor in state().items()}
    keys = sorted(weights)
    for name, part in {"a.safetensors": keys[:4], "b.safetensors": keys[4:]}.items():
        save_file({key: weights[key] for key in part}, name)
    places = {key: "a.safetensors" if key in keys[:4] else "b.safetensors" for key in keys}
    Path("model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    command = [sys.executable, "-m", "port", "convert", "model.safetensors.index.json", "--torch", "user_models:Net"]
    done = subprocess.run([*command, "-o", "flax.safetensors"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    Path("b.safetensors").unlink()
    done = subprocess.run([*command, "-o", "again.safetensors"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "b.safetensors" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("again.safetensors").exists()


# %% The optimizer beside the weights


def checkpoint(spoil: Callable[[dict[str, Any]], Any] = lambda saved: None) -> None:
    """``bad``: the Net's weights and an AdamW behind one step."""
    weights = {name: value for name, value in state().items() if value.dtype == torch.float32 and "running" not in name}
    parameters = {name: nn.Parameter(value) for name, value in weights.items()}
    optimizer = torch.optim.AdamW(parameters.items())
    for parameter in parameters.values():
        parameter.grad = torch.full_like(parameter, 0.3)
    optimizer.step()
    saved = optimizer.state_dict()
    spoil(saved)
    torch.save({"model": state(), "optimizer": saved}, "bad")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda saved: saved.update(param_groups=3), "bad: optimizer: param_groups must be a list of groups, got 3"),
        (lambda saved: saved["param_groups"][0].pop("params"), "it has no 'params'"),
        (lambda saved: saved["param_groups"][0].pop("betas"), "param_groups[0] has no betas"),
        (lambda saved: saved["param_groups"][0].update(lr="a"), "lr: expected a number of at least 0, got 'a'"),
        (lambda saved: saved["state"].update({0: 5}), "state[0] must be a parameter's state by torch's keys, got 5"),
        (lambda saved: saved["state"][0].update(step="a"), "step must be a number of steps, got 'a'"),
        (lambda saved: saved["state"][3].pop("exp_avg"), "exp_avg"),
    ],
)
def test_an_optimizer_that_is_malformed_writes_nothing(
    spoil: Callable[[Any], Any], named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("bad", "--torch", "user_models:Net", "--optimizer", "torch.optim:AdamW", "-o", "out.safetensors")
    checkpoint(spoil)
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("port: bad: ")
    assert named in told
    assert len(told.splitlines()) == 1
    assert written(folder) == set()
    checkpoint()
    assert run(*arguments) == 0


def test_an_optimizer_by_another_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint()
    arguments = ("bad", "--torch", "user_models:Net", "-o", "out.safetensors", "--optimizer")
    assert run(*arguments, "torch.optim:SparseAdam") == 2
    assert "updates only the rows in a sparse gradient" in capsys.readouterr().err
    assert written(folder) == set()
    assert run(*arguments, "torch.optim:Adam") == 0
    told = capsys.readouterr().out
    assert "look: optimizer: its groups have decoupled_weight_decay=True" in told
    assert "optax.adamw(0.001, weight_decay=0.01)" in told


# %% The way back by the file itself, the suffix, a part of a model


def test_the_way_back_needs_nothing_but_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fold = ("--fold", "classifier=4,3,2")
    assert run("net.pth", "--torch", "user_models:Net", *fold, "-o", "flax.npz") == 0
    for name in ("back.pt", "back.bin", "back.safetensors", "back.npz"):
        assert run("flax.npz", "--reverse", "-o", name) == 0
        printed = capsys.readouterr().out
        assert "without a wrapper's prefix" in printed
        assert "not restored, the conversion left it out: epoch" in printed
    for name in ("back.pt", "back.bin"):
        back = torch.load(name, weights_only=True)
        assert set(back) == set(state()) and all(torch.equal(back[key], value) for key, value in state().items())
    for back in (load_file("back.safetensors"), dict(np.load("back.npz"))):
        assert set(back) == set(state())
        for key, tensor in state().items():
            np.testing.assert_array_equal(back[key], tensor.numpy(), strict=True)
    assert run("flax.npz", "--reverse", "--dry-run") == 0
    assert "params.classifier.kernel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--torch", "user_models:Net", "-o", "x.pt"), "not written as torch"),
        (("--torch", "user_models:Net", "-o", "x.h5"), ".h5 is not the suffix of a format"),
        (("--torch", "user_models:Net", "-o", "x.npz", "--format", "orbax"), "x.npz has the suffix of npz"),
        (("--torch", "user_models:Net", "-o", "x.npz", "--max-shard-size", "5GB"), "max_shard_size needs"),
        (("--torch", "user_models:Net", "-o", "x.npz", "--dtype", "bfloat16"), "numpy's files cannot name"),
    ],
)
def test_a_suffix_that_cannot_be_is_refused(
    arguments: tuple[str, ...], named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("net.pth", *arguments) == 2
    assert named in capsys.readouterr().err
    assert written(folder) == set()


def test_a_part_of_a_model_is_taken_when_that_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({key: value for key, value in state().items() if key.startswith("features")}, "bad.pth")
    for model in (
        ("--torch", "user_models:Net"),
        ("--torch", "user_models:Net", "--flax", "user_models:FlaxNet", *RENAMES),
    ):
        assert run("bad.pth", *model, "-o", "x.npz") == 2
        assert "The file has a part of the model, 7 tensors, all of which fit" in capsys.readouterr().err
        assert run("bad.pth", *model, "-o", "x.npz", "--partial", "--overwrite") == 0
        assert "classifier.weight: not in the file, which has a part of the model" in capsys.readouterr().out
        assert run("x.npz", "--reverse", "-o", "back.pt", "--overwrite") == 0
        assert set(torch.load("back.pt", weights_only=True)) == {key for key in state() if key.startswith("features")}


def test_torchs_warnings_of_a_model_without_memory_are_not_shown(
    folder: Path, recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "loading.py").write_text(
        "import torch, warnings\nfrom user_models import Net\n\n\n"
        "def made():\n    net = Net()\n    saved = torch.load('net.pth', map_location='cpu')\n"
        "    net.load_state_dict(saved['state_dict'])\n    return net\n"
    )
    torch.save({"state_dict": state()}, "net.pth")
    assert run("net.pth", "--torch", "loading:made", "-o", "x.npz") == 0
    assert (len(recwarn), capsys.readouterr().err) == (0, "")
