"""Data parallelism: DistributedDataParallel beside pmap, shard_map and jit over a sharded batch."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_OWN = "tests/port/pairs/notes/test_data_parallel.py"
_LESSON = "tests/side_by_side/test_parallel.py"
_RUNS = "tests/side_by_side/test_replicas.py"
_TRAPS = "tests/side_by_side/test_replica_traps.py"
_PROCESSES = "tests/side_by_side/test_processes.py"
_GRADIENTS = f"{_TRAPS}::test_D2_and_D3_local_then_mean_is_the_gradient_of_the_mean_in_both_forms"
_RUN = "Of a run on several devices: a check runs on one."

NOTES = (
    Note(
        "D1",
        "what pmap is",
        torch="DistributedDataParallel: a process for each replica.",
        jax="Since jax 0.8 pmap is jit of a shard_map, in maintenance and without a warning; the body sees its input "
        "without the leading axis of the devices.",
        remedy="Write shard_map, or jit over a sharded batch, where you write anew; mind D2 and D3.",
        outside=_RUN,
        tests=(f"{_LESSON}::test_pmap_drops_the_mapped_axis_and_compiles_by_itself",),
    ),
    Note(
        "D2",
        "the gradient under shard_map",
        torch="backward() averages the gradients of all ranks, once.",
        jax="Gradients of what all devices share are summed by grad itself: `pmean(grad(local_loss))` on N devices is "
        "N times the gradient.",
        remedy='`grad(pmean(loss))`; or `jax.lax.pcast(params, axis, to="varying")` first, then pmean. Adam hides it.',
        outside=_RUN,
        tests=(_GRADIENTS, f"{_LESSON}::test_the_factor_of_a_gradient_under_shard_map"),
    ),
    Note(
        "D3",
        "the gradient under pmap",
        torch="backward() averages the gradients of all ranks, once.",
        jax="The other way round: `grad(pmean(loss))` leaves each device its own gradient, and the copies part.",
        remedy="`pmean(grad(loss))`. Rewriting pmap as shard_map line by line is wrong without an error.",
        outside=_RUN,
        tests=(_GRADIENTS, "tests/side_by_side/test_linear_regression.py::test_a_mistake_is_found"),
    ),
    Note(
        "D4",
        "a mesh's axis types",
        torch="A DeviceMesh has none.",
        jax="jax.make_mesh makes Explicit axes, with which shard_map refuses numpy arrays.",
        remedy="`axis_types=(AxisType.Auto,)`, or device_put the arrays onto the mesh first.",
        outside=_RUN,
        tests=(f"{_LESSON}::test_axis_types",),
    ),
    Note(
        "D5",
        "BatchNorm's statistics among replicas",
        torch="Each rank's own in training; DDP sends rank 0's buffers to all before each forward.",
        jax="pmap and shard_map: each device's own. jit over a sharded batch: the whole batch's, as SyncBatchNorm.",
        remedy="Keep replica 0's running statistics, or `axis_name=` in BatchNorm and SyncBatchNorm in torch.",
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
        torch="Refuses CPU tensors once there is a process group.",
        jax="`axis_name=` works on every kind of device.",
        remedy="All-reduce count, sum and squares yourself where a CPU is to show it.",
        outside=_RUN,
        tests=("tests/side_by_side/test_synchronised_batch_norm.py::test_D6_torchs_own_takes_no_cpu_tensor",),
    ),
    Note(
        "D7",
        "which replica sees which sample",
        torch="DistributedSampler deals samples out in turn and repeats some to fill up: of ten, rank 0 of four has "
        "0, 4 and 8, and 0 and 1 come twice.",
        jax="A sharded array is cut into blocks; nothing is repeated.",
        remedy="One plan for both: `port.data.Shards`.",
        outside=_RUN,
        tests=("tests/port/data/test_shards.py::test_D7_ten_samples_on_four_ranks",),
    ),
    Note(
        "D8",
        "replicas with unequal numbers of samples",
        torch="DDP's mean of the ranks' means is not the mean over the samples.",
        jax="Nor is pmean's; jit over a sharded batch has only the whole mean.",
        remedy="Multiply each replica's mean by its samples × replicas / all samples.",
        outside=_RUN,
        tests=(
            "tests/port/data/test_shards.py::test_D8_a_mean_of_means_is_not",
            "tests/port/data/test_shards.py::test_D8_the_weighted_mean_over_the_replicas_is_the_batchs",
        ),
    ),
    Note(
        "D9",
        "several devices on a CPU",
        torch="Ranks are processes: gloo takes as many as are started.",
        jax="`jax_num_cpu_devices` has to be set before the first device is used; it goes before XLA_FLAGS.",
        remedy='`jax.config.update("jax_num_cpu_devices", n)` first of all.',
        outside=_RUN,
        tests=(f"{_LESSON}::test_the_devices_are_as_many_as_the_lesson_says_if_it_says_so_in_time",),
    ),
    Note(
        "D10",
        "several processes on a CPU",
        torch='`init_process_group("gloo")` under torchrun.',
        jax='`jax.distributed.initialize("localhost:port", n, rank)`; collectives go by gloo.',
        remedy="None is needed: both run on one machine without an accelerator.",
        outside=_RUN,
        tests=(f"{_RUNS}::test_200_steps_of_as_many_ranks",),
    ),
    Note(
        "D11",
        "torchrun's ranks beside one another on a CPU",
        torch="2 and 4 ranks of gloo train as one device does; a run of 4 with unequal shards once ended by SIGABRT "
        "(torch 2.13), for a reason that was not found.",
        jax="As many devices in one process.",
        remedy="Two ranks where a failure would stop others' work.",
        outside=_RUN,
        tests=(f"{_RUNS}::test_two_ranks_and_their_twins",),
    ),
    Note(
        "D12",
        "DataLoader's workers beside JAX",
        torch="Workers are forked, on Linux up to Python 3.13.",
        jax="Its threads do not outlive a fork: a worker forked by a process that has loaded JAX may wait for ever.",
        remedy="A process for each framework; else workers that are spawned, or none.",
        outside=_RUN,
        untested="It happens now and then, and what it does is hang.",
    ),
    Note(
        "D13",
        "one replica's part of a result",
        torch="Each rank has its own tensor.",
        jax="`x[0]` of what pmap returns is gathered to all devices.",
        remedy="`x.addressable_shards[0].data`, or `out_axes=None` where all replicas have the same (D17).",
        outside=_RUN,
        tests=(f"{_LESSON}::test_a_result_of_pmap_is_one_array_whose_first_row_is_gathered",),
    ),
    Note(
        "D14",
        "what a step costs besides its arithmetic",
        torch="DataLoader without workers collates in the training process.",
        jax="Of MNIST, batches of 64 (jax 0.10.2): grain.DataLoader without workers takes 14 ms a batch, "
        "grain.MapDataset below 1; nnx.jit 2.3 ms a step, jax.jit of split parameters 1.7.",
        remedy="grain.MapDataset; nnx.split once, jax.jit, nnx.merge at the end.",
        outside=_RUN,
        untested="It is a matter of time, which a busy machine decides; tests/benchmarks measures the trainers.",
    ),
    Note(
        "D15",
        "several steps in flight on virtual CPU devices",
        torch="A rank's collectives are in its own order.",
        jax="pmap over virtual CPU devices can deadlock when several steps are in flight (jax 0.10.2).",
        remedy="`jax.block_until_ready` after each step.",
        outside=_RUN,
        untested="It happens now and then, and what it does is hang.",
    ),
    Note(
        "D16",
        "DDP's buckets",
        torch="Laid out anew behind the first backward(): with more than two ranks the order of summation changes, "
        "and a resumed run differs in last bits.",
        jax="The compiled program's order, the same in each step.",
        remedy="`find_unused_parameters=True` keeps the buckets as they are.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D16_buckets_are_laid_out_anew_unless_unused_parameters_are_looked_for",),
    ),
    Note(
        "D17",
        "pmap's out_axes=None",
        torch="DDP broadcasts parameters once, when it is made, and never compares them.",
        jax="Returns replica 0's value without a look at the others', so that copies that parted (D3) are not seen; "
        "shard_map's `P()` refuses what may differ.",
        remedy="Return the mapped axis while you test, and compare the rows.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D17_out_axes_none_hides_copies_that_parted",),
    ),
    Note(
        "D18",
        "register_comm_hook and annotations",
        torch="Refuses a hook whose annotations are strings, as `from __future__ import annotations` makes them.",
        jax="Functions are never asked for theirs.",
        remedy="A hook without annotations.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D18_a_hook_with_annotations_that_are_strings_is_refused",),
    ),
    Note(
        "D19",
        "an address that is taken, or where nobody listens",
        torch="Raises DistNetworkError.",
        jax="Where the coordinator's port is in use initialize() raises, and process 0 may die by SIGSEGV if that is "
        "caught; a process whom nobody answers aborts (jax 0.10.2).",
        remedy="Try the port before: bind it in process 0, connect to it in the others.",
        outside=_RUN,
        tests=(f"{_PROCESSES}::test_process_0_cannot_listen", f"{_PROCESSES}::test_nobody_at_the_address"),
    ),
    Note(
        "D20",
        "one of several processes that fails",
        torch="torchrun ends the others.",
        jax="Its orderly exit waits 300 s (`shutdown_timeout_seconds`) for the others, which wait for it.",
        remedy="Print the error and leave by os._exit.",
        outside=_RUN,
        tests=(f"{_PROCESSES}::test_a_process_that_fails_by_itself_is_named_and_waits_for_nobody",),
    ),
    Note(
        "D21",
        "SIGTERM among several processes",
        torch="Ends the process.",
        jax="The preemption service takes it for a notice that the machine will go away, and the process goes on.",
        remedy='`jax.config.update("jax_enable_preemption_service", False)` before initialize().',
        outside=_RUN,
        tests=(f"{_PROCESSES}::test_a_process_that_is_asked_to_end_does",),
    ),
    Note(
        "D22",
        "an array of one process onto all of them",
        torch="Any tensor may be broadcast.",
        jax="On a CPU device_put refuses to bring an array that is committed to one process's device onto a sharding "
        "of several processes.",
        remedy="Go from the host: `jax.device_put(np.asarray(x), sharding)`.",
        outside=_RUN,
        tests=(f"{_OWN}::test_D22_a_committed_array_goes_to_all_processes_by_the_host",),
    ),
)
