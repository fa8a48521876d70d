"""The fewest bytes that a budget forces across the link in a steady step, and so the least time.

Shares no code with the planner. What it takes for granted:

* A block's bytes count from the first launch (or copy) that names it, and are needed by every later
  one that names it, as long as that is not a memset of all of it or a copy from the host into all of
  it. Who names a block by chance in less than half of the steps does not count.
* Between two launches the bytes that are needed later and that the device has no room for lie on
  the host. Each of them comes in once before the next launch that names it, whether it is copied or
  read in place. So every stretch between two uses of a block costs its bytes in, if it is away at
  all then, and covers the launches between the two. The least sum that covers what is above the
  room at each launch is a linear program over intervals; where all bytes cost the same it is solved
  by going through time and taking, wherever bytes are missing, those stretches first that last
  longest. Parts of blocks may be taken, which no plan can do: the sum is a lower bound.
* Steps repeat, so several are gone through one behind the other; what reaches into the first of
  them from before is free. Once a step hands to the next what it got itself, it stands for all that
  follow; where that does not come, the mean of all is still a lower bound.
* Bytes that are away have gone out since they were last written, at least once: of a block that a
  step makes once in its life; of one that lives across steps once a step, if an update names it (a
  launch all of whose blocks are as large as one that lives across steps, as an optimizer's are).
  Others need not go out: they may never change.
"""
import bisect
import collections
import heapq
import itertools
import statistics

import profile_events as profile

STEPS_PLAYED = 6
VOTING_STEPS = 8
PROBE_PART = 4  # an untouched block above that part of the memory only asks how much there is
ANCHORS = 64
PHASES = 16
CANDIDATES = 24


def neighbours(items):
    return zip(items, items[1:])


def is_launch(event):
    return event.kind in (profile.LAUNCH, profile.GRAPH)


def runs(symbols, period):
    """(begin, length) of the longest run in which each symbol is the one `period` later."""
    best, begin = (0, 0), None
    for i in range(len(symbols) - period):
        if symbols[i] == symbols[i + period]:
            begin = i if begin is None else begin
            if i + 1 - begin > best[1]:
                best = begin, i + 1 - begin
        else:
            begin = None
    return best


def find_steps(symbols):
    """(first launch, period, whole steps) of the part that repeats and covers most launches."""
    places = collections.defaultdict(list)
    for at, symbol in enumerate(symbols):
        places[symbol].append(at)
    votes = collections.Counter()
    # Rare launches repeat with the step; what a layer does repeats with the layer.
    anchors = sorted((where for where in places.values() if len(where) >= 3), key=len)[:ANCHORS]
    for where in anchors:
        votes.update(b - a for a, b in neighbours(where) if b - a > 0)
    best = (0, 0, 0)
    for period, _ in votes.most_common(CANDIDATES):
        begin, length = runs(symbols, period)
        steps = length // period + 1
        covered = steps * period
        if steps >= 2 and (covered, -period) > (best[2] * best[1], -best[1]):
            best = begin, period, steps
    if best[2] < 2:
        raise ValueError("no step repeats in the profile")
    return best


class Clock:
    """The GPU's time at any event, between its marks."""

    def __init__(self, events):
        self.at, self.ms, latest = [], [], 0.0
        for number, event in enumerate(events):
            if event.kind == profile.MARK:
                latest = max(latest, event.gpu_ms)
                self.at.append(number)
                self.ms.append(latest)

    def time(self, event):
        place = bisect.bisect_left(self.at, event)
        if place == len(self.at):
            return None
        if self.at[place] == event:
            return self.ms[place]
        if place == 0:
            return None
        part = (event - self.at[place - 1]) / (self.at[place] - self.at[place - 1])
        return self.ms[place - 1] + part * (self.ms[place] - self.ms[place - 1])


