"""`port translate`: the folder that it writes, what it prints, its exit codes, and what is refused in one message."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from flax import nnx
from safetensors.numpy import load_file

from port.cli import main
from port.errors import WeightsMismatch

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

STACKED_NETS = Path(__file__).parents[1] / "translation" / "stacked_nets.py"

MODELS = '''
"""Models as a user has them."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, width, 2), nn.BatchNorm2d(width))
        self.head = nn.Linear(4 * width, 3)

    def forward(self, x):
        x = torch.relu(self.features(x))
        x = nn.functional.adaptive_avg_pool2d(x, 2)
        return self.head(x.flatten(1))


class Strange(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        y = torch.special.bessel_j0(x)
        return self.lin(y) + torch.special.bessel_j1(x)


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x, *, shift):
        return torch.tanh(self.lin(x)) + shift


class Branches(nn.Module):
    """Depends on its numbers, but for its part."""

    def __init__(self):
        super().__init__()
        self.part = Part()
        self.idle = Part()

    def forward(self, x):
        x = self.part(x, shift=x[:, :2])
        if x.sum() > 0:
            return x
        return -x


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2, 3)

    def forward(self, ids, scale):
        return self.table(ids) * scale


class Options(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x, mask=None, square=False):
        x = self.lin(x)
        if mask is not None:
            x = x * mask
        if square:
            x = x * x
        return x if x.shape[0] < 5 else -x


ready = Net(2)


def calls():
    return [(torch.randn(4, 3),), {"x": torch.randn(4, 3), "mask": torch.randn(4, 1)}]


def calls_alike():
    return [(torch.randn(4, 3),), (torch.randn(6, 3),)]


def inputs():
    return (torch.randn(2, 2, 3, 3),), {}


def fails():
    raise RuntimeError("no luck today")


def seven():
    return 7
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with models, where the user stands, and a checkpoint of the Net's."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        (folder / "translated_models.py").write_text(MODELS)
        models = importlib.import_module("translated_models")
        torch.manual_seed(5)
        torch.save({"state_dict": models.Net(2).state_dict()}, folder / "net.pth")
        torch.save({"state_dict": models.Net(4).state_dict()}, folder / "wide.pth")
        yield folder
    sys.modules.pop("translated_models", None)


def run(*arguments: str) -> int:
    return main(["translate", *arguments])


