"""Compares the Python frames that Ebbtide captures with what the interpreter itself says.

Usage: python_frames.py PROBE_LIBRARY NATIVE_LIBRARY
Prints the site ids and the fingerprints of each scene, which must be the same in every run.
Exits with 77 where this Python has no ctypes or no GIL.
"""
import signal

from python_frames_shot import HELD
HELD.ebt_test_initialize()
import python_frames_language as language  # noqa: E402: captures while it is imported
import python_frames_threads as threads  # noqa: E402


def main():
    signal.alarm(100)
    scenes = language.SCENES + threads.SCENES
    for scene in scenes:
        results = [scene() for _ in range(3)]
        assert len(set(results)) == 1, "%s: %s" % (scene.__name__, set(results))
        print(scene.__name__, *results[0])
    assert len(set(language.deleted)) > 0
    print(len(scenes), "scenes")


main()
