#!/usr/bin/env python3
"""The simulated device through real artifacts: bytes of transfers against what CPU
ranks count, times against sums of the cost functions (written here once more),
overlap, sharing of multiprocessors, pipelines, many ranks and layers, and what it
refuses.

    simulate.py BIN_DIR
"""

import copy
import json
import os
import sys
import time

import support

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FULL = os.environ.get("SHEAF_FULL") == "1"


def toy_cluster():
    """Round figures; devices that are slow beside their links."""
    def row(kinds, members, nodes, bandwidth, latency):
        return {"kinds": kinds, "members_per_node": members, "nodes": nodes,
                "bytes_per_second": bandwidth, "latency_seconds": latency}
    every = ["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]
    return {
        "name": "toy",
        "device": {
            "name": "toy device", "memory_bytes": 1e9, "multiprocessors": 10,
            "memory": {"bytes_per_second": 1e11},
            "products": {"f32": {"flops_per_second": 1e12, "efficiency": 0.5},
                         "bf16": {"flops_per_second": 4e12}},
            "attention": {"forward_efficiency": 0.5, "backward_efficiency": 0.25},
            "elementwise": {"flops_per_second": 1e11}, "least_kernel_seconds": 2e-6},
        "node": {"devices": 4},
        "communication": {
            "multiprocessors": 0,
            "transfers": [row(every, 2, 1, 4e9, 1e-6), row(every, 4, 1, 4e9, 2e-6),
                          row(every, 4, 2, 2e9, 5e-6), row(every, 1, 2, 1e9, 5e-6)]}}


def seconds_alone(event, cluster):
    """The formulas of docs/design/simulation.md for a call of the compute stream."""
    device = cluster["device"]
    flops, size = event["args"]["flops"], event["args"]["bytes"]
    rate = {"matmul": 0.5e12, "attention": 0.5e12,
            "attention gradient": 0.25e12}.get(event["cat"], 1e11)
    return max(device["least_kernel_seconds"],
               flops / rate, size / device["memory"]["bytes_per_second"])


class Simulator:
    def __init__(self, session):
        self.session = session
        self.count = 0

    def __call__(self, artifact, cluster, *options):
        if not isinstance(cluster, str):
            text, cluster = cluster, self.session.path("cluster.json")
            with open(cluster, "w", encoding="utf-8") as file:
                json.dump(text, file)
        self.cluster = cluster
        report = self.session.path("report.json")
        self.table = self.session.run("sheaf-run", artifact, "--device=sim",
                                      f"--cluster={cluster}", f"--report={report}", *options)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)
        for place in result["places"]:
            parts = sum(place[f"{part}_seconds"] for part in
                        ("busy", "stretch", "exposed", "idle"))
            if abs(parts - result["step_seconds"]) > 1e-9 * result["step_seconds"]:
                raise support.Failed(f"the parts of a place are {parts} s of "
                                     f"{result['step_seconds']} s")
        return result

    def refused(self, title, expected, *arguments):
        status, _, err = self.session.try_run("sheaf-run", *arguments)
        self.session.check(f"refused: {title}", status == 1 and expected in err,
                           "" if expected in err else f"exit {status}, {err.strip()}")


def gpt(session, name, batch, **sizes):
    options = {"layers": 2, "hidden": 32, "heads": 4, "vocab": 64, "seq": 16, **sizes}
    session.run("sheaf-model", "gpt", f"--batch={batch}",
                *(f"--{key}={value}" for key, value in options.items()),
                "-o", session.path(name))


def rows_of(transfers):
    keys = ("kind", "axes", "group", "dtype", "elements", "wire_bytes", "count", "purpose")
    return sorted(json.dumps([row[key] for key in keys], sort_keys=True)
                  for row in transfers if row["kind"] != "receive")


