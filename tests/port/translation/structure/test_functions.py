"""The original's functions are written once, with their docstrings, and called from the same places."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from port.translation import Translation
from port.translation.verify import prove
from tests.port.translation import function_helpers, function_nets
from tests.port.translation.agreeing import translated
from tests.port.translation.function_nets import (
    Cropped,
    Defaults,
    Dissolved,
    Jittered,
    Llama,
    NamedLikeOthers,
    Recurrent,
    Styled,
    TwoWindows,
    Windowed,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def _functions(made: Translation) -> dict[str, ast.FunctionDef]:
    """The source's own functions, except those that load weights and mark what is unwritten."""
    tree = ast.parse(made.source)
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len(found) == sum(isinstance(node, ast.FunctionDef) for node in tree.body)
    return {name: node for name, node in found.items() if name != "load"}


def _calls(made: Translation) -> dict[str, Counter[str]]:
    """Which functions each function or method calls by name, and how often."""
    tree = ast.parse(made.source)
    found = {}
    for owner in tree.body:
        for node in owner.body if isinstance(owner, ast.ClassDef) else [owner]:
            if isinstance(node, ast.FunctionDef):
                name = f"{owner.name}.{node.name}" if isinstance(owner, ast.ClassDef) else node.name
                calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
                found[name] = Counter(call.id for call in calls if isinstance(call, ast.Name))
    return found


def _signature(node: ast.FunctionDef) -> str:
    bare = ast.arguments(**{name: getattr(node.args, name) for name in ast.arguments._fields})
    return ast.unparse(bare)


@pytest.mark.sweep
def test_functions_are_written_once_and_called_from_the_same_places() -> None:
    made = translated(Llama(), torch.randn(2, 5, 12), construct=Llama)
    functions, calls = _functions(made), _calls(made)
    assert list(functions) == ["rms_norm", "rotate_half", "apply_rotary_pos_emb"]
    assert calls["apply_rotary_pos_emb"]["rotate_half"] == 2
    assert calls["Attention.__call__"]["apply_rotary_pos_emb"] == calls["Attention.__call__"]["rms_norm"] == 1
    assert calls["Llama.__call__"]["rms_norm"] == 1
    assert "q, k = apply_rotary_pos_emb(q, k, jnp.cos(emb), jnp.sin(emb))" in made.source
    assert "    # the two halves turn together\n    q_embed = q * cos + rotate_half(q) * sin\n" in made.source


@pytest.mark.sweep
def test_a_function_has_the_originals_docstring_and_parameters() -> None:
    functions = _functions(translated(Llama(), torch.randn(2, 5, 12), construct=Llama))
    docstring = ast.get_docstring(functions["rotate_half"])
    assert docstring is not None
    told, _, named = docstring.partition("\n\n")
    assert told == "Rotates half the hidden dims of the input."
    assert named == f"Translated from {function_helpers.__name__}.rotate_half."
    rotary = ast.get_docstring(functions["apply_rotary_pos_emb"])
    assert rotary is not None and rotary.startswith("Applies Rotary Position Embedding to") and "Args" not in rotary
    assert ast.get_docstring(functions["rms_norm"]) == f"Translated from {function_helpers.__name__}.rms_norm."
    taken = "q: jax.Array, k: jax.Array, cos: jax.Array, sin: jax.Array"
    assert _signature(functions["apply_rotary_pos_emb"]) == taken
    assert _signature(functions["rms_norm"]) == "x: jax.Array, weight: jax.Array, eps: float=1e-06"


@pytest.mark.sweep
def test_lengths_are_read_off_the_arguments() -> None:
    made = translated(Llama(), torch.randn(2, 5, 12), construct=Llama)
    assert "x1 = x[:, :, :, : x.shape[-1] // 2]" in made.source
    assert 'F.expect(x, "n t 12")' in made.source


def test_a_number_of_the_callers_is_given() -> None:
    made = translated(TwoWindows(), torch.randn(2, 6, 12, 5), construct=TwoWindows, static=True)
    functions = _functions(made)
    assert list(functions) == ["window_partition"]
    assert _signature(functions["window_partition"]) == "x: jax.Array, window_size: int"
    assert "window_partition(x, self.window_size)" in made.source
    assert "B, H, W, C = x.shape" in made.source
    assert "x.reshape(B, H // window_size, window_size, W // window_size, window_size, C)" in made.source


def test_a_settings_number_is_given_and_holds_at_other_values() -> None:
    made = translated(Windowed(), torch.randn(2, 6, 12, 5), construct=Windowed, static=True)
    assert "window_partition(x, self.window_size)" in made.source
    assert any("window_size" in tried for tried in made.settings.tried), made.settings


