#!/usr/bin/env python3
"""What record_profiles starts for a job and writes about it, with runs that are made up.

  record_profiles_test.py        needs neither a GPU nor a framework
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.modules.setdefault("pynvml", types.ModuleType("pynvml"))


def load(name):
    path = os.path.join(HERE, name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


record_profiles = load("record_profiles")
workload_runs = sys.modules["workload_runs"]

RESERVED = {"native": 7000, "expandable": 6000, "recorded": 6500}


class MadeUpRun:
    """Answers at once; a recorded one leaves a profile."""

    def __init__(self, mode, job, setup):
        self.mode, self.job, self.setup = mode, job, setup

    def go(self, _patience):
        if self.mode == "recorded":
            with open(self.setup.file("recorded", self.job, ".ebp"), "wb") as file:
                file.write(b"profile")
        return {"memory": {"allocated": 5000, "requested": 4900, "reserved": RESERVED[self.mode]},
                "versions": {"torch": "1"}, "size": {}, "parameters": 1, "steps": 3,
                "step_ms": 2.0, "all_step_ms": [2.0], "loss_sum": 0.5, "loss_sum_hex": "0x1p-1",
                "resident_bytes": 1, "marks": [], "seconds": {"until_exit": 1.0}}

    def kill(self):
        pass


class RecordProfilesTest(unittest.TestCase):
    def setUp(self):
        record_profiles.Run = MadeUpRun
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = folder.name

    def record(self, jobs, **words):
        args = argparse.Namespace(**{
            "ebbtide": "true", "output": self.output, "jobs": jobs, "limit": 1000, "steps": 3,
            "job_steps": None, "marked": False, "tiny": False, "device": "cpu",
            "expandable_only": False, **words})
        with tempfile.TemporaryDirectory(prefix=".", dir=self.output) as folder:
            return record_profiles.Recordings(args, folder).run()

    def about(self, job):
        with open(os.path.join(self.output, f"{job}.json")) as file:
            return json.load(file)

    def test_a_job_of_pytorch_has_the_peaks_of_both_of_its_allocators(self):
        self.assertEqual(self.record(["gpt2-small"]), ([], []))
        about = self.about("gpt2-small")
        self.assertEqual(about["native_peak_reserved_bytes"], 7000)
        self.assertEqual(about["expandable_peak_reserved_bytes"], 6000)
        self.assertEqual(about["recorded"]["memory"]["reserved"], 6500)

    def test_a_job_of_jax_runs_without_and_has_none(self):
        self.assertEqual(self.record(["jax"]), ([], []))
        self.assertIsNone(self.about("jax")["expandable_peak_reserved_bytes"])

    def test_the_peak_can_be_added_to_a_recording_that_stays(self):
        self.record(["gpt2-small"])
        path = os.path.join(self.output, "gpt2-small.json")
        about = self.about("gpt2-small")
        del about["expandable_peak_reserved_bytes"]
        with open(path, "w") as file:
            json.dump(about, file)
        with open(os.path.join(self.output, "gpt2-small.ebp"), "w") as file:
            file.write("another")
        self.assertEqual(self.record(["gpt2-small", "jax"], expandable_only=True), ([], []))
        self.assertEqual(self.about("gpt2-small"), {**about,
                                                    "expandable_peak_reserved_bytes": 6000})
        with open(os.path.join(self.output, "gpt2-small.ebp")) as file:
            self.assertEqual(file.read(), "another")

    def test_without_a_recording_there_is_nothing_to_add_to(self):
        self.assertEqual(self.record(["gpt2-small"], expandable_only=True), (["gpt2-small"], []))
        self.assertEqual([name for name in os.listdir(self.output) if name[0] != "."], [])

    def test_expandable_segments_are_asked_for_natively(self):
        os.environ["EBBTIDE_MODE"] = "record"
        self.addCleanup(os.environ.pop, "EBBTIDE_MODE")
        setup = workload_runs.RunSetup("ebbtide", self.output)
        command, environment = setup.start("expandable", "gpt2-small", None)
        self.assertEqual(environment["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True")
        self.assertNotIn("EBBTIDE_MODE", environment)
        self.assertEqual(command, setup.start("native", "gpt2-small", None)[0])


if __name__ == "__main__":
    unittest.main()
