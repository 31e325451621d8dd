"""Standalone sources contain what they imported from port, and run without port."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from flax import nnx
from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]
from torch import Tensor, nn

import port
import port.nn
import port.nn.functional
from port.errors import UsageError
from port.translation.codegen.emit import formatted
from port.translation.codegen.module_of_source import loaded
from port.translation.codegen.vendor import with_own_copies
from port.translation.folder import write_folder

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("port", "torch", "torchvision"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, ".")
"""


def run_without_port(program: str, folder: Path) -> str:
    """What a program prints in a Python of its own, in which an import of port or torch fails."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lint(text: str) -> str:
    """What a linter says."""
    select = ["--isolated", "--select", "E,F,W,I,UP", "--line-length", "120", "--quiet", "-"]
    done = subprocess.run([find_ruff_bin(), "check", *select], input=text, capture_output=True, text=True, check=False)
    return done.stdout


# %% Models, where there is no port


class Pooled(nn.Module):
    """Names of its own that port's functions have, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm2d(4)
        self.instance = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        self.act = nn.PReLU(4)

    def forward(self, x: Tensor) -> Tensor:
        pad = self.act(self.norm(self.conv(x)))
        pad = F.pad(pad, (1, 2, 0, 1), mode="replicate")
        interpolate = F.interpolate(self.instance(pad), scale_factor=2, mode="bilinear")
        interpolate = F.interpolate(interpolate, size=(5, 3), mode="nearest")
        return F.adaptive_avg_pool2d(F.avg_pool2d(interpolate, 2, ceil_mode=True), (2, 1)).flatten(1)


class Recurrent(nn.Module):
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6, padding_idx=0, scale_grad_by_freq=True)
        self.lstm = nn.LSTM(6, 5, bidirectional=True, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(10, 2, 12, batch_first=True, dropout=0.0)
        self.register_buffer("table", torch.randn(10, 3))

    def forward(self, ids: Tensor) -> Tensor:
        x, _ = self.lstm(self.embed(ids))
        return self.layer(x) @ self.table


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
        self.second = nn.Linear(5, 6)
        self.norm = nn.LayerNorm(6)
        self.pair = nn.Bilinear(6, 5, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        z = F.hardsigmoid(self.norm(self.second(F.celu(y, 0.7))))
        return F.cosine_similarity(self.pair(z, y), F.hardshrink(y[:, :4], 0.1), dim=-1)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "pooled": (Pooled, lambda: torch.randn(3, 2, 7, 5)),
    "recurrent": (Recurrent, lambda: torch.randint(7, (3, 4))),
    "wrapped": (Wrapped, lambda: torch.randn(4, 6)),
}
STEP = """
def step(model, x):
    import jax, numpy as np
    from flax import nnx

    model.train()
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def loss(params):
        model = nnx.merge(graph, params, rest, copy=True)
        y = model(x)
        return (y**2).sum(), (y, nnx.state(model, nnx.Not(nnx.RngState)))

    (_, (y, state)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    found = {"y": y}
    for what, tree in (("state", state), ("gradient", gradients)):
        found |= {".".join(map(str, (what, *path))): v[...] for path, v in nnx.to_flat_state(tree)}
    return {name: np.asarray(array) for name, array in found.items()}
"""
RUN = """
import importlib
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
for name in NAMES:
    model = importlib.import_module(name).load(param_dtype=np.float64)
    np.savez(f"{name}.step.npz", **step(model, np.load(f"{name}.x.npy")))
assert not [name for name in sys.modules if name.partition(".")[0] in ("port", "torch")]
"""


def compared(names: list[str], folder: Path) -> None:
    """Both sources of some models take the same step in training, the standalone one without port."""
    wanted: dict[str, dict[str, np.ndarray]] = {}
    helper: dict[str, Any] = {}
    exec(STEP, helper)
    for name in names:
        with torch.random.fork_rng():
            torch.manual_seed(4)
            module, x = MODELS[name][0](), MODELS[name][1]()
        plain = port.translate(module, x, name=name, check=False)
        alone = port.translate(module, x, name=name, check=False, standalone=True)
        assert "port" in plain.source and alone.standalone and lint(alone.source) == ""
        for path in write_folder(alone, folder / name, name=name):
            path.rename(folder / path.name)
        with jax.enable_x64(True):
            given = np.asarray(alone.to_flax(x)[0])
            given = given.astype(np.float64) if given.dtype.kind == "f" else given
            np.save(folder / f"{name}.x.npy", given)
            wanted[name] = helper["step"](plain.build(param_dtype=jnp.float64), given)
    run_without_port(f"NAMES = {names!r}\n{STEP}{RUN}", folder)
    for name, arrays in wanted.items():
        found = np.load(folder / f"{name}.step.npz")
        assert found.keys() == arrays.keys() and len(arrays) > 8
        for key, array in arrays.items():
            np.testing.assert_allclose(found[key], array, rtol=1e-9, atol=1e-12, err_msg=f"{name}: {key}")


@pytest.mark.sweep
def test_a_model_runs_without_port(tmp_path: Path) -> None:
    compared(["pooled"], tmp_path)
    source = (tmp_path / "pooled.py").read_text()
    # The model's own name stays: there is one called interpolate.
    assert "\ndef torch_interpolate(" in source and "interpolate = torch_interpolate(interpolate, (5, 3))" in source
    assert source.index("\nclass UsageError(") < source.index("\nclass BatchNorm(") < source.index("# %% The model")


@pytest.mark.sweep
def test_more_models_run_without_port(tmp_path: Path) -> None:
    compared(["recurrent", "wrapped"], tmp_path)


@pytest.mark.sweep
def test_a_usual_source_does_not(tmp_path: Path) -> None:
    plain = port.translate(Pooled(), torch.randn(3, 2, 7, 5), name="pooled", check=False)
    write_folder(plain, tmp_path / "out", name="pooled")
    with pytest.raises(AssertionError, match="No module named 'port'"):
        run_without_port("import pooled", tmp_path / "out")


@pytest.mark.sweep
def test_the_proof_is_of_the_standalone_source() -> None:
    done = port.translate(Wrapped(), torch.randn(4, 6), standalone=True)
    assert done.proof is not None and done.proof.agrees, str(done.proof)
    assert type(done.module.pair).__module__ == done.code.__name__


def test_it_is_filled_where_its_own_start_is_unknown() -> None:
    class Matrix(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.randn(size, 4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.matrix

    module = Matrix(5)
    done = port.translate(module, torch.randn(2, 5), standalone=True, check=False)
    assert np.array_equal(done.module.matrix[...], module.matrix.detach().numpy())


EVERYTHING = f"""\"\"\"All that there is.\"\"\"

from __future__ import annotations

from port.nn import functional as F
from port.nn import {", ".join(port.nn.__all__)}


def everything(pad: int, Conv: int) -> list[object]:
    batch_norm = pad
    return [{", ".join(f"F.{name}" for name in port.nn.functional.__all__)}, batch_norm]


def modules() -> list[object]:
    return [{", ".join(port.nn.__all__)}]
"""


@pytest.mark.sweep
def test_all_of_port_can_be_copied() -> None:
    text = formatted(with_own_copies(EVERYTHING))
    assert lint(text) == ""
    assert "port" not in {name.partition(".")[0] for name in imports(text)}
    copied = loaded(text, "everything")
    functions, classes = copied.everything(1, 2), copied.modules()
    assert len(functions) == len(port.nn.functional.__all__) + 1 and len(classes) == len(port.nn.__all__)
    for own, original in zip(functions, map(vars(port.nn.functional).get, port.nn.functional.__all__), strict=False):
        assert own.__module__ == copied.__name__ or own is original, own
    # Those of its own names that something else has: the rest is called as in port.
    assert {cls.__name__ for cls in classes} == set(port.nn.__all__)
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 5, 3)))
    np.testing.assert_array_equal(copied.torch_pad(x, (1, 2)), port.nn.functional.pad(x, (1, 2)))
    np.testing.assert_array_equal(
        jax.grad(lambda x: copied.celu(x).sum())(x), jax.grad(lambda x: port.nn.functional.celu(x).sum())(x)
    )
    gru = copied.GRU(3, 4, rngs=nnx.Rngs(1))
    original = port.nn.GRU(3, 4, rngs=nnx.Rngs(1))
    np.testing.assert_array_equal(gru(x)[0], original(x)[0])