@pytest.fixture(scope="module")
def written(place: Path) -> Path:
    """The Net with its weights, written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        options = ("--kwargs", '{"width": 2}', "--weights", "net.pth", "--input", "2,2,3,3")
        assert run("translated_models:Net", *options, "-o", "out/ported") == 0
    return place / "out" / "ported"


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            (to / file.name).write_bytes(file.read_bytes())
    return to


# %% The folder


def test_the_files_and_what_they_give(written: Path) -> None:
    names = {"net.py", "net.safetensors", "net.mapping.toml", "test_net.py", "report.md"}
    assert {path.name for path in written.iterdir() if path.is_file()} == names
    state = torch.load(written.parents[1] / "net.pth")["state_dict"]
    arrays = load_file(written / "net.safetensors")
    np.testing.assert_array_equal(arrays["features.layers.0.kernel"].transpose(3, 2, 0, 1), state["features.0.weight"])
    model: Any = imported(written / "net.py").load()
    model.eval()
    models = sys.modules["translated_models"]
    theirs = models.Net(2).eval()
    theirs.load_state_dict(state)
    x = torch.randn(4, 2, 3, 3)
    ours = np.asarray(nnx.jit(model)(np.moveaxis(x.numpy(), 1, -1)))
    np.testing.assert_allclose(ours, theirs(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_report_says_what_went_where(written: Path) -> None:
    report = (written / "report.md").read_text("utf-8")
    assert report.startswith("# net: translated_models:Net, in Flax NNX\n\n**Both sides are the same model**")
    assert "| `features.0` | Conv2d | `features.layers.0` | Conv | weight → kernel [permute(2, 3, 1, 0)]" in report
    assert "### W2 a convolution's weight" in report
    assert "### W19 adaptive pooling" in report
    assert "- Met at translated_models.py:16\n" in report, "notes name the original's lines"
    assert "- `x`: (n, 2, h, w) in PyTorch, (n, h, w, 2) in JAX" in report
    assert "- `x`: free along axis 0 (`n`), axis 2 (`h`), axis 3 (`w`)\n- `x`: **fixed** along axis 1 at 2" in report
    assert "from net import load  # needs no torch\n" in report and "backward pass" not in report


def test_what_the_report_says_of_the_next_checkpoint(written: Path, tmp_path: Path) -> None:
    import port

    model: Any = imported(written / "net.py").load()
    models = sys.modules["translated_models"]
    following = models.Net(2)
    torch.save(following.state_dict(), tmp_path / "next.pth")
    port.load(model, tmp_path / "next.pth", rename=written / "net.mapping.toml")
    np.testing.assert_array_equal(model.head.bias[...], following.head.bias.detach())
    back, mapping = tmp_path / "back.safetensors", str(written / "net.mapping.toml")
    weights = str(written / "net.safetensors")
    assert main(["convert", weights, "--mapping", mapping, "--reverse", "-o", str(back)]) == 0
    state = torch.load(written.parents[1] / "net.pth")["state_dict"]
    arrays = load_file(back)
    assert arrays.keys() == state.keys()
    for name, tensor in state.items():
        np.testing.assert_array_equal(arrays[name], tensor.numpy())


# %% The written test, which has to be able to fail


def test_the_written_test_passes(written: Path) -> None:
    imported(written / "test_net.py").test_it_is_the_same_model()


@pytest.mark.sweep
def test_another_operator_in_the_source_fails_it(written: Path, tmp_path: Path) -> None:
    folder = copied(written, tmp_path / "swapped")
    source = (folder / "net.py").read_text()
    assert source.count("nnx.relu(") == 1
    (folder / "net.py").write_text(source.replace("nnx.relu(", "nnx.gelu("))
    with pytest.raises(AssertionError, match="both sides DIFFER"):
        imported(folder / "test_net.py").test_it_is_the_same_model()


def test_a_weight_that_is_not_the_original_s_fails_it(written: Path, tmp_path: Path) -> None:
    folder = copied(written, tmp_path / "corrupted")
    content = bytearray((folder / "net.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "net.safetensors").write_bytes(content)
    with pytest.raises(WeightsMismatch, match="do not give the weights that were translated"):
        imported(folder / "test_net.py").test_it_is_the_same_model()


def test_a_move_of_the_mapping_that_is_another_fails_it(written: Path, tmp_path: Path) -> None:
    folder = copied(written, tmp_path / "mapped")
    text = (folder / "net.mapping.toml").read_text()
    assert "permute = [2, 3, 1, 0]" in text
    (folder / "net.mapping.toml").write_text(text.replace("permute = [2, 3, 1, 0]", "permute = [3, 2, 1, 0]"))
    with pytest.raises(WeightsMismatch, match=r"features\.0\.weight"):
        imported(folder / "test_net.py").test_it_is_the_same_model()


@pytest.mark.sweep
def test_the_written_test_is_one_of_pytest_s(written: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written / "test_net.py")]
    done = subprocess.run(command, cwd=written.parents[1], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.sweep
def test_the_written_files_please_linter_and_need_no_torch(written: Path) -> None:
    ruff = [sys.executable, "-m", "ruff"]  # as `port.translation.codegen.emit` formats them
    select = ["--select", "E,F,I,UP", "--line-length", "120", "--isolated"]
    for command in (["check", *select], ["format", "--check", "--isolated", "--line-length", "120"]):
        done = subprocess.run([*ruff, *command, str(written)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    code = "import sys; from net import load; load(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=written, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# %% What is left to write


@pytest.mark.sweep
def test_the_audit_counts_what_has_no_pair(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(place.iterdir())
    assert run("translated_models:Strange", "--input", "2,3", "--dry-run") == 1
    said = capsys.readouterr().out
    lines = {line.split()[1]: line.split() for line in said.splitlines()[1:-1]}
    assert lines["aten.special_bessel_j0"][0] == lines["aten.special_bessel_j1"][0] == "no"
    assert lines["aten.special_bessel_j0"][-2:] == ["1", "translated_models.py:26"]
    assert lines["torch.nn.modules.linear.Linear"][:3] == ["yes", "torch.nn.modules.linear.Linear", "flax.nnx.Linear"]
    assert "translated_models:Strange: 2 of 4 have no pair" in said
    assert run("translated_models:Net", "--input", "2,2,3,3", "--dry-run") == 0
    assert "all of 3 kinds of layers and 4 operators have pairs" in capsys.readouterr().out
    assert set(place.iterdir()) == before


def test_all_else_is_written_and_the_rest_listed(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "strange"
    assert run("translated_models:Strange", "--input", "2,3", "-o", str(folder)) == 1
    said = capsys.readouterr().out
    report = (folder / "report.md").read_text("utf-8")
    assert "**Not finished: 2 places are left to write" in report
    for line in ("aten.special_bessel_j0", "aten.special_bessel_j1"):
        assert line in said
        assert f"| `{line}` | translated_models.py:" in report
    assert load_file(folder / "strange.safetensors").keys() == {"lin.kernel", "lin.bias"}


@pytest.mark.sweep
def test_a_proof_that_fails_is_said_first(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from port.translation import verify, writing

    rows = (verify.Compared("outputs in training", 0.5, 1e-9, "output 0", 1),)
    monkeypatch.setattr(writing, "prove_cases", lambda *_, **__: verify.Proof(rows))
    assert run("translated_models:Net", "--input", "2,2,3,3", "-o", str(tmp_path / "wrong")) == 1
    assert capsys.readouterr().out.startswith("The two sides differ: what was written is not the same model.")
    report = (tmp_path / "wrong" / "report.md").read_text("utf-8")
    assert "**THE TWO SIDES DIFFER.**" in report.splitlines()[2]
    assert "| 5.0e-01 | 1e-09 | 1 | **beyond it** at output 0 |" in report


# %% Its options


@pytest.mark.sweep
def test_a_model_that_takes_a_configuration(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    (place / "configured_models.py").write_text(
        "from dataclasses import dataclass\nfrom torch import nn\n\n\n"
        "@dataclass\nclass Config:\n    width: int\n    act: type = nn.GELU\n\n\n"
        "class Configured(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.lin, self.act = nn.Linear(3, config.width), config.act()\n\n"
        "    def forward(self, x):\n        return self.act(self.lin(x))\n"
    )
    kwargs = '{"config": {"@configured_models:Config": {"width": 4, "act": "@torch.nn:Tanh"}}}'
    options = ("--kwargs", kwargs, "--input", "2,3", "--name", "configured", "-o", str(tmp_path / "configured"))
    assert run("configured_models:Configured", *options) == 0
    assert "\n  compared at the example's lengths; n = 3; n = 1\n" in capsys.readouterr().out
    assert "jnp.tanh" in (tmp_path / "configured" / "configured.py").read_text()
    imported(tmp_path / "configured" / "test_configured.py").test_it_is_the_same_model()


@pytest.mark.sweep
def test_a_part_of_a_model_that_cannot_be_translated_whole(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    options = ("--submodule", "part", "--name", "tail", "--input", "2,3", "-o", str(folder))
    assert run("translated_models:Branches", *options) == 0
    assert 'inside(module, "part", args, kwargs)' in (folder / "test_tail.py").read_text()
    assert load_file(folder / "tail.safetensors").keys() == {"lin.kernel", "lin.bias"}
    imported(folder / "test_tail.py").test_it_is_the_same_model()


@pytest.mark.sweep
def test_integers_are_indices(place: Path, tmp_path: Path) -> None:
    options = ("--input", "2,5:int64", "--input", "3", "-o", str(tmp_path / "table"))
    assert run("translated_models:Table", *options) == 0
    assert 'drawn("2,5:int64", "3")' in (tmp_path / "table" / "test_table.py").read_text()


@pytest.mark.sweep
def test_a_module_that_is_there_and_inputs_of_a_function(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ready"
    assert run("translated_models:ready", "--inputs", "translated_models:inputs", "-o", str(folder)) == 0
    text = (folder / "test_ready.py").read_text()
    assert "module = original\n" in text and "calls(example_inputs())" in text
    compile(text, "test_ready.py", "exec")


@pytest.mark.sweep
def test_checkpointed_and_standalone(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "alone"
    options = ("--input", "2,2,3,3", "--remat", "Net", "--standalone", "-o", str(folder))
    assert run("translated_models:Net", *options) == 0
    source = (folder / "net.py").read_text("utf-8")
    assert "from port.nn" not in source and source.count("    @nnx.remat\n") == 1
    assert "\nclass BatchNorm(nnx.Module):" in source
    report = (folder / "report.md").read_text("utf-8")
    assert "from net import load  # needs neither torch nor port\n" in report
    assert "the backward pass recomputes activations: `Net`\n" in report
    imported(folder / "test_net.py").test_it_is_the_same_model()


@pytest.mark.sweep
def test_layers_that_are_stacked(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "stacked_nets.py").write_text(STACKED_NETS.read_text("utf-8"), "utf-8")
    folder = tmp_path / "ends"
    assert run("stacked_nets:Ends", "--input", "3,4", "--scan", "--static", "-o", str(folder)) == 0
    report = (folder / "report.md").read_text("utf-8")
    assert "called by `nnx.scan`: `layers.1`\n" in report
    assert "| `layers.*` | Linear | `layers.1` | Linear | weight → kernel [permute(1, 0), stack(3 on axis 0)]" in report
    imported(folder / "test_ends.py").test_it_is_the_same_model()
    capsys.readouterr()
    assert run("stacked_nets:Unlike", "--input", "3,4", "--scan", "--static", "-o", str(tmp_path / "unlike")) == 0
    why = "nothing is stacked: no list of equal layers is called in a loop"
    assert why in capsys.readouterr().out
    assert why in (tmp_path / "unlike" / "report.md").read_text("utf-8")
    options = ("--input", "3,4", "--scan", "--static", "--json", "-o", str(tmp_path / "json"))
    assert run("stacked_nets:Unlike", *options) == 0
    assert any(why in remark for remark in json.loads(capsys.readouterr().out)["remarks"])


@pytest.mark.sweep
def test_without_weights(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "large"
    assert run("translated_models:Net", "--meta", "--input", "2,2,3,3", "-o", str(folder)) == 4
    assert sorted(file.name for file in folder.iterdir()) == ["net.mapping.toml", "net.py", "report.md"]
    assert "on the meta device, and has no weights" in capsys.readouterr().out
    report = (folder / "report.md").read_text("utf-8")
    assert 'port.load(model, "checkpoint.safetensors", rename="net.mapping.toml")' in report
    assert "import load" not in report and "test_net.py" not in report


@pytest.mark.sweep
def test_proved_small_and_run_large(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "large"
    options = ("--input", "2,2,3,3", "--prove-at", '{"width": 5}', "-o", str(folder))
    assert run("translated_models:Net", *options) == 0
    said = capsys.readouterr().out
    assert "with width = 5" in said
    assert "on the meta device, and has no weights" in said
    assert sorted(file.name for file in folder.iterdir()) == ["net.mapping.toml", "net.py", "report.md"]


@pytest.mark.sweep
def test_several_example_calls(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "options"
    assert run("translated_models:Options", "--inputs", "translated_models:calls", "-o", str(folder)) == 0
    said = capsys.readouterr().out
    assert "in 2 example calls" in said
    assert "not translated: `if square`" in said
    report = (folder / "report.md").read_text()
    assert "## Not translated" in report and "translated_models.py:" in report
    written = imported(folder / "options.py").load()
    x, mask = np.ones((3, 3), np.float32), np.full((3, 1), 2, np.float32)
    np.testing.assert_allclose(written(x, mask), 2 * written(x), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="square=False"):
        written(x, None, True)
    imported(folder / "test_options.py").test_it_is_the_same_model()


# %% What is refused


NET, SHAPE = "translated_models:Net", ("--input", "2,2,3,3")
REFUSED = {
    "no module": (("nowhere:Net", *SHAPE), "nowhere cannot be imported"),
    "no name": (("translated_models:Nett", *SHAPE), "unknown name in translated_models 'Nett'; there are: Net,"),
    "no colon": (("translated_models", *SHAPE), "takes module:name"),
    "gives no module": (("translated_models:seven", *SHAPE), "returns int, not a torch.nn.Module"),
    "arguments": ((NET, *SHAPE, "--kwargs", '{"depth": 1}'), "unexpected keyword argument 'depth'"),
    "no JSON": ((NET, *SHAPE, "--kwargs", "{width}"), "--kwargs takes a JSON object"),
    "no inputs": ((NET,), "pass the model's inputs"),
    "no shape": ((NET, "--input", "2,x"), "an input is a shape"),
    "no dtype": ((NET, "--input", "2,2:int65"), "an input is a shape"),
    "a dtype of no numbers": ((NET, "--input", "2,2:int7"), "torch draws no numbers of int7"),
    "wrong shape": ((NET, "--input", "2,3,3,3"), "Net does not take the example inputs"),
    "inputs fail": ((NET, "--inputs", "translated_models:fails"), "RuntimeError: no luck today"),
    "no weights": ((NET, *SHAPE, "--weights", "gone.pth"), "gone.pth: there is no such file"),
    "weights for none": ((NET, *SHAPE, "--weights", "wide.pth", "--meta"), "--meta builds a model without values"),
    "weights for none of a size": (
        (NET, *SHAPE, "--weights", "wide.pth", "--prove-at", '{"width": 5}'),
        "--prove-at builds a model without values: leave out --weights, or --prove-at",
    ),
    "weights for a model of transformers": (
        ("transformers:./llama", "--weights", "net.pth", "--name", "llama"),
        'leave out --weights, and write port.load(model, "net.pth", rename="refused/llama.mapping.toml")',
    ),
    "an empty batch": ((NET, "--input", "0,2,3,3"), "input 0 has shape (0, 2, 3, 3): there is nothing to compare"),
    "inputs beyond memory": ((NET, "--input", "1,2,99999999,99999999"), "does not fit into the memory here"),
    "inputs beyond counting": ((NET, "--input", "99999999999999999999,2,3,3"), "does not fit into the memory here"),
    "a size that is none": ((NET, *SHAPE, "--prove-at", '{"wdth": 5}'), "has no argument 'wdth'"),
    "a size that the original refuses": (
        (NET, *SHAPE, "--at", '{"width": -3}'),
        "the original refuses width = -3: RuntimeError: ",
    ),
    "no time": ((NET, *SHAPE, "--sizes-limit", "-1"), "a number of seconds, 0 for none; got -1.0"),
    "other weights": ((NET, *SHAPE, "--weights", "wide.pth"), "head.weight has shape (3, 16), expected (3, 12)"),
    "no part": ((NET, *SHAPE, "--submodule", "tail"), "unknown part of Net 'tail'; there are: head"),
    "idle part": (("translated_models:Branches", "--input", "2,3", "--submodule", "idle"), "does not call its part"),
    "data-dependent": (("translated_models:Branches", "--input", "2,3"), "translated_models.py:49: `if x.sum() > 0:`"),
    "calls that are told apart by nothing": (
        ("translated_models:Options", "--inputs", "translated_models:calls_alike", "--static"),
        "that depends on",
    ),
    "no class": ((NET, *SHAPE, "--remat", "Nett"), "unknown class to checkpoint 'Nett'; there are: Net"),
    "no policy": ((NET, *SHAPE, "--remat", "Net", "--remat-policy", "dot"), "unknown remat policy 'dot'; there are:"),
    "a policy for nothing": ((NET, *SHAPE, "--remat-policy", "dots"), "classes whose activations are recomputed"),
    "a name taken": ((NET, *SHAPE, "--name", "json"), "would hide another module named json"),
    "no name of Python's": ((NET, *SHAPE, "--name", "my net"), "'my net' is not a valid name in Python"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_message_and_nothing_written(
    case: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, message = REFUSED[case]
    before = set(place.iterdir())
    assert run(*arguments, "-o", "refused") == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.startswith("port: ")
    assert not said.out and "Traceback" not in said.err and "def forward" not in said.err
    assert set(place.iterdir()) == before


def test_names_in_a_checkpoint_do_not_act_on_the_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"strange name\n\x1b[31m": torch.ones(2)}, "strange.pth")
    assert run(NET, *SHAPE, "--weights", "strange.pth", "-o", "refused") == 2
    assert "  unexpected: strange name\\x0a\\x1b[31m" in capsys.readouterr().err.splitlines()


def test_a_folder_that_is_there_stays(place: Path, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in written.iterdir() if path.is_file()}
    assert run(NET, *SHAPE, "-o", str(written)) == 2
    assert "is there already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in written.iterdir() if path.is_file()} == before


def test_a_folder_in_a_file_is_refused_before_any_work(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.pth").touch()
    assert run("nowhere:Net", *SHAPE, "-o", str(tmp_path / "net.pth" / "x")) == 2
    assert f"{tmp_path / 'net.pth'} is a file, not a folder" in capsys.readouterr().err


def test_a_fault_of_our_own_is_one_message(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import port.translation.translating

    monkeypatch.setattr(port.translation.translating, "translate", lambda *_, **__: json.loads("{"))
    assert run(NET, *SHAPE, "-o", "faulty") == 2
    assert "because of a bug in port: JSONDecodeError: Expecting property name" in capsys.readouterr().err
    assert not (place / "faulty").exists()
