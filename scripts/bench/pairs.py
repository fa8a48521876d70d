"""What the parts of `cost` share: pairs of processes that take turns."""
import contextlib
import os

PROCESSORS = 4  # of one pair: a program's threads and ours


@contextlib.contextmanager
def processors(pair):
    """What is started inside runs on a few processors, other ones from pair to pair."""
    allowed = sorted(os.sched_getaffinity(0))
    groups = max(1, len(allowed) // PROCESSORS)
    first = pair % groups * PROCESSORS
    os.sched_setaffinity(0, allowed[first:first + PROCESSORS])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def turned(sides, pair):
    """Each side takes every place in turn, and follows now the one, now the other neighbour."""
    order = sides if pair // len(sides) % 2 == 0 else sides[::-1]
    first = pair % len(sides)
    return order[first:] + order[:first]


def interval(three):
    estimate, lower, upper = three
    return f"{estimate:.3f} [{lower:.3f}, {upper:.3f}]"
