#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Compares uroce with the kernel's rxe: bench.py [--rounds N] [--mtu N] [ROW...], inside the guest. perftest between two devices of a kind over
a veth pair; both kinds in one kernel and in turn, with the same netdev and path MTU, processors and counts. Never pass or fail: only the
ratios of one run say something (more than 1: uroce is better), and of an emulated processor. Documentation/performance.md has some.

uroce's two ends are in namespaces of their own. rxe's are both in the initial one, where alone its sockets are: it looks up a route per
device, and so the packets do travel over its veth pair once both ends take packets from an address of their own host.
"""
import argparse
import os
import statistics
import sys

sys.dont_write_bytecode = True

from interop_world import KernelHost, UroceHost, World, expect, join, sh  # noqa: E402

BULK = ("-s", "65536", "-n", "300"), ("-s", "1048576", "-n", "30")
# Name: program and options, column of the result, its unit, whether more is better.
ROWS = {
    **{f"{program} {size}": ((program, *options, "--report_gbits"), 3, "Gbit/s", True)
       for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw") for size, options in zip(("64 KiB", "1 MiB"), BULK)},
    "ib_send_bw 64 B, messages": (("ib_send_bw", "-s", "64", "-n", "5000"), 4, "M/s", True),
    "ib_write_lat 2 B": (("ib_write_lat", "-s", "2", "-n", "1000"), 4, "us", False),
    "ib_send_lat 2 B": (("ib_send_lat", "-s", "2", "-n", "1000"), 4, "us", False),
}
PATH_MTUS = (4096, 2048, 1024, 512, 256)
HEADERS = 80  # IPv6, UDP and RoCE's largest


def host(kind, world, name, device, number):
    made = kind(world, name) if name else kind(world)
    made.device, made.number = device, number
    return made


class Rivals(World):
    """`w.kinds`: name to (server, client)."""

    def __init__(self, mtu):
        super().__init__(names=(), devices=False, mtu=mtu)
        self.path_mtu = next(size for size in PATH_MTUS if size + HEADERS <= mtu)

    def build(self):
        for module in ("rdma_rxe", "ib_uverbs"):
            sh("modprobe", module)
        rxe = [host(KernelHost, self, None, f"rxe{i}", str(i + 1)) for i in (0, 1)]
        ur = [host(UroceHost, self, f"uroce{os.getpid()}ur{i}", "ur0", str(i + 1)) for i in (0, 1)]
        self.hosts = {end.name: end for end in ur}
        for ends, names in ((rxe, ("va", "vb")), (ur, ("vc", "vd"))):
            join(ends[0], names[0], "10.77.0.1/24", "fd77::1/64", ends[1], names[1], "10.77.0.2/24", "fd77::2/64", self.mtu)
        for at in ("all", "va", "vb"):
            sh("sysctl", "-qw", f"net.ipv4.conf.{at}.accept_local=1", f"net.ipv4.conf.{at}.rp_filter=0")
        for end, netdev in zip(rxe, ("va", "vb")):
            sh("rdma", "link", "add", end.device, "type", "rxe", "netdev", netdev)
        for end, netdev in zip(ur, ("vc", "vd")):
            end.add_device(netdev)
        self.kinds = {"uroce": ur, "rxe": rxe}
        for end in (*ur, *rxe):
            end.run("ibv_devinfo", "-d", end.device).ok().has(rf"active_mtu:\s+{self.path_mtu} ")

    def clean_up(self):
        for device in ("rxe0", "rxe1"):
            sh("rdma", "link", "del", device, check=False)
        return super().clean_up()

    def perftest(self, kind, words, column):
        server, client = self.kinds[kind]
        line = lambda end: (words[0], "-d", end.device, "-x", end.gid("ipv4"), "-m", self.path_mtu, "-F", "-u", "20", *words[1:])
        before = _sent_by("va")
        answer, _ = self.pair(server, line(server), client, (*line(client), server.address("ipv4")), timeout=300)
        expect(kind != "rxe" or _sent_by("va") > before, "rxe's packets do not leave its netdev")
        return float([row.split() for row in answer.out.splitlines() if row.strip()[:1].isdigit()][-1][column])


def _sent_by(netdev):
    with open(f"/sys/class/net/{netdev}/statistics/tx_packets", encoding="ascii") as file:
        return int(file.read())


def checksum_driver():
    """Which code the kernel computes rxe's ICRC with."""
    with open("/proc/crypto", encoding="ascii") as file:
        found = [dict(map(str.strip, line.split(":", 1)) for line in entry.splitlines() if ":" in line)
                 for entry in file.read().split("\n\n")]
    drivers = [entry for entry in found if entry.get("name") == "crc32"]
    return max(drivers, key=lambda entry: int(entry["priority"]))["driver"] if drivers else "of the kernel's library"


def main():
    parser = argparse.ArgumentParser(usage="bench.py [--rounds N] [--mtu N] [ROW...]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mtu", type=int, default=4200)
    parser.add_argument("rows", nargs="*", help="words of the names")
    options = parser.parse_args()
    rows = {name: row for name, row in ROWS.items() if not options.rows or any(word in name for word in options.rows)}
    with Rivals(options.mtu) as w:
        print(f"Linux {os.uname().release}, {os.cpu_count()} processors, netdev MTU {w.mtu}, path MTU {w.path_mtu}, "
              f"crc32 {checksum_driver()}, medians of {options.rounds}", flush=True)
        for name, (words, column, unit, more_is_better) in rows.items():
            figures = {kind: [] for kind in w.kinds}
            for _ in range(options.rounds):
                for kind in w.kinds:
                    figures[kind].append(w.perftest(kind, words, column))
            ur, rxe = (statistics.median(figures[kind]) for kind in ("uroce", "rxe"))
            better = ur / rxe if more_is_better else rxe / ur
            print(f"{name:26} uroce {ur:8.3f} rxe {rxe:8.3f} {unit:7} ratio {better:5.2f}   of {figures['uroce']} and {figures['rxe']}",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