@pytest.mark.sweep
def test_defaults_and_keywords_are_the_originals() -> None:
    made = translated(Defaults(), torch.randn(2, 3))
    functions = _functions(made)
    assert _signature(functions["scaled"]) == "x: jax.Array, *, scale: float=2.0, shift: float=0.5"
    assert _signature(functions["between"]) == "x: jax.Array, low: float=-1.0, high: float=1.0"
    assert "scaled(x) + scaled(self.fc(x), scale=3.0)" in made.source
    assert "between(y) + between(x, high=2.0) * between(x, -0.5, 0.25)" in made.source
    assert ast.get_docstring(functions["scaled"]) == (
        f'Scales "and" shifts: a\\b.\n\nTranslated from {function_nets.__name__}.scaled.'
    )


@pytest.mark.sweep
def test_results_are_unpacked_and_calls_agree_on_a_layout() -> None:
    made = translated(Styled(), torch.randn(2, 3, 5, 7), torch.randn(2, 3, 6, 4))
    assert list(_functions(made)) == ["mean_and_std"]
    assert "style_mean, style_std = mean_and_std(style)" in made.source
    assert "content_mean, content_std = mean_and_std(content)" in made.source
    # Its docstring speaks of torch's layout.
    assert "Statistics of an image" not in made.source


def test_numbers_that_a_function_gives_beside_arrays_are_not_written() -> None:
    made = translated(Cropped(), torch.randn(2, 7, 3), construct=Cropped, static=True)
    assert _signature(_functions(made)["cropped"]) == "x: jax.Array, size: int"
    assert "y, _ = cropped(x, self.size)" in made.source
    assert "return x[:, : x.shape[1] - size] * 2, None" in made.source
    assert any("size" in tried for tried in made.settings.tried), made.settings


@pytest.mark.sweep
def test_a_loop_calls_a_function() -> None:
    made = translated(Recurrent(), torch.randn(2, 6, 4))
    assert "h = cell(x_t, h, self.w[...])" in made.source
    assert "lax.scan(step" in made.source


def test_names_that_mean_something_else_get_a_number() -> None:
    made = translated(NamedLikeOthers(), torch.randn(2, 3))
    assert list(_functions(made)) == ["load2", "Named", "lax2"]
    assert _signature(_functions(made)["lax2"]) == "x: jax.Array, jnp_: jax.Array"
    assert "return lax2(load2(x), Named(self.fc(x)))" in made.source


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", ["given_module", "dropped", "by_mode", "added_to", "same", "other_axis"])
def test_what_is_no_function_of_its_arguments_is_written_out(kind: str) -> None:
    made = translated(Dissolved(kind), torch.randn(4, 3))
    assert _functions(made) == {}
    assert f"{kind}(" not in made.source


@pytest.mark.sweep
def test_a_source_that_stands_alone_has_its_functions() -> None:
    made = translated(Llama(depth=1), torch.randn(2, 5, 12), standalone=True)
    assert {"rms_norm", "rotate_half", "apply_rotary_pos_emb"} <= _functions(made).keys()
    assert "from port." not in made.source and "import port" not in made.source


def repeated(states: Tensor, times: int) -> Tensor:
    batch, heads, length, dim = states.shape
    states = states[:, :, None, :, :].expand(batch, heads, times, length, dim)
    return states.reshape(batch, heads * times, length, dim)


class Shared(nn.Module):
    """A function that is given keys and values; its array lies otherwise than the tensor, and so do the names."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 2
        self.q, self.k, self.v = nn.Linear(6, 12), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:-1], -1, 3)
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
        k = repeated(k, self.times)
        v = repeated(v, self.times)
        y = (q @ k.transpose(2, 3)).softmax(-1) @ v
        return y.transpose(1, 2).flatten(2)


@pytest.mark.sweep
def test_a_function_is_given_its_arguments_in_one_order() -> None:
    made = translated(Shared(), torch.randn(2, 5, 6))
    assert list(_functions(made)) == ["repeated"]
    assert made.source.count("= repeated(") == 2
    assert "batch, length, heads, dim = states.shape" in made.source
    assert "states.reshape(batch, length, heads * times, dim)" in made.source


class Turned(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.cos(), x.sin()


class Block(nn.Module):
    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = turn
        return x * cos + x.roll(1, -1) * sin


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Block()

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        return self.inner(x, turn) + x


class HandedOn(nn.Module):
    """What a module gives has one name, and is handed on as one thing."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = Turned()
        self.block = Around()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        turn = self.turned(x)
        return self.block(self.fc(x), turn)


@pytest.mark.sweep
def test_a_tuple_is_handed_on_as_one_thing() -> None:
    source = translated(HandedOn(), torch.randn(2, 4)).source
    assert "turn = self.turned(x)\n" in source
    assert "self.block(self.fc(x), turn)" in source
    assert "self.inner(x, turn)" in source


def test_a_function_that_draws_is_inlined() -> None:
    """Its keys come from the module's random streams, which it is not passed."""
    made = translated(Jittered(), torch.randn(4, 5))
    assert not _functions(made)
    assert made.source.count("self.rngs(), (") == 2
    moved = replace(made, source=made.source.replace("-self.shift, self.shift", "-self.shift, 0.6"))
    assert moved.source != made.source
    assert not prove(Jittered(), moved, (torch.randn(4, 5),), {}).agrees
