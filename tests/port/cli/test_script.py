"""`port script`: a training script is watched, and told of in its own lines."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from port.cli import main
from port.scripts.observation import schema

TRAINERS = Path(__file__).parents[1] / "scripts" / "trainers"
DATA = Path(os.environ.get("PORT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))


def port(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "port", "script", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.sweep
def test_an_account_in_the_scripts_own_lines(tmp_path: Path) -> None:
    source = (TRAINERS / "gpt.py").read_text()
    (tmp_path / "gpt.py").write_text(source)
    done = port("gpt.py", "--observe-only", "--", "--steps", "30", "--accumulate", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for words in (
        "gpt.py --steps 30 --accumulate 3: 4 steps and an evaluation watched",
        "--accumulate 2, here 3 microbatches of an update",
        "GPT(layers=2) model: GPT, 7,264 parameters in 29 tensors",
        "loss = loss / args.accumulate ×3 .div → () float32",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) gradients of model clipped by norm to 1.0",
        "update by AdamW: lr 0.000333333, betas (0.9, 0.95), weight_decay 0.1 | lr 0.000333333",
        "lr of optimizer, group 0: 0.000333333, 0.000666667, 0.001, 0.001, set at gpt.py:84",
        "model.eval() model to evaluation mode",
    ):
        assert words in said, f"{words}\n{done.stdout}"
    number = 1 + source.splitlines().index("    optimizer.step()")
    assert f"\n{number}" in done.stdout
    assert "update 4" in done.stderr
    jsonschema.validate(json.loads((tmp_path / "observed" / "observation.json").read_text()), schema())
    assert (tmp_path / "gpt.py").read_text() == source
    again = port("gpt.py", "--observe-only", cwd=tmp_path)
    assert again.returncode == 2 and "observed already exists" in again.stderr


@pytest.mark.sweep
def test_for_programs_and_a_script_that_fails(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("raise RuntimeError('of its own')\n")
    failed = port("a.py", "--observe-only", cwd=tmp_path)
    assert failed.returncode == 3
    assert (
        failed.stderr.startswith("Traceback")
        and "RuntimeError: of its own\nport: the script itself failed" in failed.stderr
    )
    assert "--working-folder" not in failed.stderr
    assert "--working-folder . runs it here" in port(f"{tmp_path}/a.py", "--observe-only", cwd=Path("/")).stderr
    (tmp_path / "frozen.py").write_text((TRAINERS / "frozen.py").read_text())
    done = port("frozen.py", "--observe-only", "--json", "--watch", "2", "-o", "there", cwd=tmp_path)
    account = json.loads(done.stdout)
    jsonschema.validate(account, schema())
    assert len(account["steps"]) == 2 and account == json.loads((tmp_path / "there" / "observation.json").read_text())


BAD = {
    "no script": ([], "name the script"),
    "no such script": (["--observe-only", "nothing.py"], "there is no script nothing.py; pass a module with -m"),
    "no steps": (["a.py", "--observe-only", "--watch", "0"], "1 or more"),
    "no such Python": (["a.py", "--observe-only", "--torch-python", "/no/python"], "there is no Python /no/python"),
    "several processes of nothing": (
        ["-m", "torch.distributed.run", "--observe-only", "--", "--nproc-per-node", "2"],
        "name the script that torch.distributed.run starts, as a file",
    ),
    "no such folder": (["a.py", "--observe-only", "--working-folder", "nowhere"], "does not exist"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("")
    arguments, said = BAD[name]
    assert main(["script", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


PUBLIC = {
    "mnist": (
        "main.py",
        ("--epochs", "2", "--no-accel"),
        ("loss = F.nll_loss(output, target)", "StepLR: lr from here on 0.7", "MNIST (60,000), batches of 64, in order"),
    ),
    "vae": (
        "main.py",
        ("--epochs", "1", "--no-accel"),
        ("KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())", "as a number"),
    ),
    "dcgan": (
        "main.py",
        ("--dataset", "fake", "--niter", "1", "--batchSize", "4", "--workers", "1", "--outf", "."),
        (
            "output = netD(fake.detach()) cut off from gradients; netD",
            "errG.backward()",
            "torch.nn.init.normal_(m.weight, 1.0, 0.02)",
        ),
    ),
    "siamese_network": (
        "main.py",
        ("--epochs", "1", "--no-accel", "--batch-size", "8", "--test-batch-size", "8"),
        ("BCELoss → () float32", "APP_MATCHER of MNIST (60,000)"),
    ),
    "time_sequence_prediction": (
        "train.py",
        ("--steps", "6"),
        (
            "update by LBFGS, which calls its closure: lr 0.8",
            "out = seq(input) ×20 seq (Sequence) in training → (9, 59) float64",
            "in training, no gradients → (3, 1059) float64",
        ),
    ),
    "word_language_model": (
        "main.py",
        ("--data", "text", "--epochs", "1", "--emsize", "8", "--nhid", "8"),
        ("weights written by hand from their gradients: .add_", "clipped by norm to 0.25", "return h.detach()"),
    ),
}


OLD_FILES = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
"""time_sequence_prediction keeps an array of numpy's in a pickle, which torch does not load otherwise any more."""


@pytest.mark.sweep
@pytest.mark.skipif(not (DATA / "scripts").exists(), reason="the public scripts are not here")
@pytest.mark.parametrize(
    ("name", "codes", "said"),
    [
        ("mnist", [0], "agree: losses"),
        ("vae", [0], "with the same random draws"),
        ("time_sequence_prediction", [0, 4], "loss of update 3"),  # LBFGS enlarges float64's rounding to the limit
    ],
)
def test_the_update_of_public_scripts(name: str, codes: list[int], said: str, tmp_path: Path) -> None:
    done = port(PUBLIC[name][0], "--", *PUBLIC[name][1], cwd=_folder_of(name, tmp_path), **OLD_FILES)
    assert done.returncode in codes, done.stdout + done.stderr
    assert said in done.stdout
    assert (tmp_path / name / "train_jax" / "train_step.py").exists()


def _folder_of(name: str, tmp_path: Path) -> Path:
    """The script's folder, with small data beside it."""
    folder = tmp_path / name
    shutil.copytree(DATA / "scripts" / name, folder)
    (folder / "results").mkdir()
    if name in ("mnist", "vae", "siamese_network"):
        raw = tmp_path / "data" / "MNIST" / "raw"
        raw.mkdir(parents=True)
        for packed in (DATA / "mnist").rglob("*.gz"):
            (raw / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    if name == "time_sequence_prediction":
        generator = (folder / "generate_sine_wave.py").read_text().replace("L = 1000", "L = 60")
        done = subprocess.run([sys.executable, "-c", generator.replace("N = 100", "N = 12")], cwd=folder, check=True)
        assert not done.returncode
    if name == "word_language_model":
        (folder / "text").mkdir()
        for part, lines in (("train", 60), ("valid", 12), ("test", 12)):
            text = "".join(f"a b c {n % 7} d e {n % 5} f g h\n" for n in range(lines * 20))
            (folder / "text" / f"{part}.txt").write_text(text)
    return folder


@pytest.mark.sweep
@pytest.mark.skipif(not (DATA / "scripts").exists(), reason="the public scripts are not here")
@pytest.mark.parametrize("name", PUBLIC)
def test_public_scripts(name: str, tmp_path: Path) -> None:
    folder = _folder_of(name, tmp_path)
    file, arguments, said = PUBLIC[name]
    done = port(file, "--observe-only", "--", *arguments, cwd=folder, **OLD_FILES)
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stdout.split())
    for words in said:
        assert words in printed, f"{words}\n{done.stdout}"
