"""Optimizers and schedules: torch.optim versus optax.

Distances are the largest difference between two parameter arrays after 20 steps at a rate of 0.1, on random gradients
in float64.
"""

from __future__ import annotations

from port.pairs.notes.difference import Note

_OWN = "tests/port/pairs/notes/test_optimizers.py"
_OPTIM = "tests/port/optim"
_TRANSFORMS = "tests/port/transforms"
_DEFAULTS = f"{_OWN}::test_a_tempting_twin_is_another_and_the_right_one_is_not"
_OPTIMIZER = "It concerns an optimizer or its schedule; a check compares models."

NOTES = (
    Note(
        "O1",
        "SGD with momentum and weight decay",
        torch="Adds the decay to the gradient, before the momentum.",
        jax="optax.sgd has no decay; where you put it in the chain is up to you.",
        remedy="`optax.chain(optax.add_decayed_weights(d), optax.sgd(lr, momentum))`: equal to 9e-16.",
        outside=_OPTIMIZER,
        tests=(_DEFAULTS,),
    ),
    Note(
        "O2",
        "SGD's dampening",
        torch="Scales each gradient but the first by 1 − dampening before adding it to the buffer.",
        jax="optax.sgd has none; a scale before its trace dampens the first gradient too.",
        remedy="`port.transforms.scale_by_torch_momentum`.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_momentum.py::test_optax_damps_the_first_step",),
    ),
    Note(
        "O3",
        "Adam with weight_decay",
        torch="Adds the decay to the gradient, so it enters the moments.",
        jax="optax.adamw decays the parameters directly, outside the moments.",
        remedy="`optax.chain(optax.add_decayed_weights(d), optax.adam(lr))`, never adamw: 0.18 apart.",
        outside=_OPTIMIZER,
        tests=(_DEFAULTS,),
    ),
    Note(
        "O4",
        "AdamW's defaults",
        torch="weight_decay is 1e-2.",
        jax="weight_decay is 1e-4.",
        remedy="Always pass it: equal to 1e-15; with the default, 4e-2 apart.",
        outside=_OPTIMIZER,
        tests=(_DEFAULTS,),
    ),
    Note(
        "O5",
        "RMSprop's defaults",
        torch="alpha is 0.99; divides by √v + ε.",
        jax="decay is 0.9; divides by √(v + ε).",
        remedy="`optax.rmsprop(lr, decay=0.99, eps_in_sqrt=False)`: equal to 9e-16; with the defaults, 2.3 apart.",
        outside=_OPTIMIZER,
        tests=(_DEFAULTS, f"{_OPTIM}/test_faults.py::test_a_mistake_is_seen_and_the_right_one_passes"),
    ),
    Note(
        "O6",
        "RMSprop's momentum with a schedule",
        torch="The buffer holds gradients; the learning rate scales its output.",
        jax="optax.rmsprop scales by the learning rate before its trace, which then contains old rates.",
        remedy="`optax.chain(scale_by_rms(…), trace(momentum), scale_by_learning_rate(schedule))`.",
        outside=_OPTIMIZER,
        tests=(f"{_OPTIM}/test_faults.py::test_a_mistake_is_seen_and_the_right_one_passes",),
    ),
    Note(
        "O7",
        "Adagrad",
        torch="The sum of squares starts at 0, ε is outside the root, and there is lr_decay.",
        jax="It starts at 0.1, ε is inside the root, and there is no lr_decay.",
        remedy="`port.transforms.scale_by_torch_adagrad`; optax's is 9e-2 apart.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_adagrad.py::test_optax_differs",),
    ),
    Note(
        "O8",
        "amsgrad",
        torch="Takes the maximum of the raw second moment, and corrects its bias afterwards.",
        jax="optax.amsgrad takes the maximum of the bias-corrected one.",
        remedy="`port.transforms.scale_by_torch_amsgrad`; optax's is 0.1 apart.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_amsgrad.py::test_optax_takes_the_maximum_of_the_corrected_moment",),
    ),
    Note(
        "O9",
        "NAdam",
        torch="The momentum varies, β₁(1 − 0.5 · 0.96^(t · ψ)); the bias correction takes the product of its values.",
        jax="optax.nadam's is constant.",
        remedy="`port.transforms.scale_by_torch_nadam`; optax's is 0.3 apart.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_nadam.py::test_optax_has_a_constant_momentum",),
    ),
    Note(
        "O10",
        "RAdam",
        torch="Adds ε to the root of the raw second moment.",
        jax="optax.radam adds it to the root of the bias-corrected one.",
        remedy="`port.transforms.scale_by_torch_radam`; optax's is 4e-9 apart at ε = 1e-8, and more at a larger one.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_radam.py::test_optax_adds_eps_to_the_corrected_root",),
    ),
    Note(
        "O11",
        "Adadelta and Adamax",
        torch="Adadelta's rho is 0.9 and ε 1e-6.",
        jax="The same, and the same arithmetic.",
        remedy="None needed: equal to 3e-16.",
        outside=_OPTIMIZER,
        tests=(f"{_OWN}::test_O11_adadelta_and_adamax_are_torchs",),
    ),
    Note(
        "O12",
        "Rprop",
        torch="Takes the new step size, against the new gradient's sign.",
        jax="optax.rprop returns the previous step's update.",
        remedy="`port.transforms.torch_rprop`.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_rprop.py::test_optax_returns_the_update_of_the_step_before",),
    ),
    Note(
        "O13",
        "clipping by the norm",
        torch="clip_grad_norm_ divides by norm + 1e-6.",
        jax="optax.clip_by_global_norm divides by the norm.",
        remedy="`port.transforms.clip_by_torch_norm`; optax's is 3e-8 apart.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/test_clip.py::test_without_the_small_number_in_the_divisor_it_is_not_torch",),
    ),
    Note(
        "O14",
        "the count passed to a schedule",
        torch="The first step uses the scheduler's initial rate, which changes when step() is called.",
        jax="The first update has count 0, and every update increments it.",
        remedy="If stepped per update, the same index; if stepped per epoch, count // updates_per_epoch. In float64 "
        "optax's own decays are off by 2e-8: they divide in float32, `port.transforms`' do not.",
        outside=_OPTIMIZER,
        tests=(
            f"{_OPTIM}/test_from_torch.py::test_O14_stepped_per_epoch",
            f"{_OWN}::test_O14_count_0_is_torchs_first_step",
            f"{_TRANSFORMS}/schedules/test_decay.py::test_optax_s_own_divide_in_float32",
        ),
    ),
    Note(
        "O15",
        "cosine annealing past its end",
        torch="CosineAnnealingLR rises again after T_max.",
        jax="optax.cosine_decay_schedule stays down.",
        remedy="`port.transforms.cosine_annealing_lr`.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/schedules/test_cosine.py::test_annealing_far_past_its_end",),
    ),
    Note(
        "O16",
        "OneCycleLR",
        torch="The rise ends at pct_start · total − 1; the momentum cycles too, from 0.95 to 0.85 and back.",
        jax="optax.cosine_onecycle_schedule ends it one step later, and does not change the momentum.",
        remedy="`port.transforms.one_cycle_lr`, and `one_cycle_momentum` with inject_hyperparams; optax's rate is "
        "off by 0.15 of the peak rate in 20 steps.",
        outside=_OPTIMIZER,
        tests=(
            f"{_TRANSFORMS}/schedules/test_one_cycle.py::test_optax_ends_its_phases_a_step_later",
            f"{_TRANSFORMS}/schedules/test_one_cycle.py::test_rate_and_momentum",
        ),
    ),
    Note(
        "O17",
        "the optimizer's state",
        torch="exp_avg, exp_avg_sq, momentum_buffer, and `step`, a float32 tensor for each parameter.",
        jax="mu, nu, trace, and `count`, one int32 for all parameters; a schedule has its own.",
        remedy="Each moment moves like its weight: `port.to_optax`, `port.load_optimizer`.",
        outside=_OPTIMIZER,
        tests=(f"{_OPTIM}/test_layout.py::test_moments_follow_their_weight",),
    ),
    Note(
        "O18",
        "gradients of several backward passes",
        torch="backward() accumulates their sum, unless each loss is divided.",
        jax="optax.MultiSteps averages.",
        remedy="Divide torch's losses, or `use_grad_mean=False`.",
        outside=_OPTIMIZER,
        tests=("tests/side_by_side/test_accumulate.py::test_multi_steps_averages_as_torch_does_with_the_loss_divided",),
    ),
    Note(
        "O19",
        "a parameter without a gradient",
        torch="A parameter whose `grad` is None is skipped: no decay, no moments, no count.",
        jax="Every leaf has a gradient; with zeros it still decays, and momentum still moves it.",
        remedy="Assign it to `optax.set_to_zero()` with `optax.partition`.",
        outside=_OPTIMIZER,
        tests=(
            f"{_OWN}::test_O19_a_zero_gradient_decays_and_none_does_not",
            f"{_OPTIM}/test_from_torch.py::test_O19_what_is_frozen_is_not_touched",
        ),
    ),
    Note(
        "O20",
        "parameter groups",
        torch="Lists of tensors; the state is numbered in their order.",
        jax="No groups: labels by path, and one transformation per label.",
        remedy="`optax.partition`; `port.to_optax` builds it from a torch optimizer's groups.",
        outside=_OPTIMIZER,
        tests=(f"{_OPTIM}/test_from_torch.py::test_groups_keep_their_own_options",),
    ),
    Note(
        "O21",
        "optax.polynomial_schedule past its end",
        torch="PolynomialLR stays at 0.",
        jax="When compiled, the rate is NaN for some numbers of steps (as 10 and 13 with power 1.7), and so is every "
        "parameter: rounding makes the base of the power negative.",
        remedy="`port.transforms.polynomial_lr`.",
        outside=_OPTIMIZER,
        tests=(f"{_TRANSFORMS}/schedules/test_decay.py::test_optax_s_polynomial_is_no_number_past_its_end",),
    ),
    Note(
        "O22",
        "the dtype of loaded scalars",
        torch="load_state_dict casts NAdam's mu_product, and ASGD's eta and mu, to float64 with float64 parameters; "
        "they start as float32, so a resumed run continues with different dtypes.",
        jax="A restored state has the saved dtypes.",
        remedy="Restore the saved dtypes after load_state_dict.",
        outside=_OPTIMIZER,
        tests=("tests/side_by_side/test_checkpoint.py::TestResume::test_torchs_own_load_changes_dtypes",),
    ),
)
