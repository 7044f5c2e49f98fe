# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The world of the kernel module's tests, inside the guest: the module, two network namespaces joined by a veth pair, a link and a
uroced in each. No stand-in: programs run as they are."""
import ipaddress
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))

from world import Failure, Result, ended_well, expect  # noqa: E402

BUILD = os.environ["UROCE_BUILD"]
MODULE = os.environ["UROCE_MODULE"]
UROCED = os.path.join(BUILD, "tools/uroced/uroced")
UROCE = os.path.join(BUILD, "tools/uroce/uroce")
PATIENCE = 40


def sh(*words, check=True, timeout=PATIENCE):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          check=False)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def code(*words):
    """Exit code of a command that may fail, and what it says."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                          check=False)
    return done.returncode, done.stdout


def wait_until(condition, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"after {patience} s it is not so that {what}")
        time.sleep(0.05)


class Process:
    """A program in the background; its output is in `path`."""
    count = 0

    def __init__(self, words):
        Process.count += 1
        self.words = [str(word) for word in words]
        self.path = f"/run/output-{Process.count}"
        with open(self.path, "w", encoding="utf-8") as file:
            self.popen = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def running(self):
        return self.popen.poll() is None

    def wait(self, patience=PATIENCE):
        try:
            return self.popen.wait(patience)
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(self.words)} does not end:\n{self.output()}") from None

    def ok(self):
        result = self.wait()
        expect(result == 0, f"{' '.join(self.words)}: exit {result}\n{self.output()}")
        return self.output()

    def kill(self):
        if self.running():
            self.popen.kill()
        self.popen.wait()

    def says(self, text):
        try:
            wait_until(lambda: text in self.output() or not self.running(), f"{self.words} says '{text}'")
        except Failure as problem:
            raise Failure(f"{problem}:\n{self.output()}") from None
        expect(text in self.output(), f"{' '.join(self.words)} has ended without '{text}':\n{self.output()}")


class Host:
    """A network namespace with a netdev and, most of the time, a link and a daemon."""

    def __init__(self, world, name, netdev, device, number):
        self.world, self.name, self.netdev, self.device, self.number = world, name, netdev, device, number
        self.daemon = None

    def inside(self, *words):
        return ["ip", "netns", "exec", self.name, *words]

    def sh(self, *words, **options):
        return sh(*self.inside(*words), **options)

    def code(self, *words):
        return code(*self.inside(*words))

    def start(self, *words):
        process = Process(self.inside("stdbuf", "-oL", *words))
        self.world.processes.append(process)
        return process

    def start_outside(self, *words):
        """In the machine's own namespace."""
        process = Process(words)
        self.world.processes.append(process)
        return process

    def address(self, family="ipv4"):
        return {"ipv4": "10.78.0.", "ipv6": "fd78::"}[family] + self.number

    def start_daemon(self):
        self.daemon = self.start(UROCED, "--foreground")
        wait_until(lambda: "links are served" in self.daemon.output() or not self.daemon.running(), f"uroced of {self.name} serves")
        expect(self.daemon.running(), f"uroced has ended:\n{self.daemon.output()}")

    def stop_daemon(self):
        self.daemon.popen.send_signal(signal.SIGTERM)
        self.daemon.wait()

    def daemon_processes(self):
        """Keeper and worker."""
        keeper = self.daemon.popen.pid
        return [keeper, *(int(pid) for pid in sh("pgrep", "-P", keeper, check=False).split())]

    def add_link(self):
        self.sh("rdma", "link", "add", self.device, "type", "uroce", "netdev", self.netdev)
        wait_until(lambda: self.state() == "ACTIVE", f"the port of {self.device} is up")

    def state(self):
        found = re.search(rf"link {self.device}/1 state (\w+)", self.sh("rdma", "link", "show"))
        return found[1] if found else "none"

    def gid(self, family="ipv4", address=None):
        wanted = address or self.address(family)
        digits = f"::ffff:{wanted}" if "." in wanted else wanted
        wanted = ipaddress.IPv6Address(digits)
        for index in range(128):
            text = self.sh("cat", f"/sys/class/infiniband/{self.device}/ports/1/gids/{index}").strip()
            if ipaddress.IPv6Address(text) == wanted:
                return index
        raise Failure(f"{self.device} has no GID {wanted}")

    def watch(self):
        """Prints asynchronous events."""
        process = self.start("ibv_asyncwatch", "-d", self.device)
        process.says("async event FD")
        return process


