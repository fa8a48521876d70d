"""The matrix of front_matrix.cc by Python's ctypes: front_matrix.py TABLE."""
import ctypes
import os
import re
import sys

SEEDED = 801
cuda = ctypes.CDLL("libcuda.so.1")
cuda.simcuda_call_count.restype = ctypes.c_uint64


def calls(name):
    return cuda.simcuda_call_count(name.encode())


def file_of(function):
    address = ctypes.cast(function, ctypes.c_void_p).value
    with open("/proc/self/maps") as maps:
        for line in maps:
            words = line.split()
            begin, end = (int(part, 16) for part in words[0].split("-"))
            if begin <= address < end:
                return os.path.basename(words[5])
    return "-"


with open(sys.argv[1]) as table:
    rows = re.findall(r"^EBT_HOOK\((\w+), (\w+), \d+, \w+, (\w+),", table.read(), re.M)
faults = [f"{symbol}:1+={SEEDED}" for symbol, _, family in rows if family != "resolve"]
faults = [fault for fault in faults if cuda.simcuda_set_faults(fault.encode())]
cuda.simcuda_set_faults(",".join(faults).encode())
for symbol, base, _ in rows:
    try:
        function = getattr(cuda, symbol)
    except AttributeError:
        print(symbol, "- - -")
        continue
    before, all_before = calls(symbol), calls(base + "*")
    result = function(*[ctypes.c_uint64(0)] * 14)
    reached = calls(symbol) == before + 1 and calls(base + "*") == all_before + 1
    print(symbol, symbol if reached else "-", result, file_of(function))
for symbol, _, _ in rows:
    if calls(symbol):
        print("=", symbol, calls(symbol))
