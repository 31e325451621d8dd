"""Options that shape the model are train.py's; what cannot be another keeps its value, and is said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from port.scripts import Script
from port.scripts.writing_process import WrittenUpdate, write_script

TRAINERS = Path(__file__).parents[1] / "trainers"
ASKED = """
import sys
sys.argv[1:] = {arguments!r}
sys.path.insert(0, {folder!r})
import json, train
from flax import nnx
model = train.first_model(train.arguments(), "float32")
flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
weights = {{".".join(map(str, path)): variable[...] for path, variable in flat}}
print(json.dumps({{name: [list(one.shape), float(one.std())] for name, one in weights.items()}}))
"""


def written(folder: Path, *changes: tuple[str, str]) -> tuple[Path, WrittenUpdate]:
    """What is written of shaped.py, with other lines in it."""
    text = (TRAINERS / "shaped.py").read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "shaped.py").write_text(text)
    return folder / "train_jax", write_script(Script(str(folder / "shaped.py")), folder / "train_jax")


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def weights(train_jax: Path, *arguments: str) -> dict[str, tuple[list[int], float]]:
    """The first model's: path → shape, standard deviation."""
    asked = run("-c", ASKED.format(arguments=list(arguments), folder=str(train_jax)), cwd=train_jax.parent)
    assert not asked.returncode, asked.stderr
    return {name: tuple(told) for name, told in json.loads(asked.stdout).items()}  # type: ignore[misc]


def kept(done: WrittenUpdate) -> str:
    return next((one.partition("values: ")[2] for one in done.remarks if one.startswith("fixed options")), "")


@pytest.mark.sweep
def test_they_are_handed_to_the_constructor(tmp_path: Path) -> None:
    folder, done = written(tmp_path)
    assert not done.no_trainer and not kept(done), done
    source = (folder / "train.py").read_text()
    assert "width=2 * args.hidden, layers=args.layers, dropout=args.dropout" in source
    assert "WRITTEN_FOR" not in source
    first, other = weights(folder), weights(folder, "--hidden", "50", "--layers", "3")
    assert first["model.last.kernel"][0] == [12, 3] and other["model.last.kernel"][0] == [100, 3]
    assert len(other) == len(first) + 2
    assert other["model.last.kernel"][1] == pytest.approx(0.3, rel=0.2)  # as the constructor draws them
    again = run("train_jax/train.py", "--hidden", "9", "--layers", "1", "--float64", cwd=tmp_path)
    assert not again.returncode and again.stdout.count("loss") == 2, again.stderr


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("changes", "options"),
    [
        # Weights that the script draws behind the constructor: model.py does not.
        (
            [("    optimizer = ", "    nn.init.zeros_(model.first.bias)\n    optimizer = ")],
            "hidden 6, layers 2, dropout 0.1",
        ),
        # The optimizer's groups name parameters: of other layers they know nothing.
        (
            [
                (
                    "SGD(model.parameters()",
                    "SGD([{'params': [p for p in model.parameters() if p.ndim > 1], 'weight_decay': 0.1}, "
                    "{'params': [p for p in model.parameters() if p.ndim == 1]}]",
                )
            ],
            "layers 2",
        ),
        # The constructor fails at other values, in its own way.
        (
            [("        super().__init__()\n", "        super().__init__()\n        {2: None}[layers]\n")],
            "layers 2",
        ),
        # Read elsewhere, too.
        ([("    for epoch in range", "    torch.set_num_threads(args.layers)\n    for epoch in range")], "layers 2"),
        # The path to the loss has a number that follows from it.
        (
            [
                (
                    "loss = F.cross_entropy(model(data), target)",
                    "loss = F.cross_entropy(model(data), target) * (args.hidden / 6.0)",
                )
            ],
            "hidden 6",
        ),
    ],
)
def test_others_keep_their_values(changes: list[tuple[str, str]], options: str, tmp_path: Path) -> None:
    _, done = written(tmp_path, *changes)
    assert not done.no_trainer, done
    assert kept(done) == options
    refused = run("train_jax/train.py", *_with_others(options), cwd=tmp_path)
    assert refused.returncode == 2 and "train_step.py was written for" in refused.stderr


def _with_others(options: str) -> list[str]:
    """Of ``layers 2, dropout 0.1`` the first, with another value."""
    name, _, _ = options.partition(",")[0].partition(" ")
    return [f"--{name}", "7"]


@pytest.mark.sweep
def test_a_judged_run_begins_with_the_originals_weights_of_its_shape(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    command = (
        "-m",
        "port",
        "train",
        "--torch-script",
        "shaped.py",
        "--jax-script",
        "train_jax/train.py",
        "--steps",
        "6",
    )
    drops = run(*command, "--plain", "--", "--dropout", "0.4", cwd=tmp_path)
    assert not drops.returncode and "agree" in drops.stdout, drops.stdout + drops.stderr
    wider = run(*command, "--plain", "--", "--hidden", "8", cwd=tmp_path)
    assert wider.returncode == 2 and "Traceback" not in wider.stderr
    assert "model.first.weight is (16, 5) with these options, and was (12, 5)" in wider.stderr