def imports(text: str) -> list[str]:
    """The modules that a text imports, wherever."""
    import ast

    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


# %% A package with all that can be in the way

FILES = {
    "__init__.py": "from pack.shapes import Round, area as size\nfrom .deep import helper\n",
    "shapes.py": '''
"""Shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from . import deep
from .deep import helper as other, table
from .deep.inner import _check, round as rounded

if TYPE_CHECKING:
    from pack.deep.inner import Later

Number = int | float
"""What counts."""
unused = 3


# Right above it.
@dataclass
class Round:
    """A circle."""

    radius: Number

    def area(self, later: Later | None = None) -> float:
        from .deep.inner import square as wanted  # where it is needed

        _check(self.radius)
        return math.pi * wanted(self.radius)


def area(shapes, math=1):
    table.append("é"); total = f"{deep.helper(len(shapes))}: {other(2)!r}, {helper(3)} {[helper for helper in shapes]}"
    def helper_(table=table):
        return table
    return reduce(lambda a, b: a + b, [s.area() for s in shapes]), total, helper_(), math


def helper(x):
    return f"shapes' {x}"


Pair = tuple[int, int]
found = []


def remember(x: Pair):
    found.append(x)
    return [*found, *rounded(x), round(2.6)]


def handed_on():
    return deep


def with_torch():
    import_ = 1
    return torch_thing(import_)


from torch import float32 as torch_thing


class Inside:
    from pack.deep import helper


@other.register
def registered():
    return "registered"
''',
    "deep/__init__.py": """
from math import prod as reduce

table = ["begin"]
table += ["more"]


class Register:
    made = []

    def __call__(self, x):
        return f"deep's {x}, {reduce([x, 2])}, {[f() for f in self.made]}"

    def register(self, function):
        self.made.append(function)
        return function


helper = Register()
table.append("last")
""",
    "deep/inner.py": """
def square(x):
    return x * x


Pair = tuple[int, int]
found = []


def round(x: Pair):
    found.append(x)
    return found


def _check(x):
    if x < 0:
        raise ValueError(_text(x))


def _text(x):
    return f"{x} is too small"


class Later:
    pass


class Where:
    name = __name__
""",
}
HEAD = '"""Text."""\n\nfrom __future__ import annotations\n\n'


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in FILES.items():
        (tmp_path / "pack" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "pack" / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        del sys.modules[name]


def both(source: str) -> tuple[ModuleType, str]:
    text = formatted(with_own_copies(HEAD + source, package="pack"))
    assert "pack" not in imports(text) and "pack" not in {name.partition(".")[0] for name in imports(text)}
    return loaded(text, "text"), text


@pytest.mark.usefixtures("pack")
def test_names_that_two_things_have() -> None:
    # Names keep their meaning: in f-strings, after other imports' names, under decorators.
    source = (
        "import pack\nfrom pack import size\n\n\n"
        "def _check(x: int) -> int:\n    return x\n\n\n"
        "def run() -> object:\n"
        "    Round = pack.shapes.Round\n"
        "    return size([Round(1.0), Round(_check(2))])\n"
    )
    made, text = both(source)
    area, total, table, math = made.run()
    assert area == pytest.approx(5 * np.pi) and math == 1
    assert total.startswith("2") is False and total.count("deep's") == 2 and "shapes' 3" in total
    assert "deep's 2, 4, ['registered']: " in total
    assert table == ["begin", "more", "last", "é"]
    with pytest.raises(ValueError, match="-1 is too small"):
        made.TorchRound(-1).area()
    for line in ("# Right above it.\n@dataclass\nclass TorchRound:", '"""What counts."""', "_inner_check(self.radius)"):
        assert line in text, text
    assert "unused" not in text and "from math import prod as" in text
    # The same as where the package is.
    code: dict[str, Any] = {}
    exec(source, code)
    assert code["run"]()[:2] == (area, total.replace("TorchRound(", "Round("))


def test_a_function_that_calls_itself_and_has_another_name() -> None:
    # Complex numbers: the norm of the parts' norms.
    source = """import jax
import jax.numpy as jnp
from port.nn import functional as F


def run(x: jax.Array) -> jax.Array:
    vector_norm = F.vector_norm(x, dim=1)
    return vector_norm
"""
    text = formatted(with_own_copies(source))
    assert "def torch_vector_norm(" in text and "port" not in {name.partition(".")[0] for name in imports(text)}
    x = np.array([[3 + 4j, 0], [0, 12j]])
    np.testing.assert_allclose(loaded(text, "text").run(jnp.asarray(x)), [5, 12], rtol=1e-6)


@pytest.mark.usefixtures("pack")
def test_what_is_the_same_stands_there_once_if_nothing_can_change_it() -> None:
    made, text = both("from pack.shapes import remember\n\n\ndef twice() -> list[int]:\n    return remember(1)\n")
    assert made.twice() == [1, 1, 3], "each has a list of its own, and Python's round is another"
    assert text.count("Pair = tuple[int, int]") == 1 and text.count("= []") == 2
    assert "def torch_round(x: Pair)" in text


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("handed_on", r"pack\.shapes, line 58: the module pack\.deep itself is used as a value"),
        ("with_torch", r"pack\.shapes, line 63: it needs torch"),
        ("Inside", r"pack\.shapes, line 70: `from pack\.deep import helper` is where it cannot be removed"),
        ("gone", r"pack\.shapes has no gone in its source"),
    ],
)
def test_what_cannot_be_copied(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        both(f"from pack.shapes import {name}\n\nprint({name})\n")


@pytest.mark.usefixtures("pack")
def test_what_says_where_it_is() -> None:
    with pytest.raises(UsageError, match=r"pack\.deep\.inner reads __name__, which has another value in a copy"):
        both("from pack.deep.inner import Where\n\nprint(Where)\n")


def test_a_source_that_needs_torch_itself_goes_on_needing_it() -> None:
    """A trainer restores torch's generator, which its data is drawn by; no copy brings torch in."""
    own = "import torch\n\n\ndef f() -> int:\n    torch.manual_seed(3)\n    return torch.initial_seed()\n"
    assert with_own_copies(HEAD + own) == HEAD + own
    source = own.replace("torch\n", "torch\nfrom port.nn import functional as F\n", 1) + "\n\nsame = F.cross_entropy\n"
    text = with_own_copies(HEAD + source)
    assert "torch" in imports(text) and "port" not in {name.partition(".")[0] for name in imports(text)}
    assert "this file needs no port." in " ".join(text.replace("#", "").split())


def test_a_source_that_takes_nothing_stays_as_it_is() -> None:
    source = HEAD + "import math\n\n\ndef f() -> float:\n    return math.pi\n"
    assert with_own_copies(source) == source
