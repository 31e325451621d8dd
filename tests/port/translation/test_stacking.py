"""Lists of equal layers as stacks that are scanned: proved, in both modes; faults that the proof must find."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
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
from port.cli import main
from port.errors import UnknownChoice, UsageError
from port.mapping import Mapping, read_mapping, save_mapping
from port.mapping.entry import gather
from port.translation import Translation
from port.translation.folder import write_folder
from port.translation.verify import Proof, prove, proving
from port.translation.verify.explanation import NONE
from port.translation.verify.reverify import prove_files

from .stacked_nets import GPT, NETS, NO_STACKS, Config, LLaMA, floats, ids
from .structure.test_remat import equations

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


LIGHT = ("Ends", "StochasticDepth", "Two")
LIGHT_OR_LATER = [name if name in LIGHT else pytest.param(name, marks=pytest.mark.sweep) for name in NETS]


FAULTED = ("GPT", "StochasticDepth", "ResNet")


def module_of(name: str, **options: Any) -> torch.nn.Module:
    """A module with random weights and statistics, unlike a new model's."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module: torch.nn.Module = NETS[name][0](**options)
        for buffer_name, buffer in module.named_buffers():
            if buffer_name.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            if buffer_name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    return module


@cache
def translated(name: str, *, scan: bool = True, remat: str = "", policy: str | None = None) -> Translation:
    """A translation that is not proved."""
    options: dict[str, Any] = {"remat": [remat] if remat else (), "remat_policy": policy}
    return port.translate(module_of(name), NETS[name][1], scan=scan, static=True, check=False, **options)


def proof_of(made: Translation, name: str) -> Proof:
    return prove(module_of(name), made, NETS[name][1], {})


@pytest.mark.parametrize("name", LIGHT_OR_LATER)
@pytest.mark.sweep
def test_a_list_is_one_layer_that_is_scanned(name: str) -> None:
    made = translated(name)
    assert (made.stacked, made.apart) == (NETS[name][2], ())
    assert "@nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)" in made.source
    assert "nnx.scan" not in translated(name, scan=False).source


class Turned(torch.nn.Module):
    """Makes numbers of its own, of the dtype of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.lin(x) * torch.arange(4).to(x.dtype).cos()


class Turning(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Turned(), Turned()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("x64", [False, True])
def test_what_is_stacked_does_not_hang_on_the_types_that_the_process_has(x64: bool) -> None:
    with jax.enable_x64(x64):
        made = port.translate(Turning(), torch.ones(2, 4), scan=True, static=True, check=False, logical_axes=True)
        assert (made.stacked, made.apart) == (("layers",), ())
        dtype = jnp.float64 if x64 else jnp.float32
        assert made.build(param_dtype=dtype)(jnp.ones((2, 4), dtype)).dtype == dtype


@pytest.mark.sweep
@pytest.mark.parametrize("name", NETS)
def test_both_sides_agree(name: str) -> None:
    proof = proof_of(translated(name), name)
    assert proof.agrees, str(proof)
    assert {"outputs in training", "gradients in training"} <= {row.what for row in proof.rows}


@pytest.mark.parametrize("name", ["Ends", *FAULTED])
@pytest.mark.sweep
def test_layers_in_reversed_order_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "explanation_of", lambda *_: NONE)  # it tries a thousand causes
    made = translated(name)
    turned = replace(made, source=made.source.replace("nnx.scan(in_axes", "nnx.scan(reverse=True, in_axes"))
    assert turned.source != made.source
    proof = proof_of(turned, name)
    found = {row.what for row in proof.rows if not row.agrees}
    assert found >= {f"{what} in {mode}" for what in ("outputs", "gradients") for mode in ("evaluation", "training")}


_ALIKE = """

def alike(layers):
    stack = stacked(layers)
    for path, key in nnx.iter_graph(stack):
        if isinstance(key, nnx.RngKey):
            key.set_value(jnp.broadcast_to(key[...][:1], key.shape))
    return stack
