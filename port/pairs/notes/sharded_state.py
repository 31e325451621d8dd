"""A state that replicas share out: fully_shard beside arrays that are cut up by NamedSharding."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_FSDP = "tests/side_by_side/test_fsdp.py"
_REPLICAS = "tests/side_by_side/test_sharded_replicas.py"
_CHECKPOINT = "tests/side_by_side/test_sharded_checkpoint.py"
_RUN = "Of a run on several devices: a check runs on one."

NOTES = (
    Note(
        "D23",
        "an axis that the devices do not divide",
        torch="fully_shard cuts the first axis; five rows on four ranks are 2, 2, 1 and 0.",
        jax="A NamedSharding that does not divide an array's axis is refused.",
        remedy="Cut the longest axis that the devices divide; what has none, such as a bias of ten, stays whole.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D23_torch_cuts_rows_that_the_ranks_do_not_divide_and_jax_refuses",),
    ),
    Note(
        "D24",
        "when the optimizer is made",
        torch="fully_shard puts new parameters into the model: an optimizer that was made before trains nothing, "
        "without an error.",
        jax="`optimizer.init(params)` of sharded params; under `jax.jit` with out_shardings no device holds all of it.",
        remedy="fully_shard first, the optimizer behind it.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D24_an_optimizer_that_was_made_before_trains_nothing",),
    ),
    Note(
        "D25",
        "the norm of gradients that are cut up",
        torch="clip_grad_norm_ of DTensors is by the norm of all parts; of `grad.to_local()`, by each rank's own.",
        jax="optax's, under jit, is by the norm of all; inside shard_map by each device's own.",
        remedy="Sum the squares up over the ranks (`psum`) where parts are what the code sees.",
        outside=_RUN,
        tests=(
            f"{_FSDP}::test_jax_trains_as_one_device_does_and_holds_a_part",
            f"{_REPLICAS}::test_a_fault_in_torch_is_found",
        ),
    ),
    Note(
        "D26",
        "buffers among ranks of fully_shard",
        torch="Nobody sends them, as DDP does (D5). torch.distributed.checkpoint takes them for copies and saves each "
        "from any rank.",
        jax="One array for all devices; the statistics under jit are the whole batch's.",
        remedy="Broadcast rank 0's before saving; or normalise by the whole batch's statistics.",
        outside=_RUN,
        tests=(f"{_CHECKPOINT}::test_of_buffers_that_differ_rank_0s_are_saved_and_by_torch_itself_anybodys",),
    ),
    Note(
        "D27",
        "microbatches where gradients are scattered",
        torch="With `set_requires_gradient_sync(False)`, DDP's no_sync, each rank holds all of them until the last.",
        jax="What a scan carries is cut up where it is constrained to be; else that is the compiler's to say.",
        remedy="Scatter with every microbatch: more is sent, less is held.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D27_gradients_that_are_not_scattered_are_held_whole",),
    ),
    Note(
        "D28",
        "optimizers of parameters that are cut up",
        torch="Adafactor and Rprop refuse DTensors (torch 2.14): what they do in place would have to lie otherwise.",
        jax="Any optax transformation: under jit arrays are whole.",
        remedy="Another optimizer, or replicated parameters.",
        outside=_RUN,
        tests=(f"{_REPLICAS}::test_which_of_torchs_optimizers_take_parameters_that_are_cut_up",),
    ),
    Note(
        "D29",
        "what gloo lacks for fully_shard",
        torch="all_gather, reduce_scatter and its mean are there (2.14). `set_gradient_divide_factor` of another "
        "number than the ranks' asks in float32 for PREMUL_SUM, which is NCCL's alone.",
        jax="The mean is the loss's: divide it as you like. A CPU reduces all and keeps a part.",
        remedy="`set_force_sum_reduction_for_comms(True)`.",
        outside=_RUN,
        tests=(f"{_FSDP}::test_D29_what_gloo_lacks_is_asked_for_by_a_divisor_of_ones_own",),
    ),
    Note(
        "D30",
        "a forward pass without a backward pass",
        torch="The outermost module of fully_shard stays gathered: its `parameters()` are then whole tensors, which "
        "the optimizer does not know.",
        jax="What was gathered is gone with the compiled program.",
        remedy="`model.reshard()` behind an evaluation, before the optimizer's state is looked up by parameter.",
        outside=_RUN,
        tests=(
            f"{_FSDP}::test_D30_behind_an_evaluation_the_models_own_parameters_are_gathered_still",
            f"{_CHECKPOINT}::test_right_behind_an_evaluation_it_is_as_whole",
        ),
    ),
)