def step_ms(events, launch_events, first, period, steps):
    """Median of the steps by the GPU's clock; 0 where there is none. Where a step begins is not
    known here, so the least of several beginnings is taken."""
    clock, medians = Clock(events), []
    for phase in range(0, period, max(1, period // PHASES)):
        launches = range(first + phase, min(first + steps * period, len(launch_events)), period)
        times = [clock.time(launch_events[launch]) for launch in launches]
        spans = [b - a for a, b in neighbours(times) if a is not None and b is not None]
        medians += [statistics.median(spans)] if spans else []
    return min(medians, default=0.0)


def overwrites(event, size):
    """Whether a copy leaves nothing of what its destination had."""
    return event.kind == profile.COPY and event.copy_kind in (0, profile.MEMSET) and (
        event.bytes >= size)


class Recording:
    """What of a profile counts here: who lives when, and who names whom in a step."""

    def __init__(self, metadata, events):
        self.metadata, self.events = metadata, events
        self.launch_events = [i for i, event in enumerate(events) if is_launch(event)]
        self.before = self.count_launches()
        symbols = {}
        names = [symbols.setdefault(events[i].symbol, len(symbols)) for i in self.launch_events]
        self.first, self.period, self.steps = find_steps(names)
        self.step_ms = step_ms(events, self.launch_events, self.first, self.period, self.steps)
        self.find_lives()
        self.max_live = self.find_max_live()
        self.read_touches()

    def count_launches(self):
        counts, launches = [], 0
        for event in self.events:
            counts.append(launches)
            launches += is_launch(event)
        return counts

    def find_lives(self):
        self.made, self.freed, self.touched = {}, {}, set()
        device_bytes = collections.Counter()
        for number, event in enumerate(self.events):
            if event.kind == profile.ALLOC and event.alloc_kind != profile.MANAGED:
                self.made[event.block] = number
                device_bytes[event.device] += event.bytes
            elif event.kind == profile.FREE:
                self.freed[event.block] = number
            self.touched.update(event.touched)
        device = max(device_bytes, key=device_bytes.get, default=0)
        self.made = {block: at for block, at in self.made.items()
                     if self.events[at].device == device}

    def live_peak(self, blocks):
        changes = []
        for block in blocks:
            size = profile.taken(self.events[self.made[block]])
            changes.append((self.made[block], size))
            if block in self.freed:
                changes.append((self.freed[block], -size))
        live = most = 0
        for _, size in sorted(changes):
            live += size
            most = max(most, live)
        return most

    def find_max_live(self):
        limit = self.live_peak(block for block in self.made if block in self.touched) / PROBE_PART
        total = int(self.metadata.get("total_bytes", 0))
        limit = min(limit, total / PROBE_PART) if total else limit
        return self.live_peak(block for block, at in self.made.items()
                              if block in self.touched or self.events[at].bytes <= limit)

    @property
    def native_peak(self):
        used = int(self.metadata.get("device_used_peak_bytes", 0))
        base = int(self.metadata.get("device_used_base_bytes", 0))
        return used - base if used > base else self.max_live

    @property
    def overhead(self):
        used = int(self.metadata.get("device_used_peak_bytes", 0))
        return max(0, used - self.max_live)

    def step_of(self, launch):
        return (launch - self.first) // self.period

    def key_of(self, block, counters):
        """What names a block in every step: a persistent one itself, another its place in the
        step that made it."""
        made = self.before[self.made[block]]
        step = self.step_of(made)
        place = made - self.first - step * self.period
        size = self.events[self.made[block]].bytes
        number = counters[step, place, size]
        counters[step, place, size] += 1
        return step, (place, size, number)

    def read_touches(self):
        """touches: key -> {launch since the making step's begin: (steps that have it, kind)}."""
        begin, steps = self.first, self.steps
        voting = range(max(0, steps - VOTING_STEPS), steps)
        self.across = {
            block for block, at in self.made.items()
            if self.before[at] <= begin and self.before[self.freed.get(block, -1)] >= (
                begin + steps * self.period) or (self.before[at] <= begin and
                                                 block not in self.freed)}
        counters, self.keys = collections.Counter(), {}
        for block in sorted(self.made, key=self.made.get):
            if block not in self.across and self.before[self.made[block]] >= begin:
                self.keys[block] = self.key_of(block, counters)
        self.sizes = {block: self.events[self.made[block]].bytes for block in self.across}
        self.votes = collections.defaultdict(collections.Counter)
        self.made_in = collections.Counter()
        self.updated = set()
        for step, key in self.keys.values():
            if step in voting:
                self.made_in[key] += 1
                self.sizes[key] = key[1]
        for number, event in enumerate(self.events):
            if not event.touched:
                continue
            step = self.step_of(self.before[number])
            for place, block in enumerate(event.touched):
                self.vote(number, event, step, voting, block, place == 0)
            if step in voting and event.kind == profile.LAUNCH:
                self.note_update(event)
        self.voting_steps = len(voting)

    def vote(self, number, event, step, voting, block, first_named):
        if block in self.across:
            if step not in voting:
                return
            key, origin = block, step
        elif block in self.keys and self.keys[block][0] in voting:
            origin, key = self.keys[block]
        else:
            return
        launch = self.before[number] - self.first - origin * self.period
        whole = first_named and overwrites(event, self.sizes[key])
        self.votes[key][launch, is_launch(event), whole] += 1

    def note_update(self, event):
        across = {self.sizes[block] for block in event.touched if block in self.across}
        if across and all(self.size_of(block) in across for block in event.touched):
            self.updated.update(block for block in event.touched if block in self.across)

    def size_of(self, block):
        return self.events[self.made[block]].bytes if block in self.made else -1

    def touches(self, key):
        """(launch, is a launch, overwrites) of a steady step, those that most steps have."""
        steps = self.voting_steps if key in self.across else self.made_in[key]
        return sorted(touch for touch, count in self.votes[key].items() if 2 * count > steps)


def stretches(recording):
    """(first launch covered, one behind the last, bytes, key) between two uses of one block: launch
    i stands for the time between it and launch i + 1. Counted from the begin of a step; a stretch may
    reach into the next."""
    out = []
    for key in recording.votes:
        touches = recording.touches(key)
        if not touches:
            continue
        if key in recording.across:
            launch, queued, whole = touches[0]
            touches = touches + [(launch + recording.period, queued, whole)]
        for (begin, _, _), (end, queued, whole) in neighbours(touches):
            # A copy comes somewhere between two launches.
            end -= 0 if queued else 1
            if end > begin and not whole:
                out.append((begin, end, recording.sizes[key], key))
    return out


def lives(recording, pieces):
    """The same where each block counts once: it goes out at most once a step. Blocks that may never
    change are left out."""
    spans = {}
    for begin, end, size, key in pieces:
        if key in recording.across:
            if key in recording.updated:
                spans[key] = 0, recording.period, size, key
        else:
            old = spans.get(key, (begin, end))
            spans[key] = min(old[0], begin), max(old[1], end), size, key
    return list(spans.values())


def needed(pieces, period, leave_out=()):
    """Bytes that are needed later, behind each launch of a steady step."""
    changes = [0] * (period + 1)
    for begin, end, size, key in pieces:
        if key in leave_out:
            continue
        while begin < end:  # what reaches into the next step is there in this one too
            place = begin % period
            length = min(end - begin, period - place)
            changes[place] += size
            changes[place + length] -= size
            begin += length
    return list(itertools.accumulate(changes[:period]))


class Cover:
    """Goes through time and takes stretches where bytes are missing."""

    def __init__(self, pieces, demand):
        self.pieces = sorted(pieces, key=lambda piece: piece[:3])
        self.demand, self.period = demand, len(demand)
        self.total = self.covered = 0.0
        self.alive, self.taken = [], []  # heaps: (-end, bytes left); (end, bytes)
        for _, end, size, _ in self.pieces:  # from the step before: free
            if end > self.period:
                heapq.heappush(self.taken, (end - self.period, size))
                self.covered += size

    def play(self, step):
        coming, begin = 0, step * self.period
        for launch in range(self.period):
            while coming < len(self.pieces) and self.pieces[coming][0] <= launch:
                _, end, size, _ = self.pieces[coming]
                heapq.heappush(self.alive, (-(end + begin), size))
                coming += 1
            while self.taken and self.taken[0][0] <= begin + launch:
                self.covered -= heapq.heappop(self.taken)[1]
            self.take(begin + launch, self.demand[launch] - self.covered)

    def take(self, now, missing):
        while missing > 0 and self.alive:
            end, left = heapq.heappop(self.alive)
            if -end <= now:
                self.alive.clear()  # the others end no later
                return
            used = min(left, missing)
            self.total, self.covered, missing = self.total + used, self.covered + used, missing - used
            heapq.heappush(self.taken, (-end, used))
            if left > used:
                heapq.heappush(self.alive, (end, left - used))

    def state(self, step):
        """What one step hands to the next: if it is equal twice, all that follow are equal."""
        now = (step + 1) * self.period
        return (sorted((end - now, used) for end, used in self.taken if end > now),
                sorted((-end - now, left) for end, left in self.alive if -end > now))


def least_cover(pieces, demand):
    """The fewest bytes of `pieces` a step that cover `demand` at each launch of it, whole bytes or
    parts; a piece that covers several launches counts once."""
    if max(demand, default=0) <= 0:
        return 0.0
    cover, before, state = Cover(pieces, demand), 0.0, None
    for step in range(STEPS_PLAYED):
        cover.play(step)
        taken, last = cover.total - before, state
        before, state = cover.total, cover.state(step)
        if state == last:
            return taken
    return cover.total / STEPS_PLAYED


def link_ms(link, bytes_in, bytes_out):
    """Both ways at once as long as both are used, then the rest alone. 10^9 bytes a second."""
    ms_in, ms_out = bytes_in / link["both_in"] / 1e6, bytes_out / link["both_out"] / 1e6
    both = min(ms_in, ms_out)
    rest_in = (ms_in - both) * link["both_in"] / link["in"]
    return both + rest_in + (ms_out - both) * link["both_out"] / link["out"]


class Bound:
    """The bound of one recording on one device, at any budget."""

    def __init__(self, recording, device):
        self.recording, self.link = recording, device["link_gbps"]
        self.pieces = stretches(recording)
        self.lives = lives(recording, self.pieces)
        period = recording.period
        self.needed = needed(self.pieces, period)
        clean = {key for *_, key in self.pieces if key in recording.across} - recording.updated
        self.changing = [all_ - same for all_, same in
                         zip(self.needed, needed([p for p in self.pieces if p[3] in clean], period))]
        self.clean = [all_ - rest for all_, rest in zip(self.needed, self.changing)]

    def at(self, budget):
        room = max(0, budget - self.recording.overhead)
        above = [max(0, size - room) for size in self.needed]
        changed = [max(0, size - same) for size, same in zip(above, self.clean)]
        bytes_in = least_cover(self.pieces, above)
        bytes_out = least_cover(self.lives, changed)
        native = self.recording.step_ms
        return {"budget": budget, "room": room, "bytes_in": round(bytes_in),
                "bytes_out": round(bytes_out), "most_above": max(above, default=0),
                "launch": max(range(len(above)), key=above.__getitem__, default=0),
                "native_step_ms": native,
                "bound_step_ms": max(native, link_ms(self.link, bytes_in, bytes_out))}
