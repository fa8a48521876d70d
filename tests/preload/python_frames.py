"""Compares the Python frames that Ebbtide captures with what the interpreter itself says.

Usage: python_frames.py PROBE_LIBRARY
Prints the site id and the fingerprint of each scene, which must be the same in every run.
Exits with 77 where this Python has no ctypes.
"""
import sys

try:
    import ctypes
except ImportError:
    sys.exit(77)
import functools
import gc
import signal
import threading

SIZE = 1 << 16
KEPT = 64  # Python frames of a site
BUFFER = threading.local()
HELD, FREE = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
for library in HELD, FREE:
    library.ebt_test_fingerprint.restype = ctypes.c_uint64
capture_held, capture_free = HELD.ebt_test_capture, FREE.ebt_test_capture
fingerprint = FREE.ebt_test_fingerprint
beside_gil = FREE.ebt_test_capture_beside_gil
native_depth = set()


def frames_from(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        found.append((code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)))
        frame = frame.f_back
    return found


def check(text, want):
    lines = text.split("\n")[:-1]
    frames = [line.split("\t") for line in lines[1:]]
    native = [f for f in frames if f[0] == "native"]
    got = [(f[1], int(f[2]), f[3]) for f in frames if f[0] == "python"]
    assert got == want[:KEPT], "captured\n%s\nexpected\n%s" % (got, want)
    assert frames[: len(native)] == native, "a native frame among the Python ones"
    assert native, "no native frame"
    for f in native:
        assert "python_frames_probe" not in f[1], "our own frame: %s" % f
        assert f[1] != "[anon]", "a frame without a module"
    return lines[0]


def buffer():
    if not hasattr(BUFFER, "value"):
        BUFFER.value = ctypes.create_string_buffer(SIZE)
    return BUFFER.value


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


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@decorated
def under_decorator():
    return (
        0,
        shot(),
        1,
    )[1]


class Layer:
    def forward(self):
        return self.inner()

    @classmethod
    def build(cls):
        return shot()

    @staticmethod
    def free():
        return shot()

    @property
    def inner(self):
        return lambda: shot()

    def __del__(self):
        deleted.append(shot())


deleted = []


def generator(depth):
    if depth == 0:
        yield shot()
    else:
        yield from generator(depth - 1)


async def coroutine(depth):
    return shot() if depth == 0 else await coroutine(depth - 1)


def run_coroutine():
    try:
        coroutine(3).send(None)
    except StopIteration as end:
        return end.value


def closure():
    cell = 1

    def inner():
        return shot(), cell

    return inner()[0]


def through_native_callback():
    found = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: found.append(shot()) or 0)
    callback()
    return found[0]


def through_c_functions():
    return list(map(lambda _: sorted([1], key=lambda _: seen.append(shot()) or 0), [1])) and seen[-1]


seen = []


def two_lambdas_on_a_line():
    a, b = [f() for f in (lambda: shot(), lambda: shot())]
    return a[0], b[0]


def raising():
    try:
        raise ValueError
    except ValueError:
        return shot()
    finally:
        pass


def in_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(nested(5))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 1, "one stack, several sites"
    return found[0]


def foreign_names():
    found = []
    source = "def f():\n  found.append(shot())\nf()\n"
    for name in "datei_\u00e4.py", "\u6a21\u578b.py", "\U0001d11e.py":
        exec(compile(source, name, "exec"), {"shot": shot, "found": found})
    assert len(set(found)) == 3
    return found[-1]


def far_down_a_file():
    found = []
    source = "def f():\n" + "  x = [1,\n\n 2]\n" * 3000 + "  found.append(shot())\nf()\n"
    exec(compile(source, "long.py", "exec"), {"shot": shot, "found": found})
    return found[0]


def recycled_code():
    """Code objects come and go at the same address; each must be read anew."""
    ids = set()
    for i in range(300):
        source = "\n" * (i % 50) + "shot(ids)\n"
        name = "<cell %03d>" % (i % 7)
        exec(compile(source, name, "exec"), {"shot": lambda s: s.add(shot()[0]), "ids": ids})
        gc.collect(0)
    assert len(ids) == 300, len(ids)
    return (min(ids),)


def busy_neighbours():
    stop = []

    def spin():
        while not stop:
            sum(range(100))

    threads = [threading.Thread(target=spin) for _ in range(3)]
    for t in threads:
        t.start()
    found = {shot() for _ in range(5)}
    stop.append(1)
    for t in threads:
        t.join()
    assert len(found) == 1
    return found.pop()


def while_another_has_the_gil():
    results = []

    def captures():
        b = buffer()
        used, want = beside_gil(b, SIZE), frames_from(sys._getframe())
        results.append(check(ctypes.string_at(b, used).decode(), want))

    thread = threading.Thread(target=captures)
    thread.start()
    while not FREE.ebt_test_waits_for_holder():
        pass
    HELD.ebt_test_hold_gil()
    thread.join()
    return (results[0],)


def main():
    signal.alarm(60)
    HELD.ebt_test_initialize()
    Layer().forward()
    scenes = [
        shot, lambda: nested(0), lambda: nested(30), lambda: nested(200), under_decorator,
        lambda: Layer().forward(), Layer.build, Layer.free, lambda: next(generator(0)),
        lambda: next(generator(4)), lambda: list(generator(2))[0], run_coroutine, closure,
        through_native_callback, through_c_functions, two_lambdas_on_a_line, raising, in_threads,
        foreign_names, far_down_a_file, recycled_code, busy_neighbours, while_another_has_the_gil,
    ]
    for scene in scenes:
        results = [scene() for _ in range(1 if scene is while_another_has_the_gil else 3)]
        assert len(set(results)) == 1, "%s: %s" % (scene, set(results))
        print(*results[0])
    assert len(set(deleted)) > 0
    print(len(scenes), "scenes")


main()