class World:
    def __init__(self):
        self.processes, self.hosts = [], []

    def __enter__(self):
        for module in ("ib_uverbs", "ib_umad", "rdma_ucm", "8021q"):
            sh("modprobe", module)
        with open("/etc/libibverbs.d/uroce.driver", "w", encoding="ascii") as file:
            file.write(f"driver {BUILD}/provider/verbs/liburoce\n")
        sh("insmod", MODULE)
        self.join()
        return self

    def join(self):
        self.a = Host(self, "a", "va", "ur0", "1")
        self.b = Host(self, "b", "vb", "ur1", "2")
        self.hosts = [self.a, self.b]
        for host in self.hosts:
            sh("ip", "netns", "add", host.name)
            host.sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "va", "netns", "a", "type", "veth", "peer", "name", "vb", "netns", "b")
        for host in self.hosts:
            host.sh("ip", "address", "add", f"{host.address()}/24", "dev", host.netdev)
            host.sh("ip", "address", "add", f"{host.address('ipv6')}/64", "dev", host.netdev, "nodad")
            host.sh("ip", "link", "set", host.netdev, "up")
        for host in self.hosts:
            host.start_daemon()
            host.add_link()

    def settle(self):
        """After a case: both links up and served, no program left; whatever the case has done."""
        daemons = [host.daemon for host in self.hosts]
        for process in self.processes:
            if process not in daemons:
                process.kill()
        self.processes = [process for process in self.processes if process in daemons and process.running()]
        if not os.path.exists("/sys/module/uroce"):
            sh("insmod", MODULE)
        for host in self.hosts:
            host.sh("ip", "link", "set", host.netdev, "up")
            if not host.daemon.running():
                host.start_daemon()
            if host.state() == "none":
                host.add_link()
            wait_until(lambda host=host: host.state() == "ACTIVE", f"the port of {host.device} is up again")
        nothing = "pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 srq 0"
        wait_until(lambda: sh("rdma", "resource", "show").count(nothing) == 2, "nothing is left of the programs")

    def leave_namespaces(self):
        for process in self.processes:
            process.kill()
        self.processes.clear()
        for host in self.hosts:
            sh("ip", "netns", "del", host.name)
        self.hosts = []
        wait_until(lambda: "ur" not in sh("rdma", "link", "show"), "the links have gone with their netdevs")

    def __exit__(self, *_):
        self.leave_namespaces()
        sh("rmmod", "uroce")

    def serve(self, host, *words):
        """A server that waits for connections by address."""
        listeners = lambda: host.sh("rdma", "resource", "show", "cm_id").count("LISTEN")
        before = listeners()
        process = host.start(*words)
        wait_until(lambda: listeners() > before or not process.running(), f"{words[0]} listens")
        return process

    def by_address(self, server, client):
        other = self.serve(self.a, *server)
        process = self.b.start(*client)
        ended = Result(client, process.wait(), process.output())
        answer = ended.out if ended_well(ended) else process.ok()
        other.wait()
        return answer

    def pingpong(self, program, *words, family="ipv4"):
        """The server is there when its QP is."""
        server = self.a.start(program, "-d", self.a.device, "-g", self.a.gid(family), *words)
        server.says("local address")
        listening = lambda: ":18515" in self.a.sh("ss", "-ltnH")
        wait_until(lambda: listening() or not server.running(), f"{program} listens")
        answer = self.b.start(program, "-d", self.b.device, "-g", self.b.gid(family), *words, self.a.address()).ok()
        server.ok()
        return answer
