# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The world of the interoperation tests, inside the guest: the kernel's rxe in the initial network namespace, uroce's device in another,
a veth pair between them. uroce's is the stand-in's or, with UROCE_MODULE in the environment, the kernel module's.

rxe stays in the initial namespace because its sockets and route look-ups are there, whatever namespace its link was added in.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))

from world import BUILD, Host, Failure, World, expect, join, sh, wait_until  # noqa: E402

MODULE = os.environ.get("UROCE_MODULE")
UROCED = os.path.join(BUILD, "tools/uroced/uroced")
CONFORMANCE = os.path.join(BUILD, "tests/verbs/conformance/verbs_conformance")
VALIDATE = os.path.join(BUILD, "tests/system/programs/odd_validate")
RXE_COUNTERS = "/sys/class/infiniband/rxe0/ports/1/hw_counters"


class Side:
    """What both hosts offer: a device, addresses that are equal but for their end, and a place to look for listeners."""

    def gid(self, family):
        if family not in self.gids:
            self.gids[family] = self.gid_index(self.address(family), self.device)
        return self.gids[family]

    def address(self, family):
        return {"ipv4": "10.77.0.", "ipv6": "fd77::"}[family] + self.number


class KernelHost(Side, Host):
    """The initial namespace. Its programs run as they are, without the stand-in."""

    device, number = "rxe0", "1"

    def __init__(self, world):  # of a namespace that is there already
        self.world, self.name, self.gids = world, "1", {}

    def sh(self, *command, **options):
        return sh(*command, **options)

    def _inside(self, command, uroce, user, environment):
        return [str(word) for word in (["env", *(f"{k}={v}" for k, v in environment.items())] if environment else []) + list(command)]

    def cm_listeners(self):
        return self.sh("rdma", "resource", "show", "cm_id").count("LISTEN")

    def counters(self):
        found = {}
        for name in os.listdir(RXE_COUNTERS):
            with open(os.path.join(RXE_COUNTERS, name), encoding="ascii") as file:
                found[name] = int(file.read())
        return found

    def datagrams(self):
        """What the kernel gave to UDP sockets, which here are rxe's alone."""
        with open("/proc/net/snmp", encoding="ascii") as file:
            names, values = [line.split()[1:] for line in file if line.startswith("Udp:")]
        with open("/proc/net/snmp6", encoding="ascii") as file:
            six = re.search(r"Udp6InDatagrams\s+(\d+)", file.read())
        return int(dict(zip(names, values))["InDatagrams"]) + int(six[1])


class UroceHost(Side, Host):
    device, number = "ur0", "2"

    def __init__(self, world, name):
        super().__init__(world, name)
        self.gids = {}

    def cm_listeners(self):
        return self.status()["connection_manager"]["listeners"]

    def counters(self):
        return self.status()["devices"][0]["counters"]


class ModuleHost(UroceHost):
    """A link of the kernel module, with a uroced in its namespace. Programs run as they are."""

    daemon = None

    def _inside(self, command, uroce, user, environment):
        return super()._inside(command, False, user, environment)

    def add_device(self, netdev, name="ur0"):
        # Not among the world's processes, which end with each case; `uroce stop` ends it.
        self.daemon = subprocess.Popen(["ip", "netns", "exec", self.name, UROCED, "--foreground"], stdin=subprocess.DEVNULL)
        self.sh("rdma", "link", "add", name, "type", "uroce", "netdev", netdev)
        wait_until(lambda: f"link {name}/1 state ACTIVE" in self.sh("rdma", "link", "show") or self.daemon.poll() is not None,
                   f"the port of {name} is up")
        expect(self.daemon.poll() is None, "uroced has ended")

    def cm_listeners(self):
        return self.sh("rdma", "resource", "show", "cm_id").count("LISTEN")

    def counters(self):
        """Neither the module nor `uroce status` shows what the data path counted."""
        return {}