"""


@pytest.mark.parametrize("name", [pytest.param("GPT", marks=pytest.mark.sweep), "StochasticDepth"])
def test_one_key_for_all_layers_is_found(name: str) -> None:
    made = translated(name)
    shared = replace(made, source=made.source.replace(" = stacked(", " = alike(") + _ALIKE)
    proof = proof_of(shared, name)
    assert not proof.agrees and "share a random key" in proof.failed


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["LLaMA", "ResNet"])
def test_outputs_gradients_and_statistics_are_those_of_the_unrolled_form(name: str) -> None:
    whole, stack = step_of(translated(name, scan=False), name), step_of(translated(name), name)
    np.testing.assert_allclose(stack[0], whole[0], rtol=1e-12)
    for ours, theirs in zip(stack[1:], whole[1:], strict=True):
        assert ours.keys() == theirs.keys()
        for key, array in theirs.items():
            np.testing.assert_allclose(ours[key], array, rtol=1e-9, atol=1e-12, err_msg=key)
    assert len(stack[1]) == len(list(module_of(name).parameters()))
    assert bool(stack[2]) is (name == "ResNet")


def step_of(made: Translation, name: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A loss in training in float64, its gradients, and the state after it, by torch's names."""
    with jax.enable_x64(True):
        model = made.build(param_dtype=jnp.float64)
        model.train()
        given = [jnp.asarray(each, float if each.dtype.kind == "f" else int) for each in made.to_flax(NETS[name][1])]

        @jax.jit
        def step(params: Any, rest: Any) -> Any:
            def loss(params: Any) -> Any:
                whole = nnx.merge(graph, params, rest, copy=True)
                return (whole(*given) ** 2).sum(), nnx.state(whole, nnx.Not(nnx.Any(nnx.Param, nnx.RngState)))

            return jax.value_and_grad(loss, has_aux=True)(params)

        graph, params, rest = nnx.split(model, nnx.Param, ...)  # type: ignore[misc]
        (loss, left), gradients = step(params, rest)
        return loss, in_torch(made.mapping, gradients), in_torch(made.mapping, left)


def in_torch(mapping: Mapping, state: Any) -> dict[str, np.ndarray]:
    """The part of a state that has a name in torch, by that name."""
    arrays = {".".join(map(str, path)): np.asarray(each[...]) for path, each in nnx.to_flat_state(state)}
    found: dict[str, np.ndarray] = {}
    for entry in mapping.entries:
        if {*entry.targets} <= arrays.keys():
            found.update(zip(entry.sources, entry.inverse()(gather(entry.inverse(), arrays)), strict=True))
    return found


def test_each_layer_draws_by_itself() -> None:
    model, given = translated("StochasticDepth").build(), floats(3, 5, 6).numpy()
    stream = model.blocks.drop.rngs
    assert len({tuple(key.tolist()) for key in jax.random.key_data(stream.key[...])}) == 4
    call = nnx.jit(lambda model, given: model(given))
    assert not np.allclose(call(model, given), call(model, given))
    assert model.blocks.drop.rngs.count[...].tolist() == [2, 2, 2, 2]
    model.eval()
    np.testing.assert_array_equal(call(model, given), call(model, given))


# %% Depth


@pytest.mark.sweep
def test_neither_the_source_nor_what_is_compiled_grows_with_depth() -> None:
    shallow, deep = (
        port.translate(LLaMA(Config(depth=depth)), (ids(),), scan=True, static=True, check=False, construct=None)
        for depth in (3, 7)
    )
    assert len(shallow.source.splitlines()) == len(deep.source.splitlines())
    assert count_of(shallow) == count_of(deep)
    # Unrolled, it does.
    assert count_of(translated("LLaMA", scan=False)) > 2 * count_of(shallow)


def count_of(made: Translation) -> int:
    """The number of operations in a step."""
    graph, params, rest = nnx.split(made.build(), nnx.Param, ...)  # type: ignore[misc]

    def loss(params: Any, given: Any) -> Any:
        return nnx.merge(graph, params, rest, copy=True)(given).sum()

    return len(list(equations(jax.make_jaxpr(jax.grad(loss))(params, made.to_flax(ids())[0]).jaxpr)))


@pytest.mark.sweep
def test_other_depths_are_the_same_source() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = port.translate(
            LLaMA(Config()), (ids(),), construct=lambda: LLaMA(Config()), scan=True, static=True, sizes_limit=0
        )
        other = LLaMA(Config(depth=5))
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert made.proof_at({"config.depth": 5}).agrees
    built = made.build(arguments={"config.depth": 5}, weights=other)
    assert built.layers.norm1.weight.shape == (5, 8)
    built.eval()
    with torch.no_grad():
        np.testing.assert_allclose(built(jnp.asarray(ids().numpy())), other(ids()), rtol=1e-4, atol=1e-5)


# %% The mapping


