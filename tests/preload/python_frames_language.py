"""Scenes of python_frames.py on one thread: what the language and the standard library put on a
stack. Each returns what must be the same whenever it is played.
"""
import asyncio
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import weakref
import zipfile

from python_frames_shot import (
    FREE, KEPT, SIZE, buffer, check, frames_from, nested, parse, shot)


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
    key = lambda _: seen.append(shot()) or 0
    return list(map(lambda _: sorted([1], key=key), [1])) and seen[-1]


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


def comprehensions():
    """A frame of their own before 3.12, none since; a generator expression always has one."""
    listed = [shot() for _ in range(1)][0]
    keyed = {0: shot() for _ in range(1)}[0]
    collected = next(iter({shot() for _ in range(1)}))
    generated = next(shot() for _ in range(1))
    within = [[shot() for _ in range(1)][0] for _ in range(1)][0]
    called = [nested(1) for _ in range(1)][0]
    return listed + keyed + collected + generated + within + called


class Body:
    here = shot()
    listed = [shot() for _ in range(1)]


def class_bodies():
    class Local:
        here = shot()

        class Inner:
            here = shot()

    class Meta(type):
        def __call__(cls):
            return shot()

    class Made(metaclass=Meta):
        pass

    return Body.here + Body.listed[0] + Local.here + Local.Inner.here + Made()


def special_methods():
    class Odd:
        __enter__ = __len__ = __index__ = lambda self: seen.append(shot()) or 1
        __exit__ = lambda *_: seen.append(shot())

        def __getattr__(self, name):
            return shot()

        def __add__(self, other):
            return shot()

    odd = Odd()
    with odd:
        len(odd)
    [0, 1][odd]
    return seen[-4] + seen[-3] + seen[-2] + seen[-1] + odd.missing + (odd + 1)


def generators_driven_in_every_way():
    found = []

    def driven():
        try:
            while True:
                try:
                    found.append(shot())
                    yield
                except ValueError:
                    found.append(shot())
        finally:
            found.append(shot())

    generator = driven()
    next(generator)
    generator.send(1)
    generator.throw(ValueError())
    generator.close()
    assert len(found) == 5, found
    return found[0] + found[1] + found[2] + found[3] + found[4]


async def awaited(depth):
    await asyncio.sleep(0)
    return shot() if depth == 0 else await awaited(depth - 1)


async def numbers():
    for _ in range(2):
        await asyncio.sleep(0)
        yield shot()


@contextlib.asynccontextmanager
async def managed():
    yield shot()


async def several_tasks():
    found = [each async for each in numbers()]
    found += await asyncio.gather(awaited(0), awaited(3))
    found.append(await asyncio.create_task(awaited(1)))
    async with managed() as each:
        found.append(each)
    return sum(found, ())


def event_loop():
    return asyncio.run(several_tasks())


def called_back_from_c():
    """Functions in C between, of extension modules and of the interpreter."""
    found = []
    note = lambda *_: found.append(shot()) or 0
    functools.reduce(note, [1, 2])
    json.loads('{"a": 1}', object_hook=note)
    re.sub("a", lambda _: note() or "", "a")
    functools.partial(note, 1)()
    functools.lru_cache(None)(note)()
    min([1], key=note)
    list(filter(note, [1]))
    kept = contextlib.ExitStack()
    reference = weakref.ref(kept, note)
    del kept
    gc.collect()
    assert reference() is None and len(found) == 8, found
    return sum(found, ())


def signal_handler():
    found = []
    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(shot()))
    os.kill(os.getpid(), signal.SIGUSR1)
    while not found:
        pass
    signal.signal(signal.SIGUSR1, before)
    # Where the signal arrived is not the same in every run.
    return (found[0][1],)


def deep():
    """Far more frames than are kept, of Python alone and with C between each two."""
    def through_c(depth):
        return shot() if depth == 0 else list(map(through_c, [depth - 1]))[0]

    assert KEPT < 100
    return nested(900) + through_c(100)


def traced():
    """Code that is being traced is rewritten in place since 3.12."""
    lines = []

    def trace(frame, event, _):
        lines.append(event)
        return trace

    sys.settrace(trace)
    try:
        found = nested(3)
    finally:
        sys.settrace(None)
    sys.setprofile(trace)
    try:
        found += nested(3)
    finally:
        sys.setprofile(None)
    assert "line" in lines and "c_call" in lines
    return found


def hot_loops():
    """Long enough to be compiled where there is a compiler, 3.14's."""
    def step(i):
        return shot() if i >= 29990 else (i,)

    found = set()
    for i in range(30000):
        result = step(i)
        if i >= 29990:
            found.add(result)
    assert len(found) == 1, found
    return found.pop()


def foreign_identifiers():
    space = {"shot": shot}
    exec("class Sch\u00fcssel:\n  def \u5f00(self): return (lambda: shot())()\n"
         "def \u03b2(): return Sch\u00fcssel().\u5f00()", space)
    return space["\u03b2"]() + eval("shot()", space)


def make_modules(folder):
    source = "from python_frames_shot import shot\nat_import = shot()\ndef f(): return shot()\n"
    archive, loose = os.path.join(folder, "m\u00f6del.zip"), os.path.join(folder, "\u6a21\u578b")
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packed_outer/__init__.py", "")
        packed.writestr("packed_outer/inner.py", source)
    os.mkdir(loose)
    with open(os.path.join(loose, "loose_\u6a21.py"), "w", encoding="utf-8") as file:
        file.write(source)
    return [archive, loose]


FOLDER = tempfile.TemporaryDirectory()
MODULES = make_modules(FOLDER.name)


def packed_and_loose_files():
    """Modules of a zip archive and of a folder whose name is not ASCII, when they are imported
    and when they are called."""
    found = ()
    sys.path[:0] = MODULES
    for name in "packed_outer.inner", "loose_\u6a21":
        module = importlib.import_module(name)
        found += module.at_import + module.f()
        del sys.modules[name]
    del sys.path[:2]
    return found


NATIVE = ctypes.CDLL(sys.argv[2])
NATIVE_KEPT = 64  # native frames of a site


def below_native_frames():
    """Stacks that reach the interpreter now soon, now late, and some that do not while frames are
    kept."""
    numbers, base, b = {}, None, buffer()
    call, capture = NATIVE.native_call_below, FREE.ebt_test_capture
    for depth in 0, 5, 30, 5, 60, 0, 90, 31, 70, 30, 0, 90, 5:
        used, want = call(depth, capture, b, SIZE), frames_from(sys._getframe())
        text = ctypes.string_at(b, used).decode()
        number, count = check(text, want), len(parse(text)[1])
        base = count if base is None else base
        assert count == min(base + depth, NATIVE_KEPT), (count, base, depth)
        assert numbers.setdefault(depth, number) == number, depth
    # 70 and 90 are alike in the frames that are kept.
    assert len(set(numbers.values())) == len(numbers) - 1, numbers
    return tuple(numbers.values())


SCENES = [
    shot, lambda: nested(0), lambda: nested(30), lambda: nested(200), under_decorator,
    lambda: Layer().forward(), Layer.build, Layer.free, lambda: next(generator(0)),
    lambda: next(generator(4)), lambda: list(generator(2))[0], run_coroutine, closure,
    through_native_callback, through_c_functions, two_lambdas_on_a_line, raising, foreign_names,
    far_down_a_file, recycled_code, comprehensions, class_bodies, special_methods,
    generators_driven_in_every_way, event_loop, called_back_from_c, signal_handler, deep, traced,
    hot_loops, foreign_identifiers, packed_and_loose_files, below_native_frames,
]
