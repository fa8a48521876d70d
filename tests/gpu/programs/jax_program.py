"""A small training loop of JAX. The allocator is chosen by XLA_PYTHON_CLIENT_ALLOCATOR, outside."""
from frameworks import Result, framework

STEPS = 16
BATCH, WIDTH, CLASSES = 64, 128, 16


def main():
    jax, numpy = framework("jax"), framework("numpy")
    jnp = jax.numpy
    if jax.default_backend() != "gpu":
        raise SystemExit(f"jax has no GPU but {jax.default_backend()}")
    random = numpy.random.default_rng(1)

    def array(*shape):
        return jnp.asarray(random.standard_normal(shape, dtype=numpy.float32) * 0.1)

    parameters = [array(WIDTH, 2 * WIDTH), array(2 * WIDTH, WIDTH), array(WIDTH, CLASSES)]
    momentum = [jnp.zeros_like(p) for p in parameters]
    x = random.standard_normal((STEPS, BATCH, WIDTH), dtype=numpy.float32)
    y = random.integers(CLASSES, size=(STEPS, BATCH))

    def loss_of(parameters, inputs, targets):
        hidden = jnp.tanh(inputs @ parameters[0])
        hidden = jax.nn.relu(hidden @ parameters[1])
        scores = jax.nn.log_softmax(hidden @ parameters[2])
        return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(targets, CLASSES), axis=1))

    gradient_of = jax.jit(jax.value_and_grad(loss_of))

    @jax.jit
    def updated(parameters, momentum, gradients):
        momentum = [0.9 * m + g for m, g in zip(momentum, gradients)]
        return [p - 0.05 * m for p, m in zip(parameters, momentum)], momentum

    losses = []
    for inputs, targets in zip(x, y):
        loss, gradients = gradient_of(parameters, jnp.asarray(inputs), jnp.asarray(targets))
        parameters, momentum = updated(parameters, momentum, gradients)
        losses.append(float(loss))
    result = Result()
    result.add(numpy.array(losses))
    for value in parameters + momentum:
        result.add(numpy.asarray(value))
    result.print()


if __name__ == "__main__":
    main()
