"""Two workers by one of multiprocessing's start methods: life_multiprocessing.py METHOD WHEN.

WHEN is "before" or "after" the parent's first use of the driver, or "resolved": it has looked
functions up and called none. The children use the driver themselves, except those that are forked
from a parent that has: there CUDA does not work. The first ends well, the second with code 3.
"""
import ctypes
import multiprocessing
import sys


def call(cuda, name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name}: {result}")


def use_driver():
    """Three times: allocates 2 MiB, sets and reads it, frees. The bytes' sum over 3: 42."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, total = ctypes.c_void_p(), 0
    call(cuda, "cuInit", 0)
    call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call(cuda, "cuCtxSetCurrent", context)
    for value in (41, 42, 43):
        block, read = ctypes.c_uint64(), ctypes.create_string_buffer(1)
        call(cuda, "cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(2 << 20))
        call(cuda, "cuMemsetD8_v2", block, ctypes.c_ubyte(value), ctypes.c_size_t(2 << 20))
        call(cuda, "cuMemcpyDtoH_v2", read, ctypes.c_uint64(block.value + (2 << 20) - 1),
             ctypes.c_size_t(1))
        call(cuda, "cuMemFree_v2", block)
        total += read.raw[0]
    return total // 3


def work(index, uses_driver, answers):
    answers.put(use_driver() if uses_driver else 21)
    answers.close()
    answers.join_thread()
    sys.exit(0 if index == 0 else 3)


def children(method, uses_driver):
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    workers = [context.Process(target=work, args=(index, uses_driver, answers))
               for index in range(2)]
    for worker in workers:
        worker.start()
    got = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    print("children", got, [worker.exitcode for worker in workers], flush=True)


def parent():
    print("parent", "right" if use_driver() == 42 else "wrong", flush=True)


def main():
    method, when = sys.argv[1:]
    if when == "after":
        parent()
    if when == "resolved":
        _ = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2
    children(method, uses_driver=(when != "after" or method != "fork"))
    parent()
    if when != "after":
        parent()
    sys.exit(5)


if __name__ == "__main__":
    main()
