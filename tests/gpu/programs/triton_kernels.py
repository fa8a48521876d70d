"""Kernels for triton_program.py, which imports this only where Triton is installed."""
import triton
import triton.language as tl


@triton.jit
def axpy(y, x, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, tl.load(y + at, mask=inside) + a * tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def gated(out, x, gate, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.sigmoid(tl.load(gate + at, mask=inside))
    tl.store(out + at, g * tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def row_sums(out, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out + row, tl.sum(values))
