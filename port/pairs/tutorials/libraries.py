"""Flax, Optax and Orbax, and what JAX had before them."""

from __future__ import annotations

from port.pairs.tutorials.outdated import Fate, Outdated

_LINEAR = """\
model = nnx.Linear(3, 1, kernel_init=nnx.initializers.ones, rngs=nnx.Rngs(0))

def loss_fn(model):
    return jnp.square(model(x)).mean()

grads = nnx.grad(loss_fn)(model)
"""

ROWS = (
    Outdated(
        "T42",
        says="""\
from jax.experimental import stax

init, apply = stax.serial(stax.Dense(4), stax.Relu, stax.Dense(1))
shape, params = init(jax.random.PRNGKey(0), (3,))
result = apply(params, x).shape""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Moved to jax.example_libraries in jax 0.2.25 and removed from here in 0.3.16.",
        today="""\
rngs = nnx.Rngs(0)
model = nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), nnx.relu, nnx.Linear(4, 1, rngs=rngs))
result = model(x).shape""",
        torch="nn.Sequential; a function is a layer of it as it is.",
    ),
    Outdated(
        "T43",
        says="""\
from jax.experimental import optimizers

init, update, get_params = optimizers.sgd(0.1)
result = get_params(update(0, gradients, init(params)))""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Moved to jax.example_libraries in jax 0.2.25 and removed from here in 0.3.16.",
        today="""\
optimizer = optax.sgd(0.1)
updates, state = optimizer.update(gradients, optimizer.init(params), params)
result = optax.apply_updates(params, updates)""",
        torch="optimizer.step() in two: what to add, and adding it. The state is yours to keep.",
    ),
    Outdated(
        "T44",
        says="""\
from jax.example_libraries import optimizers

init, update, get_params = optimizers.momentum(0.1, mass=0.9)
result = get_params(update(1, gradients, update(0, gradients, init(params))))""",
        fate=Fate.WORKS,
        happened="Examples, as the name says; Optax is what is kept up.",
        today="""\
optimizer, result = optax.sgd(0.1, momentum=0.9), params
state = optimizer.init(params)
for _ in range(2):
    updates, state = optimizer.update(gradients, state)
    result = optax.apply_updates(result, updates)""",
        torch="With torch.optim.SGD's weight_decay or dampening it is another (O1, O2).",
    ),
    Outdated(
        "T45",
        says="""\
from flax import optim

optimizer = optim.GradientDescent(learning_rate=0.1).create(params)
result = optimizer.apply_gradient(gradients).target""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Deprecated in flax 0.4.1 in favour of Optax, and removed since.",
        today="""\
optimizer = optax.sgd(0.1)
updates, state = optimizer.update(gradients, optimizer.init(params), params)
result = optax.apply_updates(params, updates)""",
    ),
    Outdated(
        "T46",
        says="""\
from flax import nn

class Model(nn.Module):
    def apply(self, x):
        return nn.Dense(x, features=1)

result = Model.init(jax.random.PRNGKey(0), x)[0].shape""",
        fate=Fate.GONE,
        error="ImportError",
        happened="Became flax.deprecated.nn in flax 0.3.6, which was removed in 0.4.0; Linen took its place, then NNX.",
        today="result = nnx.Linear(3, 1, rngs=nnx.Rngs(0))(x).shape",
        torch="An nnx.Module holds its parameters, as an nn.Module does, and is told the width of its input.",
    ),
    Outdated(
        "T47",
        says="""\
from flax import linen as nn

batch_norm = nn.BatchNorm(use_running_average=False, momentum=0.9)
variables = batch_norm.init(jax.random.PRNGKey(0), x[:, None])
y, updated = batch_norm.apply(variables, x[:, None], mutable=["batch_stats"])
result = updated["batch_stats"]["mean"]""",
        fate=Fate.WORKS,
        happened="Linen is kept up, and its documentation sends new users to NNX.",
        today="""\
batch_norm = nnx.BatchNorm(1, momentum=0.9, rngs=nnx.Rngs(0))
y = batch_norm(x[:, None])
result = batch_norm.mean[...]""",
        torch="As in PyTorch the statistics are the layer's own and change as it is called; its momentum is W7.",
    ),
    Outdated(
        "T48",
        says="""\
from flax import linen as nn
from flax.training.train_state import TrainState

model = nn.Dense(1, kernel_init=nn.initializers.ones)
params = model.init(jax.random.PRNGKey(0), x)["params"]
state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.1))

def loss_fn(params):
    return jnp.square(state.apply_fn({"params": params}, x)).mean()

state = state.apply_gradients(grads=jax.grad(loss_fn)(state.params))
result = state.params["kernel"]""",
        fate=Fate.WORKS,
        happened="Linen is kept up, and its documentation sends new users to NNX.",
        today=_LINEAR
        + """\
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
optimizer.update(model, grads)
result = model.kernel[...]""",
        torch="optimizer.step(), but for the gradients: they are handed over, and need no zero_grad().",
    ),
    Outdated(
        "T49",
        says="from flax.core import unfreeze\n\nresult = unfreeze(params)",
        fate=Fate.WORKS,
        happened="Linen's init gives plain dicts by now: there is nothing to unfreeze.",
        today="result = dict(params)",
    ),
    Outdated(
        "T50",
        says=_LINEAR
        + """\
