"""Weights and modules: torch.nn versus flax.nnx."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_LAYERS = "tests/port/pairs/layers"
_NN = "tests/port/nn"
_FUNCTIONAL = f"{_NN}/functional"
_STATISTICS = f"{_LAYERS}/test_batch_norm.py::test_W7_W8_W27_flaxs_own_agrees_in_training_but_for_the_running_variance"

NOTES = (
    Note(
        "W1",
        "Linear's weight",
        torch="`weight` is (out, in).",
        jax="`kernel` is (in, out).",
        remedy="Transpose it by the type of the layer, never by its shape: a square matrix fits either way.",
        causes=("kernel-transposed",),
        tests=(f"{_LAYERS}/test_linear.py::test_W1_a_wrong_permutation_that_fits_is_seen",),
    ),
    Note(
        "W2",
        "a convolution's weight",
        torch="`weight` is (out, in / groups, *kernel).",
        jax="`kernel` is (*kernel, in / groups, out).",
        remedy="Permute by (2, 3, 1, 0), in one dimension by (2, 1, 0), in three by (2, 3, 4, 1, 0); also with groups.",
        causes=("kernel-transposed", "kernel-flipped"),
        tests=(f"{_LAYERS}/test_conv.py::test_W2_a_wrong_permutation_that_fits_is_seen",),
    ),
    Note(
        "W3",
        "a convolution's padding",
        torch="`padding=0` by default, the same on both sides.",
        jax='`padding="SAME"` by default; at stride 2 it may pad (0, 1) where torch\'s 1 pads (1, 1).',
        remedy="Always pass it as numbers: `padding=((1, 1), (1, 1))`.",
        causes=("padding-at-a-stride", "padding-missing", "stride-offset"),
        tests=(f"{_LAYERS}/test_conv.py::test_W3_same_is_not_torchs_padding_at_a_stride",),
    ),
    Note(
        "W4",
        "padding modes",
        torch="`padding_mode` is zeros, reflect, replicate or circular, for any padding.",
        jax="nnx.Conv's REFLECT and CIRCULAR pad by half the kernel, which matches torch only for an odd kernel padded "
        "by k // 2; there is no replicate.",
        remedy="Pad first, then convolve with VALID; `port.nn.Conv` does.",
        causes=("padding-mode",),
        tests=(f"{_LAYERS}/test_conv.py::test_W4_flaxs_own_modes_pad_by_half_the_kernel_only",),
    ),
    Note(
        "W5",
        "transposed convolution",
        torch="`weight` is (in, out / groups, *kernel); `padding` crops the output.",
        jax="`padding` pads the dilated input, and there are no groups.",
        remedy="`transpose_kernel=True`, permute by (2, 3, 1, 0), no flip, and pad each axis by "
        "(d(k − 1) − p, d(k − 1) − p + output_padding) at dilation d; `port.nn.ConvTranspose` has groups.",
        causes=("kernel-transposed", "kernel-flipped", "padding-at-a-stride"),
        tests=(
            f"{_LAYERS}/test_conv_transpose.py::test_W5_torchs_padding_is_not_flaxs",
            f"{_LAYERS}/test_conv_transpose.py::test_W5_a_kernel_that_is_not_swapped_is_seen",
            f"{_LAYERS}/test_conv_transpose.py::test_W5_every_combination",
        ),
    ),
    Note(
        "W6",
        "flattening between a convolution and a linear layer",
        torch="The order of features is channel, height, width.",
        jax="Channels are last, so the order is height, width, channel.",
        remedy="Fold the order into the linear layer's kernel (`fold`), rather than transposing at run time.",
        causes=("flatten-order",),
        tests=(
            "tests/port/weights/test_written_apart.py::test_W6_a_flatten_that_is_not_folded_or_folded_wrongly_is_seen",
        ),
    ),
    Note(
        "W7",
        "BatchNorm's momentum",
        torch="Weight of the new batch in the running statistics: 0.1 by default.",
        jax="Weight of the old statistics: 0.99 by default.",
        remedy="1 − momentum.",
        causes=("momentum-reversed", "momentum"),
        tests=(_STATISTICS,),
    ),
    Note(
        "W8",
        "BatchNorm's running variance",
        torch="Normalises with the biased variance and stores the unbiased one.",
        jax="Normalises with the biased variance and stores the same.",
        remedy="`port.nn.BatchNorm`; flax's stored variance differs by n / (n − 1) for n values per channel.",
        causes=("biased-running-variance",),
        tests=(
            _STATISTICS,
            f"{_NN}/test_instance_norm.py::test_W8_the_running_variance_is_the_average_of_unbiased_ones",
        ),
    ),
    Note(
        "W9",
        "BatchNorm's other options",
        torch="`momentum=None` averages all batches equally; `affine=False`; `track_running_stats=False`; "
        "`num_batches_tracked` counts.",
        jax="flax's has no cumulative average and no batch count.",
        remedy="`port.nn.BatchNorm`; keep `num_batches_tracked` for converting back.",
        causes=("cumulative-average-missing",),
        tests=(f"{_LAYERS}/test_batch_norm.py::test_W9_the_twin_computes_the_same_with_the_same_gradients",),
    ),
    Note(
        "W10",
        "a norm's epsilon",
        torch="1e-5; RMSNorm's is the machine epsilon of the dtype of its computation.",
        jax="1e-6; BatchNorm's is 1e-5.",
        remedy="Always pass it.",
        causes=("epsilon", "epsilon-outside-root"),
        tests=(
            f"{_LAYERS}/test_norm.py::test_W10_an_epsilon_of_flaxs_is_seen",
            f"{_NN}/test_layer_norm.py::test_W10_rms_norms_own_epsilon_is_that_of_the_dtype_it_computes_in",
        ),
    ),
    Note(
        "W11",
        "a norm's variance",
        torch="Two passes: the mean of (x − mean)².",
        jax="One pass, E[x²] − E[x]², which loses digits if the mean is far from zero.",
        remedy="`use_fast_variance=False`.",
        causes=("fast-variance",),
        tests=(
            f"{_LAYERS}/test_norm.py::test_W11_an_input_far_from_zero_needs_two_passes",
            f"{_NN}/test_layer_norm.py::test_W11_the_variance_takes_two_passes",
        ),
    ),
    Note(
        "W12",
        "GELU",
        torch='With erf; `approximate="tanh"` selects the approximation.',
        jax="The tanh approximation, unless `approximate=False`.",
        remedy='`approximate=False`. Never pass torch\'s string on: "none" counts as true.',
        causes=("tanh-gelu", "exact-gelu"),
        tests=(f"{_FUNCTIONAL}/test_activation.py::test_W12_gelu_is_the_exact_one",),
    ),
    Note(
        "W13",
        "the LSTM's biases",
        torch="Gates i, f, g, o; two biases, which are summed.",
        jax="OptimizedLSTMCell has one.",
        remedy="Their sum gives the same output. In training both of torch's get the gradient, so the sum moves "
        "twice as far: to train, keep both with `port.nn.LSTM`.",
        causes=("gate-order", "bias-missing", "forget-bias"),
        tests=(f"{_NN}/test_recurrent_cells.py::test_W13_one_bias_gives_torchs_output_and_trains_half_as_far",),
    ),
    Note(
        "W14",
        "the GRU's hidden bias",
        torch="Gates r, z, n; the new gate is tanh(W_in x + b_in + r · (W_hn h + b_hn)).",
        jax="nnx.GRUCell has no hidden bias, so it cannot represent b_hn.",
        remedy="`port.nn.GRUCell`, `port.nn.GRU`.",
        causes=("gate-order", "bias-missing", "reset-before-product", "hidden-bias-outside-reset"),
        tests=(
            f"{_NN}/test_recurrent_cells.py::test_W14_flaxs_GRUCell_has_no_hidden_bias",
            f"{_LAYERS}/test_recurrent.py::test_W14_the_wrong_gru_is_refused_with_the_reason",
        ),
    ),
    Note(
        "W15",
        "attention's projections",
        torch="One `in_proj_weight` (3E, E), or three weights with kdim or vdim; bias_k, bias_v, add_zero_attn.",
        jax="Kernels query, key, value (E, heads, D) and out (heads, D, E).",
        remedy="Split, transpose, then reshape into heads.",
        causes=("head-order", "number-of-heads", "projection-order"),
        tests=(
            f"{_LAYERS}/test_attention.py::test_W15_flaxs_attention_with_torchs_weights",
            f"{_NN}/test_attention.py::test_W15_heads_and_projections_mixed_up_are_seen",
        ),
    ),
    Note(
        "W16",
        "attention's boolean mask",
        torch="True blocks in MultiheadAttention and attends in scaled_dot_product_attention. A fully blocked row "
        "is NaN with need_weights=True and 0 without.",
        jax="True attends. A fully blocked row is the mean of the values.",
        remedy="Invert MultiheadAttention's mask; leave no row fully blocked.",
        causes=(
            "mask-reversed",
            "mask-missing",
            "mask-added-as-numbers",
            "causal-mask-missing",
            "causal-mask-shifted",
            "causal-mask-added",
        ),
        tests=(
            "tests/port/pairs/notes/test_weights_and_modules.py::test_W16_torchs_own_function_has_the_mask_of_jaxs",
            f"{_NN}/test_attention_masks.py::test_W16_true_blocks",
            f"{_NN}/test_attention_masks.py::test_W16_a_row_that_is_blocked_is_NaN_with_weights_and_0_without",
        ),
    ),
    Note(
        "W17",
        "an embedding's indices",
        torch="The row of padding_idx is zero and gets no gradient; an index out of range raises.",
        jax="No padding_idx; an index out of range gives NaN (or the row of a one-row table), and −1 is the last row.",
        remedy="`port.nn.Embedding` has the options and gives NaN for every index out of range.",
        causes=("padding-row-trained", "max-norm-missing"),
        tests=(
            f"{_NN}/test_embedding.py::test_W17_flaxs_own_takes_some_of_them",
            f"{_NN}/test_embedding.py::test_W17_an_index_out_of_range_is_nan_where_torch_raises",
            f"{_LAYERS}/test_embedding.py::test_flaxs_embed_has_no_padding",
        ),
    ),
    Note(
        "W18",
        "average pooling",
        torch="Counts padding (count_include_pad=True); has ceil_mode and divisor_override.",
        jax="nnx.avg_pool counts padding too, and has neither of the others.",
        remedy="`port.nn.functional.avg_pool`.",
        causes=("count-include-pad", "ceil-mode", "divisor-missing"),
        tests=(f"{_FUNCTIONAL}/test_average_pooling.py::test_W18_what_flax_lacks_is_seen",),
    ),
    Note(
        "W19",
        "adaptive pooling",
        torch="Window i goes from floor(i·L / n) to ceil((i + 1)·L / n): windows may overlap.",
        jax="Not available; a plain pool of matching sizes has other windows if n does not divide L.",
        remedy="`port.nn.functional.adaptive_avg_pool`, `adaptive_max_pool`.",
        causes=("adaptive-windows",),
        tests=(f"{_FUNCTIONAL}/test_average_pooling.py::test_W19_windows_that_do_not_overlap_are_seen",),
    ),
    Note(
        "W20",
        "max pooling",
        torch="Pads with −inf; has dilation, ceil_mode and return_indices.",
        jax="nnx.max_pool pads with −inf too, and has none of the others.",
        remedy="`port.nn.functional.max_pool`.",
        causes=("ceil-mode", "pool-padded-with-zeros", "pool-dilation-missing"),
        tests=(
            f"{_FUNCTIONAL}/test_max_pooling.py::"
            "test_W20_flaxs_pads_with_infinity_and_gives_the_first_tie_the_gradient",
            f"{_FUNCTIONAL}/test_max_pooling.py::test_W20_every_max_pool",
        ),
    ),
    Note(
        "W21",
        "resizing images",
        torch="interpolate's nearest takes the floor, bicubic has a = −0.75, scale_factor is used exactly; "
        "has align_corners.",
        jax="jax.image.resize rounds to the centre, has a = −0.5, and antialiases when it shrinks.",
        remedy="`port.nn.functional.interpolate`: weights from torch's coordinates.",
        causes=("align-corners", "antialias", "cubic-coefficient", "scale-factor", "interpolation-mode"),
        tests=(
            f"{_FUNCTIONAL}/test_resize.py::test_W21_jax_image_resize_is_another",
            f"{_FUNCTIONAL}/test_resize.py::test_W21_every_variant",
        ),
    ),
    Note(
        "W22",
        "weight_norm and spectral_norm",
        torch="Direction and length, or the weight before its norm, are parameters "
        "(`parametrizations.weight.original0`, or `weight_g`, `weight_v`); spectral_norm's vectors are buffers.",
        jax="nnx.WeightNorm and nnx.SpectralNorm overwrite the kernel with their result; SpectralNorm iterates in "
        "evaluation too.",
        remedy="`port.nn.WeightNorm`, `port.nn.SpectralNorm` keep the original.",
        causes=("weight-norm-missing", "spectral-norm-missing"),
        tests=(
            f"{_NN}/test_weight_norm.py::test_W22_flaxs_own_loses_the_direction",
            f"{_NN}/test_spectral_norm.py::test_W22_flaxs_own_overwrites_the_kernel_and_iterates_in_evaluation_too",
            f"{_LAYERS}/test_parametrized.py::test_W22_the_twin_computes_and_trains_the_same",
        ),
    ),
    Note(
        "W23",
        "tied weights",
        torch="One tensor under two names.",
        jax="Two layers have two parameters, which train separately even if they start equal.",
        remedy="Share one nnx.Param: `embed.attend(x)`.",
        causes=("weights-untied",),
        tests=(
            "tests/port/parity/test_faults.py::test_weights_tied_in_torch_only",
            "tests/port/weights/test_variables.py::"
            "test_W23_a_tied_weight_is_one_parameter_and_untied_ones_are_refused_on_the_way_back",
        ),
    ),
    Note(
        "W24",
        "initial values",
        torch="Linear and convolutions: uniform in ±1 / √fan_in, the bias too. Embedding: normal, deviation 1.",
        jax="Linear and convolutions: lecun_normal, bias 0. Embed: normal, deviation 1 / √width.",
        remedy="To train from scratch as torch does, use `port.nn`'s initializers; or load torch's weights.",
        causes=("weights-not-loaded",),
        tests=(
            f"{_LAYERS}/test_initial_values.py::test_W24_flaxs_own_are_others",
            f"{_LAYERS}/test_initial_values.py::test_W24_an_embedding_is_normal",
        ),
    ),
    Note(
        "W25",
        "dropout's masks",
        torch="Drawn from the global generator.",
        jax="Drawn from a key. nnx.Dropout forks a stream off the Rngs of its constructor and counts its draws, so "
        "its mask is not that of `fold_in(key(seed), 0)`; with x64 on, the same key gives other masks.",
        remedy="Pass a key to each call, `fold_in(fold_in(key(seed), step), n)`, and fix the precision of the "
        "draw; `port.shared_dropout` with `port.nn.shared_masks` draws jax's masks in torch, bit for bit.",
        causes=("dropout-left-on",),
        tests=(
            "tests/port/pairs/notes/test_weights_and_modules.py::"
            "test_W25_a_layers_own_stream_gives_another_mask_than_the_key_does",
            "tests/port/random/test_draws.py::test_bernoulli_is_jaxs",
            "tests/port/random/test_dropout.py::test_W25_dropout_is_nnx_dropout_forward_and_backward",
        ),
    ),
    Note(
        "W26",
        "dropout of whole channels",
        torch="Dropout1d, 2d and 3d drop along axis 1 of (N, C, …); Dropout2d reads three axes as (N, C, L) and warns.",
        jax="`broadcast_dims` names the axes that share a mask; channels are last.",
        remedy="`broadcast_dims` with the axes between the first and the last.",
        outside="It concerns dropout, which a check turns off on both sides.",
        tests=(
            f"{_LAYERS}/test_dropout.py::test_W26_axes_that_share_no_mask_are_seen",
            f"{_LAYERS}/test_dropout.py::test_W26_dropout2d_takes_three_axes_as_torchs_dropout1d",
        ),
    ),
    Note(
        "W27",
        "the dtype of parameters",
        torch="The default dtype, or the layer's `dtype`; `double()` changes it.",
        jax="`param_dtype` is float32, even with x64 on; BatchNorm's statistics are float32 regardless of it.",
        remedy="Pass `param_dtype`; replace the statistics by arrays of the right dtype.",
        causes=("weights-rounded",),
        tests=(
            f"{_LAYERS}/test_linear.py::test_W27_the_dtype_of_parameters_is_asked_for_not_implied",
            _STATISTICS,
        ),
    ),
    Note(
        "W28",
        "sequences of different lengths",
        torch="`pack_padded_sequence` drops the padding; the result of `pad_packed_sequence` is as long as the "
        "longest sequence, or `total_length`.",
        jax="Shapes cannot depend on lengths: the padding stays. `nnx.RNN(seq_lengths=)` returns the right last state, "
        "but its outputs continue past each sequence's end.",
        remedy="`lengths=` of `port.nn.RNN`, `LSTM`, `GRU`: outputs are as long as the input, with 0 past the end. Pad "
        "each batch to its longest sequence, or pass `total_length` in torch. Code that reads a packed sequence's "
        "`data` or `batch_sizes` reads the padded array and the lengths instead.",
        causes=("padding-read",),
        tests=(
            f"{_NN}/test_recurrent.py::test_lengths_are_torchs_packed_sequences",
            f"{_NN}/test_recurrent.py::test_W28_flaxs_own_computes_on_past_the_end",
            "tests/port/translation/frontend/test_packed_sequences.py::test_W28_a_batch_padded_beyond_its_longest_is_told",
        ),
    ),
    Note(
        "W29",
        "parameters that are not trained",
        torch="`requires_grad=False`: no gradient, and no optimizer changes it, though it is in its groups; weight "
        "decay is skipped too.",
        jax="Every `nnx.Param` is trained; with a zero gradient it still decays.",
        remedy="Replace it by `port.nn.Frozen`, or use `port.nn.frozen(module)`: a variable type that filters for "
        "`nnx.Param` skip. `port.to_optax` labels what torch does not train, so that no update changes it.",
        outside="It concerns optimizer updates: outputs and gradients are the same.",
        tests=(
            f"{_NN}/test_frozen.py::test_W29_neither_grad_nor_optimizer_touches_it",
            "tests/port/optim/test_unstepped.py::test_W29_the_live_optimizer",
        ),
    ),
)
