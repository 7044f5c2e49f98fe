#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares uroce with what the same veth gives to others, in one run. Root; nothing else should run on the machine.

usage: bench.py BUILD_DIRECTORY [--rounds N] [--mtu N]
"""
import argparse
import os
import statistics
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--mtu", type=int, default=4500)
options = parser.parse_args()
os.environ["UROCE_BUILD"] = os.path.abspath(options.build)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))
sys.dont_write_bytecode = True
from world import World, wait_until  # noqa: E402

SERVER = "10.77.0.1"
CONNECTIONS = 1000


def perftest(w, program, *extra):
    server = [program, "-d", "ur0", "-x", w.a.gid_index(SERVER), "-F", *extra]
    client = [program, "-d", "ur0", "-x", w.b.gid_index("10.77.0.2"), "-F", *extra, SERVER]
    answer, _ = w.pair(w.a, server, w.b, client)
    return [line.split() for line in answer.out.splitlines() if line.strip()[:1].isdigit()][-1]


def write_bandwidth(w):
    """Gbit/s, 64 KiB."""
    return float(perftest(w, "ib_write_bw", "-s", "65536", "-D", "3", "--report_gbits")[3])


def write_latency(w):
    """One-way, us, 2 B, typical."""
    return float(perftest(w, "ib_write_lat", "-s", "2", "-n", "20000")[4])


def tcp_bandwidth(w):
    server = w.a.start("iperf3", "-s", "-1", uroce=False)
    wait_until(lambda: w.a.listens(5201), "iperf3 listens")
    answer = w.b.run("iperf3", "-c", SERVER, "-t", "3", "-J", uroce=False).ok().json()
    server.wait()
    return answer["end"]["sum_received"]["bits_per_second"] / 1e9


def udp_latency(w):
    program = os.path.join(options.build, "tests/bench/udp_ping")
    server = w.a.start(program, uroce=False)
    wait_until(lambda: ":18600 " in w.a.sh("ss", "-Hlun"), "udp_ping listens")
    answer = w.b.run(program, SERVER, uroce=False).ok()
    server.wait()
    return float(answer.out)


def connections_by_address(w):
    """Connections per second, of a thousand set up at once: identifier, address, route, queue pair and connection."""
    server = w.a.start("cmtime", "-c", CONNECTIONS)
    wait_until(lambda: w.a.status()["connection_manager"]["listeners"], "cmtime listens")
    answer = w.b.run("cmtime", "-c", CONNECTIONS, "-s", SERVER).ok()
    server.kill()
    server.wait()
    wait_until(lambda: not w.a.status()["connection_manager"]["listeners"], "cmtime's listener is gone")
    steps = {line.partition(":")[0].strip(): line.split() for line in answer.out.splitlines() if ":" in line}
    return 1e6 / sum(float(steps[name][-1]) for name in ("create id", "resolve addr", "resolve route", "create qp", "connect"))


def tcp_connections(w):
    program = os.path.join(options.build, "tests/bench/tcp_connect")
    server = w.a.start(program, uroce=False)
    wait_until(lambda: w.a.listens(18601), "tcp_connect listens")
    answer = w.b.run(program, SERVER, uroce=False).ok()
    server.wait().ok()
    return float(answer.out)


rows = {"ib_write_bw 64 KiB [Gbit/s]": write_bandwidth, "iperf3 TCP [Gbit/s]": tcp_bandwidth, "ib_write_lat 2 B [us]": write_latency,
        "raw UDP ping-pong [us]": udp_latency, "cmtime [connections/s]": connections_by_address, "TCP [connections/s]": tcp_connections}
figures = {name: [] for name in rows}
with World(mtu=options.mtu) as world:
    for _ in range(options.rounds):
        for name, measure in rows.items():
            figures[name].append(measure(world))
            time.sleep(0.2)
medians = {name: statistics.median(values) for name, values in figures.items()}
for name, values in figures.items():
    print(f"{name:32} median {medians[name]:8.2f}   of {' '.join(f'{v:.2f}' for v in values)}")
names = list(rows)
print(f"bandwidth: {medians[names[0]] / medians[names[1]]:.2f} times one TCP stream")
print(f"latency: {medians[names[2]] / medians[names[3]]:.2f} times a raw polling UDP ping-pong")
print(f"connections: {medians[names[4]] / medians[names[5]]:.3f} times TCP connect and accept")
