"""Kernels of Numba on its own device arrays, two streams, copies both ways."""
from frameworks import Result, framework

STEPS = 16
COUNT = 1 << 18
THREADS = 256


def kernels_of(cuda):
    @cuda.jit
    def axpy(y, x, a):
        i = cuda.grid(1)
        if i < y.size:
            y[i] += a * x[i]

    @cuda.jit
    def halve(y, x):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = x[i] * 0.5

    @cuda.jit
    def square(y, x):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = x[i] * x[i]

    return axpy, halve, square


def main():
    framework("numba")
    cuda, numpy = framework("numba.cuda"), framework("numpy")
    axpy, halve, square = kernels_of(cuda)
    random = numpy.random.default_rng(1)
    data = random.standard_normal((STEPS, COUNT), dtype=numpy.float32)
    blocks = COUNT // THREADS
    stream, other = cuda.stream(), cuda.stream()
    state = cuda.to_device(numpy.zeros(COUNT, numpy.float32))
    a = numpy.float32(0.25)
    result = Result()
    for batch in data:
        x = cuda.to_device(batch, stream=stream)
        temporary = cuda.device_array(COUNT, numpy.float32)
        halve[blocks, THREADS, stream](temporary, x)
        square[blocks, THREADS, stream](x, temporary)
        axpy[blocks, THREADS, stream](state, x, a)
        stream.synchronize()
        axpy[blocks, THREADS, other](state, temporary, -a)
        copied = state.copy_to_host(stream=other)
        other.synchronize()
        result.add(copied)
        del x, temporary
        cuda.current_context().deallocations.clear()  # Numba would keep them for some steps
    result.add(state.copy_to_host())
    result.print()


if __name__ == "__main__":
    main()
