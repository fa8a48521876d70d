#!/usr/bin/env python3
"""python3 -m unittest scripts/bench/forced_bytes_test.py (or: this file)"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import forced_bytes  # noqa: E402
import profile_events as profile  # noqa: E402
from forced_bytes import least_cover, needed  # noqa: E402

MIB = 1 << 20
DEVICE = {"link_gbps": {"in": 100, "out": 100, "both_in": 50, "both_out": 50}}


class Maker:
    """A recording by hand; a launch takes a millisecond."""

    def __init__(self):
        self.events, self.blocks, self.launches = [], 0, 0

    def add(self, kind, **what):
        self.events.append(profile.Event(len(self.events), kind, **what))

    def alloc(self, size):
        self.blocks += 1
        self.add(profile.ALLOC, block=self.blocks, bytes=size, alloc_kind=3)
        return self.blocks

    def free(self, block):
        self.add(profile.FREE, block=block)

    def launch(self, function, *touched):
        self.add(profile.LAUNCH, symbol=(function, 0, 0), touched=touched)
        self.launches += 1
        self.add(profile.MARK, gpu_ms=float(self.launches))

    def memset(self, block, size):
        self.add(profile.COPY, copy_kind=profile.MEMSET, bytes=size, touched=(block,))

    def recording(self, **metadata):
        return forced_bytes.Recording({key: str(value) for key, value in metadata.items()},
                                      self.events)


def training(steps=5, activation=10 * MIB, weight=4 * MIB, state=8 * MIB):
    """Of ten launches: 0 uses the weights and makes an activation, which 7 uses again and lets go;
    8 updates the state, which is as large as a second tensor that it names."""
    maker = Maker()
    weights, first, second = maker.alloc(weight), maker.alloc(state), maker.alloc(state)
    maker.launch(99, weights, first, second)
    for _ in range(steps):
        made = maker.alloc(activation)
        maker.launch(0, weights, made)
        for function in range(1, 7):
            maker.launch(function)
        maker.launch(7, made)
        maker.free(made)
        maker.launch(8, first, second)
        maker.launch(9)
    maker.launch(100)
    return maker


class Covers(unittest.TestCase):
    def test_without_demand_nothing_is_moved(self):
        self.assertEqual(least_cover([(0, 5, 10, "a")], [0] * 5), 0)

    def test_a_stretch_counts_once_however_long_it_is_needed(self):
        self.assertEqual(least_cover([(0, 5, 10, "a")], [0, 4, 10, 4, 0]), 10)

    def test_two_stretches_of_one_block_count_twice(self):
        pieces = [(0, 2, 10, "a"), (3, 5, 10, "a")]
        self.assertEqual(least_cover(pieces, [0, 6, 0, 7, 0]), 13)

    def test_one_long_stretch_is_better_than_two_short_ones(self):
        pieces = [(0, 2, 10, "a"), (2, 4, 10, "a"), (0, 4, 10, "b")]
        self.assertEqual(least_cover(pieces, [0, 8, 8, 0]), 8)
        # Above what the long one has, the short ones come too.
        self.assertEqual(least_cover(pieces, [0, 15, 12, 0]), 10 + 5 + 2)

    def test_a_stretch_over_the_end_of_the_step_counts_once_a_step(self):
        # From launch 3 to the next step's 1.
        self.assertEqual(least_cover([(3, 6, 10, "a")], [5, 0, 0, 5, 5]), 5)
        self.assertEqual(least_cover([(3, 6, 10, "a")], [5, 0, 0, 0, 0]), 5)

    def test_what_is_needed_goes_round(self):
        self.assertEqual(needed([(3, 6, 10, "a"), (0, 2, 1, "b")], 5), [11, 1, 0, 10, 10])


class Recordings(unittest.TestCase):
    def test_the_step_is_found_with_its_time(self):
        recording = training().recording()
        self.assertEqual((recording.period, recording.steps), (10, 5))
        self.assertAlmostEqual(recording.step_ms, 10)

    def test_the_rest_of_the_memory_is_overhead(self):
        recording = training().recording(device_used_base_bytes=MIB, device_used_peak_bytes=40 * MIB)
        # Weights 4, state 8 twice, activation 10.
        self.assertEqual(recording.max_live, 30 * MIB)
        self.assertEqual(recording.overhead, 10 * MIB)
        self.assertEqual(recording.native_peak, 39 * MIB)

    def test_a_probe_is_no_peak(self):
        maker = training()
        maker.free(maker.alloc(1 << 40))
        self.assertEqual(maker.recording().max_live, 30 * MIB)

    def test_stretches_lie_between_two_uses(self):
        recording = training().recording()
        found = sorted((begin, end, size) for begin, end, size, _ in
                       forced_bytes.stretches(recording))
        # The activation's, the weights' round the step, and the state's two.
        self.assertEqual(found, [(0, 7, 10 * MIB), (0, 10, 4 * MIB), (8, 18, 8 * MIB),
                                 (8, 18, 8 * MIB)])

    def test_only_what_an_update_names_changes(self):
        recording = training().recording()
        self.assertEqual({recording.sizes[block] for block in recording.updated}, {8 * MIB})

    def test_who_is_named_by_chance_does_not_count(self):
        maker = training()
        launches = [event for event in maker.events if event.kind == profile.LAUNCH]
        launches[4].touched = (1,)  # launch 3 of the first step names the weights
        found = forced_bytes.stretches(maker.recording())
        self.assertIn((0, 10, 4 * MIB), [piece[:3] for piece in found])

    def test_what_a_memset_fills_is_not_needed_before(self):
        maker = Maker()
        block = maker.alloc(4 * MIB)
        maker.launch(99, block)
        for _ in range(5):
            maker.launch(0)
            maker.memset(block, 4 * MIB)
            for function in range(1, 5):
                maker.launch(function, *([block] if function == 3 else []))
        maker.launch(100)
        # Filled before launch 1, used by 3; from there to the next fill nothing is kept.
        found = forced_bytes.stretches(maker.recording())
        self.assertEqual([piece[:3] for piece in found], [(1, 3, 4 * MIB)])


class Bounds(unittest.TestCase):
    def at(self, budget):
        return forced_bytes.Bound(training().recording(), DEVICE).at(budget)

    def test_a_budget_for_all_costs_nothing(self):
        row = self.at(30 * MIB)
        self.assertEqual((row["bytes_in"], row["bytes_out"]), (0, 0))
        self.assertAlmostEqual(row["bound_step_ms"], 10)

    def test_what_does_not_fit_crosses_once_each_way(self):
        # 30 MiB are needed from launch 0 to 7 with 25 of room. Of them 4 never change.
        row = self.at(25 * MIB)
        self.assertEqual(row["most_above"], 5 * MIB)
        self.assertEqual((row["bytes_in"], row["bytes_out"]), (5 * MIB, 1 * MIB))

    def test_the_link_bounds_when_it_takes_longer_than_the_step(self):
        link = {"in": 100, "out": 100, "both_in": 50, "both_out": 50}
        # 2 GB at 50 GB/s both ways, then 1 GB at 100 one way.
        self.assertAlmostEqual(forced_bytes.link_ms(link, 3e9, 2e9), 40 + 10)
        self.assertAlmostEqual(forced_bytes.link_ms(link, 0, 2e9), 20)

    def test_less_room_never_costs_less(self):
        last = -1
        for budget in range(30 * MIB, 0, -MIB):
            row = self.at(budget)
            self.assertGreaterEqual(row["bytes_in"], last)
            last = row["bytes_in"]


if __name__ == "__main__":
    unittest.main()
