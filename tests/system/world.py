# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Network namespaces with uroce devices in them, and stock programs run inside.

Every World cleans up after itself, also when a case fails, and then looks for what was left behind: a daemon, a namespace, a netdev
or a process that outlives its World is a failure of the case.
"""
import json
import os
import re
import signal
import subprocess
import time

BUILD = os.environ["UROCE_BUILD"]
UROCE = os.path.join(BUILD, "tools/uroce/uroce")
STAND_IN = os.path.join(BUILD, "kmod-shim/preload/liburoce-preload.so")


class Skip(Exception):
    """The reason why a case cannot be run here."""


class Failure(Exception):
    """What a case says when the product is wrong."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Result:
    def __init__(self, command, code, out):
        self.command, self.code, self.out = command, code, out

    def ok(self):
        expect(self.code == 0, f"{' '.join(self.command)}: exit {self.code}\n{self.out}")
        return self

    def has(self, *patterns):
        for pattern in patterns:
            expect(re.search(pattern, self.out, re.M), f"{' '.join(self.command)}: no /{pattern}/ in\n{self.out}")
        return self

    def lacks(self, pattern):
        expect(not re.search(pattern, self.out, re.M), f"{' '.join(self.command)}: /{pattern}/ in\n{self.out}")
        return self

    def json(self):
        return json.loads(self.out)


def ended_well(answer):
    """rping's event thread may find the channel closed by its main thread: after the last event, with the kernel's module too."""
    own_race = "rping" in answer.command and "DISCONNECT EVENT" in answer.out and "rdma_get_cm_event: Bad file" in answer.out
    return answer.code == 0 or (answer.code == 255 and own_race)


