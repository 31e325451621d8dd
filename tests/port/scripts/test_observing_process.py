"""Scripts under observation: what is seen of them, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from port.errors import FolderExists, NoPair, ScriptFailed, UsageError
from port.scripts import Observation, Script, observe

Watched = Callable[..., Observation]
Make = Callable[[str], Script]
START = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""


def kinds(observation: Observation, step: int = 0) -> list[str]:
    return [event["event"] for event in observation.steps[step]]


def differing(observation: Observation, **wanted: object) -> list[list[object]]:
    return [d["values"] for d in observation.differences if wanted.items() <= d.items()]


CLOSURE = """
x, y = torch.ones(4, 2), torch.ones(4, 1)
def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss
for _ in range(5):
    print(optimizer.step(closure).item())
"""


@pytest.mark.sweep
def test_a_closure_that_is_called_once_comes_before_its_update(script: Make, tmp_path: Path) -> None:
    """Of torch's optimizers only LBFGS calls it as often as it likes; the others' loss is that of a plain loop."""
    seen = observe(script(START + CLOSURE), tmp_path / "observed")
    assert kinds(seen, 1)[:4] == ["zero_grad", "call", "backward", "update"]
    assert not any(event.get("closure") for step in seen.steps for event in step)


@pytest.mark.sweep
def test_a_loader_that_a_package_makes_of_the_scripts_own(script: Make, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "preparing"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from torch.utils.data import DataLoader\n\n\nclass Prepared:\n    def __init__(self, loader):\n"
        "        self.inner = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler)\n\n"
        "    def __iter__(self):\n        for batch in self.inner:\n            yield batch\n"
    )
    source = (
        START
        + """
import sys
sys.path.append("site-packages")
from preparing import Prepared
from torch.utils.data import DataLoader
points = DataLoader(torch.ones(12, 2), batch_size=3, shuffle=True)
points = Prepared(points)
for epoch in range(2):
    for x in points:
        model(x).sum().backward()
        optimizer.step()
"""
    )
    (loader,) = observe(script(source), tmp_path / "observed").loaders
    assert (loader["name"], loader["batch_size"], loader["shuffle"]) == ("points", 3, True)
    assert loader["constructed"]["where"]["text"].startswith("DataLoader(torch.ones(12, 2)")


@pytest.mark.sweep
def test_a_gpt(watched: Watched) -> None:
    seen = watched("gpt", "--accumulate", "3")
    assert {o["name"]: o["default"] for o in seen.options} == {"steps": 40, "lr": 1e-3, "warmup": 3, "accumulate": 2}
    assert [o["given"] for o in seen.options if o["name"] == "accumulate"] == [3]
    (model,) = seen.models
    assert (model["name"], model["class"]) == ("model", "GPT")
    assert model["constructed"]["where"]["text"] == "GPT(layers=2)"
    assert model["constructed"]["arguments"]["named"] == {"layers": 2}
    (optimizer,) = seen.optimizers
    assert [group["options"]["weight_decay"] for group in optimizer["groups"]] == [0.1, 0.0]
    assert "model.token.weight" in optimizer["groups"][0]["parameters"]
    assert len(seen.steps) == 4
    assert kinds(seen) == ["call", "backward"] * 3 + ["clip", "update", "zero_grad"]
    backward = seen.steps[0][1]
    assert [c["name"] for c in backward["path"] if c["kind"] == "module"] == ["model"]
    assert backward["path"][-1]["arguments"]["positional"][1] == 3  # loss / 3
    assert seen.steps[0][6]["arguments"] == [1.0] and seen.steps[0][6]["of"] == ["model"]
    rates = differing(seen, option="lr", group=0)
    assert rates == [[pytest.approx(1e-3 * (n + 1) / 3) if n < 3 else 1e-3 for n in range(4)]]
    assert 'group["lr"] = get_lr(step)' in next(d for d in seen.differences if d["kind"] == "option")["set_at"][0]
    assert [e["training"] for e in seen.evaluation if e["event"] == "call"] == [False, False]
    assert seen.evaluation[-1]["printed"].startswith("step 0: val loss")


@pytest.mark.sweep
def test_the_numbers_beside_an_account(script: Make, tmp_path: Path) -> None:
    """The weights before the first update, and the inputs: with them the first step's loss is had again."""
    source = START + (
        "print(model.weight.tolist())\n"
        "for n in range(3):\n"
        "    loss = model(torch.full((3, 2), n + 1.0)).sum()\n"
        "    loss.backward(); optimizer.step()\n"
    )
    seen = observe(script(source), tmp_path / "observed", steps=2)
    initial = load_file(tmp_path / "observed" / "initial.safetensors")
    inputs = load_file(tmp_path / "observed" / "inputs.safetensors")
    assert (tmp_path / "observed" / "printed.log").read_text() == f"{initial['model.weight'].tolist()}\n"
    numbers = [next(e["number"] for e in step if e["event"] == "call") for step in seen.steps]
    assert [inputs[f"{n}.{numbers[n]}.model.0.0"].tolist() for n in (0, 1)] == [[[n + 1.0] * 2] * 3 for n in (0, 1)]
    loss = next(e["loss"] for e in seen.steps[0] if e["event"] == "backward")
    weight, bias = initial["model.weight"], initial["model.bias"]
    assert loss == pytest.approx(float((np.ones((3, 2)) @ weight.T + bias).sum()), rel=1e-6)


