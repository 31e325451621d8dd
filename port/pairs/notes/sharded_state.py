"""Sharded state: fully_shard versus arrays with a NamedSharding."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_FSDP = "tests/side_by_side/test_fsdp.py"
_REPLICAS = "tests/side_by_side/test_sharded_replicas.py"
_CHECKPOINT = "tests/side_by_side/test_sharded_checkpoint.py"
_RUN = "It concerns a run on several devices; a check runs on one."

NOTES = (
    Note(
        "D23",
        "an axis that the devices do not divide evenly",
        torch="fully_shard splits the first axis; five rows on four ranks become 2, 2, 1 and 0.",
        jax="A NamedSharding that does not divide an array's axis evenly raises an error.",
        remedy="Shard the longest axis that the devices divide; arrays without one, such as a bias of ten, stay whole.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D23_torch_cuts_rows_that_the_ranks_do_not_divide_and_jax_refuses",),
    ),
    Note(
        "D24",
        "when to create the optimizer",
        torch="fully_shard replaces the model's parameters: an optimizer created before it trains nothing, "
        "without an error.",
        jax="`optimizer.init(params)` of sharded params; under `jax.jit` with out_shardings no device holds all of it.",
        remedy="fully_shard first, then the optimizer.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D24_an_optimizer_that_was_made_before_trains_nothing",),
    ),
    Note(
        "D25",
        "the norm of sharded gradients",
        torch="clip_grad_norm_ of DTensors uses the global norm; of `grad.to_local()`, each rank's own.",
        jax="optax's uses the global norm under jit, and each device's own inside shard_map.",
        remedy="Where the code sees shards, sum the squares over the ranks (`psum`).",
        outside=_RUN,
        tests=(
            f"{_FSDP}::test_jax_trains_as_one_device_does_and_holds_a_part",
            f"{_REPLICAS}::test_a_fault_in_torch_is_found",
        ),
    ),
    Note(
        "D26",
        "buffers under fully_shard",
        torch="They are not broadcast, unlike in DDP (D5). torch.distributed.checkpoint assumes equal ones and saves "
        "each from any rank.",
        jax="One array for all devices; the statistics under jit are the whole batch's.",
        remedy="Broadcast rank 0's before saving, or normalise by the whole batch's statistics.",
        outside=_RUN,
        tests=(f"{_CHECKPOINT}::test_of_buffers_that_differ_rank_0s_are_saved_and_by_torch_itself_anybodys",),
    ),
    Note(
        "D27",
        "microbatches with scattered gradients",
        torch="With `set_requires_gradient_sync(False)`, DDP's no_sync, ranks hold whole gradients until the last.",
        jax="A scan's carry is sharded if it is constrained to be; otherwise the compiler decides.",
        remedy="Scatter after every microbatch: more communication, less memory.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D27_gradients_that_are_not_scattered_are_held_whole",),
    ),
    Note(
        "D28",
        "optimizers of sharded parameters",
        torch="Adafactor and Rprop reject DTensors (torch 2.14): their in-place updates would need another sharding.",
        jax="Any optax transformation works: under jit arrays are global.",
        remedy="Use another optimizer, or replicated parameters.",
        outside=_RUN,
        tests=(f"{_REPLICAS}::test_which_of_torchs_optimizers_take_parameters_that_are_cut_up",),
    ),
    Note(
        "D29",
        "what gloo lacks for fully_shard",
        torch="It has all_gather, reduce_scatter and its mean (2.14). `set_gradient_divide_factor` with another factor "
        "than the number of ranks needs PREMUL_SUM in float32, which only NCCL has.",
        jax="The mean is part of the loss: divide as you like. A CPU all-reduces and keeps its shard.",
        remedy="`set_force_sum_reduction_for_comms(True)`.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D29_what_gloo_lacks_is_asked_for_by_a_divisor_of_ones_own",),
    ),
    Note(
        "D30",
        "a forward pass without a backward pass",
        torch="The outermost module of fully_shard stays gathered: its `parameters()` are then whole tensors, which "
        "the optimizer does not hold.",
        jax="Gathered arrays exist only within the compiled program.",
        remedy="Call `model.reshard()` after an evaluation, before looking up optimizer state by parameter.",
        outside=_RUN,
        tests=(
            f"{_FSDP}::test_D30_behind_an_evaluation_the_models_own_parameters_are_gathered_still",
            f"{_CHECKPOINT}::test_right_behind_an_evaluation_it_is_as_whole",
        ),
    ),
)
