"""How far two accounts of the memory at a peak agree about what its blocks are for.

One account is Ebbtide's, of a recording; the other PyTorch's profiler's, of another run of the same
job. No block of the one is a block of the other, so blocks are paired: of the same size, rounded
up to 512 bytes as both allocators do, first those that were made in the same Python function, then
the rest. Blocks that neither size nor site tells apart are paired so that as many as can be agree:
for each size, the sum over kinds of the smaller of both counts. What is left is paired with blocks
that PyTorch made up to 1 MiB larger, as it splits off no less. The rest stands alone.
"""
import bisect
import collections
import dataclasses

ROUNDING = 512
UNSPLIT = 1 << 20  # PyTorch's native allocator keeps up to so much with a block of its large pool

# Category of the profiler (None: it has no opinion) -> kinds of Ebbtide that say the same. What
# backward makes and drops again is an "autograd detail" there and a temporary here; what one
# operator makes and drops may be its workspace; what has no tensor has no category.
SAME = {
    "PARAMETER": {"parameter"},
    "GRADIENT": {"gradient"},
    "OPTIMIZER_STATE": {"optimizer state"},
    "ACTIVATION": {"activation"},
    "INPUT": {"input"},
    "AUTOGRAD_DETAIL": {"temporary"},
    "TEMPORARY": {"temporary", "workspace"},
    None: {"unknown", "workspace", "communication"},
}
# Where one kind fits several categories they form a chain: autograd detail - temporary - TEMPORARY
# - workspace - None - the rest. Followed from its end, each pair taken costs no other.
CHAIN = ["temporary", "workspace"]


@dataclasses.dataclass(frozen=True)
class Block:
    bytes: int
    kind: str  # of Ebbtide, or a category of the profiler
    site: str = ""  # innermost Python function, if it is known

    @property
    def rounded(self):
        return -(-self.bytes // ROUNDING) * ROUNDING


def site_name(file, function):
    """The same for both accounts, wherever a package is installed."""
    return "/".join(file.split("/")[-2:]) + ":" + function.rsplit(".", 1)[-1]


def agree(recorded, profiled):
    return recorded.kind in SAME[profiled.kind]


def grouped(blocks, key):
    groups = collections.defaultdict(list)
    for block in blocks:
        groups[key(block)].append(block)
    return groups


def paired_kinds(recorded, profiled):
    """Pairs as many of two lists as can be, those that agree first: (pairs, both rests)."""
    pairs, rest = [], []
    waiting = grouped(profiled, lambda block: block.kind)
    for block in sorted(recorded, key=lambda block: (CHAIN + [block.kind]).index(block.kind)):
        same = next((waiting[category] for category, kinds in SAME.items()
                     if block.kind in kinds and waiting[category]), None)
        if same is None:
            rest.append(block)
        else:
            pairs.append((block, same.pop()))
    left = [block for blocks in waiting.values() for block in blocks]
    count = min(len(rest), len(left))
    return pairs + list(zip(rest[:count], left[:count])), rest[count:], left[count:]


def paired_by(key, recorded, profiled):
    """Pairs within the groups that `key` makes; a key of None is nobody's."""
    pairs, rest, left = [], [], []
    here, there = grouped(recorded, key), grouped(profiled, key)
    for group in here.keys() | there.keys():
        if group is None:
            found = [], here[None], there[None]
        else:
            found = paired_kinds(here[group], there[group])
        for whole, part in zip((pairs, rest, left), found):
            whole += part
    return pairs, rest, left


def paired_nearly(recorded, profiled):
    """Pairs a block of PyTorch's large pool with one that is at most UNSPLIT smaller."""
    pairs, rest = [], list(recorded)
    there = sorted(profiled, key=lambda block: block.rounded)
    for must_agree in (True, False):
        waiting, rest = sorted(rest, key=lambda block: -block.rounded), []
        for block in waiting:
            first = bisect.bisect_left([b.rounded for b in there], block.rounded)
            found = next((i for i in range(first, len(there))
                          if there[i].rounded <= block.rounded + UNSPLIT
                          and (agree(block, there[i]) or not must_agree)), None)
            if found is None or block.rounded <= UNSPLIT:
                rest.append(block)
            else:
                pairs.append((block, there.pop(found)))
    return pairs, rest, there


def compare(recorded, profiled):
    """Sums in bytes, of the recorded blocks: agreed, categorized (paired with one that has a
    category), agreed_categorized, by_site and nearly (how they were paired), alone; alone_there of
    the profiled ones; and the confusion as {(category, kind): bytes}."""
    by_site, recorded, profiled = paired_by(
        lambda block: (block.rounded, block.site) if block.site else None, recorded, profiled)
    by_size, recorded, profiled = paired_by(lambda block: block.rounded, recorded, profiled)
    nearly, alone, alone_there = paired_nearly(recorded, profiled)
    confusion = collections.Counter()
    for here, there in by_site + by_size + nearly:
        confusion[(there.kind, here.kind)] += here.bytes

    def share(wanted):
        return sum(size for (category, kind), size in confusion.items() if wanted(category, kind))
    return {
        "bytes": sum(confusion.values()) + sum(block.bytes for block in alone),
        "agreed": share(lambda category, kind: kind in SAME[category]),
        "categorized": share(lambda category, _: category is not None),
        "agreed_categorized": share(lambda category, kind:
                                    category is not None and kind in SAME[category]),
        "by_site": sum(here.bytes for here, _ in by_site),
        "nearly": sum(here.bytes for here, _ in nearly),
        "alone": sum(block.bytes for block in alone),
        "alone_there": sum(block.bytes for block in alone_there),
        "confusion": dict(confusion),
        "alone_kinds": dict(sum((collections.Counter({block.kind: block.bytes})
                                 for block in alone), collections.Counter())),
        "alone_there_kinds": dict(sum((collections.Counter({block.kind: block.bytes})
                                       for block in alone_there), collections.Counter())),
    }
