#!/usr/bin/env python3
"""Tests of the witness, and of what scripts/bench makes of its counts. They need no GPU, but
g++, cuda.h and cupti.h: the driver, CUPTI and Ebbtide's libraries are those of fakes.cc.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "scripts", "bench"))
import cuda_programs  # noqa: E402
import profile_events as profile  # noqa: E402
import witnessed  # noqa: E402

WITHOUT_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]


def build(folder, part, output, *more):
    cuda_programs.run_compiler(
        [cuda_programs.compiler("g++"), "-std=c++17", "-O2", "-fPIC", f"-D{part}",
         *cuda_programs.includes("cupti.h"), os.path.join(HERE, "fakes.cc"), "-o",
         os.path.join(folder, output), *more], os.path.join(folder, output))


def library(folder, part, name, *more):
    build(folder, part, name, "-shared", f"-Wl,-soname,{name}", *more)
    return os.path.join(folder, name)


class WitnessTest(unittest.TestCase):
    def watched(self, *driver_flags):
        """What the witness says of the program of fakes.cc."""
        with tempfile.TemporaryDirectory() as folder:
            witness = cuda_programs.build_witness(folder)
            cupti = library(folder, "FAKE_CUPTI", "libcupti.so.13")
            driver = library(folder, "FAKE_DRIVER", "libcuda.so.1", *driver_flags)
            core = library(folder, "FAKE_CORE", "libebbtide-core.so", driver)
            front = library(folder, "FAKE_FRONT", "libebbtide.so", driver, core)
            build(folder, "FAKE_PROGRAM", "program", front, core, driver, "-pthread",
                  f"-Wl,-rpath,{folder}")
            environment = dict(os.environ, LD_LIBRARY_PATH=folder, CUDA_INJECTION64_PATH=witness,
                               WITNESS_CUPTI=cupti, WITNESS_OUT=folder + "/{pid}.witness")
            subprocess.run([os.path.join(folder, "program")], env=environment, check=True,
                           timeout=60)
            return witnessed.Witness().read(folder + "/{pid}.witness", 0)

    def expect_counts(self, witness):
        self.assertEqual(witness.processes, 1)
        self.assertEqual(witness.unfinished, [])
        self.assertEqual(witness.driver, {"cuMemAlloc_v2": [9, 11]})
        self.assertEqual(witness.own, {"cuMemAlloc_v2": [8, 8]})
        self.assertEqual(witness.runtime, {"cudaMalloc": [17, 19]})

    def test_own_calls_are_told_from_the_programs(self):
        witness = self.watched()
        self.expect_counts(witness)
        self.assertEqual((witness.walked, witness.scanned), (19, 0))

    def test_a_driver_without_unwind_tables_is_seen_through(self):
        witness = self.watched(*WITHOUT_TABLES)
        self.expect_counts(witness)
        self.assertEqual((witness.walked, witness.scanned), (0, 19))


def witness_of(driver, runtime=()):
    witness = witnessed.Witness()
    witness.driver = {name: [count, count] for name, count in dict(driver).items()}
    witness.runtime = {name: [count, count] for name, count in dict(runtime).items()}
    return witness


def coverage_of(**calls):
    return {symbol: {"calls": count, "family": "any"} for symbol, count in calls.items()}


class ComparisonTest(unittest.TestCase):
    def wrong(self, table):
        return {row["name"]: (row["missed"], row["twice"]) for row in table.wrong()}

    def test_each_function_is_compared_by_itself(self):
        witness = witness_of({"cuMemAlloc_v2": 5, "cuMemFree_v2": 4, "cuLaunchKernel_ptsz": 7})
        table = witnessed.against_coverage(
            witness, coverage_of(cuMemAlloc_v2=5, cuMemFree_v2=3, cuLaunchKernel_ptsz=9))
        self.assertEqual(self.wrong(table), {"cuMemFree_v2": (1, 0), "cuLaunchKernel_ptsz": (0, 2)})

    def test_calls_while_a_process_ends_may_be_seen_or_not(self):
        self.assertEqual([witnessed.compared([9, 11], seen) for seen in (8, 9, 10, 11, 12)],
                         [(1, 0), (0, 0), (0, 0), (0, 0), (0, 1)])

    def test_a_function_about_memory_without_a_hook_is_listed(self):
        witness = witness_of({"cuMemcpyAtoH_v2": 2, "cuCtxGetCurrent": 9, "cuMemAlloc_v2": 1})
        self.assertEqual(witnessed.without_hook(witness, coverage_of(cuMemAlloc_v2=1)),
                         {"cuMemcpyAtoH_v2": 2})
        for name, must in (("cuMemcpyAtoH_v2", True), ("cuMemAllocHost_v2", False),
                           ("cuMemRelease", True), ("cuLaunchHostFunc", False),
                           ("cuMemGetInfo_v2", False), ("cuGraphLaunch", True)):
            self.assertEqual(bool(witnessed.MUST_BE_HOOKED.match(name)), must, name)

    def test_events_are_compared_by_class(self):
        witness = witness_of({"cuMemAllocAsync": 3, "cuMemAllocAsync_ptsz": 2, "cuLaunchKernel": 4,
                              "cuLaunchKernelEx": 1, "cuMemcpyHtoD_v2": 2, "cuMemcpyAsync": 1,
                              "cuMemsetD8_v2": 1, "cuMemFree_v2": 1, "cuMemFreeAsync": 4})
        counts = {"alloc async": 5, "launch": 5, "copy": 2, "memset": 2, "free": 5}
        table = witnessed.against_profile(witness, counts)
        self.assertEqual(self.wrong(table), {"copy": (1, 0), "memset": (0, 1)})

    def test_calls_that_make_or_free_nothing_are_no_events(self):
        witness = witness_of({"cuMemAlloc_v2": 3, "cuMemFree_v2": 4, "cuLaunchKernel": 2})
        witness.empty.update(cuMemAlloc_v2=1, cuMemFree_v2=2, cuLaunchKernel=1)
        # A launch is recorded before the driver refuses it.
        table = witnessed.against_profile(witness, {"alloc linear": 2, "free": 2, "launch": 2})
        self.assertEqual(self.wrong(table), {})

    def test_the_end_of_a_context_frees_what_was_left_in_it(self):
        witness = witness_of({"cuMemAlloc_v2": 3, "cuMemFree_v2": 1})
        for ends, freed, wrong in ((False, 3, {"free": (0, 2)}), (True, 3, {}),
                                   (True, 4, {"free": (0, 1)}), (True, 0, {"free": (1, 0)})):
            table = witnessed.against_profile(witness, {"alloc linear": 3, "free": freed}, ends)
            self.assertEqual(self.wrong(table), wrong)
        self.assertTrue(witnessed.ends_contexts(coverage_of(cuDevicePrimaryCtxRelease_v2=1)))
        self.assertFalse(witnessed.ends_contexts(coverage_of(cuCtxDestroy_v2=0, cuMemAlloc_v2=1)))

    def test_served_calls_are_due_by_what_the_runtime_was_asked(self):
        plain = witness_of({"cuMemAllocAsync": 10, "cuLaunchKernel": 6}, {"cudaMallocAsync": 10,
                                                                         "cudaLaunchKernel": 4})
        # One allocation more than without Ebbtide; none of them reached the driver.
        replayed = witness_of({"cuLaunchKernel": 6}, {"cudaMallocAsync": 11,
                                                      "cudaLaunchKernel": 4})
        right = coverage_of(cuMemAllocAsync=11, cuLaunchKernel=6)
        self.assertEqual(self.wrong(witnessed.against_runtime(plain, replayed, right)), {})
        # Launches are never served: the driver's own count is held against those.
        wrong = coverage_of(cuMemAllocAsync=10, cuLaunchKernel=7)
        self.assertEqual(self.wrong(witnessed.against_runtime(plain, replayed, wrong)),
                         {"alloc async": (1, 0)})

    def test_coverage_files_of_all_processes_are_added(self):
        with tempfile.TemporaryDirectory() as folder:
            for pid, calls in ((1, 2), (2, 3)):
                with open(f"{folder}/{pid}.coverage", "w") as file:
                    row = {"symbol": "cuMemAlloc_v2", "family": "alloc", "service": "served",
                           "linked": calls, "dlsym": 0, "proc_v1": 0, "proc_v2": 1}
                    file.write(json.dumps(row) + "\n")
            found = witnessed.read_coverage(folder + "/{pid}.coverage")
        self.assertEqual(found["cuMemAlloc_v2"]["calls"], 7)
        self.assertEqual(found["cuMemAlloc_v2"]["paths"]["linked"], 5)


class EventsTest(unittest.TestCase):
    def classes(self, *events):
        return witnessed.classes_of([profile.Event(number, kind, **values)
                                     for number, (kind, values) in enumerate(events)])

    def test_allocations_count_by_their_kind(self):
        # FORMAT.md and types.h: linear 0, pitched 1, managed 2, async 3, pool 4, vmm 5.
        found = self.classes(*((profile.ALLOC, {"block": kind, "alloc_kind": kind})
                               for kind in (0, 1, 2, 3, 3, 4, 5, 9)))
        self.assertEqual(found, {"alloc linear": 1, "alloc pitched": 1, "alloc managed": 1,
                                 "alloc async": 2, "alloc pool": 1, "alloc vmm": 1,
                                 "alloc kind 9": 1})

    def test_the_end_of_a_handle_is_told_from_a_free(self):
        found = self.classes((profile.ALLOC, {"block": 1, "alloc_kind": 5}),
                             (profile.ALLOC, {"block": 2, "alloc_kind": 0}),
                             (profile.FREE, {"block": 2}), (profile.FREE, {"block": 1}))
        self.assertEqual(found, {"alloc vmm": 1, "alloc linear": 1, "free": 1, "free vmm": 1})

    def test_a_memset_is_told_from_a_copy(self):
        found = self.classes(*((profile.COPY, {"copy_kind": kind}) for kind in (0, 4, 5)))
        self.assertEqual(found, {"copy": 2, "memset": 1})

    def test_what_was_no_call_does_not_count(self):
        found = self.classes(*((kind, {}) for kind in range(2, 10) if kind != profile.COPY))
        self.assertEqual(found, {"launch": 1, "graph": 1, "failed": 1})


if __name__ == "__main__":
    unittest.main()
