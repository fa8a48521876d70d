"""The programs that `coverage` watches, and how those of them that are sources get built."""
import dataclasses
import glob
import os
import shutil
import subprocess
import sys

import where

SOURCES = os.path.join(where.ROOT, "tests", "gpu", "programs")
WITNESS = os.path.join(where.ROOT, "tests", "gpu", "witness", "witness.cc")
KERNELS = os.path.join(where.ROOT, "tests", "demo", "kernels.ptx")


class BuildError(Exception):
    """What a compiler or the search for one had to say."""


@dataclasses.dataclass
class Program:
    name: str
    command: list = None  # None: `source` has to be built first
    environment: dict = dataclasses.field(default_factory=dict)
    source: str = None
    flags: list = dataclasses.field(default_factory=list)
    warmed: bool = False  # one run before all others fills the caches of compilers
    limit: int = 60  # seconds for one run; the warm-up may take three times as long
    by_default: bool = True


def python(name, *words, **more):
    return Program(name, [sys.executable, os.path.join(SOURCES, words[0]), *words[1:]], **more)


def torch(name, way, allocator, caching=True, **more):
    environment = {"PYTORCH_CUDA_ALLOC_CONF": allocator}
    if not caching:
        environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    return python(f"torch-{name}", "torch_program.py", way, environment=environment,
                  warmed=way not in ("eager", "graph"), **more)


def jax(name, allocator, by_default=True, **environment):
    environment.update(XLA_PYTHON_CLIENT_ALLOCATOR=allocator,
                       XLA_PYTHON_CLIENT_MEM_FRACTION=".05",
                       XLA_FLAGS="--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")
    return python(f"jax-{name}", "jax_program.py", environment=environment, by_default=by_default)


def plain(name, libraries=()):
    return [Program(f"{name}-{cudart}", source=name + ".cu", limit=30,
                    flags=["-cudart", cudart, *libraries]) for cudart in ("static", "shared")]


