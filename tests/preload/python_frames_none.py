"""Captures in an interpreter whose frames cannot be read: native frames alone, and no fault.

Usage: python_frames_none.py PROBE_LIBRARY
"""
import sys

try:
    import ctypes
except ImportError:
    sys.exit(77)
import threading

SIZE = 1 << 16
probe = ctypes.CDLL(sys.argv[1])
probe.ebt_test_fingerprint.restype = ctypes.c_uint64


def capture():
    buffer = ctypes.create_string_buffer(SIZE)
    for _ in range(100):
        used = probe.ebt_test_capture(buffer, SIZE)
        text = ctypes.string_at(buffer, used).decode()
        assert "\nnative\t" in text and "\npython\t" not in text, text
        assert probe.ebt_test_fingerprint() == 0


probe.ebt_test_initialize()
threads = [threading.Thread(target=capture) for _ in range(4)]
for thread in threads:
    thread.start()
capture()
for thread in threads:
    thread.join()