@pytest.mark.sweep
def test_a_residual_network(watched: Watched) -> None:
    seen = watched("resnet")
    net = next(model for model in seen.models if model["name"] == "net")
    ema = next(model for model in seen.models if model["name"] == "ema")
    assert ema["class"].endswith("AveragedModel") and len(net["parameters"]) == len(ema["parameters"])
    train, test = seen.loaders
    assert (train["name"], train["shuffle"], train["drop_last"], train["batch_size"]) == ("train", True, True, 8)
    assert (test["name"], test["shuffle"], test["length"]) == ("test", False, 8)
    assert kinds(seen)[:9] == [
        *("pass", "batch", "zero_grad", "call", "call", "backward"),
        *("update", "schedule", "average"),
    ]
    assert differing(seen, option="lr") == [[0.1, 0.1, pytest.approx(0.01), pytest.approx(0.01)]]
    assert next(d for d in seen.differences if d["kind"] == "option")["set_at"] == []
    assert seen.saved[0]["what"].keys() == {"epoch", "model", "optimizer"}
    assert seen.schedulers[0]["options"]["gamma"] == 0.1


@pytest.mark.sweep
def test_mixed_precision_and_an_average_by_hand(watched: Watched) -> None:
    seen = watched("mixed")
    step = seen.steps[0]
    assert [e["method"] for e in step if e["event"] == "scaler"] == ["scale", "unscale_", "step", "update"]
    assert next(e for e in step if e["event"] == "autocast")["dtype"] == "torch.bfloat16"
    written = [e for e in step if e["event"] == "written"]
    assert {e["parameter"].partition(".")[0] for e in written} == {"ema"}
    assert written[1]["sources"] == ["model.0.weight"]
    assert not any(p["trained"] for m in seen.models if m["name"] == "ema" for p in m["parameters"])


@pytest.mark.sweep
def test_a_frozen_trunk_with_two_rates(watched: Watched) -> None:
    seen = watched("frozen")
    (net,) = [model for model in seen.models if model["parameters"]]
    assert [p["name"] for p in net["parameters"] if not p["trained"]] == ["backbone.0.weight", "backbone.0.bias"]
    assert [g["parameters"] for g in seen.optimizers[0]["groups"]] == [
        ["net.backbone.2.weight", "net.backbone.2.bias"],
        ["net.head.weight", "net.head.bias"],
    ]
    assert seen.loaders[0]["workers"] == 1 and seen.seeds == []
    assert len(differing(seen, option="lr")) == 2 and len(differing(seen, option="betas")) == 2
    assert [e["training"] for e in seen.evaluation if e["event"] == "call"][:1] == [False]


