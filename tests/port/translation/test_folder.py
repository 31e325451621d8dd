"""The folder of a translation: its name, written completely or not at all, with files that refer to each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import port
from port.errors import BrokenWeights, FolderExists, UsageError, WeightsMismatch
from port.translation import Translation, folder
from port.translation.codegen.packages import WrittenPackage
from port.translation.folder import (
    Original,
    check_name,
    check_package_folder,
    file_name,
    test_source,
    write_folder,
)
from port.translation.verify.reverify import prove_files
from port.weights.conversion import convert

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class Held(nn.Module):
    """Has a buffer that no state dict holds, an argument that is no tensor, and two results."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width, bias=False)
        self.register_buffer("scale", torch.tensor([2.0, 3.0, 5.0])[:width], persistent=False)

    def forward(self, x: torch.Tensor, flag: bool = True) -> dict[str, torch.Tensor]:
        return {"sum": self.second(self.first(x)) * self.scale, "x": x}


@pytest.fixture(scope="module")
def translation() -> Translation:
    torch.manual_seed(3)
    return port.translate(Held(), torch.randn(2, 3), name="held", check=False)


def test_the_files_prove_themselves_again(translation: Translation, tmp_path: Path) -> None:
    files = write_folder(translation, tmp_path / "out", name="held")
    assert [path.name for path in files] == ["held.mapping.toml", "held.py", "held.safetensors"]
    source = tmp_path / "out" / "held.py"
    proof = prove_files(source, Held(), torch.randn(4, 3))
    assert proof.agrees and len(proof.rows) >= 6, str(proof)
    with pytest.raises(WeightsMismatch, match="of another model than Held as it is built here"):
        prove_files(source, Held(2), torch.randn(4, 2))
    with pytest.raises(UsageError, match=r"the original is a torch\.nn\.Module, got int"):
        prove_files(source, 3, ())  # type: ignore[arg-type]


def test_a_hidden_buffer_has_its_fingerprint(translation: Translation, tmp_path: Path) -> None:
    write_folder(translation, tmp_path / "out", name="held")
    weights = tmp_path / "out" / "held.safetensors"
    content = weights.read_bytes()
    assert content.count(torch.tensor([2.0, 3.0, 5.0]).numpy().tobytes()) == 1
    changed = torch.tensor([2.0, 3.0, 7.0]).numpy().tobytes()
    weights.write_bytes(content.replace(torch.tensor([2.0, 3.0, 5.0]).numpy().tobytes(), changed))
    with pytest.raises(WeightsMismatch, match=r"weights that were translated: scale$"):
        prove_files(tmp_path / "out" / "held.py", Held(), torch.randn(4, 3))


def test_the_weights_go_back_by_themselves(translation: Translation, tmp_path: Path) -> None:
    """Through the file, the mapping beside it, the original, and out of the module; the hidden buffer stays there."""
    write_folder(translation, tmp_path / "out", name="held")
    weights, mapping = tmp_path / "out" / "held.safetensors", tmp_path / "out" / "held.mapping.toml"
    torch.manual_seed(3)
    state = Held().state_dict()
    done = convert(weights, tmp_path / "back.pth", reverse=True)
    assert list(done.left_out) == ["scale"]
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    for given in (
        back,
        port.to_torch(weights),
        port.to_torch(weights, rename=mapping),
        port.to_torch(weights, like=Held()),
        port.to_torch(weights, rename=mapping, like=Held()),
        port.to_torch(translation.module, rename=translation.mapping),
        port.to_torch(translation.module, like=Held()),
    ):
        assert set(given) == set(state) and all(torch.equal(given[name], state[name]) for name in state)
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(WeightsMismatch, match="does not come back as it was converted"):
        port.to_torch(weights)


def test_files_that_are_no_translation_s(translation: Translation, tmp_path: Path) -> None:
    write_folder(translation, tmp_path / "out", name="held")
    source = tmp_path / "out" / "held.py"
    port.weights.write_arrays(source.with_suffix(".safetensors"), translation.values)
    with pytest.raises(BrokenWeights, match="has no translation metadata"):
        prove_files(source, Held(), torch.randn(4, 3))
    source.with_suffix(".safetensors").unlink()
    with pytest.raises(BrokenWeights, match="cannot be read"):
        prove_files(source, Held(), torch.randn(4, 3))


