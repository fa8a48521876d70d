"""What a process under a plan moved and waited for, from its run log (profiles/RUNLOG.md)."""
import json

# Names of the log that count from the start of a run, so that a difference of two lines is what
# happened between them.
COUNTED = ["steps", "bytes_in", "bytes_out", "fetches", "hits", "missed_room", "missed_busy",
           "off_plan", "waits_arrival", "waits_arrival_ms", "waits_departure",
           "waits_departure_ms", "waits_room", "host_room_ms", "host_issue_ms", "host_off_plan_ms", "managed_in", "managed_out", "planned", "dynamic",
           "native"]


def read_log(path):
    """{"run", "samples", "end"}: run and end are None where the line is missing."""
    log = {"run": None, "samples": [], "end": None}
    try:
        with open(path) as lines:
            for line in lines:
                try:
                    (kind, fields), = json.loads(line).items()
                except (ValueError, AttributeError):
                    continue  # a cut line
                if kind == "sample":
                    log["samples"].append(fields)
                elif kind in log:
                    log[kind] = fields
    except OSError:
        pass
    return log


def between(earlier, later):
    return {name: later.get(name, 0) - earlier.get(name, 0) for name in COUNTED}


def add(totals, more):
    for name in COUNTED:
        totals[name] = totals.get(name, 0) + more[name]


def by_kind(log, turns):
    """What happened in turns of one kind, as far as the samples tell.

    `turns` are (kind, samples in the log when it had ended), in order. A process between two
    turns writes nothing, so that a sample belongs to the first turn that ended with it in the
    log. What lies between two lines counts for a kind when every turn that it reaches into is of
    that kind; the rest counts for none.
    """
    def turn_of(sample):
        return next((i for i, (_, seen) in enumerate(turns) if sample < seen), len(turns) - 1)

    lines = [({}, 0)] + [(sample, turn_of(i)) for i, sample in enumerate(log["samples"])]
    if log["end"]:
        lines.append((log["end"], len(turns) - 1))
    totals = {}
    for (earlier, first), (later, last) in zip(lines, lines[1:]):
        kinds = {kind for kind, _ in turns[first:last + 1]}
        if len(kinds) == 1:
            add(totals.setdefault(kinds.pop(), {}), between(earlier, later))
    return totals


def waits(logs):
    """Sums over the runs of one mode: {"run": …, "async": …, "item": …}, each where known.

    `logs` are (log, turns). "run" is everything, warm-up included, and needs every end line.
    """
    totals = {}
    for log, turns in logs:
        for kind, counts in by_kind(log, turns).items():
            add(totals.setdefault(kind, {}), counts)
    totals.pop("warm", None)
    if logs and all(log["end"] for log, _ in logs):
        for log, _ in logs:
            add(totals.setdefault("run", {}), between({}, log["end"]))
    return totals


def lines(mode, result):
    """The table's part about the waits of one mode, by cause, a step.

    "in ms" and "out ms" are the device's, for copies in and for copies out to leave a place.
    """
    logs = [run["log"] for run in result["runs"]]
    homes = [log["run"] for log in logs if log["run"]]
    if not homes:
        return [f"  {mode}: no run log: it ran without Ebbtide"]
    places = (("swap", "swapped"), ("managed", "managed"), ("off", "on the device"))
    cold = ", ".join(f"{homes[0].get('cold_' + engine, 0) / 2**30:.2f} GiB {where}"
                     for engine, where in places)
    out = [f"  {mode}: cold blocks {cold}",
           f"  a step of {mode:8} {'steps':>6} {'in MiB':>8} {'out MiB':>8} {'fetches':>8} "
           f"{'hits':>6} {'missed':>6}   {'in ms':>6} {'out ms':>6}   {'room':>6} {'host ms':>7} "
           f"{'issue ms':>8} {'off plan':>8} {'host ms':>7}"]
    names = {"run": "whole run", "async": "no item()", "item": "with item()"}
    for kind, name in names.items():
        total = result["waits"].get(kind)
        if not total or total["steps"] <= 0:
            continue
        a = {key: value / total["steps"] for key, value in total.items()}
        out.append(
            f"    {name:16} {total['steps']:6d} {a['bytes_in'] / 2**20:8.1f} "
            f"{a['bytes_out'] / 2**20:8.1f} {a['fetches']:8.1f} {a['hits']:6.1f} "
            f"{a['missed_room'] + a['missed_busy']:6.1f}   {a['waits_arrival_ms']:6.2f} "
            f"{a['waits_departure_ms']:6.2f}   {a['waits_room']:6.1f} {a['host_room_ms']:7.2f} "
            f"{a['host_issue_ms']:8.2f} {a['off_plan']:8.1f} {a['host_off_plan_ms']:7.2f}")
    if result["waits"].get("run", {}).get("steps") == 0:
        out.append(f"    {mode}: the run log counts no steady step")
    if "run" not in result["waits"]:
        out.append(f"    {mode}: a run log has no end line")
    return out