def sh(*command, check=True, timeout=60, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Process:
    """A program in the background. Its output is collected; it is killed at the end of its World if it still runs."""

    def __init__(self, command, popen):
        self.command, self.popen = command, popen
        self.out = None

    @property
    def pid(self):
        return self.popen.pid

    def wait(self, timeout=60):
        try:
            self.out, _ = self.popen.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.out, _ = self.popen.communicate()
            raise Failure(f"{' '.join(self.command)}: not done after {timeout} s\n{self.out}")
        return Result(self.command, self.popen.returncode, self.out)

    def kill(self, number=signal.SIGKILL):
        self.popen.send_signal(number)

    def running(self):
        return self.popen.poll() is None


class Host:
    """One network namespace."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        sh("ip", "netns", "add", name)
        self.sh("ip", "link", "set", "lo", "up")

    def sh(self, *command, **options):
        return sh("ip", "netns", "exec", self.name, *command, **options)

    def _inside(self, command, uroce, user, environment):
        line = ["ip", "netns", "exec", self.name]
        if user:
            line += ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        if environment:
            line += ["env"] + [f"{k}={v}" for k, v in environment.items()]
        if uroce:
            line += [UROCE, "run", "--"]
        return line + [str(word) for word in command]

    def run(self, *command, timeout=60, uroce=True, user=None, environment=None, stdin=None):
        """Runs to the end with the device's world in place."""
        return self.start(*command, uroce=uroce, user=user, environment=environment, stdin=stdin).wait(timeout)

    def start(self, *command, uroce=True, user=None, environment=None, stdin=subprocess.DEVNULL):
        line = self._inside(command, uroce, user, environment)
        text = stdin if isinstance(stdin, str) else None
        popen = subprocess.Popen(line, stdin=subprocess.PIPE if text else subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace")
        if text:
            popen.stdin.write(text)
            popen.stdin.close()
            popen.stdin = None
        process = Process([str(word) for word in command], popen)
        self.world.processes.append(process)
        return process

    def add_device(self, netdev, name="ur0"):
        self.run("rdma", "link", "add", name, "type", "uroce", "netdev", netdev).ok()
        wanted = os.environ.get("UROCE_RECEIVE_BUFFER")
        if wanted:  # the kernel doubles it
            sockets = self.sh("ss", "-Hulnm", "sport", "=", "4791")
            expect(f"rb{2 * int(wanted)}," in sockets, f"the receive buffers are not of {wanted} bytes:\n{sockets}")

    def gid_index(self, address, device="ur0"):
        """Index of the GID of an IPv4 or IPv6 address, as a user finds it: in sysfs."""
        out = self.run("sh", "-c", f"grep -H . /sys/class/infiniband/{device}/ports/1/gids/*").out
        want = gid_text(address)
        for line in out.splitlines():
            path, _, gid = line.partition(":")
            if gid == want:
                return int(path.rsplit("/", 1)[1])
        raise Failure(f"{self.name}: no GID for {address} in\n{out}")

    def reaches(self, address):
        """An answer comes from there: neighbours and routers are ready."""
        out = self.sh("timeout", "1", "bash", "-c", f"exec 3<>/dev/tcp/{address}/9", check=False)
        return "refused" in out

    def listens(self, port):
        return f":{port} " in self.sh("ss", "-Hltn")

    def status(self):
        return self.run(UROCE, "status", "--json", uroce=False).ok().json()

    def named(self, name):
        """Process ids of the programs of this namespace whose name begins so."""
        found = []
        for pid in self.sh("ip", "netns", "pids", self.name).split():
            try:
                with open(f"/proc/{pid}/comm") as comm:
                    if comm.read().startswith(name):
                        found.append(int(pid))
            except (FileNotFoundError, ProcessLookupError):
                pass  # gone meanwhile
        return found

    def daemons(self):
        return self.named("uroced")


def preloaded(library, *command):
    """The command with `library` loaded behind the stand-in."""
    return ("sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$0" exec "$@"', library, *command)


def gid_text(address):
    import ipaddress
    ip = ipaddress.ip_address(address)
    raw = ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed
    return ":".join(raw[i:i + 2].hex() for i in range(0, 16, 2))


def wait_until(condition, text, timeout=20):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise Failure(f"not within {timeout} s: {text}")


class World:
    """Use as a context manager: `with World() as world:` gives two joined hosts with a device each."""

    serial = 0

    def __init__(self, names=("a", "b"), mtu=1500, devices=True):
        self.names, self.mtu, self.devices = names, mtu, devices
        self.hosts, self.processes, self.began = {}, [], time.time()

    def host(self, name):
        World.serial += 1
        host = Host(self, f"uroce{os.getpid()}{name}{World.serial}")
        self.hosts[name] = host
        return host

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.clean_up()
            raise
        return self

    def build(self):
        for name in self.names:
            setattr(self, name, self.host(name))
        if tuple(self.names) == ("a", "b"):
            join(self.a, "va", "10.77.0.1/24", "fd77::1/64", self.b, "vb", "10.77.0.2/24", "fd77::2/64", self.mtu)
            if self.devices:
                self.a.add_device("va")
                self.b.add_device("vb")

    def __exit__(self, kind, value, traceback):
        left = self.clean_up()
        if kind is None and left:
            raise Failure("left behind: " + "; ".join(left))

    def clean_up(self):
        left = []
        for process in self.processes:
            if process.running():
                process.kill()
                process.popen.wait()
        for host in self.hosts.values():
            try:
                subprocess.run(["ip", "netns", "exec", host.name, UROCE, "stop"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=20)
                left += self._leftovers(host)
            finally:
                subprocess.run(["ip", "netns", "del", host.name], stderr=subprocess.DEVNULL)
        self._remove_files_of_programs()
        return left

    def _remove_files_of_programs(self):
        """ibv_xsrq_pingpong and perftest name their XRC domains by files that they leave. What was there before stays."""
        for name in ("xrc_domain", "xrc_domain_client", "xrc_domain_server"):
            path = os.path.join("/tmp", name)
            try:
                if os.stat(path).st_ctime >= self.began:
                    os.unlink(path)
            except FileNotFoundError:
                pass

    @staticmethod
    def _leftovers(host):
        left = []
        end = time.monotonic() + 5
        while time.monotonic() < end:
            pids = sh("ip", "netns", "pids", host.name).split()
            if not pids:
                return left
            time.sleep(0.1)
        for pid in pids:
            try:
                with open(f"/proc/{pid}/cmdline") as line:
                    left.append(f"process {pid} ({line.read().replace(chr(0), ' ').strip()})")
                os.kill(int(pid), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return left

    def pair(self, server_host, server, client_host, client, port=18515, timeout=90, environment=None, check=True):
        """Starts `server`, waits until it listens on `port`, runs `client`; both must succeed. Returns (client, server)."""
        background = server_host.start(*server, environment=environment)
        wait_until(lambda: server_host.listens(port) or not background.running(), f"{server[0]} listens on {port}")
        if not background.running():
            background.wait().ok()
            raise Failure(f"{server[0]} ended before the client came:\n{background.out}")
        try:
            answer = client_host.run(*client, timeout=timeout, environment=environment)
        except Failure:
            background.kill()
            background.wait()
            raise
        if check and answer.code != 0:
            background.kill()
            raise Failure(f"client {' '.join(map(str, client))}: exit {answer.code}\n{answer.out}\nserver:\n{background.wait().out}")
        other = background.wait(timeout)
        if check:
            other.ok()
        return answer, other


def sweep_dead_worlds():
    """Takes away what a killed run.py could not: its namespaces, and what runs in them."""
    folder = "/run/netns"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        owner = re.fullmatch(r"uroce(\d+)[a-z]+\d+", name)
        if not owner or _runs_cases(owner[1]):
            continue
        for pid in subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE, text=True).stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def _runs_cases(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as line:
            words = line.read()
            return any(name in words for name in ("run.py", "in_world.py", "bench.py"))
    except (FileNotFoundError, ProcessLookupError):
        return False


def join(a, a_dev, a4, a6, b, b_dev, b4, b6, mtu=1500):
    """A veth pair between two hosts, with addresses that answer. A new netdev may miss the first neighbour solicitation, and the
    next one, usually a second later, would come after the retries of a queue pair are over."""
    sh("ip", "link", "add", a_dev, "mtu", str(mtu), "netns", a.name, "type", "veth", "peer", "name", b_dev, "mtu", str(mtu),
       "netns", b.name)
    for host, dev, v4, v6 in ((a, a_dev, a4, a6), (b, b_dev, b4, b6)):
        host.sh("sysctl", "-qw", f"net.ipv6.conf.{dev}.accept_dad=0", f"net.ipv6.neigh.{dev}.retrans_time_ms=50")
        host.sh("ip", "address", "add", v4, "dev", dev)
        host.sh("ip", "-6", "address", "add", v6, "dev", dev, "nodad")
        host.sh("ip", "link", "set", dev, "up")
    wait_until(lambda: "tentative" not in a.sh("ip", "-6", "address", "show") + b.sh("ip", "-6", "address", "show"),
               "IPv6 addresses valid")
    for host, far in ((a, b6), (b, a6)):
        wait_until(lambda: host.reaches(far.split("/")[0]), f"{far} answers")
