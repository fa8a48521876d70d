"""Prints what a capture and a fingerprint cost below a stack like that of a training job: a tower
of layers, each called through C, and two dozen native frames below the innermost.

Usage: python_frames_cost.py PROBE_LIBRARY
"""
import sys

try:
    import ctypes
except ImportError:
    sys.exit(77)

LAYERS, NATIVE = 12, 24
probe = ctypes.CDLL(sys.argv[1])
costs = {}
for name in "capture", "fingerprint":
    function = getattr(probe, "ebt_test_%s_cost" % name)
    function.restype = ctypes.c_double
    costs[name] = function


class Layer:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, *arguments):
        return self.forward(*arguments)

    def forward(self, name):
        return self.inner(name)


tower = lambda name: costs[name](NATIVE)
for _ in range(LAYERS):
    tower = Layer(tower)
probe.ebt_test_initialize()
print("%d.%d: capture %.0f ns, fingerprint %.1f ns" % (
    *sys.version_info[:2], tower("capture"), tower("fingerprint")))
