"""The files of a package: together they have exactly the statements of the single source."""

from __future__ import annotations

import ast
import sys

import pytest

from port.translation.codegen.module_of_source import MODEL
from port.translation.codegen.packages import WrittenPackage, distributed
from port.translation.codegen.packages.loading import loaded_package
from port.translation.codegen.packages.original_files import OriginalDefinition

HEAD = '''"""Net, translated from PyTorch to Flax NNX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
'''


def defined(name: str, body: str, module: str) -> tuple[str, OriginalDefinition]:
    """A class of a written source, and what it was made from."""
    text = f'class {name}:\n    """Translated from {module}.{name}."""\n\n    def __init__(self):\n        {body}\n'
    return text, OriginalDefinition(name, module, f"/w/{module.replace('.', '/')}.py" if module else None)


def package(*classes: tuple[str, OriginalDefinition], root: str = "Net", more: str = "") -> WrittenPackage:
    names = [text.partition(":")[0].removeprefix("class ") for text, _ in classes]
    source = "\n\n".join([HEAD, more, *(text for text, _ in classes), LOAD])
    originals = {name: original for name, (_, original) in zip(names, classes, strict=True)}
    return distributed(source, originals, root=root, name="net", title="Net, translated from PyTorch to Flax NNX.")


LOAD = '''def load(path=Path(__file__).with_name("net.safetensors")):
    """The model, and where its weights are."""
    return Net(), path
'''
NORM = defined("Norm", "self.root = math.sqrt(4)", "pkg.layers.norms")
BLOCK = defined("Block", "self.norm = Norm()", "pkg.layers.blocks")
NET = defined("Net", "self.block, self.norm = Block(), Norm()", "pkg.model")


def test_a_file_for_each_of_the_original_s() -> None:
    files = package(NORM, BLOCK, NET).files
    assert list(files) == ["__init__.py", "layers/__init__.py", "layers/blocks.py", "layers/norms.py", "model.py"]
    assert files["layers/norms.py"].startswith(
        '"""pkg.layers.norms, translated from PyTorch to Flax NNX."""\n\nfrom __future__'
    )
    imports = [
        [line for line in files[file].splitlines() if "import" in line and "__future__" not in line]
        for file in ("layers/norms.py", "layers/blocks.py", "model.py", "__init__.py")
    ]
    assert imports[:2] == [["import math"], ["from .norms import Norm"]], "its own imports, and no other's"
    assert imports[2] == [
        "from pathlib import Path",
        "from .layers.blocks import Block",
        "from .layers.norms import Norm",
    ]
    assert imports[3] == ["from .model import Net, load"]


def test_the_same_statements_only_distributed() -> None:
    """Each once; in the root's file what is no class."""
    made = package(NORM, BLOCK, NET)
    parts = [node for text in made.files.values() for node in ast.parse(text).body]
    kinds = ast.ClassDef | ast.FunctionDef
    source = ast.parse("\n\n".join([NORM[0], BLOCK[0], NET[0], LOAD])).body
    assert sorted(ast.dump(node) for node in parts if isinstance(node, kinds)) == sorted(map(ast.dump, source))


def test_it_is_imported_and_leaves_no_trace() -> None:
    before = set(sys.modules), list(sys.meta_path)
    modules = loaded_package(package(NORM, BLOCK, NET).files, "net")
    assert set(modules) == {"", "layers", "layers.blocks", "layers.norms", "model"}
    model, path = modules[""].load()
    assert type(model.block.norm) is type(model.norm) is modules["layers.norms"].Norm
    assert path.name == "net.safetensors" and path.parent.name.startswith("<net")
    assert (set(sys.modules), list(sys.meta_path)) == before


def test_the_root_in_a_folder_finds_the_files_beside_the_package() -> None:
    made = package(defined("Norm", "pass", "pkg.norms"), defined("Net", "self.norm = Norm()", "pkg.deep.est.model"))
    modules = loaded_package(made.files, "net")
    assert modules[""].load()[1] == type(modules[""].load()[1])(modules[""].__file__).with_name("net.safetensors")


def test_files_that_need_each_other_are_one() -> None:
    made = package(
        defined("Base", "pass", "pkg.model"),
        defined("Block", "self.base = Base()", "pkg.blocks"),
        defined("Net", "self.block = Block()", "pkg.model"),
    )
    assert list(made.files) == ["__init__.py", "model.py"]
    assert made.remarks == ("model.py and blocks.py need each other, and imports go one way: model.py has it all",)
    assert made.files["model.py"].startswith('"""pkg.model and pkg.blocks, translated from PyTorch to Flax NNX."""')
    assert loaded_package(made.files, "net")[""].load()


