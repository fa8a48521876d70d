"""What the programs of this folder that use a framework share.

Each takes like steps on fixed data and ends with the line "result HEX": the same installation
gives the same number. Where its framework is not installed it says so and ends with MISSING.
"""
import hashlib
import importlib
import sys

MISSING = 77


def framework(name):
    """The module; ends the program where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(f"not installed: {error}", file=sys.stderr)
        sys.exit(MISSING)


class Result:
    """A sum over everything that is to be the same."""

    def __init__(self):
        self.sum = hashlib.sha256()

    def add(self, array):
        self.sum.update(array.tobytes())

    def print(self):
        sys.stderr.flush()
        print(f"result {self.sum.hexdigest()[:16]}", flush=True)
