#!/usr/bin/env python3
"""python3 -m unittest scripts/bench/profile_events_test.py (or: this file)"""
import ctypes
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import profile_events as profile  # noqa: E402

# The example of profiles/FORMAT.md: a block of 1024 bytes, a launch, a mark, its free.
EXAMPLE_OF_FORMAT_1 = bytes.fromhex(
    "8945425450 0d0a1a 01000000"
    "01000000 0a000000 ca8f378c 0f7e7002 0103677075 0448323030"
    "02000000 1f000000 d5227018 9eae72ed 0308747261696e2e7079 046d61696e 00"
    "01 1100000000000000 01 01000c0102"
    "03000000 07000000 298d6c4e d43d2ccd 0001046178 7079"
    "04000000 37000000 9b2d748a 24fe6055 2804 000007800880200300 01 1100000000000000"
    "2200000000000000 82000133000000000000 00010e 0404010000000000000440 810701")


def chunk(kind, payload, codec=0):
    """Its sums are not looked at."""
    return struct.pack("<BBHIII", kind, codec, 0, len(payload), 0, 0) + payload


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def alloc(difference, size, kind=3, device=0, site=1):
    """Of format 2, behind the event before it."""
    return (b"\x80" + varint(2 * difference) + varint(size) + b"\x00" + bytes([kind, device, 0])
            + struct.pack("<QQ", site, 0))


def free(since):
    """Of the block that was allocated so many before the last one."""
    return b"\x81" + varint(2 * since) + b"\x00"


LAUNCH = b"\x82\x00\x00" + bytes(8) + b"\x00"
STEP = b"\x85"


def events(*parts, last=0):
    return varint(100) + varint(last) + varint(len(parts)) + b"".join(parts)


def packed(contents):
    """Payloads of codec 1: one zstd stream, flushed behind each of the contents."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_createCCtx.restype = ctypes.c_void_p
    library.ZSTD_compressStream2.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
    library.ZSTD_compressStream2.restype = ctypes.c_size_t
    context, buffer = library.ZSTD_createCCtx(), profile.Zstd.Buffer
    for content in contents:
        room = ctypes.create_string_buffer(len(content) + 1000)
        source = buffer(ctypes.cast(content, ctypes.c_void_p), len(content), 0)
        target = buffer(ctypes.cast(room, ctypes.c_void_p), len(room), 0)
        library.ZSTD_compressStream2(context, ctypes.byref(target), ctypes.byref(source), 1)
        yield varint(len(content)) + varint(target.at) + room.raw[:target.at] + b"\x00\x00"


class Files(unittest.TestCase):
    def load(self, *chunks, head=profile.MAGIC + b"\x02\x00\x00\x00"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(head + b"".join(chunks))
            file.flush()
            return profile.load(file.name)

    def read(self, *chunks, **how):
        return self.load(*chunks, **how)[1]


class Reading(Files):
    def test_the_example_of_the_format_is_read(self):
        found = self.read(head=EXAMPLE_OF_FORMAT_1)
        self.assertEqual([event.kind for event in found],
                         [profile.ALLOC, profile.LAUNCH, profile.MARK, profile.FREE])
        self.assertEqual([event.sequence for event in found], [40, 41, 43, 44])
        self.assertEqual((found[0].block, found[0].bytes, found[0].site), (7, 1024, 0x11))
        self.assertEqual(found[3].block, 7)

    def test_chunks_come_in_the_order_of_their_sequence(self):
        late = varint(200) + b"\x00\x01" + STEP
        found = self.read(chunk(4, late), chunk(4, events(LAUNCH)))
        self.assertEqual([event.kind for event in found], [profile.LAUNCH, profile.STEP])

    def test_packed_chunks_continue_one_stream(self):
        first = events(*[alloc(1, 512)] * 50)
        second = varint(1000) + varint(50) + varint(50) + alloc(1, 512) * 50
        found = self.read(*(chunk(4, payload, codec=1) for payload in packed([first, second])))
        self.assertEqual([event.block for event in found], list(range(1, 101)))

    def test_a_file_that_was_cut_off_gives_what_is_whole(self):
        whole = chunk(4, events(LAUNCH, LAUNCH))
        self.assertEqual(len(self.read(whole, whole[:-1])), 2)

    def test_another_file_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not a profile"):
            self.read(head=b"something else")

    def test_a_younger_format_is_refused(self):
        with self.assertRaisesRegex(ValueError, "format 3"):
            self.read(head=profile.MAGIC + b"\x03\x00\x00\x00")

    def test_a_chunk_with_fewer_events_than_it_says_is_refused(self):
        for missing in (1, 8, 9):  # within the list of touched blocks, the shape, the stream
            with self.assertRaises(ValueError):
                self.read(chunk(4, events(STEP, LAUNCH)[:-missing]))

    def test_the_kind_of_a_copy_is_read(self):
        memset = b"\x83\x05" + varint(4096) + b"\x00\x01\x00"
        found = self.read(chunk(4, events(alloc(1, 4096), memset)))
        self.assertEqual((found[1].copy_kind, found[1].bytes), (profile.MEMSET, 4096))

    def test_metadata_of_a_later_chunk_has_the_last_word(self):
        first = b"\x02\x03gpu\x04H200\x07program\x01a"
        found, _ = self.load(chunk(1, first), chunk(1, b"\x01\x07program\x01b"))
        self.assertEqual(found, {"gpu": "H200", "program": "b"})

    def test_packed_metadata_is_read(self):
        payload, = packed([b"\x01\x07stopped" + varint(300) + b"x" * 300])
        found, _ = self.load(chunk(1, payload, codec=1))
        self.assertEqual(found, {"stopped": "x" * 300})


class Sums(Files):
    def test_the_peak_is_where_most_is_alive_in_bytes_rounded_up_to_512(self):
        # 1000 -> 1024; + 512 = 1536 is the most; the first goes, and 100 -> 512 makes 1024.
        found = profile.peak_of(self.read(chunk(4, events(
            alloc(1, 1000, site=7), alloc(1, 512, site=8), free(1), alloc(1, 100, site=9)))))
        self.assertEqual(found, {"bytes": 1536, "blocks": 2, "sites": {7: 1024, 8: 512},
                                 "library_bytes": 0})

    def test_managed_memory_and_other_devices_are_left_out(self):
        found = profile.peak_of(self.read(chunk(4, events(
            alloc(1, 4096, kind=profile.MANAGED), alloc(1, 512, device=1), alloc(1, 1024)))))
        self.assertEqual((found["bytes"], found["blocks"]), (1024, 1))

    def test_launches_before_each_step_are_counted(self):
        found = self.read(chunk(4, events(LAUNCH, STEP, LAUNCH, LAUNCH, STEP, LAUNCH)))
        self.assertEqual(profile.launches_before(found, profile.STEP), [1, 3])
        self.assertEqual(profile.launches(found), 4)


if __name__ == "__main__":
    unittest.main()