def test_one_name_in_two_files() -> None:
    """A number that one source needs is left out in a file that does not: of the class, and where it is read."""
    other = 'class Block2:\n    def __init__(self):\n        self.inner = Block2 if False else f"{Block2.__name__}"\n'
    user = "class Holder:\n    def __init__(self):\n        self.block = Block2()\n"
    made = package(
        defined("Block", "pass", "pkg.first"),
        (other, OriginalDefinition("Block", "pkg.other.first", "/w/pkg/other/first.py")),
        (user, OriginalDefinition("Holder", "pkg.other.first", "/w/pkg/other/first.py")),
        defined("Net", "self.one, self.other, self.holder = Block(), Block2(), Holder()", "pkg.model"),
    )
    assert "Block2" not in made.files["other/first.py"] and "\nclass Block:" in made.files["other/first.py"]
    assert "from .other.first import Block as Block2, Holder\n" in made.files["model.py"].replace(
        "Block as Block2\nfrom .other.first import Holder", "Block as Block2, Holder"
    )
    assert made.homes["Block2"] == ("other.first", "Block")
    model = loaded_package(made.files, "net")[""].load()[0]
    assert [type(part).__module__.partition(".")[2] for part in (model.one, model.other)] == ["first", "other.first"]
    assert type(model.holder.block) is type(model.other) and model.other.inner == "Block"


@pytest.mark.parametrize("taken", ["Block(pkg.other)", "imported", "local"])
def test_a_number_stays_where_the_name_is_taken(taken: str) -> None:
    body = {"Block(pkg.other)": "pass", "imported": "self.first = Block()", "local": "Block = 3"}[taken]
    home = "pkg.other" if taken == "Block(pkg.other)" else "pkg.first"
    text = f"class Block2:\n    def __init__(self):\n        {body}\n"
    made = package(
        defined("Block", "pass", home),
        (text, OriginalDefinition("Block", "pkg.other", "/w/pkg/other.py")),
        defined("Net", "self.one, self.other = Block(), Block2()", "pkg.model"),
    )
    assert "class Block2:" in made.files["other.py"]
    assert loaded_package(made.files, "net")[""].load()


def test_what_no_file_defines_stands_where_it_is_needed_first() -> None:
    odd = ("class Odd:\n    pass\n", OriginalDefinition("Odd", "__main__", None))
    made = package(odd, defined("Block", "self.odd = Odd()", "pkg.blocks"), NORM, NET)
    assert "class Odd:" in made.files["blocks.py"]
    assert made.remarks == ("__main__.Odd is in no file: blocks.py has it",)
    alone = ("class Net:\n    pass\n", OriginalDefinition("Net", "__main__", None))
    made = package(odd, alone)
    assert list(made.files) == ["__init__.py", "net.py"] and made.files["net.py"].count("class ") == 2
    assert made.files["net.py"].startswith('"""Net, translated from PyTorch to Flax NNX."""'), (
        "as the single file begins"
    )
    layer = ("class Net:\n    pass\n", OriginalDefinition("Net", "torch.nn.modules.layer", None, is_own=False))
    assert package(layer).remarks == ()


def test_tables_are_beside_what_reads_them() -> None:
    more = 'TABLES = Path(__file__).with_name("net.tables.safetensors")\n'
    reads = defined("Norm", "self.table = TABLES", "pkg.layers.norms")
    made = package(reads, NET, defined("Block", "self.norm = Norm()", "pkg.layers.blocks"), more=more)
    modules = loaded_package(made.files, "net")
    assert modules["layers.norms"].TABLES.parent == modules[""].load()[1].parent


def test_the_package_s_own_file_is_the_original_s() -> None:
    """With the root in it, or beside it: what it imports from is there first."""
    base = ("class Base:\n    pass\n", OriginalDefinition("Base", "pkg", "/w/pkg/__init__.py"))
    text, _ = defined("Net", "self.block, self.norm = Block(), Norm()", "pkg")
    inside = package(NORM, BLOCK, (text, OriginalDefinition("Net", "pkg", "/w/pkg/__init__.py")))
    beside = package(base, defined("Net", "self.base = Base()", "pkg.model"))
    assert "model.py" not in inside.files and "class Net" in inside.files["__init__.py"]
    assert "class Base" in beside.files["__init__.py"] and "from . import Base" in beside.files["model.py"]
    for made in (inside, beside):
        assert loaded_package(made.files, "net")[""].load()


def test_copies_are_a_file_of_their_own() -> None:
    """Of a standalone source."""
    copied = f"def kernel():\n    return np.ones(3)\n\n\n{MODEL}\n\n\n"
    made = package(defined("Net", "self.kernel = kernel()", "pkg.from_port"), more=copied)
    assert list(made.files) == ["__init__.py", "from_port.py", "from_port_2.py"]
    assert "from .from_port import kernel" in made.files["from_port_2.py"]
    assert made.files["from_port.py"].count("import") == 2 and MODEL not in "".join(made.files.values())
    assert "def kernel" not in made.own_text and made.homes["kernel"] == ("from_port", "kernel")
    assert loaded_package(made.files, "net")[""].load()[0].kernel.sum() == 3
