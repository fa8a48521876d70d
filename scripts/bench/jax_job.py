"""The JAX job of `workloads.py`: a decoder in plain JAX, compiled as one step, AdamW by optax."""
import importlib.metadata

import jax
import jax.numpy as jnp
import numpy
import optax

VOCABULARY = 32000


def normal(key, *shape):
    return 0.02 * jax.random.normal(key, shape, jnp.float32)


def layers_of(key, layers, width):
    """The weights of all layers, stacked: they are gone through by one loop."""
    names = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width),
             "down": (4 * width, width)}
    keys = jax.random.split(key, len(names))
    weights = {name: normal(k, layers, *shape) for k, (name, shape) in zip(keys, names.items())}
    scales = {name: jnp.ones((layers, width)) for name in ("norm1", "norm2")}
    return {**weights, **scales}


def normed(x, scale):
    spread = jax.lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True) + 1e-6)
    return (x * spread.astype(x.dtype)) * scale.astype(x.dtype)


def layer(x, weights):
    weights = {name: value.astype(jnp.bfloat16) for name, value in weights.items()}
    batch, length, width = x.shape
    heads = width // 64
    q, k, v = (part.reshape(batch, length, heads, 64)
               for part in jnp.split(normed(x, weights["norm1"]) @ weights["qkv"], 3, axis=-1))
    seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + seen.reshape(batch, length, width) @ weights["out"]
    inside = jax.nn.gelu(normed(x, weights["norm2"]) @ weights["up"])
    return x + inside @ weights["down"], None


def loss_of(parameters, tokens):
    x = parameters["tokens"][tokens[:, :-1]] + parameters["places"]
    x, _ = jax.lax.scan(layer, x.astype(jnp.bfloat16), parameters["layers"])
    logits = (x @ parameters["tokens"].T.astype(jnp.bfloat16)).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


class Transformer:
    def __init__(self, size, device):
        self.size, self.platform = size, device
        self.data = numpy.random.default_rng(2)
        self.rule = optax.adamw(1e-4, weight_decay=0.01)

    def parameters_of(self, key):
        keys = jax.random.split(key, 3)
        width = self.size["width"]
        return {"tokens": normal(keys[0], VOCABULARY, width),
                "places": normal(keys[1], self.size["sequence"], width),
                "layers": layers_of(keys[2], self.size["layers"], width)}

    def update(self, parameters, state, tokens):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
        changes, state = self.rule.update(gradients, state, parameters)
        return optax.apply_updates(parameters, changes), state, loss

    def bring_up(self):
        self.device = jax.devices(self.platform)[0]
        with jax.default_device(self.device):
            parameters = jax.jit(self.parameters_of)(jax.random.key(1))
            state = jax.jit(self.rule.init)(parameters)
        # Said to be there for good, as the step's results are: else the second step compiles anew.
        self.parameters, self.state = jax.device_put((parameters, state), self.device)
        # What goes in is given up, so that what comes out can take its place.
        self.compiled = jax.jit(self.update, donate_argnums=(0, 1))

    def begin_steady(self):
        """JAX's peaks cannot be set back."""

    def loss_of_step(self):
        shape = (self.size["batch"], self.size["sequence"] + 1)
        tokens = jax.device_put(self.data.integers(VOCABULARY, size=shape, dtype=numpy.int32),
                                self.device)
        self.parameters, self.state, loss = self.compiled(self.parameters, self.state, tokens)
        return float(loss)

    def memory(self):
        found = {key: value for key, value in (self.device.memory_stats() or {}).items()
                 if value is not None}
        # A stream-ordered allocator tells less than JAX's own.
        return {"allocated": found.get("peak_bytes_in_use"),
                "reserved": found.get("peak_pool_bytes", found.get("peak_bytes_reserved")),
                "statistics": {key: int(value) for key, value in found.items()}}

    def parameter_count(self):
        return sum(leaf.size for leaf in jax.tree.leaves(self.parameters))

    def versions(self):
        return {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "optax")}
