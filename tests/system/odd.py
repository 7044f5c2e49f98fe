# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs that do odd things with descriptors, threads, memory and events."""
import os
import time

from world import BUILD, UROCE, World, expect, preloaded, wait_until

PROGRAMS = os.path.join(BUILD, "tests/system/programs")


def alone(program, *arguments, environment=None):
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        w.a.run(os.path.join(PROGRAMS, program), *arguments, timeout=120, environment=environment).ok().has("^done$")


def close_range(): alone("odd_descriptors", "close_range")
def fclose(): alone("odd_descriptors", "fclose")
def dup2(): alone("odd_descriptors", "dup2")
def vfork(): alone("odd_descriptors", "vfork")
def posix_spawn(): alone("odd_descriptors", "spawn")
def cancelled_pollers(): alone("odd_threads", "cancel")
def blocked_signals(): alone("odd_threads", "blocked_signals")
def own_fault_handler(): alone("odd_threads", "own_handler")
def many_threads(): alone("odd_threads", "many")
def thousand_completion_events(): alone("odd_many_events", "completions")
def thousand_async_events(): alone("odd_many_events", "async")


def under_address_sanitizer():
    alone("odd_asan", "many", environment={"ASAN_OPTIONS": "detect_leaks=1"})


def udp_sockets_are_taken_over():
    """The device's own sockets are not of the program's kind: nobody else may make them."""
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        library = os.path.join(PROGRAMS, "preload_greedy_sockets.so")
        w.a.run(*preloaded(library, os.path.join(PROGRAMS, "odd_threads"), "many")).ok().has("^done$")


def python_subprocess():
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        w.a.run("/usr/bin/python3", "-c", """
import os, subprocess, tempfile
import pyverbs.device as d, pyverbs.pd as p
context = d.Context(name='ur0')
for i in range(20):
    subprocess.run(['true'], check=True, close_fds=True)
    with tempfile.NamedTemporaryFile() as f:
        f.write(b'x' * 1000); f.flush()
        assert os.stat(f.name).st_size == 1000
    pd = p.PD(context)
    pd.close()
pid = os.fork()
if pid == 0:
    try:
        p.PD(context)
    except Exception as e:
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, 'a forked child was served'
p.PD(context).close()
print('done')
""").ok().has("^done$")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_means_idle():
    """An open device that nobody uses, and the daemon, take no processor time."""
    with World() as w:
        w.a.start("ibv_asyncwatch", "-d", "ur0")
        wait_until(lambda: w.a.named("ibv_asyncwatch"), "the program runs")
        wait_until(lambda: w.a.run("rdma", "resource", "show", "ctx").out.count("asyncwatch"), "the device is open")
        time.sleep(1)  # a queue that was looked at before it was left alone
        pids = w.a.named("ibv_asyncwatch") + w.a.daemons()
        before = {pid: cpu_seconds(pid) for pid in pids}
        time.sleep(5)
        for pid in pids:
            used = cpu_seconds(pid) - before[pid]
            expect(used <= 0.1, f"process {pid} took {used:.2f} s of 5 s while idle")


def validated(family):
    with World() as w:
        server, client = {"ipv4": ("10.77.0.1", "10.77.0.2"), "ipv6": ("fd77::1", "fd77::2")}[family]
        program = os.path.join(PROGRAMS, "odd_validate")
        w.pair(w.a, [program, w.a.gid_index(server)], w.b, [program, w.b.gid_index(client), server], timeout=120)


def every_byte_ipv4(): validated("ipv4")
def every_byte_ipv6(): validated("ipv6")


def every_byte_under_loss():
    with World() as w:
        program = os.path.join(PROGRAMS, "odd_validate")
        w.pair(w.a, [program, w.a.gid_index("10.77.0.1")], w.b, [program, w.b.gid_index("10.77.0.2"), "10.77.0.1"], timeout=200,
               environment={"UROCE_FAULT": "drop=0.01,duplicate=0.01,reorder=0.02,seed=11"})
        for host in (w.a, w.b):
            counters = host.status()["devices"][0]["counters"]
            expect(counters["retransmitted_pkts"] > 0 and counters["duplicate_request"] > 0, f"nothing was lost or doubled: {counters}")


def few_descriptors():
    """A clear error, and nothing lost, where `ulimit -n` is too small for a device."""
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        told = ""
        for limit in [*range(4, 16), 40]:
            answer = w.a.run("sh", "-c", f"ulimit -n {limit}; exec ibv_devinfo -d ur0")
            expect(answer.code in (0, 1, 255, 127), f"ulimit -n {limit}: exit {answer.code}\n{answer.out}")
            expect(answer.code == 0 or answer.out.strip(), f"ulimit -n {limit}: exit {answer.code} without a word")
            told += answer.out
        expect("more descriptors than `ulimit -n` leaves" in told, f"nobody named the limit:\n{told}")
        expect(answer.code == 0, f"ulimit -n {limit} is not enough\n{answer.out}")
        w.a.run("ibv_devinfo", "-d", "ur0").ok().has("PORT_ACTIVE")
        expect(not w.a.status()["contexts"], "contexts are left")


def small_socket_buffers():
    """The usual net.core.rmem_max of 212992, where SO_RCVBUFFORCE is not allowed either."""
    with World(names=("a",)) as w:
        run = lambda *command, **options: w.a.run(*command, user=65534, environment={"UROCE_RECEIVE_BUFFER": "212992"}, **options)
        run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo").ok()
        program = os.path.join(PROGRAMS, "odd_threads")
        run(program, "many", timeout=120).ok().has("^done$")
        run(UROCE, "status", uroce=False).ok().has("receive buffers are 208 KiB")
        run(UROCE, "stop", uroce=False).ok()
