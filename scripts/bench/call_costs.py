"""The part of `cost` about single calls: tests/gpu/cost_probe natively, by plans and recorded."""
import json
import os
import statistics
import time

import intervals
import pairs
import waits

SIZES = ["4KiB", "1MiB", "64MiB"]
HOOK_NS = 250
PAIR_RATIO = 1.0
SIDES = ["native", "replay", "swap", "record"]
SLAB = 2 << 20


def call_command(bench, side, pair):
    probe = [bench.args.probe, "launches" if side == "swap" else "measure", str(bench.args.rounds)]
    if side == "swap":
        return [bench.args.ebbtide, "run", "--strict", "--cold", "swap", "--plan",
                bench.path("swap.plan.json"), "--log", bench.path(f"swap-{pair}.log"), "--", *probe]
    if side == "record":
        return [bench.args.ebbtide, "record", "-o", bench.path(f"measured-{pair}.ebp"), "--",
                *probe]
    if side == "replay":
        return [bench.args.ebbtide, "run", "--strict", "--cold", "off", "--plan",
                bench.path("probe.plan.json"), "--log", bench.path(f"probe-{pair}.log"), "--",
                *probe]
    return probe


def measured_calls(bench, side, pair):
    answer = json.loads(bench.call(call_command(bench, side, pair)))
    if answer["hooked"] != (side != "native"):
        raise RuntimeError(f"{side}: dlsym's answers are {'' if answer['hooked'] else 'not '}hooks")
    if side == "record":
        os.remove(bench.path(f"measured-{pair}.ebp"))
    if side == "swap":
        end = waits.read_log(bench.path(f"swap-{pair}.log"))["end"] or {}
        if not end.get("fetches"):
            raise RuntimeError("swap: nothing was swapped: another thing was measured")
    if side == "replay":
        end = waits.read_log(bench.path(f"probe-{pair}.log"))["end"] or {}
        answer["served"] = {kind: end.get(kind, 0) for kind in ("planned", "dynamic", "native")}
        through = answer["through"]
        for kind in ("planned", "dynamic"):
            least = sum(through[f"pair_{kind}_{size}"]["count"] for size in SIZES)
            if answer["served"][kind] < least:
                raise RuntimeError(f"replay: {answer['served']} of at least {least} {kind} "
                                   "allocations: another thing was measured")
    return answer


def launches_of(side):
    return ("launch",) if side == "swap" else ("launch", "launch_wide")


def sides_of(rounds):
    """Those of every pair."""
    return [side for side in SIDES if all(side in r for r in rounds)]


def call_rows(rounds):
    """name -> interval; rounds: side -> answer, one a pair."""
    rows = {}
    for kind in ("planned", "dynamic"):
        for size in SIZES:
            key = f"pair_{kind}_{size}"
            for percentile in ("p50", "p99"):
                rows[f"{key}_{percentile}"] = intervals.ratio(
                    [(r["replay"]["through"][key][percentile],
                      r["native"]["through"][key][percentile]) for r in rounds])
                rows[f"{key}_{percentile}_same_process"] = intervals.ratio(
                    [(r["replay"]["through"][key][percentile],
                      r["replay"]["straight"][key][percentile]) for r in rounds])
    for side in sides_of(rounds):
        for key in launches_of(side):
            rows[f"{key}_{side}_more_ns"] = intervals.mean(
                [r[side]["through"][key]["p50"] - r[side]["straight"][key]["p50"] for r in rounds])
    return rows


def median_of(rounds, side, which, key, percentile):
    return statistics.median(r[side][which][key][percentile] for r in rounds)


def call_table(rounds, rows):
    lines = [f"  ns, medians of {len(rounds):2} processes          native    through us      "
             "ratio [95 %]                in one process"]
    for kind in ("planned", "dynamic"):
        for size in SIZES:
            key = f"pair_{kind}_{size}"
            for percentile in ("p50", "p99"):
                name = f"{key}_{percentile}"
                lines.append(
                    f"  alloc + free {kind:8} {size:6} {percentile} "
                    f"{median_of(rounds, 'native', 'through', key, percentile):12.0f} "
                    f"{median_of(rounds, 'replay', 'through', key, percentile):13.0f}      "
                    f"{pairs.interval(rows[name]):27} "
                    f"{pairs.interval(rows[name + '_same_process'])}")
    for key, what in (("launch", "launch, 4 parameters"), ("launch_wide", "launch, 192 pointers")):
        for side in (s for s in sides_of(rounds) if key in launches_of(s)):
            estimate, lower, upper = rows[f"{key}_{side}_more_ns"]
            lines.append(
                f"  {what:22} {side:8}     {median_of(rounds, side, 'straight', key, 'p50'):10.0f} "
                f"{median_of(rounds, side, 'through', key, 'p50'):13.0f}      "
                f"{estimate:+.0f} [{lower:+.0f}, {upper:+.0f}] ns")
    asks = median_of(rounds, "native", "straight", "param_info", "p50")
    lines.append(f"  {asks:.0f} ns of what a recorded launch takes more are one question to the "
                 "driver: cuKernelGetParamInfo")
    return "\n".join(lines)


