"""Data parallelism: DistributedDataParallel versus pmap, shard_map and jit over a sharded batch."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_OWN = "tests/port/pairs/notes/test_data_parallel.py"
_LESSON = "tests/side_by_side/test_parallel.py"
_RUNS = "tests/side_by_side/test_replicas.py"
_TRAPS = "tests/side_by_side/test_replica_traps.py"
_PROCESSES = "tests/side_by_side/test_processes.py"
_GRADIENTS = f"{_TRAPS}::test_D2_and_D3_local_then_mean_is_the_gradient_of_the_mean_in_both_forms"
_RUN = "It concerns a run on several devices; a check runs on one."

NOTES = (
    Note(
        "D1",
        "what pmap is",
        torch="DistributedDataParallel: one process per replica.",
        jax="Since jax 0.8 pmap is jit of a shard_map, in maintenance mode but without a warning; its body sees the "
        "input without the leading device axis.",
        remedy="In new code use shard_map, or jit over a sharded batch; mind D2 and D3.",
        outside=_RUN,
        tests=(f"{_LESSON}::test_pmap_drops_the_mapped_axis_and_compiles_by_itself",),
    ),
    Note(
        "D2",
        "the gradient under shard_map",
        torch="backward() averages the gradients of all ranks, once.",
        jax="grad itself sums the gradients of replicated inputs over devices: `pmean(grad(local_loss))` on N devices "
        "is N times the gradient.",
        remedy='`grad(pmean(loss))`; or `jax.lax.pcast(params, axis, to="varying")` first, then pmean. Adam hides it.',
        outside=_RUN,
        tests=(_GRADIENTS, f"{_LESSON}::test_the_factor_of_a_gradient_under_shard_map"),
    ),
    Note(
        "D3",
        "the gradient under pmap",
        torch="backward() averages the gradients of all ranks, once.",
        jax="The opposite of D2: with `grad(pmean(loss))` each device keeps its own gradient, and replicas diverge.",
        remedy="`pmean(grad(loss))`. Rewriting pmap as shard_map line by line gives wrong gradients without an error.",
        outside=_RUN,
        tests=(_GRADIENTS, "tests/side_by_side/test_linear_regression.py::test_a_mistake_is_found"),
    ),
    Note(
        "D4",
        "a mesh's axis types",
        torch="A DeviceMesh has none.",
        jax="jax.make_mesh creates Explicit axes, with which shard_map rejects numpy arrays.",
        remedy="`axis_types=(AxisType.Auto,)`, or device_put the arrays onto the mesh first.",
        outside=_RUN,
        tests=(f"{_LESSON}::test_axis_types",),
    ),
    Note(
        "D5",
        "BatchNorm's statistics across replicas",
        torch="Each rank uses its own in training; DDP broadcasts rank 0's buffers before each forward.",
        jax="pmap and shard_map: each device's own. jit over a sharded batch: the whole batch's, like SyncBatchNorm.",
        remedy="Keep replica 0's running statistics, or use `axis_name=` in BatchNorm and SyncBatchNorm in torch.",
        outside=_RUN,
        tests=(
            f"{_OWN}::test_D5_statistics_are_each_replicas_or_the_whole_batchs",
            f"{_RUNS}::test_with_own_statistics_more_devices_are_another_run",
            f"{_TRAPS}::test_the_verdict_catches",
        ),
    ),
    Note(
        "D6",
        "SyncBatchNorm on a CPU",
        torch="Raises for CPU tensors once there is a process group.",
        jax="`axis_name=` works on every kind of device.",
        remedy="To run it on a CPU, all-reduce count, sum and squares yourself.",
        outside=_RUN,
        tests=("tests/side_by_side/test_synchronised_batch_norm.py::test_D6_torchs_own_takes_no_cpu_tensor",),
    ),
    Note(
        "D7",
        "which replica sees which sample",
        torch="DistributedSampler deals samples round-robin and repeats some to fill up: of ten, rank 0 of four gets "
        "0, 4 and 8, and 0 and 1 occur twice.",
        jax="A sharded array is split into contiguous blocks; nothing is repeated.",
        remedy="One index plan for both: `port.data.Shards`.",
        outside=_RUN,
        tests=("tests/port/data/test_shards.py::test_D7_ten_samples_on_four_ranks",),
    ),
    Note(
        "D8",
        "replicas with unequal numbers of samples",
        torch="DDP's mean of the ranks' means is not the mean over the samples.",
        jax="Nor is pmean's; jit over a sharded batch computes the mean over all samples.",
        remedy="Multiply each replica's mean by its samples × replicas / total samples.",
        outside=_RUN,
        tests=(
            "tests/port/data/test_shards.py::test_D8_a_mean_of_means_is_not",
            "tests/port/data/test_shards.py::test_D8_the_weighted_mean_over_the_replicas_is_the_batchs",
        ),
    ),
    Note(
        "D9",
        "several devices on a CPU",
        torch="Ranks are processes: gloo works with any number.",
        jax="`jax_num_cpu_devices` must be set before the first device is used; it overrides XLA_FLAGS.",
        remedy='`jax.config.update("jax_num_cpu_devices", n)` first of all.',
        outside=_RUN,
        tests=(f"{_LESSON}::test_the_devices_are_as_many_as_the_lesson_says_if_it_says_so_in_time",),
    ),
    Note(
        "D10",
        "several processes on a CPU",
        torch='`init_process_group("gloo")` under torchrun.',
        jax='`jax.distributed.initialize("localhost:port", n, rank)`; collectives use gloo.',
        remedy="None needed: both run on one machine without an accelerator.",
        outside=_RUN,
        tests=(f"{_RUNS}::test_200_steps_of_as_many_ranks",),
    ),
    Note(
        "D11",
        "several ranks of torchrun on one CPU",
        torch="2 and 4 gloo ranks train like one device; a run of 4 with unequal shards once ended with SIGABRT "
        "(torch 2.13), for an unknown reason.",
        jax="The same number of devices in one process.",
        remedy="Use two ranks where a failure would be costly.",
        outside=_RUN,
        tests=(f"{_RUNS}::test_two_ranks_and_their_twins",),
    ),
    Note(
        "D12",
        "DataLoader workers and JAX in one process",
        torch="Workers are forked, on Linux up to Python 3.13.",
        jax="Its threads do not survive a fork: a worker forked from a process that has loaded JAX may hang.",
        remedy="One process per framework; otherwise spawned workers, or none.",
        outside=_RUN,
        untested="It happens occasionally, and the result is a hang.",
    ),
    Note(
        "D13",
        "one replica's part of a result",
        torch="Each rank has its own tensor.",
        jax="`x[0]` of pmap's result is gathered to all devices.",
        remedy="`x.addressable_shards[0].data`, or `out_axes=None` where all replicas hold the same value (D17).",
        outside=_RUN,
        tests=(f"{_LESSON}::test_a_result_of_pmap_is_one_array_whose_first_row_is_gathered",),
    ),
    Note(
        "D14",
        "overhead of a training step",
        torch="DataLoader without workers collates in the training process.",
        jax="MNIST in batches of 64 (jax 0.10.2): grain.DataLoader without workers takes 14 ms per batch, "
        "grain.MapDataset below 1; nnx.jit 2.3 ms per step, jax.jit of split parameters 1.7.",
        remedy="grain.MapDataset; nnx.split once, jax.jit, nnx.merge at the end.",
        outside=_RUN,
        untested="Timings depend on the load of the machine; tests/benchmarks measures the trainers.",
    ),
    Note(
        "D15",
        "several steps in flight on virtual CPU devices",
        torch="Each rank runs its collectives in program order.",
        jax="pmap over virtual CPU devices can deadlock when several steps are in flight (jax 0.10.2).",
        remedy="`jax.block_until_ready` after each step.",
        outside=_RUN,
        untested="It happens occasionally, and the result is a hang.",
    ),
    Note(
        "D16",
        "DDP's buckets",
        torch="Rebuilt after the first backward(): with more than two ranks the order of summation changes, "
        "and a resumed run differs in the last bits.",
        jax="The order is that of the compiled program, the same in each step.",
        remedy="`find_unused_parameters=True` keeps the buckets fixed.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D16_buckets_are_laid_out_anew_unless_unused_parameters_are_looked_for",),
    ),
    Note(
        "D17",
        "pmap's out_axes=None",
        torch="DDP broadcasts parameters once, at construction, and never compares them.",
        jax="Returns replica 0's value without comparing the others, so diverged replicas (D3) go unnoticed; "
        "shard_map's `P()` rejects values that may differ.",
        remedy="In tests return the mapped axis, and compare the rows.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D17_out_axes_none_hides_copies_that_parted",),
    ),
    Note(
        "D18",
        "register_comm_hook and annotations",
        torch="Rejects a hook whose annotations are strings, as with `from __future__ import annotations`.",
        jax="Annotations are never read.",
        remedy="Write the hook without annotations.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D18_a_hook_with_annotations_that_are_strings_is_refused",),
    ),
    Note(
        "D19",
        "an address in use, or without a listener",
        torch="Raises DistNetworkError.",
        jax="If the coordinator's port is in use initialize() raises, and process 0 may die with SIGSEGV if that is "
        "caught; a process that gets no answer aborts (jax 0.10.2).",
        remedy="Test the port first: bind it in process 0, connect to it in the others.",
        outside=_RUN,
        tests=(f"{_PROCESSES}::test_process_0_cannot_listen", f"{_PROCESSES}::test_nobody_at_the_address"),
    ),
    Note(
        "D20",
        "failure of one of several processes",
        torch="torchrun stops the others.",
        jax="Its regular exit waits 300 s (`shutdown_timeout_seconds`) for the others, which wait for it.",
        remedy="Print the error and exit with os._exit.",
        outside=_RUN,
        tests=(f"{_PROCESSES}::test_a_process_that_fails_by_itself_is_named_and_waits_for_nobody",),
    ),
    Note(
        "D21",
        "SIGTERM with several processes",
        torch="Ends the process.",
        jax="The preemption service takes it for a preemption notice, and the process keeps running.",
        remedy='`jax.config.update("jax_enable_preemption_service", False)` before initialize().',
        outside=_RUN,
        tests=(f"{_PROCESSES}::test_a_process_that_is_asked_to_end_does",),
    ),
    Note(
        "D22",
        "moving one process's array to a global sharding",
        torch="Any tensor can be broadcast.",
        jax="On a CPU device_put cannot move an array that is committed to one process's device to a sharding "
        "over several processes.",
        remedy="Go through the host: `jax.device_put(np.asarray(x), sharding)`.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D22_a_committed_array_goes_to_all_processes_by_the_host",),
    ),
)
