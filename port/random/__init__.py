"""jax's random bits in PyTorch, so that both sides of a comparison drop the same activations.

jax draws with Threefry-2x32, a hash of a key and a counter, with no state. The functions here are named as in
``jax.random`` and return the same bits, on any device: keys and bits (`threefry`), numbers (`draws`, `normal_draws`).
jax's masks for torch's dropout modules are in `dropout`. All of it follows ``jax_threefry_partitionable=True``, the
default since jax 0.5; the older, non-partitionable mode is not reproduced.

``x64`` says whether the JAX side runs with ``jax_enable_x64``. It is part of a draw's definition: jax then draws
64 bits by default, which gives different numbers, not the same numbers with more digits.

Every ``key`` is the raw data of a jax key: shape (2,), dtype ``torch.uint32``, as from
``torch.from_numpy(numpy.array(jax.random.key_data(key)))``. Draws are on their key's device. Seeds,
keys, numbers and dtypes that jax would reject raise UsageError.
"""

from port.extras import naming_extras

with naming_extras("port.random"):
    from port.random.draws import bernoulli, uniform
    from port.random.dropout import dropout_key, shared_dropout
    from port.random.normal_draws import normal
    from port.random.threefry import bits, fold_in, key, split

__all__ = ["bernoulli", "bits", "dropout_key", "fold_in", "key", "normal", "shared_dropout", "split", "uniform"]