@pytest.mark.sweep
def test_distillation(watched: Watched) -> None:
    seen = watched("distillation")
    assert {model["name"] for model in seen.models} == {"teacher", "student"}
    calls = [e for e in seen.steps[0] if e["event"] == "call"]
    assert [(e["name"], e["grad"]) for e in calls] == [("teacher", False), ("student", True)]
    path = next(e for e in seen.steps[0] if e["event"] == "backward")["path"]
    assert {c["name"] for c in path} >= {"teacher", "student", "torch.nn.functional.kl_div"}
    weights = differing(seen, kind="number")
    assert weights == [[1, 0.9, 0.8, 0.7], [0, 0.1, 0.2, 0.3]]
    assert len([e for e in seen.evaluation if e["event"] == "call" and e["name"] == "student"]) == 1


@pytest.mark.sweep
def test_two_models_in_turn(watched: Watched) -> None:
    seen = watched("gan")
    assert {one["name"] for one in seen.optimizers} == {"opt_d", "opt_g"}
    turns = [[e["name"] for e in step if e["event"] == "update"] for step in seen.steps]
    assert turns == [["opt_d"], ["opt_d", "opt_g"]] * 4
    path = next(e for e in seen.steps[0] if e["event"] == "backward")["path"]
    assert "torch.autograd.grad" in {c["name"] for c in path}
    clamped = [e for e in seen.steps[0] if e["event"] == "written"]
    assert {e["function"] for e in clamped} == {"torch.Tensor.clamp_"}
    assert differing(seen, what="update") == [[0, 1] * 4]


