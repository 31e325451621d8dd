"""A PEFT folder's tensors: each is of a module, or a whole of its own; all that is neither is named."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from port.errors import BrokenWeights, WeightsMismatch
from port.weights.adapter_files import Factors, opened_adapter
from port.weights.adapter_folder import is_adapter
from tests.port.weights import some_adapter
from tests.port.weights.some_adapter import FACTORS, arrays_of, changed

UP, DOWN = (f"base_model.model.blocks.0.up.lora_{which}.weight" for which in "AB")


@pytest.fixture
def files(tmp_path):
    return some_adapter.written(tmp_path)


def test_each_module_has_its_factors(files):
    _, folder, module = files
    assert is_adapter(folder)
    assert not is_adapter(folder.parent)
    with opened_adapter(folder) as adapter:
        assert {each.path: (each.rank, each.scaling) for each in adapter.factors} == FACTORS
        first = next(each for each in adapter.factors if each.path == "blocks.0.up")
        assert first == Factors("blocks.0.up", UP, DOWN, 1.5, 2)
        assert first.weight == "blocks.0.up.weight"
        assert adapter.whole == {f"head.{name}": f"base_model.model.head.{name}" for name in ("weight", "bias")}
        assert set(adapter.tensors) == set(arrays_of(module))


def test_an_older_folder_is_read_and_not_unpickled(files, tmp_path):
    _, folder, module = files
    (folder / "adapter_model.safetensors").unlink()
    torch.save(
        {name: torch.from_numpy(array) for name, array in arrays_of(module).items()}, folder / "adapter_model.bin"
    )
    with opened_adapter(folder) as adapter:
        assert adapter.tensors[UP].tobytes() == arrays_of(module)[UP].tobytes()

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "was here"), "w"))

    with open(folder / "adapter_model.bin", "wb") as file:
        pickle.dump({UP: Evil()}, file)
    with pytest.raises(BrokenWeights), opened_adapter(folder):
        pass
    assert not (tmp_path / "was here").exists()


def test_all_that_is_wrong_is_named_at_once(files):
    _, folder, module = files
    arrays = arrays_of(module)
    arrays["base_model.model.blocks.0.up.lora_magnitude_vector"] = np.zeros(10)
    arrays["blocks.1.up.lora_C.weight"] = np.zeros(10)
    arrays.pop("base_model.model.blocks.0.down.lora_B.weight")
    arrays[DOWN] = np.zeros((10, 3))
    arrays["base_model.model.blocks.1.down.lora_A.weight"] = np.zeros(10)
    with pytest.raises(WeightsMismatch) as caught, opened_adapter(changed(folder, arrays)):
        pass
    said = str(caught.value)
    assert "does not fit" in said.splitlines()[0]
    assert "adapter_config.json" in said.splitlines()[0]
    assert [line.strip() for line in said.splitlines()[1:]] == [
        "base_model.model.blocks.0.up.lora_B.weight has shape (10, 3): it is (out, rank), and the rank of blocks.0.up "
        "is 2",
        "base_model.model.blocks.1.down.lora_A.weight has shape (10,): it is (rank, in), and the rank of "
        "blocks.1.down is 2",
        "missing: the lora_B of blocks.0.down, whose base_model.model.blocks.0.down.lora_A.weight is there",
        "unexpected: base_model.model.blocks.0.up.lora_magnitude_vector: no lora_A.weight, lora_B.weight, "
        "lora_embedding_A or lora_embedding_B",
        "unexpected: blocks.1.up.lora_C.weight: PEFT's names begin with base_model.model.",
        "unexpected: blocks.1.up.lora_C.weight: no lora_A.weight, lora_B.weight, lora_embedding_A or lora_embedding_B",
    ]


def test_a_rank_that_is_not_the_config_s(files):
    _, folder, module = files
    with pytest.raises(WeightsMismatch) as caught, opened_adapter(changed(folder, arrays_of(module), r=3)):
        pass
    assert str(caught.value).count("the rank of blocks.0.down is 3") == 2


def test_a_folder_without_weights(files):
    _, folder, _ = files
    (folder / "adapter_model.safetensors").write_bytes(b"nothing")
    with pytest.raises(BrokenWeights, match=r"adapter_model\.safetensors"), opened_adapter(folder):
        pass
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(BrokenWeights, match="an adapter's config and no weights"), opened_adapter(folder):
        pass
