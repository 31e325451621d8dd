"""On a TPU machine the core is installed alone, without PyTorch: loading, converting and comparing do without.

Each test runs a program of its own, in which importing torch and the other packages of extras fails as if they were not
installed. (`.ci/run` runs this file again where they are not.)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from absent import missing_without, without

BLOCK = without(missing_without(()))
NET = """
import jax
import port.nn
from flax import nnx

class Net(nnx.Module):
    def __init__(self, width=4, *, rngs):
        self.conv = nnx.Conv(3, width, (3, 2), padding="VALID", rngs=rngs)
        self.norm = port.nn.BatchNorm(width, rngs=rngs)
        self.fc = nnx.Linear(width, 5, rngs=rngs)

    def __call__(self, x):
        return self.fc(nnx.relu(self.norm(self.conv(x))).mean((1, 2)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a Flax model and weights of its torch twin."""
    random = np.random.default_rng(0)
    shapes = {
        "conv.weight": (4, 3, 3, 2),
        "conv.bias": (4,),
        "norm.weight": (4,),
        "norm.bias": (4,),
        "norm.running_mean": (4,),
        "norm.running_var": (4,),
        "fc.weight": (5, 4),
        "fc.bias": (5,),
    }
    arrays = {key: random.uniform(0.5, 2, shape).astype(np.float32) for key, shape in shapes.items()}
    save_file(arrays | {"norm.num_batches_tracked": np.array(3)}, tmp_path / "net.safetensors")
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_load_and_save(folder: Path) -> None:
    run(
        "import sys; sys.path.insert(0, '.')\n"
        "from flax import nnx; from net import Net; import port, numpy as np\n"
        "net = Net(rngs=nnx.Rngs(0))\n"
        "port.load(net, 'net.safetensors')\n"
        "net.eval()\n"
        "net(np.ones((2, 5, 6, 3), np.float32))\n"
        "port.save(net, 'back.safetensors')\n"
        "print(port.mapping.between(None, net))\n"
        "assert 'torch' not in sys.modules",
        folder,
    )
    there, back = load_file(folder / "net.safetensors"), load_file(folder / "back.safetensors")
    assert set(there) == set(back)
    for key, array in there.items():
        np.testing.assert_array_equal(back[key], array)


@pytest.mark.sweep
def test_an_adapter_and_weights_of_eight_bits(folder: Path) -> None:
    random = np.random.default_rng(1)
    adapter = folder / "lora"
    adapter.mkdir()
    names = [f"base_model.model.fc.lora_{which}.weight" for which in "AB"]
    arrays = dict(zip(names, (random.normal(size=(2, 4)), random.normal(size=(5, 2))), strict=True))
    save_file(arrays, adapter / "adapter_model.safetensors")
    told = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["fc"]}
    (adapter / "adapter_config.json").write_text(json.dumps(told))
    held = load_file(folder / "net.safetensors")
    eight = {"fc.weight": np.full((5, 4), 3, np.int8), "fc.weight_scale": np.full((5, 1), 2, np.float32)}
    save_file(held | eight, folder / "eight.safetensors")
    run(
        "import sys; sys.path.insert(0, '.')\n"
        "from flax import nnx; from net import Net; import port, numpy as np\n"
        "merged, beside, wide = (Net(rngs=nnx.Rngs(0)) for _ in range(3))\n"
        "port.load(merged, 'net.safetensors', adapter='lora')\n"
        "port.load(beside, 'net.safetensors', adapter='lora', merge=False)\n"
        "port.load(wide, 'eight.safetensors', widen='float32')\n"
        "x = np.ones((1, 4), np.float32)\n"
        "assert np.abs(merged.fc(x) - beside.fc(x)).max() < 1e-4\n"
        "assert np.abs(merged.fc(x) - beside.fc.base_module(x)).max() > 1e-2\n"
        "assert (np.asarray(wide.fc.kernel[...]) == 6).all()\n"
        "port.save_adapter(beside, 'back', like='lora')\n"
        "assert 'torch' not in sys.modules",
        folder,
    )
    back = load_file(folder / "back" / "adapter_model.safetensors")
    for name in names:
        np.testing.assert_array_equal(back[name], arrays[name].astype(np.float32))


@pytest.mark.sweep
def test_convert_there_and_back(folder: Path) -> None:
    run(
        "from port.cli import main\n"
        "for form in ('safetensors', 'msgpack', 'orbax'):\n"
        "    there = ['convert', 'net.safetensors', '--flax', 'net:Net', '--format', form, '-o', form]\n"
        "    assert main(there) == 0\n"
        "    back = ['convert', form, '--flax', 'net:Net', '--reverse', '-o', f'{form}-back.safetensors']\n"
        "    assert main(back) == 0\n"
        "assert 'torch' not in sys.modules",
        folder,
    )
    wanted = load_file(folder / "net.safetensors")
    for form in ("safetensors", "msgpack", "orbax"):
        given = load_file(folder / f"{form}-back.safetensors")
        assert set(wanted) == set(given)
        for key, array in wanted.items():
            np.testing.assert_array_equal(given[key], array)


def test_a_torch_model_is_asked_for_in_vain(folder: Path) -> None:
    told = run(
        "from port.cli import main\n"
        "sys.stderr = sys.stdout\n"
        "assert main(['convert', 'net.safetensors', '--torch', 'net:Net', '-o', 'out']) == 2",
        folder,
    )
    assert "needs torch, which is not installed" in told


def test_a_torch_file_is_written_and_read(folder: Path) -> None:
    run(
        "from port.cli import main\n"
        "assert main(['convert', 'net.safetensors', '--flax', 'net:Net', '-o', 'flax.npz']) == 0\n"
        "assert main(['convert', 'flax.npz', '--reverse', '-o', 'net.pth']) == 0\n"
        "assert main(['convert', 'net.pth', '--flax', 'net:Net', '-o', 'again.npz']) == 0\n"
        "assert main(['convert', 'again.npz', '--reverse', '-o', 'again.safetensors']) == 0\n"
        "assert 'torch' not in sys.modules",
        folder,
    )
    there, again = load_file(folder / "net.safetensors"), load_file(folder / "again.safetensors")
    assert set(there) == set(again)
    for key, array in there.items():
        np.testing.assert_array_equal(again[key], array, strict=True)


def test_compare(folder: Path) -> None:
    for name in ("a", "b"):
        run(
            "import port\n"
            f"with port.Recorder('{name}.jsonl', precision='float64') as record:\n"
            "    for step in range(5):\n"
            "        record(step, loss=1 / (step + 1))",
            folder,
        )
    assert "agree" in run("from port.cli import main; assert main(['compare', 'a.jsonl', 'b.jsonl']) == 0", folder)


def test_compare_of_a_run_that_differs(folder: Path) -> None:
    """Its models are at hand; only that no PyTorch is here keeps them from being checked."""
    (folder / "float64").mkdir()
    run(
        "import json, port; from dataclasses import asdict; from side_by_side.config import Config\n"
        "open('config.json', 'w').write(json.dumps({**asdict(Config(model='mlp')), 'resume': False}, default=str))\n"
        "import os; os.rename('net.safetensors', 'initial.safetensors')\n"
        "for side, factor in (('torch', 1), ('jax', 2)):\n"
        "    with port.Recorder(f'float64/{side}.jsonl', precision='float64', side=side) as record:\n"
        "        for step in range(5):\n"
        "            record(step, loss=factor / (step + 1))",
        folder,
    )
    command = "['compare', 'float64/torch.jsonl', 'float64/jax.jsonl']"
    said = run(f"from port.cli import main; assert main({command}) == 1", folder)
    assert "the losses part at step 0" in said and "Traceback" not in said


GOLDEN = Path(__file__).parent / "port" / "translation" / "golden" / "resnet18.py.txt"


@pytest.mark.sweep
def test_a_translated_module_with_its_weights(tmp_path: Path) -> None:
    """What `port translate` wrote gives the same on its weights as where they are put into it one by one."""
    (tmp_path / "resnet18.py").write_text(GOLDEN.read_text("utf-8"), "utf-8")
    run(
        "import sys; sys.path.insert(0, '.')\n"
        "from flax import nnx; import numpy as np\n"
        "from safetensors.numpy import save_file\n"
        "import resnet18\n"
        "random = np.random.default_rng(0)\n"
        "drawn = resnet18.ResNet(rngs=nnx.Rngs(0))\n"
        "state = nnx.to_flat_state(nnx.state(drawn, nnx.Not(nnx.RngState)))\n"
        "for path, v in state:\n"
        "    v[...] = (random.uniform(0.5, 1, v.shape) / np.sqrt(v.size)).astype(v.dtype)\n"
        "nnx.update(drawn, nnx.from_flat_state(state))\n"
        "save_file({'.'.join(map(str, path)): np.asarray(v[...]) for path, v in state}, 'resnet18.safetensors')\n"
        "x = random.standard_normal((2, 40, 34, 3)).astype(np.float32)\n"
        "other = resnet18.ResNet(rngs=nnx.Rngs(1))\n"
        "for name, model in (('loaded', resnet18.load()), ('drawn', drawn), ('other', other)):\n"
        "    model.eval()\n"
        "    np.save(f'{name}.npy', model(x))\n"
        "assert 'torch' not in sys.modules",
        tmp_path,
    )
    loaded, drawn, other = (np.load(tmp_path / f"{name}.npy") for name in ("loaded", "drawn", "other"))
    assert loaded.shape == (2, 1000) and np.isfinite(loaded).all() and (loaded[0] != loaded[1]).any()
    np.testing.assert_array_equal(loaded, drawn)
    assert (other != drawn).any()