REFUSED = {
    "never calls backward": (
        "import torch\nm = torch.nn.Linear(2, 2)\nm(torch.ones(1, 2))",
        ["never calls backward: it made m, called models 1 times", "-- --train"],
    ),
    "trains in a thread": (
        "import threading, torch\n"
        "def work():\n"
        "    m = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1)\n"
        "    m(torch.ones(1, 2)).sum().backward(); o.step()\n"
        "t = threading.Thread(target=work)\n"
        "t.start(); t.join()",
        ["another thread that is started at train.py:6, `t.start()`", "train.py:4, `o.step()`"],
    ),
    "trains in a child": (
        "import multiprocessing, torch\n"
        "def work():\n"
        "    m = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1)\n"
        "    m(torch.ones(1, 2)).sum().backward(); o.step()\n"
        "if __name__ == '__main__':\n"
        "    p = multiprocessing.get_context('{}').Process(target=work)\n"
        "    p.start(); p.join()",
        ["starts another one at train.py:7, `p.start()`", "is not watched"],
    ),
    "its loss leaves torch": (
        START + "error = model(torch.ones(3, 2)).detach().numpy() ** 2\n"
        "loss = torch.tensor(error.mean(), requires_grad=True)\n"
        "loss.backward(); optimizer.step()",
        ["made at train.py:7, `torch.tensor(error.mean(), requires_grad=True)`", "It leaves torch at train.py:6"],
    ),
    "its loss is detached": (
        START + "model(torch.ones(3, 2)).detach().sum().requires_grad_().backward(); optimizer.step()",
        ["It leaves torch at train.py:6, `model(torch.ones(3, 2)).detach()`"],
    ),
    "its optimizer has other parameters": (
        START + "other = torch.nn.Linear(2, 1)\nother(torch.ones(3, 2)).sum().backward(); optimizer.step()",
        ["no parameter of optimizer has a gradient"],
    ),
    "makes no update": (START + "model(torch.ones(3, 2)).sum().backward()", ["makes no visible update", "train.py:6"]),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.sweep
def test_a_script_of_which_no_account_can_be_given(name: str, script: Make, tmp_path: Path) -> None:
    source, said = REFUSED[name]
    for method in ("fork", "spawn") if "{}" in source else ("",):
        with pytest.raises(UsageError) as refused:
            observe(script(source.replace("{}", method)), tmp_path / "observed")
        assert all(words in str(refused.value) for words in said), str(refused.value)
        assert not (tmp_path / "observed").exists()


FAILS = """
import torch
def helper(x):
    return torch.nn.functional.cross_entropy(x, torch.tensor([7]))
def main():
    print("it begins")
    helper(torch.nn.Linear(2, 2)(torch.zeros(1, 2)))
main()
"""


OPENS = "print('it begins')\nwith open('no/such/file', 'w') as file:\n    file.write('x')\n"


@pytest.mark.sweep
@pytest.mark.parametrize("source", [FAILS, OPENS], ids=["in torch", "a file that is not there"])
def test_a_script_that_fails_shows_its_own_traceback(source: str, script: Make, tmp_path: Path) -> None:
    """As Python prints it where nobody watches: no frame of ours, none more."""
    made = script(source)
    with pytest.raises(ScriptFailed) as failed:
        observe(made, tmp_path / "observed")
    bare = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.value.printed.splitlines() == [
        "it begins",
        *bare.stderr.replace('"train.py"', f'"{tmp_path}/train.py"').splitlines(),
    ]
    assert failed.value.exit_code == 3 and not (tmp_path / "observed").exists()


@pytest.mark.sweep
def test_a_fault_of_ours_is_not_the_scripts(script: Make, tmp_path: Path) -> None:
    """What watches fails in the script's process, while the script itself is well."""
    source = START + (
        "import port.scripts.observing.calls as ours\n"
        "ours.class_name = None\n"
        "model(torch.ones(1, 2)).sum().backward(); optimizer.step()\n"
    )
    with pytest.raises(NoPair, match="a bug in port: TypeError"):
        observe(script(source), tmp_path / "observed")


@pytest.mark.sweep
def test_the_script_runs_as_its_user_runs_it(script: Make, tmp_path: Path) -> None:
    """Arguments, folder, name, a neighbour that it imports; and nothing of its process is jax's."""
    (tmp_path / "neighbour.py").write_text("value = 7\n")
    source = START + (
        "import os, sys, neighbour\n"
        "print(sys.argv, os.getcwd(), __name__, __file__, neighbour.value, sys.path[0])\n"
        "for _ in range(2):\n"
        "    model(torch.ones(1, 2)).sum().backward(); optimizer.step()\n"
        "print(sorted({'jax', 'flax', 'optax'} & sys.modules.keys()))\n"
    )
    made = Script(script(source).target, ("--lr", "3", "-m"))
    observe(made, tmp_path / "observed", steps=2)
    printed = (tmp_path / "observed" / "printed.log").read_text().splitlines()
    assert printed[0] == f"['train.py', '--lr', '3', '-m'] {tmp_path} __main__ train.py 7 {tmp_path}"
    assert printed[1] == "[]"


@pytest.mark.sweep
def test_a_module_runs_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "net.py").write_text("import torch\nmodel = torch.nn.Linear(2, 1)\n")
    (tmp_path / "pkg" / "train.py").write_text(
        "import sys, torch\nfrom .net import model\nprint(sys.argv[1:], __name__, __package__)\n"
        "o = torch.optim.SGD(model.parameters(), 0.1)\nmodel(torch.ones(1, 2)).sum().backward(); o.step()\n"
    )
    monkeypatch.chdir(tmp_path)
    seen = observe(Script("pkg.train", ("3",), is_module=True), tmp_path / "observed", steps=1)
    assert (tmp_path / "observed" / "printed.log").read_text() == "['3'] __main__ pkg\n"
    assert seen.models[0]["constructed"]["where"]["file"] == str(tmp_path / "pkg" / "net.py")


TRAINER = """
def fit(model, optimizer, batches):
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.sweep
def test_a_loop_that_is_a_packages(script: Make, tmp_path: Path) -> None:
    """Its lines are told of as the script's own would be; a package that only stands between, as a bar does, is not."""
    for name, source in {
        "trainer": TRAINER,
        "bar": "def bar(these):\n    for one in these:\n        yield one\n",
    }.items():
        (tmp_path / "site-packages" / name).mkdir(parents=True)
        (tmp_path / "site-packages" / name / "__init__.py").write_text(source)
    source = START + (
        "import sys; sys.path.append('site-packages')\n"
        "import bar, trainer\n"
        "loader = torch.utils.data.DataLoader(torch.ones(9, 2), batch_size=1)\n"
        "trainer.fit(model, optimizer, bar.bar(loader))\n"
    )
    seen = observe(script(source), tmp_path / "observed", steps=3)
    assert len(seen.steps) == 3
    events = [(e["event"], Path(e["where"]["file"]).parent.name, e["where"]["line"]) for e in seen.steps[1]]
    kinds = ("batch", "zero_grad", "call", "backward", "update")
    assert events == [(kind, "trainer", 4 + n) for n, kind in enumerate(kinds)]
    assert seen.differences == []


