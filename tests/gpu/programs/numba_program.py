"""Kernels of Numba on its own device arrays, two streams, copies both ways."""
from frameworks import Result, framework

STEPS = 16
COUNT = 1 << 18
THREADS = 256


def main():
    numpy = framework("numpy")
    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack  # older versions of Numba look for it while they load
    framework("numba")
    cuda = framework("numba.cuda")
    kernels = framework("numba_kernels")
    random = numpy.random.default_rng(1)
    data = random.standard_normal((STEPS, COUNT), dtype=numpy.float32)
    blocks = COUNT // THREADS
    stream, other = cuda.stream(), cuda.stream()
    state = cuda.to_device(numpy.zeros(COUNT, numpy.float32))
    cuda.synchronize()
    a = numpy.float32(0.25)
    result = Result()
    for batch in data:
        x = cuda.to_device(batch, stream=stream)
        temporary = cuda.device_array(COUNT, numpy.float32)
        kernels.halve[blocks, THREADS, stream](temporary, x)
        kernels.square[blocks, THREADS, stream](x, temporary)
        kernels.axpy[blocks, THREADS, stream](state, x, a)
        stream.synchronize()
        kernels.axpy[blocks, THREADS, other](state, temporary, -a)
        copied = state.copy_to_host(stream=other)
        other.synchronize()
        result.add(copied)
        del x, temporary
        # Numba would keep the memory for some steps.
        cuda.current_context().memory_manager.deallocations.clear()
    result.add(state.copy_to_host())
    result.print()


if __name__ == "__main__":
    main()