def check_bytes(session, simulate):
    """What is sent is what CPU ranks count, transfer for transfer."""
    with open(session.path("data.bin"), "wb") as file:
        file.write(bytes(range(64)) * 256)
    for mesh, more in [("pp=2,dp=2,tp=2", ["--microbatches=2", "--pipeline=1f1b"]),
                       ("dp=4", ["--zero=3"])]:
        artifact = session.compile("gpt.mlir", "step.sheaf", f"--mesh={mesh}", *more)
        counts = session.path("counts.json")
        session.run("sheaf-run", artifact, f"--data={session.path('data.bin')}",
                    "--token-type=u8", "--steps=1", "--threads=1", "--quiet",
                    f"--collectives={counts}")
        with open(counts, encoding="utf-8") as file:
            counted = rows_of(json.load(file)["entries"]["step"]["collectives"])
        result = simulate(artifact, toy_cluster())
        found = rows_of(result["places"][0]["transfers"])
        session.check(f"{mesh}: bytes are those that ranks count",
                      found == counted and len(found) > 3,
                      f"{len(found)} rows" if found == counted else
                      f"simulated {set(found) - set(counted)}, "
                      f"counted {set(counted) - set(found)}")


def check_sum(session, simulate):
    """Without communication a step is the sum of its calls."""
    artifact = session.compile("gpt.mlir", "one.sheaf")
    trace = session.path("trace.json")
    cluster = toy_cluster()
    result = simulate(artifact, cluster, f"--trace={trace}")
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    calls = [e for e in events if e["ph"] == "X" and e["cat"] != "step"]
    total = sum(seconds_alone(event, cluster) for event in calls)
    kinds = {event["cat"] for event in calls}
    session.check("one rank: the step is the sum of its calls",
                  abs(total - result["step_seconds"]) < 1e-9 * total
                  and len(calls) == result["places"][0]["calls"]
                  and {"matmul", "kernel", "attention", "attention gradient"} <= kinds,
                  f"{len(calls)} calls, {result['step_seconds'] * 1e3:.3f} ms")
    ends = [e["ts"] + e["dur"] for e in calls]
    begins = [e["ts"] for e in calls]
    session.check("the compute stream is in order",
                  all(b >= e - 1e-6 for b, e in zip(begins[1:], ends)))
    slow = copy.deepcopy(cluster)
    slow["device"]["issue_seconds"] = 1e-3
    session.check("a slow host holds the stream up",
                  simulate(artifact, slow)["step_seconds"] > 1e-3 * len(calls))


def check_sharing(session, simulate):
    """Transfers that take multiprocessors make what runs beside them slower."""
    artifact = session.compile("gpt.mlir", "dp.sheaf", "--mesh=pp=2,dp=2", "--microbatches=4",
                               "--pipeline=1f1b")
    cluster = toy_cluster()
    free = simulate(artifact, cluster)
    transfers = sum(row["seconds"] for place in free["places"] for row in place["transfers"])
    exposed = sum(place["exposed_seconds"] for place in free["places"])
    session.check("transfers hide beside kernels", 0 <= exposed < 0.9 * transfers,
                  f"{exposed * 1e6:.0f} of {transfers * 1e6:.0f} us are exposed")
    cluster["communication"]["multiprocessors"] = 5
    taken = simulate(artifact, cluster)
    session.check("taking multiprocessors makes the gain smaller",
                  all(place["stretch_seconds"] == 0 for place in free["places"])
                  and any(place["stretch_seconds"] > 0 for place in taken["places"])
                  and taken["step_seconds"] > free["step_seconds"],
                  f"{free['step_seconds'] * 1e6:.1f} to {taken['step_seconds'] * 1e6:.1f} us")
    cluster["communication"]["transfers"] = [
        {**row, "bytes_per_second": row["bytes_per_second"] / 100}
        for row in cluster["communication"]["transfers"]]
    slow = simulate(artifact, cluster)
    session.check("slow links cost time",
                  slow["step_seconds"] > taken["step_seconds"])


