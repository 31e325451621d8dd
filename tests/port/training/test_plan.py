"""Which processes a run starts, and what each is told."""

from __future__ import annotations

from pathlib import Path

from port.training.plan import Pairing, Trainer, plan_controls, plan_jobs

TORCH, JAX = Trainer(("torch",), {"A": "1"}), Trainer(("jax",))
PROOF = Pairing("float64", TORCH, JAX)
TIMED = Pairing("float32", TORCH, JAX, controls=2, timed=True)


def test_what_is_timed_runs_last_and_alone():
    jobs = plan_jobs([PROOF, TIMED], Path("run"), slots=2)
    names = ["torch float64", "jax float64", "control-1 float32", "control-2 float32", "torch float32", "jax float32"]
    assert [job.name for job in jobs] == names
    assert [job.alone for job in jobs] == [False] * 4 + [True] * 2


def test_each_is_told_where_to_write_and_which_it_is():
    jobs = {job.name: job for job in plan_jobs([PROOF, TIMED], Path("run"), slots=2)}
    assert len({job.environment["PORT_RECORD"] for job in jobs.values()}) == len(jobs)
    assert len({job.environment["PORT_FINAL_WEIGHTS"] for job in jobs.values()}) == len(jobs)
    assert len({job.environment["PORT_INITIAL_WEIGHTS"] for job in jobs.values()}) == 1
    assert all(Path(job.environment["PORT_RECORD"]).is_absolute() for job in jobs.values())
    assert all(job.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false" for job in jobs.values())
    control = jobs["control-2 float32"]
    assert (control.command, control.environment["PORT_CONTROL"], control.environment["A"]) == (("torch",), "2", "1")
    assert "PORT_CONTROL" not in jobs["torch float32"].environment


def test_side_by_side_they_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    jobs = {job.name: job for job in plan_jobs([PROOF, TIMED], Path("run"), slots=2)}
    assert jobs["torch float64"].environment["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in jobs["torch float32"].environment


def test_what_the_user_said_of_threads_stands(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert all("OMP_NUM_THREADS" not in job.environment for job in plan_controls(TIMED, Path("run"), 3, slots=2))