@pytest.mark.parametrize("name", LIGHT_OR_LATER)
def test_the_mapping_stacks_and_takes_apart_bit_for_bit(name: str, tmp_path: Path) -> None:
    made, module = translated(name), module_of(name)
    state = {key: value.numpy() for key, value in module.state_dict().items()}
    save_mapping(made.mapping, tmp_path / "mapping.toml")
    mapping = read_mapping(tmp_path / "mapping.toml")
    assert mapping == made.mapping
    arrays: dict[str, np.ndarray] = {}
    for entry in mapping.entries:
        if entry.collection != "torch_only":
            arrays.update(zip(entry.targets, entry(gather(entry, state)), strict=True))
    assert arrays.keys() | {*made.hidden} == made.values.keys()
    back: dict[str, np.ndarray] = {}
    for entry in mapping.entries:
        if entry.collection != "torch_only":
            back.update(zip(entry.sources, entry.inverse()(gather(entry.inverse(), arrays)), strict=True))
    for key, array in back.items():
        np.testing.assert_array_equal(array, state[key])
    assert {key for key in state if "num_batches" not in key} <= back.keys()


@pytest.mark.sweep
def test_an_optimizer_goes_along_and_back() -> None:
    made, module = translated("LLaMA"), module_of("LLaMA")
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        module(ids()).pow(2).sum().backward()
        optimizer.step()
    variables = port.to_flax(module, rename=made.mapping)
    _, moved = port.to_optax(optimizer, params=variables, mapping=made.mapping, model=module)
    moments = [each.mu for each in jax.tree.leaves(moved, is_leaf=is_adam) if is_adam(each)]
    found = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(moments)}
    (kernel,) = (leaf for path, leaf in found.items() if "gate" in path)
    weight = module.get_parameter("layers.1.gate.weight")
    np.testing.assert_array_equal(kernel[1], optimizer.state[weight]["exp_avg"].T)
    other = torch.optim.AdamW(module.parameters(), lr=1e-2)
    port.load_optimizer(other, moved, mapping=made.mapping, model=module)
    for parameter in module.parameters():
        for kind in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(optimizer.state[parameter][kind], other.state[parameter][kind])


def is_adam(part: Any) -> bool:
    return isinstance(part, optax.ScaleByAdamState)


# %% The files


@pytest.mark.sweep
@pytest.mark.parametrize("form", ["file", "package", "standalone"])
def test_the_files_prove_themselves_and_load(form: str, tmp_path: Path) -> None:
    module = module_of("StochasticDepth")
    forms = {form: True} if form != "file" else {}
    options: dict[str, Any] = {"name": "stochastic", "scan": True, "static": True, "sizes_limit": 0, **forms}
    options |= {"remat": "DepthBlock", "remat_policy": "dots"}
    made = port.translate(module, NETS["StochasticDepth"][1], construct=NETS["StochasticDepth"][0], **options)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    folder = tmp_path / "stochastic"
    write_folder(made, folder, name="stochastic")
    source = folder if form == "package" else folder / "stochastic.py"
    proof = prove_files(source, module_of("StochasticDepth"), NETS["StochasticDepth"][1])
    assert proof.agrees, str(proof)
    if form == "standalone":
        assert "from port.nn" not in source.read_text()


@pytest.mark.sweep
def test_a_checkpoint_is_converted_with_the_mapping_and_back(tmp_path: Path) -> None:
    made = translated("LLaMA")
    save_mapping(made.mapping, tmp_path / "llama.mapping.toml")
    other = LLaMA()
    torch.save(other.state_dict(), tmp_path / "other.pt")
    there, back = str(tmp_path / "other.safetensors"), str(tmp_path / "back.pt")
    mapping = ["--mapping", str(tmp_path / "llama.mapping.toml")]
    assert main(["convert", str(tmp_path / "other.pt"), *mapping, "-o", there]) == 0
    assert main(["convert", there, "--reverse", "-o", back]) == 0
    found = torch.load(back)
    assert found.keys() == other.state_dict().keys()
    assert all(torch.equal(found[key], value) for key, value in other.state_dict().items())
    model = made.build()
    port.load(model, tmp_path / "other.pt", rename=tmp_path / "llama.mapping.toml")
    model.eval()
    with torch.no_grad():
        np.testing.assert_allclose(model(jnp.asarray(ids().numpy())), other(ids()), rtol=1e-4, atol=1e-5)
    # Layers in another order in the mapping are another model.
    text = (tmp_path / "llama.mapping.toml").read_text().replace("over = { i = 3 }", "over = { i = [2, 1, 0] }")
    (tmp_path / "turned.toml").write_text(text)
    port.load(model, tmp_path / "other.pt", rename=tmp_path / "turned.toml")
    assert not np.allclose(model(jnp.asarray(ids().numpy())), other(ids()).detach(), rtol=1e-2)


