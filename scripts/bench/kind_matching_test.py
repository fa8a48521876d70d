#!/usr/bin/env python3
"""python3 -m unittest scripts/bench/kind_matching_test.py (or: this file)"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kind_matching import Block, compare, site_name  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


class Matching(unittest.TestCase):
    def test_equal_accounts_agree_in_every_byte(self):
        found = compare([Block(4 * MIB, "parameter"), Block(2 * MIB, "activation")],
                        [Block(2 * MIB, "ACTIVATION"), Block(4 * MIB, "PARAMETER")])
        self.assertEqual((found["bytes"], found["agreed"], found["categorized"]),
                         (6 * MIB, 6 * MIB, 6 * MIB))
        self.assertEqual(found["confusion"], {("ACTIVATION", "activation"): 2 * MIB,
                                              ("PARAMETER", "parameter"): 4 * MIB})

    def test_of_one_size_the_smaller_count_of_each_kind_agrees(self):
        # 3 parameters and 1 gradient here, 2 and 2 there: 2 + 1 agree, one of four does not.
        found = compare([Block(MIB, "parameter")] * 3 + [Block(MIB, "gradient")],
                        [Block(MIB, "PARAMETER")] * 2 + [Block(MIB, "GRADIENT")] * 2)
        self.assertEqual(found["agreed"], 3 * MIB)
        self.assertEqual(found["confusion"][("GRADIENT", "parameter")], MIB)

    def test_order_does_not_matter(self):
        here = [Block(MIB, "gradient"), Block(MIB, "temporary"), Block(MIB, "workspace")]
        there = [Block(MIB, "TEMPORARY"), Block(MIB, "AUTOGRAD_DETAIL"), Block(MIB, "GRADIENT")]
        for turned in (here, here[::-1], here[1:] + here[:1]):
            self.assertGreaterEqual(compare(turned, there)["agreed"], 2 * MIB)

    def test_workspace_takes_not_the_place_that_a_temporary_needs(self):
        # A temporary may pair with either category, a workspace with TEMPORARY alone.
        here = [Block(MIB, "temporary"), Block(MIB, "workspace")]
        there = [Block(MIB, "TEMPORARY"), Block(MIB, "AUTOGRAD_DETAIL")]
        self.assertEqual(compare(here, there)["agreed"], 2 * MIB)
        self.assertEqual(compare(here[::-1], there[::-1])["agreed"], 2 * MIB)

    def test_a_site_is_kept_to_also_where_another_pairing_would_agree_more(self):
        here = [Block(MIB, "activation", "a:f"), Block(MIB, "temporary", "b:g")]
        there = [Block(MIB, "TEMPORARY", "a:f"), Block(MIB, "ACTIVATION", "b:g")]
        found = compare(here, there)
        self.assertEqual((found["agreed"], found["by_site"]), (0, 2 * MIB))

    def test_a_site_of_one_account_alone_leaves_the_block_to_its_size(self):
        found = compare([Block(MIB, "gradient", "a:f")], [Block(MIB, "GRADIENT")])
        self.assertEqual((found["agreed"], found["by_site"]), (MIB, 0))

    def test_sizes_are_rounded_up_to_512(self):
        found = compare([Block(1000, "input")], [Block(1024, "INPUT")])
        self.assertEqual((found["agreed"], found["bytes"]), (1000, 1000))

    def test_a_large_block_may_have_kept_what_was_too_little_to_split_off(self):
        found = compare([Block(4 * MIB, "activation"), Block(4 * MIB, "gradient")],
                        [Block(4 * MIB + 512 * KIB, "ACTIVATION"), Block(6 * MIB, "GRADIENT")])
        self.assertEqual((found["agreed"], found["nearly"]), (4 * MIB, 4 * MIB))
        self.assertEqual((found["alone"], found["alone_there"]), (4 * MIB, 6 * MIB))

    def test_small_blocks_are_not_paired_nearly(self):
        found = compare([Block(4 * KIB, "activation")], [Block(8 * KIB, "ACTIVATION")])
        self.assertEqual((found["alone"], found["alone_there"]), (4 * KIB, 8 * KIB))

    def test_blocks_of_no_category_count_apart(self):
        found = compare([Block(MIB, "workspace"), Block(2 * MIB, "activation"),
                         Block(4 * MIB, "parameter")],
                        [Block(MIB, None), Block(2 * MIB, None), Block(4 * MIB, "PARAMETER")])
        self.assertEqual(found["agreed"], 5 * MIB)
        self.assertEqual((found["categorized"], found["agreed_categorized"]), (4 * MIB, 4 * MIB))

    def test_what_stands_alone_is_in_the_whole_and_agrees_with_nothing(self):
        found = compare([Block(MIB, "parameter"), Block(3 * MIB, "gradient")],
                        [Block(MIB, "PARAMETER")])
        self.assertEqual((found["bytes"], found["agreed"], found["alone"]),
                         (4 * MIB, MIB, 3 * MIB))
        self.assertEqual(found["alone_kinds"], {"gradient": 3 * MIB})

    def test_a_site_is_the_same_wherever_a_package_is_installed(self):
        self.assertEqual(site_name("/a/b/torch/nn/modules/linear.py", "Linear.forward"),
                         site_name("torch/nn/modules/linear.py", "forward"))


if __name__ == "__main__":
    unittest.main()