optimizer = nnx.Optimizer(model, optax.sgd(0.1))
optimizer.update(grads)
result = model.kernel[...]""",
        fate=Fate.GONE,
        error="TypeError",
        happened="Since flax 0.11.0 wrt= has to be given.",
        today=_LINEAR
        + """\
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
optimizer.update(model, grads)
result = model.kernel[...]""",
        torch="wrt= names a type of variable, as `module.parameters()` leaves out buffers.",
    ),
    Outdated(
        "T51",
        says=_LINEAR
        + """\
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
optimizer.update(grads)
result = model.kernel[...]""",
        fate=Fate.GONE,
        error="TypeError",
        happened="Since flax 0.11.0 an optimizer does not hold the model.",
        today=_LINEAR
        + """\
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
optimizer.update(model, grads)
result = model.kernel[...]""",
    ),
    Outdated(
        "T52",
        says="""\
model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
model.bias.value = model.bias.value + 1.0
result = model.bias.value""",
        fate=Fate.WARNS,
        happened="Deprecated: a Variable is indexed as an array is.",
        today="""\
model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
model.bias[...] = model.bias[...] + 1.0
result = model.bias[...]""",
        torch="As `with torch.no_grad(): bias += 1`, on the same Parameter.",
    ),
    Outdated(
        "T53",
        says="""\
class Model(nnx.Module):
    def __init__(self, rngs):
        self.layers = [nnx.Linear(3, 3, rngs=rngs) for _ in range(2)]

result = len(Model(nnx.Rngs(0)).layers)""",
        fate=Fate.GONE,
        error="ValueError",
        happened="A plain list is static by now, and must hold no layers.",
        today="""\
class Model(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(3, 3, rngs=rngs) for _ in range(2)])

result = len(Model(nnx.Rngs(0)).layers)""",
        torch="nn.ModuleList; PyTorch takes a plain list, and its parameters are none of the module's.",
    ),
    Outdated(
        "T54",
        says="from flax.experimental import nnx\n\nresult = nnx.Linear(3, 1, rngs=nnx.Rngs(0))(x).shape",
        fate=Fate.WORKS,
        happened="It logs that it is deprecated: NNX is flax.nnx.",
        today="from flax import nnx\n\nresult = nnx.Linear(3, 1, rngs=nnx.Rngs(0))(x).shape",
    ),
    Outdated(
        "T55",
        says="result = len(nnx.state(nnx.Linear(3, 1, rngs=nnx.Rngs(0))).flat_state())",
        fate=Fate.WARNS,
        happened="Deprecated: nnx.State is to become a dict.",
        today="result = len(nnx.to_flat_state(nnx.state(nnx.Linear(3, 1, rngs=nnx.Rngs(0)))))",
        torch="state_dict() with its keys taken apart.",
    ),
    Outdated(
        "T56",
        says="result = optax.global_norm(gradients)",
        fate=Fate.WARNS,
        happened="Deprecated in favour of optax.tree.norm.",
        today="result = optax.tree.norm(gradients)",
        torch="What clip_grad_norm_ returns.",
    ),
    Outdated(
        "T57",
        says="result = optax.tree_utils.tree_l2_norm(gradients)",
        fate=Fate.WARNS,
        happened="Deprecated: tree_norm since optax 0.2.5; optax.tree has tree_utils' functions under short names.",
        today="result = optax.tree.norm(gradients)",
    ),
    Outdated(
        "T58",
        says="""\
optimizer = optax.chain(optax.additive_weight_decay(0.01), optax.sgd(0.1))
result = optimizer.update(gradients, optimizer.init(params), params)[0]""",
        fate=Fate.GONE,
        error="AttributeError",
        happened="Renamed to add_decayed_weights.",
        today="""\
optimizer = optax.chain(optax.add_decayed_weights(0.01), optax.sgd(0.1))
result = optimizer.update(gradients, optimizer.init(params), params)[0]""",
        torch="SGD's weight_decay (O1).",
    ),
    Outdated(
        "T59",
        says="""\
parts, labels = {"slow": optax.sgd(0.1), "fast": optax.sgd(1.0)}, {"b": "fast", "w": "slow"}
optimizer = optax.multi_transform(parts, labels)
result = optimizer.update(gradients, optimizer.init(params))[0]""",
        fate=Fate.WORKS,
        happened="It is a second name of optax.partition.",
        today="""\
parts, labels = {"slow": optax.sgd(0.1), "fast": optax.sgd(1.0)}, {"b": "fast", "w": "slow"}
optimizer = optax.partition(parts, labels)
result = optimizer.update(gradients, optimizer.init(params))[0]""",
        torch="Parameter groups (O20).",
    ),
)
