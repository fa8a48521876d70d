"""Captures the present stack through the probe and compares it with what the interpreter says.

The probe's path is the program's first argument. Exits with 77 where this Python has no ctypes or
no GIL.
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
import traceback

SIZE = 1 << 16
KEPT = 64  # Python frames of a site
# The same functions, called with the GIL held and let go.
HELD, FREE = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
for library in HELD, FREE:
    library.ebt_test_fingerprint.restype = ctypes.c_uint64
capture_held, capture_free = HELD.ebt_test_capture, FREE.ebt_test_capture
fingerprint = FREE.ebt_test_fingerprint
_buffer = threading.local()


def buffer():
    if not hasattr(_buffer, "value"):
        _buffer.value = ctypes.create_string_buffer(SIZE)
    return _buffer.value


def frames_from(frame):
    found = []
    for each, line in traceback.walk_stack(frame):
        code = each.f_code
        found.append((code.co_filename, line, getattr(code, "co_qualname", code.co_name)))
    return found


def parse(text):
    """The number of the site, its native modules, and its Python frames."""
    lines = text.split("\n")[:-1]
    frames = [line.split("\t") for line in lines[1:]]
    native = [f for f in frames if f[0] == "native"]
    assert frames[: len(native)] == native, "a native frame among the Python ones"
    python = [(f[4], int(f[2]), f[3]) for f in frames if f[0] == "python"]
    return lines[0], [f[1] for f in native], python


def check(text, want):
    number, native, got = parse(text)
    assert got == want[:KEPT], "captured\n%s\nexpected\n%s" % (got, want)
    assert native, "no native frame"
    for module in native:
        assert "python_frames_probe" not in module, "our own frame: %s" % module
        assert module != "[anon]", "a frame without a module"
    return number


def shot():
    """Captures with and without the GIL; returns the id and the fingerprint."""
    b = buffer()
    used, want = capture_held(b, SIZE), frames_from(sys._getframe())
    held = check(ctypes.string_at(b, used).decode(), want)
    used, want = capture_free(b, SIZE), frames_from(sys._getframe())
    free = check(ctypes.string_at(b, used).decode(), want)
    assert held != free, "two lines, one site"
    return held, "%016x" % fingerprint()


def nested(depth):
    return shot() if depth == 0 else nested(depth - 1)