def check_precision(session, simulate):
    """A device that multiplies in bf16 is not given the program's casts to f32."""
    wide, narrow = toy_cluster(), toy_cluster()
    del wide["device"]["products"]["bf16"]
    gpt(session, "wide.mlir", 8, hidden=256, seq=64)
    artifact = session.compile("wide.mlir", "bf16.sheaf", "--precision=bf16")
    a, b = simulate(artifact, wide)["places"][0], simulate(artifact, narrow)["places"][0]
    ratio = a["product_seconds"] / b["product_seconds"]
    session.check("bf16: products at the rate of bf16", 4 < ratio <= 8.001,
                  f"{ratio:.2f} times faster")
    session.check("bf16: casts are parts of their neighbours",
                  b["calls"] < a["calls"] and b["kernel_seconds"] < a["kernel_seconds"],
                  f"{a['calls']} and {b['calls']} calls")
    artifact = session.compile("wide.mlir", "fp8.sheaf", "--precision=fp8-tensor")
    simulate.refused("products of a type that the device has not", "no rate for f8e4m3",
                     artifact, "--device=sim", f"--cluster={simulate.cluster}")
    for name in ("f8e4m3", "f8e5m2"):
        narrow["device"]["products"][name] = {"flops_per_second": 8e12}
    c = simulate(artifact, narrow)["places"][0]
    session.check("fp8: products in layers at the rate of 8 bits",
                  c["product_seconds"] < 0.8 * b["product_seconds"],
                  f"{b['product_seconds'] / c['product_seconds']:.2f} times faster")


def check_measured(session, simulate):
    """The description of this machine is one."""
    path = session.path("measured.json")
    session.run("sheaf-run", f"--measure-cluster={path}")
    result = simulate(session.path("one.sheaf"), path)
    session.check("--measure-cluster describes this machine",
                  0 < result["step_seconds"] < 60 and result["mfu"] > 0)


def check_predicted(session, simulate):
    """What --explain says that transfers are waited for, where none slows what computes."""
    cluster = session.path("toy.json")
    with open(cluster, "w", encoding="utf-8") as file:
        json.dump(toy_cluster(), file)
    # Transfers over dp and tp share links.
    for mesh, off in (("--mesh=dp=4 --zero=3", 1e-4),
                      ("--mesh=dp=2,tp=2 --sequence-parallel --recompute=full", 0.05)):
        options = [*mesh.split(), f"--cluster={cluster}"]
        # Compiled once: what is explained is of the same program.
        explained = session.explain("gpt.mlir", "predicted.sheaf", *options)["collectives"]
        place = simulate(session.path("predicted.sheaf"), cluster)["places"][0]
        for key, found in (("seconds", sum(row["seconds"] for row in place["transfers"])),
                           ("exposed_seconds", place["exposed_seconds"])):
            predicted = sum(row[key] * row["count"] for row in explained)
            session.check(f"{mesh}: predicted {key}", abs(predicted - found) <= off * found,
                          f"{1e6 * predicted:.1f} us, simulated {1e6 * found:.1f}")


def check_table(session, simulate):
    """scripts/trace-table.py makes one table of both kinds of traces."""
    artifact = session.path("predicted.sheaf")
    trace, sent = session.path("trace.json"), session.path("sent.json")

    def table():
        return json.loads(session.try_command(
            ["/usr/bin/python3", os.path.join(ROOT, "scripts/trace-table.py"), trace, "--json"])[1])

    place = simulate(artifact, session.path("toy.json"), f"--trace={trace}")["places"][0]
    rank, = table()
    same = all(abs(rank[f"{part}_seconds"] - place[f"{name}_seconds"]) <= 1e-6 + 1e-6 * place["busy_seconds"]
               for part, name in (("exposed", "exposed"), ("products", "product"),
                                  ("attention", "attention"), ("idle", "idle")))
    session.check("a table of the simulated device's trace", same, f"{rank}, {place}"[:300])
    with open(session.path("tokens"), "wb") as file:
        file.write(bytes(range(60)) * 400)
    session.run("sheaf-run", artifact, f"--data={session.path('tokens')}", "--token-type=u8",
                "--steps=3", "--quiet", "--threads=1", f"--trace={trace}",
                f"--collectives={sent}")
    with open(sent, encoding="utf-8") as file:
        step = json.load(file)["entries"]["step"]
    counted = sum(row["count"] for row in step["collectives"]) / step["calls"]
    ranks = table()
    parts = ("products", "attention", "kernels", "copies", "exposed", "idle")
    session.check("a table of the trace of CPU ranks", len(ranks) == 4 and all(
        abs(sum(rank[f"{part}_seconds"] for part in parts) - rank["step_seconds"])
        <= 1e-6 * rank["step_seconds"] and rank["products_seconds"] > 0
        and rank["steps"] == 2 and rank["idle_seconds"] >= 0
        and sum(row["count"] for row in rank["transfers"]) == counted for rank in ranks),
        f"{counted}, {ranks}"[:300])


