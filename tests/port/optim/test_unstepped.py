"""What torch does not step, as it is frozen or has no state: JAX leaves it, and so does the way back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx

import port
from models.frozen import FlaxBands, FlaxPlain, TorchBands, TorchOpen
from port.cli import main
from port.errors import UsageError, WeightsMismatch
from port.mapping import between
from port.optim import load_opt_state, load_optimizer
from port.optim.saved import read_optimizer

STILL = {"bank.weight", "scale"}
OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AdamW": (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.5}),
    "Adam": (torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True}),
    "SGD": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.5}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.5, "momentum": 0.9}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.1, "weight_decay": 0.5, "momentum": 0.5}),
    "NAdam": (torch.optim.NAdam, {"lr": 0.1, "weight_decay": 0.5}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1, "weight_decay": 0.5}),
    "Adafactor": (torch.optim.Adafactor, {"lr": 0.1, "weight_decay": 0.5}),
}


def stepped(module: Any, optimizer: Any, times: int = 1) -> None:
    generator = torch.Generator().manual_seed(times)
    for _ in range(times):
        optimizer.zero_grad()
        module(torch.randn(5, 6, generator=generator).to(module.head.weight.dtype)).square().sum().backward()
        optimizer.step()


def trained(name: str, groups: Any = None, cls: Any = TorchBands, freeze: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    """A float64 module and its optimizer after three steps."""
    torch.manual_seed(5)
    module = cls().double()
    for key, parameter in module.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and key not in freeze)
    kind, options = OPTIMIZERS[name]
    optimizer = kind(groups(module) if groups else module.parameters(), **options)
    stepped(module, optimizer, 3)
    return module, optimizer


def params_of(module: Any, mapping: Any) -> Any:
    """All parameters as a plain nested dict, whose leaves say nothing of what is trained."""
    tree: dict[str, Any] = {}
    arrays = {key: tensor.numpy() for key, tensor in module.state_dict().items()}
    for path, array in mapping(arrays).items():
        place = tree
        *above, last = path.split(".")
        for part in above:
            place = place.setdefault(part, {})
        place[last] = jnp.asarray(array)
    return tree


def next_step(module: Any, optimizer: Any, transformation: Any, state: Any, mapping: Any) -> dict[str, np.ndarray]:
    """What one step of the transformation makes of the parameters; torch makes its own. By torch's names."""
    params = params_of(module, mapping)
    stepped(module, optimizer)
    gradients = {
        name: np.ones(parameter.shape) if parameter.grad is None else parameter.grad.numpy()
        for name, parameter in module.named_parameters()
    }
    like = copy.deepcopy(module)
    like.load_state_dict({name: torch.from_numpy(array) for name, array in gradients.items()})
    updates, _ = transformation.update(params_of(like, mapping), state, params)
    moved = optax.apply_updates(params, updates)
    flat = {".".join(str(k.key) for k in keys): np.asarray(v) for keys, v in jax.tree_util.tree_leaves_with_path(moved)}
    return mapping.inverse()(flat)


@pytest.fixture(autouse=True)
def double() -> Any:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.thin(4)
def test_a_checkpoint_of_a_model_that_freezes(name: str, tmp_path: Path) -> None:
    module, optimizer = trained(name)
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    with torch.device("meta"):
        model = TorchBands()
    saved = read_optimizer(tmp_path / "last.pt", type(optimizer), model)
    assert set(saved.frozen) == STILL and saved.never_stepped == ()
    mapping = between(module)
    params = params_of(module, mapping)
    transformation, state = port.to_optax(saved.optimizer, params=params, mapping=mapping)
    before = {key: tensor.numpy().copy() for key, tensor in module.state_dict().items()}
    moved = next_step(module, optimizer, transformation, state, mapping)
    for key, tensor in module.state_dict().items():
        np.testing.assert_allclose(moved[key], tensor.numpy(), rtol=1e-9, atol=1e-12, err_msg=key)
        assert (moved[key] == before[key]).all() == (key in STILL), key