def with_a_slab(plan):
    """The plan with the optimizer's state in a slab that is swapped every step: so small a state
    the planner leaves where it is, or has it used in place."""
    if plan["slabs"]:
        return plan
    state = [slot for slot in plan["prologue"] if slot.get("class") == "optimizer_state"]
    others = [slot for slot in plan["prologue"] + plan["step"]
              if slot["tier"] == "cold" and slot.get("class") != "optimizer_state"]
    if not state or others:
        raise RuntimeError(f"{len(state)} blocks of state, {len(others)} other cold blocks: not "
                           "the plan that was expected")
    room = SLAB // len(state) // 512 * 512
    if max(slot["bytes"] for slot in state) > room:
        raise RuntimeError(f"{len(state)} blocks of state do not fit into a slab")
    stay = plan["warm_bytes"] + -plan["warm_bytes"] % SLAB
    for i, slot in enumerate(state):
        for key in ("use", "fetch_launch", "evict_launch"):
            slot.pop(key, None)
        slot.update(tier="cold", offset=stay + SLAB + i * room)
    plan.update(warm_bytes=stay + SLAB, cold_bytes=SLAB, slab_bytes=SLAB,
                slabs=[{"stay_offset": stay, "fetch_launch": 0, "evict_launch": 0,
                        "gone_launch": plan["step_launches"] - 1}])
    return plan


def without_swap(bench, sides, error):
    """The other sides say what they say without it."""
    bench.claims.add(f"swap: {error}", False)
    sides.remove("swap")


def one_pair(bench, sides, pair):
    answers = {}
    for side in pairs.turned(list(sides), pair):
        try:
            answers[side] = measured_calls(bench, side, pair)
        except RuntimeError as error:
            if side != "swap":
                raise
            without_swap(bench, sides, error)
    return answers


def run(bench):
    bench.call([bench.args.ebbtide, "record", "-o", bench.path("probe.ebp"), "--",
                bench.args.probe, "record"])
    plan = bench.plan("probe.ebp", "probe.plan.json")
    tiers = [slot["tier"] for slot in plan["step"]]
    if len(tiers) != len(SIZES) or not set(tiers) <= {"hot", "warm"}:
        raise RuntimeError(f"the plan's step has tiers {tiers}, not three blocks on the device")
    sides, rounds, began = list(SIDES), [], time.monotonic()
    try:
        with open(bench.path("swap.plan.json"), "w") as file:
            json.dump(with_a_slab(plan), file)
    except RuntimeError as error:
        without_swap(bench, sides, error)
    for pair in range(bench.args.pairs):
        if bench.time_is_up(began, pair):
            break
        with pairs.processors(pair):
            rounds.append(one_pair(bench, sides, pair))
        bench.report["calls"] = {"rounds": rounds, "rows": call_rows(rounds)}
        bench.save()
    first = rounds[0]["native"]
    bench.report.setdefault("gpu", first["gpu"])
    bench.report["cuda_driver_version"] = first["driver_version"]
    rows = call_rows(rounds)
    print(call_table(rounds, rows))
    bench.enough_pairs("calls", rounds)
    for kind in ("planned", "dynamic"):
        for percentile in ("p50", "p99"):
            worst = max((rows[f"pair_{kind}_{size}_{percentile}"] for size in SIZES))
            bench.claims.add(f"alloc + free, {kind}, {percentile}: at most {PAIR_RATIO:.2f} of the "
                             f"driver's own pair: {pairs.interval(worst)} (the worst size)",
                             worst[0] <= PAIR_RATIO)
    for side in (side for side in sides_of(rounds) if side != "native"):
        more = rows[f"launch_{side}_more_ns"]
        bench.claims.add(f"launch hook, {side}: at most {HOOK_NS} ns, p50: {more[0]:.0f} "
                         f"[{more[1]:.0f}, {more[2]:.0f}]", more[0] <= HOOK_NS)