class IcrcWatch:
    """Packets that rxe dropped for their ICRC. It counts them nowhere, so its own function is asked what it answers."""
    TRACING = "/sys/kernel/tracing"

    def __init__(self):
        if not os.path.exists(f"{self.TRACING}/kprobe_events"):
            sh("mount", "-t", "tracefs", "tracefs", self.TRACING)
        self._write("kprobe_events", "r:uroce/icrc rxe_icrc_check answer=$retval:s32")
        self._write("events/uroce/icrc/filter", "answer != 0")
        self._write("events/uroce/icrc/enable", "1")

    def _write(self, name, text):
        with open(f"{self.TRACING}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def count(self):
        with open(f"{self.TRACING}/trace", encoding="ascii") as file:
            return sum("icrc:" in line for line in file if not line.startswith("#"))

    def end(self):  # rxe's module is held meanwhile
        self._write("events/uroce/icrc/enable", "0")
        self._write("kprobe_events", "")


class Interop(World):
    """`with Interop() as w:` w.rxe and w.ur are the two hosts."""

    def __init__(self):
        super().__init__(names=(), devices=False)

    def build(self):
        for module in ("rdma_rxe", "rdma_ucm", "ib_uverbs"):
            sh("modprobe", module)
        self.icrc_watch = IcrcWatch()
        if MODULE:
            with open("/etc/libibverbs.d/uroce.driver", "w", encoding="ascii") as file:
                file.write(f"driver {BUILD}/provider/verbs/liburoce\n")
            sh("insmod", MODULE)
            sh("rdma", "system", "set", "netns", "exclusive")  # each side sees its own device and connections alone
        self.rxe = KernelHost(self)
        self.ur = self.hosts["ur"] = (ModuleHost if MODULE else UroceHost)(self, f"uroce{os.getpid()}ur1")
        join(self.rxe, "va", "10.77.0.1/24", "fd77::1/64", self.ur, "vb", "10.77.0.2/24", "fd77::2/64", 4200)
        sh("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "va")
        self.ur.add_device("vb")
        self.serve_everywhere = [(self.rxe, self.ur), (self.ur, self.rxe)]

    def clean_up(self):
        self.icrc_watch.end()
        subprocess.run(["rdma", "link", "del", "rxe0"], stderr=subprocess.DEVNULL, check=False)
        left = super().clean_up()
        if MODULE:
            sh("rmmod", "uroce")
        return left

    def loss(self, *words):
        """netem on both ends of the wire; `with w.loss("loss", "1%"):`."""
        return Impairment(self, words)

    def serve(self, host, *command, **options):
        """Starts a server that waits for connections by address."""
        before = host.cm_listeners()
        process = host.start(*command, **options)
        wait_until(lambda: host.cm_listeners() > before or not process.running(), f"{command[0]} listens on {host.device}")
        if not process.running():
            raise Failure(f"{command[0]} ended before the client came:\n{process.wait().out}")
        return process

    @staticmethod
    def wait_connected(host):
        wait_until(lambda: "CONNECT" in host.run("rdma", "resource", "show", "cm_id").out, f"{host.device} is connected")

    def by_address(self, server_host, server, client_host, client, timeout=90):
        """Both must succeed. Returns what the client says."""
        other = self.serve(server_host, *server)
        answer = client_host.run(*client, timeout=timeout)
        if answer.code != 0:
            other.kill()
            raise Failure(f"client {' '.join(map(str, client))} on {client_host.device}: exit {answer.code}\n{answer.out}\n"
                          f"server:\n{other.wait().out}")
        other.wait(timeout).ok()
        return answer


class Impairment:
    def __init__(self, world, words):
        self.world, self.words = world, words

    def __enter__(self):
        for host, dev in ((self.world.rxe, "va"), (self.world.ur, "vb")):
            host.sh("tc", "qdisc", "replace", "dev", dev, "root", "netem", "limit", "20000", *self.words)
        return self

    def dropped(self):
        return [int(re.search(r"dropped (\d+)", host.sh("tc", "-s", "qdisc", "show", "dev", dev))[1])
                for host, dev in ((self.world.rxe, "va"), (self.world.ur, "vb"))]

    def __exit__(self, *_):
        for host, dev in ((self.world.rxe, "va"), (self.world.ur, "vb")):
            host.sh("tc", "qdisc", "del", "dev", dev, "root")


class Accounts:
    """What both sides counted since `before`. rxe counts a packet as received after its checks, so what UDP was given and rxe did not count
    has been refused by it: a wrong packet, or one whose queue pair is gone. What uroce sent a second time may come that late: on a slow
    machine its timer runs out before rxe's answer is there, and the program of rxe ends meanwhile. No more than was repeated is forgiven, and a
    bad ICRC never. Where uroce's counters are not shown (over the kernel module), what else rxe refused is told and not judged."""

    def __init__(self, world):
        self.world = world
        self.before = self._read()

    def _read(self):
        return self.world.rxe.counters(), self.world.rxe.datagrams(), self.world.ur.counters(), self.world.icrc_watch.count()

    def settle(self):
        rxe0, datagrams0, ur0, icrc0 = self.before
        rxe, datagrams, ur, icrc = self._read()
        self.bad_icrc_of_rxe = icrc - icrc0
        self.rxe = {name: rxe[name] - rxe0[name] for name in rxe}
        self.ur = {name: ur[name] - ur0[name] for name in ur}
        self.refused_by_rxe = datagrams - datagrams0 - self.rxe["rcvd_pkts"]
        self.may_come_late = None
        if self.ur:  # requests, and answers to repeated requests
            self.may_come_late = self.ur["retransmitted_pkts"] + self.ur["duplicate_request"]
        return self