@pytest.mark.parametrize("name", ["AdamW", "SGD with momentum", "RMSprop"])
@pytest.mark.parametrize("in_groups", [False, True])
def test_what_the_script_froze_has_no_state(name: str, in_groups: bool, tmp_path: Path) -> None:
    def groups(module: Any) -> Any:
        named = dict(module.named_parameters())
        still = [(key, named.pop(key)) for key in sorted(STILL)]
        return [{"params": still, "lr": 0.01}, {"params": list(named.items())}]

    module, optimizer = trained(name, groups if in_groups else None, TorchOpen, STILL)
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    saved = read_optimizer(tmp_path / "last.pt", type(optimizer), TorchOpen())
    assert saved.frozen == () and set(saved.never_stepped) == STILL
    mapping = between(module)
    transformation, state = port.to_optax(saved.optimizer, params=params_of(module, mapping), mapping=mapping)
    before = {key: tensor.numpy().copy() for key, tensor in module.state_dict().items()}
    moved = next_step(module, optimizer, transformation, state, mapping)
    for key, tensor in module.state_dict().items():
        np.testing.assert_allclose(moved[key], tensor.numpy(), rtol=1e-9, atol=1e-12, err_msg=key)
        assert (moved[key] == before[key]).all() == (key in STILL), key


def test_without_any_state_all_are_stepped(tmp_path: Path) -> None:
    module = TorchOpen()
    torch.save({"optimizer": torch.optim.AdamW(module.parameters()).state_dict()}, tmp_path / "new.pt")
    assert read_optimizer(tmp_path / "new.pt", torch.optim.AdamW, TorchOpen()).never_stepped == ()
    _, plain = trained("SGD")
    torch.save({"optimizer": plain.state_dict()}, tmp_path / "sgd.pt")
    assert read_optimizer(tmp_path / "sgd.pt", torch.optim.SGD, TorchOpen()).never_stepped == ()


def test_an_optimizer_of_the_trained_alone(tmp_path: Path) -> None:
    module, optimizer = trained("AdamW", lambda module: [p for p in module.parameters() if p.requires_grad])
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    saved = read_optimizer(tmp_path / "last.pt", torch.optim.AdamW, TorchBands())
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    assert saved.optimizer.param_groups[0]["param_names"] == names and saved.frozen == ()


def test_lbfgs_with_frozen_parameters_is_refused(tmp_path: Path) -> None:
    module = TorchBands()
    optimizer = torch.optim.LBFGS(module.parameters())
    optimizer.step(lambda: module(torch.ones(2, 6)).square().sum())
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    saved = read_optimizer(tmp_path / "last.pt", torch.optim.LBFGS, TorchBands())
    mapping = between(module)
    with pytest.raises(UsageError, match=r"scale, bank\.weight, which require no gradient"):
        port.to_optax(saved.optimizer, params=params_of(module, mapping), mapping=mapping)


