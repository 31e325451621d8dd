"""optax transformations and schedules with PyTorch's semantics, where optax's differ."""

from port.transforms.accumulate import TorchAccumulationState, accumulate_torch
from port.transforms.adafactor import TorchAdafactorState, torch_adafactor
from port.transforms.adagrad import TorchAdagradState, scale_by_torch_adagrad
from port.transforms.amsgrad import TorchAmsgradState, scale_by_torch_amsgrad
from port.transforms.asgd import TorchAsgdState, torch_asgd
from port.transforms.average import TorchAverage, TorchAverageState, ema_average, swa_average
from port.transforms.clip import clip_by_torch_norm, torch_norm
from port.transforms.lbfgs import torch_lbfgs
from port.transforms.lbfgs_state import TorchLbfgsState, lbfgs_state_from_torch, lbfgs_state_to_torch
from port.transforms.momentum import TorchMomentumState, scale_by_torch_momentum
from port.transforms.muon import TorchMuonState, torch_muon
from port.transforms.nadam import TorchNadamState, scale_by_torch_nadam
from port.transforms.paths import labels_by_path, path_of
from port.transforms.plateau import TorchPlateauState, reduce_on_torch_plateau, torch_plateau_step
from port.transforms.plateau_with_schedule import ScheduledPlateauState, scheduled_plateau
from port.transforms.radam import TorchRadamState, scale_by_torch_radam
from port.transforms.rprop import TorchRpropState, torch_rprop
from port.transforms.schedules import (
    by_function,
    chained_lr,
    constant_lr,
    cosine_annealing_lr,
    cosine_annealing_warm_restarts,
    cyclic_lr,
    cyclic_momentum,
    exponential_lr,
    lambda_lr,
    linear_lr,
    multi_step_lr,
    multiplicative_lr,
    one_cycle_lr,
    one_cycle_momentum,
    per_epoch,
    polynomial_lr,
    sequential_lr,
    step_lr,
    swa_lr,
    tabulated,
)

__all__ = [
    "ScheduledPlateauState",
    "TorchAccumulationState",
    "TorchAdafactorState",
    "TorchAdagradState",
    "TorchAmsgradState",
    "TorchAsgdState",
    "TorchAverage",
    "TorchAverageState",
    "TorchLbfgsState",
    "TorchMomentumState",
    "TorchMuonState",
    "TorchNadamState",
    "TorchPlateauState",
    "TorchRadamState",
    "TorchRpropState",
    "accumulate_torch",
    "by_function",
    "chained_lr",
    "clip_by_torch_norm",
    "constant_lr",
    "cosine_annealing_lr",
    "cosine_annealing_warm_restarts",
    "cyclic_lr",
    "cyclic_momentum",
    "ema_average",
    "exponential_lr",
    "labels_by_path",
    "lambda_lr",
    "lbfgs_state_from_torch",
    "lbfgs_state_to_torch",
    "linear_lr",
    "multi_step_lr",
    "multiplicative_lr",
    "one_cycle_lr",
    "one_cycle_momentum",
    "path_of",
    "per_epoch",
    "polynomial_lr",
    "reduce_on_torch_plateau",
    "scale_by_torch_adagrad",
    "scale_by_torch_amsgrad",
    "scale_by_torch_momentum",
    "scale_by_torch_nadam",
    "scale_by_torch_radam",
    "scheduled_plateau",
    "sequential_lr",
    "step_lr",
    "swa_average",
    "swa_lr",
    "tabulated",
    "torch_adafactor",
    "torch_asgd",
    "torch_lbfgs",
    "torch_muon",
    "torch_norm",
    "torch_plateau_step",
    "torch_rprop",
]
