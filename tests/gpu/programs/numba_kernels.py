"""Kernels for numba_program.py, which imports this only where Numba is installed."""
from numba import cuda


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
