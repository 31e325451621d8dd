"""PEFT itself beside: what it saves is read, what it computes is computed. Skipped where it is not installed."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from safetensors.numpy import load_file

import port
from tests.port.weights import some_adapter

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    peft = pytest.importorskip("peft", reason="PEFT is not installed", exc_type=ImportError)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 6)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 8), torch.nn.Linear(8, 6, bias=False)])
        self.conv = torch.nn.Conv1d(6, 4, 3)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        x = x + self.layers[1](torch.tanh(self.layers[0](x)))
        return self.head(self.conv(x.transpose(1, 2)).transpose(1, 2))


CONFIGS = {
    "plain": {"target_modules": ["layers.0", "layers.1"]},
    "patterns": {
        "target_modules": r".*(layers\.\d|conv|tokens)",
        "rank_pattern": {"layers.0": 4, "conv": 3},
        "alpha_pattern": {r"layers\.1": 7},
    },
    "by the rank's root, whole modules, biases": {
        "target_modules": ["0", "conv"],
        "use_rslora": True,
        "modules_to_save": ["head"],
        "bias": "all",
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_what_it_saves_is_merged_as_it_merges(tmp_path, name):
    torch.manual_seed(1)
    net = Net().double()
    base = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    adapted = peft.get_peft_model(net, peft.LoraConfig(r=2, lora_alpha=3, **CONFIGS[name])).double()
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter))
    adapted.save_pretrained(tmp_path)
    twin = Net().double()
    port.load(twin, base, adapter=tmp_path)
    ids = torch.tensor([[1, 10, 0, 4, 5]])
    with torch.no_grad():
        wanted = adapted(ids)
        assert (twin(ids) - wanted).abs().max() < 1e-12 * wanted.abs().max()
    for key, tensor in adapted.merge_and_unload().state_dict().items():
        assert np.abs(tensor.numpy() - twin.state_dict()[key].numpy()).max() < 1e-13, key


IDS = np.array([[1, 10, 0, 4], [3, 3, 7, 9]])


def adapted_by_peft(base, folder):
    module = some_adapter.Torch().double()
    module.load_state_dict({name: torch.from_numpy(array) for name, array in load_file(base).items()})
    return peft.PeftModel.from_pretrained(module, str(folder), is_trainable=True).double()


def gradients_of_peft(adapted):
    adapted(torch.from_numpy(IDS)).square().sum().backward()
    return {
        name.removeprefix("base_model.model.").replace(".default", ""): value.grad.numpy()
        for name, value in adapted.named_parameters()
        if "lora_" in name
    }


@pytest.mark.parametrize("like", [True, False])
def test_it_loads_what_is_written(tmp_path, like, float64):
    """An adapter that was trained in JAX: PEFT computes the same of it, and the same gradients."""
    base, adapter, _ = some_adapter.written(tmp_path)
    model = some_adapter.Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    port.load(model, base, adapter=adapter, merge=False)
    loss = lambda m: jnp.square(m(IDS)).sum()  # noqa: E731
    wrt = nnx.DiffState(0, nnx.LoRAParam)
    state = nnx.state(model, nnx.LoRAParam)
    steps = nnx.grad(loss, argnums=wrt)(model)
    nnx.update(model, jax.tree.map(lambda value, step: value - 1e-2 * step, state, steps))
    told = {"like": adapter} if like else {"saved": ["head"], "base": "someone/net"}
    port.save_adapter(model, tmp_path / "trained", **told)
    adapted = adapted_by_peft(base, tmp_path / "trained")
    assert np.abs(adapted(torch.from_numpy(IDS)).detach().numpy() - np.asarray(model(IDS))).max() < 1e-12
    theirs = gradients_of_peft(adapted)
    ours = {".".join(map(str, path)): v[...] for path, v in nnx.to_flat_state(nnx.grad(loss, argnums=wrt)(model))}
    assert len(theirs) == len(ours) == 8
    for path, gradient in ours.items():
        name = path.replace("lora_a", "lora_A.weight").replace("lora_b", "lora_B.weight")
        assert np.abs(np.asarray(gradient).T - theirs[name]).max() < 1e-10, path


SIZES = {
    "llama": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32},
}
TARGETS = {"llama": "all-linear", "gpt2": ["c_attn", "c_fc"]}  # GPT-2's weights are (in, out): fan_in_fan_out


@pytest.mark.sweep
@pytest.mark.parametrize("name", SIZES)
def test_models_of_transformers(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, vocab_size=64, **SIZES[name])
    make = transformers.AutoModelForCausalLM.from_config
    model, twin = make(config).double().eval(), make(config).double().eval()
    base = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = peft.LoraConfig(r=4, lora_alpha=7, target_modules=TARGETS[name], task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(model, told).double().eval()
        with torch.no_grad():
            for parameter in adapted.parameters():
                if parameter.requires_grad:
                    parameter.copy_(torch.randn_like(parameter) / 5)
        adapted.save_pretrained(tmp_path)
    port.load(twin, base, adapter=tmp_path)
    ids = torch.arange(10)[None]
    with torch.no_grad():
        wanted = adapted(ids).logits
        assert (twin(ids).logits - wanted).abs().max() < 1e-12
        port.load(twin, base)
        assert (twin(ids).logits - wanted).abs().max() > 1e-2