def check_size(session, simulate):
    """Many ranks and many layers take little time."""
    gpt(session, "many.mlir", 2048, heads=8, hidden=64)
    artifact = session.compile("many.mlir", "many.sheaf", "--mesh=dp=2048,tp=8")
    began = time.monotonic()
    result = simulate(artifact, os.path.join(ROOT, "examples/clusters/h100.json"))
    took = time.monotonic() - began
    session.check("16,384 ranks", result["ranks"] == 16384 and result["nodes"] == 2048
                  and took < 20, f"{took:.2f} s, step of {result['step_seconds'] * 1e3:.2f} ms")
    layers = 96 if FULL else 24
    gpt(session, "deep.mlir", 8, layers=layers)
    artifact = session.compile("deep.mlir", "deep.sheaf", "--mesh=dp=2,tp=2")
    began = time.monotonic()
    simulate(artifact, toy_cluster())
    took = time.monotonic() - began
    session.check(f"{layers} layers", took < 20, f"{took:.2f} s")


def check_output(session, simulate):
    artifact = session.path("one.sheaf")
    for name in ("h100", "h200", "a100", "cpu"):
        result = simulate(artifact, os.path.join(ROOT, f"examples/clusters/{name}.json"))
        session.check(f"{name}.json", result["step_seconds"] > 0 and result["mfu"] > 0
                      and result["fits"])
    log = session.path("sim.jsonl")
    result = simulate(artifact, toy_cluster(), "--steps=3", f"--log={log}")
    with open(log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    session.check("a log line for each step",
                  [line["step"] for line in lines] == [0, 1, 2]
                  and all(abs(line["step_ms"] / 1e3 / result["step_seconds"] - 1) < 1e-6
                          for line in lines))
    session.check("the table says what matters",
                  all(text in simulate.table for text in
                      ("step time", "tokens/s", "mfu", "exposed", "peak")))
    small = toy_cluster()
    small["device"]["memory_bytes"] = 1000
    path = session.path("small.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(small, file)
    status, out, err = session.try_run("sheaf-run", artifact, "--device=sim",
                                       f"--cluster={path}")
    session.check("what does not fit is said",
                  status == 0 and "warning: a rank needs" in err and "does not fit" in out)
    good = os.path.join(ROOT, "examples/clusters/h100.json")
    sim = [artifact, "--device=sim"]
    simulate.refused("no cluster", "needs the description of a cluster", *sim)
    simulate.refused("no such file", "no.json", *sim, "--cluster=no.json")
    simulate.refused("a device that is none", "expected cpu or sim", artifact, "--device=gpu")
    simulate.refused("a cluster for CPU ranks", "belongs to --device=sim", artifact,
                     f"--cluster={good}")
    simulate.refused("what needs results", "--save needs a device that computes", *sim,
                     f"--cluster={good}", "--save=x.safetensors")
    bad = toy_cluster()
    bad["device"]["memory"]["bandwith"] = 1
    with open(path, "w", encoding="utf-8") as file:
        json.dump(bad, file)
    simulate.refused("a wrong key", "device.memory.bandwith is no key", *sim,
                     f"--cluster={path}")
    alone = toy_cluster()
    alone["communication"]["transfers"] = []
    with open(path, "w", encoding="utf-8") as file:
        json.dump(alone, file)
    simulate.refused("no row for what is sent", "has no row for",
                     session.path("dp.sheaf"), "--device=sim", f"--cluster={path}")


def body(session, _):
    simulate = Simulator(session)
    gpt(session, "gpt.mlir", 8)
    check_sum(session, simulate)
    check_bytes(session, simulate)
    check_sharing(session, simulate)
    check_predicted(session, simulate)
    check_table(session, simulate)
    check_precision(session, simulate)
    check_size(session, simulate)
    check_output(session, simulate)
    check_measured(session, simulate)


if __name__ == "__main__":
    sys.exit(support.main(__doc__.split("\n", maxsplit=1)[0], body, limit=900))
