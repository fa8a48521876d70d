"""Reads profiles after profiles/FORMAT.md, and works out of their events what a report should say.

It shares no code with what writes and reads them otherwise. Packed chunks need libzstd.so.1. Sums
are not checked.
"""
import collections
import ctypes
import dataclasses
import struct
import weakref

MAGIC = b"\x89EBTP\r\n\x1a"
ALLOC, FREE, LAUNCH, COPY, MARK, STEP, PHASE, GRAPH, FAILED, EXPORTED = range(10)
ALLOC_KINDS = ["linear", "pitched", "managed", "async", "pool", "vmm"]
VMM, MEMSET = 5, 5  # of alloc_kind, of copy_kind
NEWEST_FORMAT = 2
METADATA_CHUNK, EVENTS_CHUNK = 1, 4
PLAIN, PACKED = 0, 1
PACKED_FORMAT = 2  # from which on blocks are named by codes
MANAGED = 2  # of alloc_kind
ORDERED = (3, 4)  # cuMemAllocAsync, cuMemAllocFromPoolAsync
ALIGNMENT = 512


class Bytes:
    """Primitives, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def fixed(self, layout):
        value, = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return value

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                return value
            shift += 7

    def signed(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def string(self):
        size = self.varint()
        self.at += size
        if self.at > len(self.data):
            raise IndexError("a string is longer than what is left")
        return bytes(self.data[self.at - size:self.at]).decode(errors="replace")


class Zstd:
    """The one stream that runs through all packed chunks."""

    class Buffer(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t),
                    ("at", ctypes.c_size_t)]

    def __init__(self):
        self.library = ctypes.CDLL("libzstd.so.1")
        self.library.ZSTD_createDStream.restype = ctypes.c_void_p
        self.library.ZSTD_decompressStream.restype = ctypes.c_size_t
        self.library.ZSTD_decompressStream.argtypes = [ctypes.c_void_p] + [ctypes.c_void_p] * 2
        self.library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
        self.stream = self.library.ZSTD_createDStream()
        weakref.finalize(self, self.library.ZSTD_freeDStream, self.stream)

    def unpack(self, payload):
        head = Bytes(payload)
        size, packed = head.varint(), head.varint()
        piece = bytes(payload[head.at:head.at + packed])
        room = ctypes.create_string_buffer(size + 1)
        source = self.Buffer(ctypes.cast(piece, ctypes.c_void_p), packed, 0)
        target = self.Buffer(ctypes.cast(room, ctypes.c_void_p), size + 1, 0)
        while source.at < packed and target.at < target.size:
            result = self.library.ZSTD_decompressStream(self.stream, ctypes.byref(target),
                                                        ctypes.byref(source))
            if self.library.ZSTD_isError(ctypes.c_size_t(result)):
                raise ValueError("a chunk cannot be unpacked")
        if target.at != size:
            raise ValueError(f"a chunk has {target.at} bytes and not {size}")
        return room.raw[:size]


@dataclasses.dataclass
class Event:
    sequence: int
    kind: int
    block: int = -1
    bytes: int = 0
    alloc_kind: int = -1
    copy_kind: int = -1
    device: int = 0
    site: int = 0
    text: str = ""
    symbol: tuple = ()   # of a launch: function, stream and shape; of a graph: its number
    touched: tuple = ()  # blocks that a launch or a copy names; a copy's destination first
    gpu_ms: float = 0.0  # of a mark


def chunks(data):
    """(format, type, unpacked payload) of each chunk."""
    if data[:8] != MAGIC:
        raise ValueError("not a profile")
    version = struct.unpack_from("<H", data, 8)[0]
    if version > NEWEST_FORMAT:
        raise ValueError(f"format {version} is not known")
    at, zstd = 12, None
    while at + 16 <= len(data):
        kind, codec, _, length = struct.unpack_from("<BBHI", data, at)
        payload = data[at + 16:at + 16 + length]
        if len(payload) < length:
            return  # it was cut off here
        if codec == PACKED:
            zstd = zstd or Zstd()
            payload = zstd.unpack(payload)
        elif codec != PLAIN:
            raise ValueError(f"codec {codec} is not known")
        yield version, kind, payload
        at += 16 + length


class EventReader:
    """The events of one chunk."""

    def __init__(self, version, payload):
        self.codes, self.data, self.last = version >= PACKED_FORMAT, Bytes(payload), 0

    def named(self):
        if not self.codes:
            return self.data.varint()
        code = self.data.varint()
        return code >> 1 if code & 1 else self.last - (code >> 1)

    def touched(self):
        if self.codes:
            return tuple(self.named() for _ in range(self.data.varint()))
        blocks, last = [], 0
        for _ in range(self.data.varint()):
            last += self.data.signed()
            blocks.append(last)
        return tuple(blocks)

    def read(self):
        data = self.data
        sequence = data.varint()
        self.last = data.varint() if self.codes else 0
        for _ in range(data.varint()):
            tag = data.fixed("B")
            sequence += 1 if tag & 0x80 else data.signed()
            yield self.event(Event(sequence, tag & 0x7f))

    def event(self, event):
        data, kind = self.data, event.kind
        if kind == ALLOC:
            event.block = self.last + data.signed() if self.codes else data.varint()
            self.last = event.block
            event.bytes, _, event.alloc_kind = data.varint(), data.varint(), data.fixed("B")
            event.device, _, event.site = data.varint(), data.varint(), data.fixed("Q")
            data.fixed("Q")
        elif kind == FREE:
            event.block, _ = self.named(), data.varint()
        elif kind == LAUNCH:
            event.symbol = data.varint(), data.varint(), data.fixed("Q")
            event.touched = self.touched()
        elif kind == COPY:
            event.copy_kind = data.fixed("B")
            event.bytes, _ = data.varint(), data.varint()
            event.touched = self.touched()
        elif kind == MARK:
            _, event.gpu_ms = data.varint(), data.fixed("d")
        elif kind == PHASE:
            event.text = data.string()
        elif kind == GRAPH:
            event.symbol = "graph", data.varint(), data.varint()
        elif kind == FAILED:
            event.bytes, _ = data.varint(), data.varint()
        elif kind == EXPORTED:
            event.block = self.named()
        elif kind != STEP:
            raise ValueError(f"an event of kind {kind}")
        return event


def pairs(payload):
    """The metadata of one chunk."""
    data = Bytes(payload)
    return {data.string(): data.string() for _ in range(data.varint())}


def load(path):
    """(metadata, all events in their order); of a file that was cut off what is whole. Raises
    ValueError where it cannot be read.
    """
    with open(path, "rb") as file:
        data = memoryview(file.read())
    metadata, events = {}, []
    try:
        for version, kind, payload in chunks(data):
            if kind == METADATA_CHUNK:
                metadata.update(pairs(payload))
            elif kind == EVENTS_CHUNK:
                events += EventReader(version, payload).read()
    except (ValueError, IndexError, struct.error) as error:
        raise ValueError(f"{path}: {error}") from error
    events.sort(key=lambda event: event.sequence)
    return metadata, events


def read(path):
    """All events, in their order."""
    return load(path)[1]


def taken(event):
    return -(-event.bytes // ALIGNMENT) * ALIGNMENT


def peak_of(events):
    """Bytes and blocks of the device that has the most, at the first moment that has it; the
    bytes that each site made of them; and those that libraries allocated behind a framework's
    stream-ordered allocator."""
    live, sums, peaks = {}, collections.Counter(), {}
    for number, event in enumerate(events):
        if event.kind == ALLOC and event.alloc_kind != MANAGED:
            live[event.block] = event
            sums[event.device] += taken(event)
            if sums[event.device] > peaks.get(event.device, (0, 0))[0]:
                peaks[event.device] = sums[event.device], number
        elif event.kind == FREE and event.block in live:
            gone = live.pop(event.block)
            sums[gone.device] -= taken(gone)
    if not peaks:
        return {"bytes": 0, "blocks": 0, "sites": {}, "library_bytes": 0}
    device = max(peaks, key=lambda key: peaks[key][0])
    return {"bytes": peaks[device][0], **alive_at(events[:peaks[device][1] + 1], device)}


def alive_at(events, device):
    live = {}
    for event in events:
        if event.kind == ALLOC and event.alloc_kind != MANAGED and event.device == device:
            live[event.block] = event
        elif event.kind == FREE:
            live.pop(event.block, None)
    sites = collections.Counter()
    for event in live.values():
        sites[event.site] += taken(event)
    ordered = any(event.alloc_kind in ORDERED for event in live.values())
    library = sum(taken(event) for event in live.values() if event.alloc_kind not in ORDERED)
    return {"blocks": len(live), "sites": dict(sites), "library_bytes": library if ordered else 0}


def launches_before(events, kind):
    """How many launches came before each event of a kind: the beginnings of steps or phases."""
    found, launches = [], 0
    for event in events:
        launches += event.kind in (LAUNCH, GRAPH)
        if event.kind == kind:
            found.append(launches)
    return found


def launches(events):
    return sum(event.kind in (LAUNCH, GRAPH) for event in events)
