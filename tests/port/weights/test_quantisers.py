"""What quantisers themselves write: widened as they widen it, and back to the last bit. Skipped where one lacks."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from port.weights.sources import opened
from port.weights.widening import widened, widening_entries


def check(state, wide, said=None):
    """Each weight is widened to what its quantiser says, and its bits come back."""
    with opened(state) as tensors:
        made = widened(tensors, "float32", said)
        entries = widening_entries(tensors, "float32", said)
        assert set(entries) == set(wide)
        for name, entry in entries.items():
            assert np.array_equal(made[name], wide[name].detach().numpy())  # −0 has no eight bits in int8
            for source, array in zip(entry.sources, entry.inverse()((made[name],)), strict=True):
                assert array.dtype == tensors[source].dtype
                assert array.tobytes() == tensors[source].tobytes()


@pytest.mark.parametrize("scales", ["float", "ue8m0"])
@pytest.mark.parametrize("blocks", [(128, 128), (64, 32), None], ids=str)
def test_transformers(scales, blocks):
    fp8 = pytest.importorskip("transformers.integrations.finegrained_fp8")
    torch.manual_seed(0)
    told = SimpleNamespace(weight_block_size=None if blocks is None else list(blocks), scale_fmt=scales)
    quantiser = SimpleNamespace(quantization_config=told)
    weights = {"up.weight": torch.randn(384, 256) / 50, "experts.gate_up": torch.randn(4, 256, 128) / 50}
    state = {}
    for name, weight in weights.items():
        state |= fp8.Fp8Quantize(quantiser)._quantize_one(name, weight)
    assert len(state) == 4
    ends = {"up.weight": "up.weight_scale_inv", "experts.gate_up": "experts.gate_up_scale_inv"}
    undo = fp8.Fp8Dequantize(quantiser)._dequantize_one
    check(state, {name: undo(state[name], state[end], torch.float32) for name, end in ends.items()}, blocks)


LAYOUTS = {
    "float8, one": {"type": "float", "strategy": "tensor"},
    "float8, rows": {"type": "float", "strategy": "channel"},
    "float8, blocks": {"type": "float", "strategy": "block", "block_structure": [128, 128]},
    "int8, rows": {"type": "int", "strategy": "channel"},
    "int8, groups": {"type": "int", "strategy": "group", "group_size": 64},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_compressed_tensors(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantization = pytest.importorskip("compressed_tensors.quantization", exc_type=ImportError)
        from compressed_tensors.compressors import ModelCompressor
        from compressed_tensors.quantization.lifecycle.forward import fake_quantize
        from compressed_tensors.quantization.utils import calculate_qparams
    given = LAYOUTS[name]
    arguments = quantization.QuantizationArgs(num_bits=8, symmetric=True, **given)
    # Of weights alone it would pack four numbers into one.
    dynamic = quantization.QuantizationArgs(num_bits=8, type=given["type"], strategy="token", dynamic=True)
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=arguments, input_activations=dynamic)
    torch.manual_seed(0)
    sizes = {"up": (256, 384), "down": (384, 256)}
    model = torch.nn.ModuleDict({path: torch.nn.Linear(*each, bias=False) for path, each in sizes.items()})
    quantization.apply_quantization_config(model, quantization.QuantizationConfig(config_groups={"all": scheme}))
    wide = {}
    for path, linear in model.items():
        weight, scales = linear.weight.data, linear.weight_scale
        counts = (1, 1) if scales.numel() == 1 else tuple(scales.shape)
        parts = weight.reshape(counts[0], weight.shape[0] // counts[0], counts[1], weight.shape[1] // counts[1])
        least, most = parts.amin((1, 3)).reshape(scales.shape), parts.amax((1, 3)).reshape(scales.shape)
        scales.data.copy_(calculate_qparams(least, most, arguments)[0].reshape(scales.shape))
        wide[f"{path}.weight"] = fake_quantize(weight, scales, getattr(linear, "weight_zero_point", None), arguments)
    ModelCompressor.from_pretrained_model(model).compress_model(model)
    check(dict(model.state_dict()), wide)


def test_a_changed_bit_is_seen():
    state = {"up.weight": np.full((3, 2), 127, np.int8), "up.weight_scale": np.ones((3, 1), np.float32)}
    check(state, {"up.weight": torch.full((3, 2), 127.0)})
    with pytest.raises(AssertionError):
        check(state, {"up.weight": torch.full((3, 2), 126.99999)})
