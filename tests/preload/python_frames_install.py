"""Installs a small job below a folder: a script with packages beside it, a virtual environment with
packages of its own, an archive and a native library.

Usage: python_frames_install.py FOLDER NATIVE_LIBRARY
The job is FOLDER/app/train.py, to be run by FOLDER/env/bin/python.
"""
import pathlib
import shutil
import sys
import venv
import zipfile

TRAIN = """
import asyncio, ctypes, os, sys, threading
here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, os.pardir, "tools.zip"))
import model.net, parts.helper, layers.dense, vendor.kit.tool, packed
from model import driver

native = ctypes.CDLL(os.path.join(here, os.pardir, "lib", "native.so"))

async def from_a_task():
    await asyncio.sleep(0)
    model.net.forward(32)

def step():
    model.net.forward(64)
    parts.helper.stage(16)
    layers.dense.Dense().build(8)
    vendor.kit.tool.apply(lambda: driver.allocate(24))
    packed.unpack(40)
    [driver.allocate(48) for _ in range(2)]
    exec(compile("allocate(56)", "<cell>", "exec"), {"allocate": driver.allocate})
    asyncio.run(from_a_task())
    thread = threading.Thread(target=model.net.forward, args=(72,))
    thread.start()
    thread.join()
    assert native.native_allocate(ctypes.c_size_t(80)) == 0
    assert native.native_allocate_on_a_thread(ctypes.c_size_t(88)) == 0

for _ in range(100):
    step()
"""

DRIVER = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)

context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)

def allocate(size):
    call("cuCtxSetCurrent", context)
    block = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
"""

# A line number of its own for each, so that no two modules' frames are alike but for the module.
SCRIPT_FOLDER = {
    "__init__.py": "",
    "train.py": TRAIN,
    "model/__init__.py": "",
    "model/driver.py": DRIVER,
    "model/net.py": "from .driver import allocate\ndef forward(n):\n  allocate(n)\n",
    "parts/helper.py": "from model.driver import *\n\ndef stage(n):\n  allocate(n)\n",
}
SITE_PACKAGES = {
    "layers/__init__.py": "",
    "layers/dense.py": "from model.driver import *\nclass Dense:\n def build(self, n):\n\n\n"
                       "  allocate(n)\n",
    "vendor/kit/tool.py": "def apply(f):\n\n\n\n\n\n  f()\n",
}
ARCHIVE = {"packed.py": "from model.driver import *\ndef unpack(n):\n\n\n\n\n\n  allocate(n)\n"}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main():
    folder, native = pathlib.Path(sys.argv[1]), sys.argv[2]
    write(folder / "app", SCRIPT_FOLDER)
    with zipfile.ZipFile(folder / "tools.zip", "w") as archive:
        for name, text in ARCHIVE.items():
            archive.writestr(name, text)
    (folder / "lib").mkdir()
    shutil.copy(native, folder / "lib" / "native.so")
    venv.EnvBuilder(symlinks=True).create(folder / "env")
    version = "python%d.%d" % sys.version_info[:2]
    write(folder / "env" / "lib" / version / "site-packages", SITE_PACKAGES)


main()