@pytest.mark.sweep
def test_a_model_without_numbers_has_stacks_too() -> None:
    with torch.device("meta"):
        module = LLaMA(Config(depth=5))
    made = port.translate(module, (ids(),), construct=lambda: LLaMA(Config(depth=5)), scan=True, at={"config.depth": 3})
    assert made.stacked == ("layers",) and not made.apart
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    (entry,) = (each for each in made.mapping.entries if each.targets == ("layers.norm1.weight",))
    assert entry.target_shapes() == ((5, 8),)


# %% Computed again


@pytest.mark.parametrize("policy", [None, "nothing", "dots", "everything"])
def test_layers_are_computed_again_inside_the_scan(policy: str | None) -> None:
    made = translated("StochasticDepth", remat="DepthBlock", policy=policy)
    said = "" if policy is None else f", policy=jax.checkpoint_policies.{policy}_saveable"
    # In a scan there is nothing that could be taken from the forward pass.
    assert f"    @nnx.remat(prevent_cse=False{said})\n    def __call__(self, x: jax.Array" in made.source
    graph, state = nnx.split(made.build())
    program = jax.make_jaxpr(lambda state: nnx.merge(graph, state, copy=True)(floats(3, 5, 6).numpy()))(state)
    (scan,) = (each for each in equations(program.jaxpr) if each.primitive.name == "scan")
    again = [each for each in equations(scan.params["jaxpr"].jaxpr) if "policy" in each.params]
    assert len(again) == 1
    assert (again[0].params["policy"] is None) is (policy is None)


@pytest.mark.sweep
def test_what_is_called_outside_a_scan_too_is_kept_from_the_forward_pass() -> None:
    assert "    @nnx.remat\n    def __call__" in translated("ResNet", remat="Residual").source


@pytest.mark.sweep
@pytest.mark.parametrize("policy", [None, "dots"])
def test_what_is_computed_again_is_the_same(policy: str | None) -> None:
    again = translated("LLaMA", remat="LLaMABlock", policy=policy)
    plain, ours = step_of(translated("LLaMA"), "LLaMA"), step_of(again, "LLaMA")
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-12)
    for key, array in plain[1].items():
        np.testing.assert_allclose(ours[1][key], array, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.sweep
def test_a_policy_says_what_is_kept() -> None:
    kept = {policy: kept_of(translated("LLaMA", remat="LLaMABlock", policy=policy)) for policy in ("nothing", "dots")}
    assert kept["nothing"] < kept["dots"] < kept_of(translated("LLaMA"))


def kept_of(made: Translation) -> int:
    """How many numbers the forward pass stores for the backward pass."""
    graph, params, rest = nnx.split(made.build(), nnx.Param, ...)  # type: ignore[misc]

    def loss(params: Any) -> Any:
        return nnx.merge(graph, params, rest, copy=True)(made.to_flax(ids())[0]).sum()

    left = jax.eval_shape(lambda params: jax.vjp(loss, params)[1], params)
    return sum(leaf.size for leaf in jax.tree.leaves(left))


# %% What is no stack, and bad input


@pytest.mark.parametrize("name", NO_STACKS)
def test_a_list_that_is_none_stays_and_it_is_said_why(name: str) -> None:
    cls, why = NO_STACKS[name]
    made = port.translate(cls(), (floats(3, 4),), scan=True, static=True, check=False)
    assert made.stacked == () and len(made.apart) == 1
    assert why in made.apart[0]
    assert "nnx.scan" not in made.source


def test_policies_that_there_are_none_of() -> None:
    with pytest.raises(UnknownChoice, match="unknown remat policy 'dot'; there are: dots, nothing"):
        port.translate(GPT(), (ids(),), remat="GPTBlock", remat_policy="dot")
    with pytest.raises(UsageError, match="name them"):
        port.translate(GPT(), (ids(),), remat_policy="dots")
    with pytest.raises(UsageError, match="a remat policy is a name"):
        port.translate(GPT(), (ids(),), remat="GPTBlock", remat_policy=3)  # type: ignore[arg-type]


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["LLaMA", "StochasticDepth", "ResNet"])
def test_half_precision_is_that_of_the_list(name: str) -> None:
    call = nnx.jit(lambda model, *given: model(*given))
    for options in ({"param_dtype": jnp.bfloat16}, {"dtype": jnp.bfloat16}):
        for dtype in (jnp.float32, jnp.bfloat16):
            given = [
                jnp.asarray(each, dtype if each.dtype.kind == "f" else int)
                for each in translated(name).to_flax(NETS[name][1])
            ]
            one, other = (call(translated(name, scan=scan).build(**options), *given) for scan in (False, True))
            assert one.dtype == other.dtype, (options, dtype)
