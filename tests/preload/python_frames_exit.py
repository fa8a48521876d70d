"""Ends while daemon threads capture, below Python frames that go away under them.

Usage: python_frames_exit.py PROBE_LIBRARY
Exits with 77 where this Python has no ctypes or no GIL.
"""
import sys
import sysconfig

try:
    import ctypes
except ImportError:
    sys.exit(77)
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(77)
import threading

probe = ctypes.CDLL(sys.argv[1])


def captures_below(depth, begun):
    if depth > 0:
        captures_below(depth - 1, begun)
    begun.set()
    probe.ebt_test_capture_for_ever()


probe.ebt_test_initialize()
for _ in range(3):
    begun = threading.Event()
    threading.Thread(target=captures_below, args=(20, begun), daemon=True).start()
    begun.wait()
