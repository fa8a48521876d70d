"""A loop of CuPy, with its memory pool or without: elementwise kernels, reductions, a matrix
product, a kernel of the program's own, and two streams.
"""
import argparse

from frameworks import Result, framework

STEPS = 16
SIDE = 256

SCALE = r"""
extern "C" __global__ void scale(float* out, const float* in, float factor, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __fmul_rn(factor, in[i]);
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memory", choices=["pool", "no-pool"])
    memory = parser.parse_args().memory
    cupy, numpy = framework("cupy"), framework("numpy")
    if memory == "no-pool":
        cupy.cuda.set_allocator(None)
        cupy.cuda.set_pinned_memory_allocator(None)
    random = numpy.random.default_rng(1)
    scale = cupy.RawKernel(SCALE, "scale")
    weights = cupy.asarray(random.standard_normal((SIDE, SIDE), dtype=numpy.float32))
    data = random.standard_normal((STEPS, SIDE, SIDE), dtype=numpy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    result = Result()
    for batch in data:
        x = cupy.asarray(batch)
        hidden = cupy.tanh(x @ weights)
        cupy.cuda.get_current_stream().synchronize()
        with stream:
            scaled = cupy.empty_like(hidden)
            scale((SIDE * SIDE // 256,), (256,),
                  (scaled, hidden, numpy.float32(0.01), numpy.uint32(SIDE * SIDE)))
            sums = (scaled * scaled + x).sum(axis=0)
        stream.synchronize()
        weights -= scaled
        result.add(cupy.asnumpy(sums))
    result.add(cupy.asnumpy(weights))
    result.print()


if __name__ == "__main__":
    main()
