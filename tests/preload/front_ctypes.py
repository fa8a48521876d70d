"""The driver from Python: ctypes finds every function with dlsym."""
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name}: {result}")


context, block = ctypes.c_void_p(), ctypes.c_uint64()
read = ctypes.create_string_buffer(16)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
for _ in range(5):
    call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(4096))
    call("cuMemsetD8_v2", block, ctypes.c_ubyte(65), ctypes.c_size_t(4096))
    call("cuMemcpyDtoH_v2", read, block, ctypes.c_size_t(16))
    call("cuMemFree_v2", block)
    if read.raw != b"A" * 16:
        sys.exit("wrong bytes")