def test_whole_or_not_at_all(translation: Translation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "save_mapping", full)
        with pytest.raises(BrokenWeights, match="No space left on device"):
            write_folder(translation, tmp_path / "out", name="held")
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").mkdir()
    with pytest.raises(FolderExists, match="is there already"):
        write_folder(translation, tmp_path / "out", name="held")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FolderExists):
        write_folder(translation, tmp_path / "link", name="held")
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_that_cannot_be_made_is_seen_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.check_folder(tmp_path / "deep" / "deeper" / "out")
    monkeypatch.chdir(tmp_path)
    folder.check_folder(Path("out"))
    (tmp_path / "file").touch()
    for inside in ("file/out", "file/deep/out"):
        with pytest.raises(UsageError, match="file is a file, not a folder"):
            folder.check_folder(tmp_path / inside)
    monkeypatch.setattr(folder.os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(UsageError, match=f"no files may be made in {tmp_path}"):
        folder.check_folder(Path("deep") / "out")


def test_a_package_is_there_whole_or_not_at_all(
    translation: Translation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    texts = {"__init__.py": "from .deep.held import load\n", "deep/__init__.py": "", "deep/held.py": translation.source}
    made = replace(translation, package=WrittenPackage(texts))
    with monkeypatch.context() as patch:
        patch.setattr(folder, "save_mapping", full)
        with pytest.raises(BrokenWeights, match="No space left on device"):
            write_folder(made, tmp_path / "out", name="held")
    assert not list(tmp_path.iterdir())
    files = write_folder(made, tmp_path / "out", name="held", original=Original("pkg.model:Held"))
    beside = {"held.mapping.toml", "held.safetensors", "test_held.py"}
    assert {path.relative_to(tmp_path / "out").as_posix() for path in files} == texts.keys() | beside
    assert "prove_files(Path(__file__).parent, module" in (tmp_path / "out" / "test_held.py").read_text()
    with pytest.raises(FolderExists, match="is there already"):
        write_folder(made, tmp_path / "out", name="held")
    with pytest.raises(UsageError, match="'out-2' is not a valid name in Python"):
        write_folder(made, tmp_path / "out-2", name="held")


def test_a_package_hides_no_other_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Python's search path; inside another package it may have any name."""
    check_package_folder(tmp_path / "json")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="would hide another module named json"):
        check_package_folder(tmp_path / "json")
    check_package_folder(tmp_path / "ported" / "json")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("ResNet50", "resnet50"),
        ("json", "json_flax"),
        ("Torch", "torch_flax"),
        ("import", "import_flax"),
        ("3D", "model_3d"),
        ("vit_layers.0", "vit_layers_0"),
        ("Größe", "gr__e"),
        ("_", "model"),
    ],
)
def test_names_that_hide_no_other_module(wanted: str, name: str) -> None:
    assert file_name(wanted) == name


@pytest.mark.parametrize("name", ["", "my net", "a.b", "../x", "class", "1a", "numpy", "types"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


def test_the_source_of_the_test_for_every_kind_of_original() -> None:
    odd = Original("pkg.mod:Outer.build", {"class": 1, "w": [1, None, True, "a\"b'"]}, inputs="pkg.data:make.inputs")
    text = test_source("net", odd)
    compile(text, "test_net.py", "exec")
    assert "from pkg.mod import Outer as original_holder" in text
    assert "module = original_holder.build(**{" in text and "None, True" in text
    assert "calls(example_inputs_holder.inputs())" in text
    part = test_source("net", Original("mod:net", None, ("1,2", "3:int64"), submodule="layer1.0"))
    compile(part, "test_net.py", "exec")
    assert "module = original\n" in part and 'drawn("1,2", "3:int64")' in part
    assert 'part, args, kwargs = inside(module, "layer1.0", args, kwargs)' in part