def all_programs():
    """The slow ones first: several run at a time."""
    return [
        torch("max-autotune", "max-autotune", "backend:native", limit=90),
        torch("reduce-overhead", "reduce-overhead", "backend:native", limit=90),
        torch("compile", "compile", "backend:cudaMallocAsync", limit=90),
        torch("async", "eager", "backend:cudaMallocAsync"),
        torch("native", "eager", "backend:native"),
        torch("expandable", "eager", "backend:native,expandable_segments:True"),
        torch("no-caching", "eager", "backend:native", caching=False),
        torch("graph", "graph", "backend:native"),
        torch("graph-async", "graph", "backend:cudaMallocAsync", by_default=False),
        jax("default", "default"),
        jax("async", "cuda_async", XLA_PYTHON_CLIENT_PREALLOCATE="false"),
        jax("vmm", "vmm", by_default=False, XLA_PYTHON_CLIENT_PREALLOCATE="false"),
        jax("platform", "platform", XLA_PYTHON_CLIENT_PREALLOCATE="false"),
        python("cupy-pool", "cupy_program.py", "pool", warmed=True),
        python("cupy-no-pool", "cupy_program.py", "no-pool", warmed=True),
        python("triton", "triton_program.py", warmed=True,
               environment={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
        python("numba", "numba_program.py"),
        *plain("streams"),
        *plain("pools"),
        *plain("vmm", ["-lcuda"]),
        *plain("ipc"),
        *plain("graphs"),
        Program("driver", source="driver.cc", limit=30),
        Program("driver-per-thread", source="driver.cc", limit=30,
                flags=["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]),
    ]


def caches(program, folder):
    """Compilers' caches, of this program alone: what fills them is its own warm-up."""
    base = os.path.join(folder, "cache", program.name)
    return {"TORCHINDUCTOR_CACHE_DIR": base + "/inductor", "TRITON_CACHE_DIR": base + "/triton",
            "CUPY_CACHE_DIR": base + "/cupy", "CUDA_CACHE_PATH": base + "/driver",
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}


def toolkits():
    """Folders that may hold include/ and lib*/ of CUDA: toolkits, then pip's packages."""
    found = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda",
             *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]
    for base in [path for path in sys.path if path.endswith("-packages")]:
        found += glob.glob(os.path.join(base, "nvidia", "cu1[3-9]"))
        found += glob.glob(os.path.join(base, "nvidia", "cuda_*"))
    found += [os.path.join(path, "extras", "CUPTI") for path in found if path]
    return [path for path in dict.fromkeys(found) if path and os.path.isdir(path)]


def folders_with(name, *below):
    """Folders `below` a toolkit that hold a file of that name, which may be a pattern."""
    return [os.path.join(path, sub) for path in toolkits() for sub in below
            if glob.glob(os.path.join(path, sub, name))]


def compiler(name):
    found = shutil.which(name)
    if not found:
        found = next((path for base in toolkits()
                      if os.path.exists(path := os.path.join(base, "bin", name))), None)
    if not found:
        raise BuildError(f"there is no {name}")
    return found


def run_compiler(command, output):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=180, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{os.path.basename(output)}: {error}") from error
    if done.returncode != 0 or not os.path.exists(output):
        raise BuildError(f"{' '.join(command)}\n{done.stdout.strip()[-1500:]}")
    return output


def includes(header):
    found = folders_with(header, "include")
    if not found:
        raise BuildError(f"{header} was not found below {toolkits() or '/usr/local/cuda'}")
    return [word for path in found for word in ("-isystem", path)]


def libcuda():
    """What to link for libcuda.so.1: a toolkit's stub, else the driver itself."""
    for path in folders_with("libcuda.so", "lib64/stubs", "lib/stubs"):
        return [os.path.join(path, "libcuda.so")]
    for path in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64"):
        if os.path.exists(os.path.join(path, "libcuda.so.1")):
            return [os.path.join(path, "libcuda.so.1")]
    raise BuildError("neither a stub of libcuda nor the driver's was found")


def cupti_library():
    """The libcupti that the frameworks bring, else a toolkit's: one process, one CUPTI."""
    found = folders_with("libcupti.so.1[3-9]", "lib", "lib64")
    pip = [path for path in found if "-packages" in path]
    for path in pip + found:
        return glob.glob(os.path.join(path, "libcupti.so.1[3-9]"))[0]
    return None


def build_witness(folder):
    output = os.path.join(folder, "libwitness.so")
    return run_compiler(
        [compiler("g++"), "-std=c++17", "-O2", "-Wall", "-D_GNU_SOURCE", "-fPIC", "-shared",
         "-fvisibility=hidden", "-static-libgcc", "-static-libstdc++", *includes("cupti.h"),
         *includes("cuda.h"), WITNESS, "-o", output, "-ldl", "-lpthread"], output)


def capability():
    """The first GPU's architecture for nvcc; an H200's where it cannot be asked."""
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=30, check=True).stdout
        return "sm_" + said.split()[0].replace(".", "")
    except (OSError, subprocess.SubprocessError, IndexError):
        return "sm_90"


def build(program, folder, architecture):
    """The command that starts a program; builds it where it is a source."""
    if program.command:
        return program.command
    output = os.path.join(folder, program.name)
    source = os.path.join(SOURCES, program.source)
    flags = [word for word in program.flags if word != "-lcuda"]
    if program.source.endswith(".cu"):
        link = libcuda() if "-lcuda" in program.flags else []
        shared = folders_with("libcudart.so*", "lib64", "lib")
        # Where the shared runtime lies is written into the program: nobody's paths are needed.
        link += ["-Xlinker", f"-rpath={shared[0]}"] if shared and "shared" in flags else []
        command = [compiler("nvcc"), "-std=c++17", "-O2", f"-arch={architecture}", *flags, source,
                   "-o", output, *link]
    else:
        command = [compiler("g++"), "-std=c++17", "-O2", *flags,
                   f'-DPROGRAM_KERNELS_PTX="{KERNELS}"', *includes("cuda.h"), source, "-o", output,
                   *libcuda()]
    return [run_compiler(command, output)]