@pytest.mark.parametrize("flax", ["FlaxBands", "FlaxPlain", ""])
@pytest.mark.parametrize("cls", [TorchBands, TorchOpen])
def test_by_the_command_line_there_and_back(
    flax: str, cls: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, optimizer = trained("AdamW", None, cls, STILL)
    kept = copy.deepcopy(optimizer.state_dict())
    torch.save({"model": module.state_dict(), "optimizer": kept}, tmp_path / "last.pt")
    models = ["--torch", f"models.frozen:{cls.__name__}", *(["--flax", f"models.frozen:{flax}"] if flax else [])]
    made = ["--optimizer", "torch.optim:AdamW", "-o", str(tmp_path / "out")]
    assert main(["convert", str(tmp_path / "last.pt"), *models, *made]) == 0
    told = capsys.readouterr().out
    how = "requires_grad=False" if cls is TorchBands else "without state"
    assert f"2 parameters {how}" in " ".join(told.split()).replace("with requires", "requires")
    assert ("set_to_zero" in told) == (flax != "FlaxBands")

    written: dict[str, Any] = {}
    exec("import optax\n" + told.partition("import optax\n")[2], written)
    held = {"FlaxBands": FlaxBands, "FlaxPlain": FlaxPlain, "": FlaxPlain}[flax](rngs=nnx.Rngs(0))
    mapping = between(module, held)
    params = params_of(module, between(module))
    if flax == "FlaxBands":
        params = {"mid": params["mid"], "head": params["head"]}
    state = load_opt_state(written["optimizer"].init(params), tmp_path / "out")
    updates, _ = written["optimizer"].update(jax.tree.map(jnp.ones_like, params), state, params)
    moved = {path: bool(jnp.any(leaf != 0)) for path, leaf in _flat(updates).items()}
    assert {path for path, is_moved in moved.items() if not is_moved} == (
        set() if flax == "FlaxBands" else {"bank.kernel", "scale"}
    )

    fresh = copy.deepcopy(module)
    if cls is TorchOpen:
        fresh.requires_grad_(True)  # nobody has told the new one
    other = torch.optim.AdamW(fresh.parameters(), lr=0.1, weight_decay=0.5)
    load_optimizer(other, state, mapping=mapping, model=fresh)
    assert set(other.state_dict()["state"]) == set(kept["state"])
    for index, wanted in kept["state"].items():
        for key, value in wanted.items():
            torch.testing.assert_close(other.state_dict()["state"][index][key], value, rtol=0, atol=0)
    assert [parameter.requires_grad for parameter in fresh.parameters()] == [
        cls is TorchOpen or name not in STILL for name, _ in fresh.named_parameters()
    ]


def _flat(tree: Any) -> dict[str, Any]:
    return {".".join(str(k.key) for k in keys): leaf for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)}


@pytest.mark.parametrize("cls", [FlaxBands, FlaxPlain])
def test_W29_the_live_optimizer(cls: Any) -> None:
    module, optimizer = trained("AdamW")
    flax = cls(rngs=nnx.Rngs(0))
    mapping = between(module, flax)
    params = nnx.state(flax, nnx.Param)
    transformation, state = port.to_optax(optimizer, params=params, mapping=mapping, model=module)
    updates, _ = transformation.update(jax.tree.map(jnp.ones_like, params), state, params)
    moved = {".".join(map(str, path)) for path, v in nnx.to_flat_state(updates) if jnp.any(v[...] != 0)}
    assert moved == {"mid.kernel", "mid.bias", "head.kernel", "head.bias"}
    by_order, _ = port.to_optax(optimizer, params=params, mapping=mapping)  # without the module, by shape and order
    assert type(by_order) is type(transformation)


def test_torch_may_not_train_what_flax_has_frozen() -> None:
    module = TorchOpen()
    flax = FlaxBands(rngs=nnx.Rngs(0))
    with pytest.raises(WeightsMismatch, match=r"torch trains scale, bank\.weight .* holds as port\.nn\.Frozen"):
        port.to_optax(
            torch.optim.SGD(module.parameters()),
            params=nnx.state(flax, nnx.Param),
            mapping=between(module, flax),
            model=module,
        )


def test_the_source_without_names_says_what_it_leaves_out() -> None:
    _, optimizer = trained("AdamW")
    assert "# for all but the 2 of 6 parameters that torch does not train" in port.optax_source(optimizer)


def test_an_average_leaves_them() -> None:
    module, _ = trained("AdamW")
    averaged = torch.optim.swa_utils.AveragedModel(module)
    averaged.update_parameters(module)
    flax = FlaxBands(rngs=nnx.Rngs(0))
    mapping, params = between(module, flax), nnx.state(flax, nnx.Param)
    state = port.optim.averaged_state(averaged, params=params, mapping=mapping)
    assert len(nnx.to_flat_state(state.average)) == 4
    other = torch.optim.swa_utils.AveragedModel(TorchBands().double())
    kept = other.module.scale.clone()
    port.optim.load_averaged_model(other, state, mapping=mapping)
    assert torch.equal(other.module.scale, kept)
    torch.testing.assert_close(other.module.mid.bias, averaged.module.mid.bias, rtol=1e-6, atol=0)