@pytest.mark.sweep
def test_files_of_the_users_stay_as_they_are(script: Make, tmp_path: Path) -> None:
    (tmp_path / "best.pt").write_bytes(b"of three weeks")
    (tmp_path / "log.txt").write_text("earlier\n")
    source = START + (
        "model(torch.ones(1, 2)).sum().backward(); optimizer.step()\n"
        "torch.save(model.state_dict(), 'best.pt')\n"
        "print(list(torch.load('best.pt')))\n"
        "open('log.txt', 'a').write('now\\n')\n"
        "print(open('log.txt').read().split())\n"
    )
    before = (script(source), {path.name for path in tmp_path.iterdir()})
    seen = observe(before[0], tmp_path / "observed", steps=1)
    assert (tmp_path / "best.pt").read_bytes() == b"of three weeks"
    assert (tmp_path / "log.txt").read_text() == "earlier\n"
    assert {path.name for path in tmp_path.iterdir()} == {"observed", *before[1]}
    assert (tmp_path / "observed" / "printed.log").read_text() == "['weight', 'bias']\n['earlier', 'now']\n"
    assert seen.saved[0]["what"] == "a state dict of 2 tensors"
    assert (tmp_path / "observed" / "saved" / "log.txt").read_text() == "earlier\nnow\n"


@pytest.mark.sweep
def test_a_value_that_leaves_torch_on_its_way_to_the_loss(script: Make, tmp_path: Path) -> None:
    from port.scripts.summary import remarks

    source = START + (
        "for n in range(3):\n"
        "    out = model(torch.ones(3, 2) * n)\n"
        "    loss = out.pow(2).mean() + 0.1 * out.mean().item()\n"
        "    loss.backward(); optimizer.step()\n"
    )
    seen = observe(script(source), tmp_path / "observed", steps=3)
    (remark,) = [line for line in remarks(seen) if "leave torch" in line]
    assert "train.py:8, `out.mean().item()`" in remark and "(train.py:8, `out.pow(2)" in remark


def test_a_folder_that_is_there_is_left_alone(script: Make, tmp_path: Path) -> None:
    (tmp_path / "observed").mkdir()
    (tmp_path / "observed" / "mine").write_text("")
    with pytest.raises(FolderExists, match="choose another folder"):
        observe(script("raise SystemExit('never run')"), tmp_path / "observed")


@pytest.mark.sweep
def test_all_that_it_started_is_ended(script: Make, tmp_path: Path) -> None:
    source = START + (
        "import subprocess, time\n"
        f"child = subprocess.Popen(['sleep', '600']); open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "for _ in range(2):\n"
        "    model(torch.ones(1, 2)).sum().backward(); optimizer.step()\n"
        "time.sleep(600)\n"
    )
    began = time.monotonic()
    seen = observe(script(source), tmp_path / "observed", steps=2, time_limit=8)
    assert time.monotonic() - began < 30
    assert "its --time-limit" in seen.script["stopped"] and len(seen.steps) == 2
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.sweep
def test_what_was_written_is_read_again(watched: Watched, tmp_path: Path) -> None:
    seen = watched("gpt", "--accumulate", "3")
    (tmp_path / "observation.json").write_text(json.dumps(seen.as_data()))
    assert Observation.read(tmp_path) == seen
    (tmp_path / "observation.json").write_text(json.dumps({**seen.as_data(), "version": 0}))
    with pytest.raises(UsageError, match="another version"):
        Observation.read(tmp_path)
