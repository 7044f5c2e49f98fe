# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes that die: peers notice, nothing leaks, others go on."""
import os
import signal
import time

from world import World, expect, sh, wait_until

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"


def bandwidth(w, program="ib_write_bw", duration=20, extra=()):
    server = w.a.start(program, "-d", "ur0", "-x", w.a.gid_index(SERVER), "-F", "-D", duration, *extra)
    wait_until(lambda: w.a.listens(18515), f"{program} listens")
    client = w.b.start(program, "-d", "ur0", "-x", w.b.gid_index(CLIENT), "-F", "-D", duration, *extra, SERVER)
    wait_until(lambda: sent_packets(w.b) > 1000, "traffic flows")
    return server, client


def sent_packets(host):
    links = host.run("rdma", "statistic", "show", "-j").ok().json()
    return sum(int(link.get("sent_pkts", 0)) for link in links)


def queue_pairs(host):
    return [qp for qp in host.run("rdma", "resource", "show", "qp", "-j").ok().json() if qp.get("type") != "GSI"]


def peer_is_told():
    """SIGKILL of one side in mid-transfer: the other gets RETRY_EXC, not before the configured time and not much later."""
    with World() as w:
        # timeout 14 is 67 ms, which the floor of 100 ms lifts; seven retries: at least 0.8 s, at most 2 s more.
        server, client = bandwidth(w)
        server.kill()
        start = time.monotonic()
        result = client.wait(timeout=30)
        took = time.monotonic() - start
        expect(result.code != 0, "the client did not notice")
        result.has(r"transport retry counter exceeded|status 12|Completion with error")
        # Progress ended with the last acknowledgement before the kill; a tenth of a second for ending the program itself.
        configured = 8 * 0.1
        expect(configured - 0.2 <= took <= configured + 2 + 0.1, f"the client noticed after {took:.2f} s")
        server.wait()
        wait_until(lambda: not queue_pairs(w.a), "the dead process's QPs are gone")


def slots_come_back():
    with World() as w:
        server = None
        for _ in range(12):
            server = w.a.start("ibv_rc_pingpong", "-d", "ur0", "-g", w.a.gid_index(SERVER))
            wait_until(lambda: queue_pairs(w.a), "a QP is there")
            server.kill()
            server.wait()
            wait_until(lambda: not queue_pairs(w.a), "it is gone")
        status = w.a.status()
        expect(not status.get("contexts"), f"contexts are left: {status}")


def forked_child_does_not_keep_the_slot():
    with World() as w:
        parent = w.a.start("/usr/bin/python3", "-c", """
import os, time
import pyverbs.device as d
c = d.Context(name='ur0')
if os.fork() == 0:
    os.closerange(0, 3)
    time.sleep(60)
    os._exit(0)
print('ready', flush=True)
time.sleep(60)
""")
        wait_until(lambda: w.a.status().get("contexts"), "the context is open")
        parent.kill()
        wait_until(lambda: not w.a.status().get("contexts"), "the slot came back while the child still runs", timeout=10)
        for pid in w.a.named("python"):
            os.kill(pid, signal.SIGKILL)
        parent.popen.communicate()


def worker_dies_in_traffic():
    """Data goes on, commands are answered again, contexts stay."""
    with World() as w:
        server, client = bandwidth(w, duration=8)
        for _ in range(3):
            status = w.a.status()
            os.kill(status["pid"], signal.SIGKILL)
            wait_until(lambda: w.a.status()["pid"] != status["pid"], "a new worker")
            w.a.run("ibv_devinfo", "-d", "ur0").ok().has("PORT_ACTIVE")
            before = sent_packets(w.a) + sent_packets(w.b)
            wait_until(lambda: sent_packets(w.a) + sent_packets(w.b) > before, "traffic goes on")
        expect(queue_pairs(w.a), "the QPs were forgotten")
        client.wait(timeout=60).ok()
        server.wait(timeout=60).ok()
        wait_until(lambda: not queue_pairs(w.a), "the QPs are gone with their process")


def keeper_dies():
    """Contexts get DEVICE_FATAL; a new daemon works once the old processes are gone."""
    with World() as w:
        watch = w.a.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "ur0")
        wait_until(lambda: "asyncwatch" in w.a.run("rdma", "resource", "show", "ctx").out, "ibv_asyncwatch is attached")
        os.kill(w.a.status()["keeper_pid"], signal.SIGKILL)
        wait_until(lambda: not w.a.daemons(), "the worker leaves too")
        time.sleep(0.5)
        watch.kill(signal.SIGTERM)
        watch.wait().has(r"(?i)device.?fatal|catastrophic|fatal")
        w.a.add_device("va")
        w.a.run("ibv_devinfo", "-d", "ur0").ok().has("PORT_ACTIVE")


def a_deleted_namespace_keeps_nothing():
    with World(devices=False) as w:
        w.a.add_device("va")
        daemons = w.a.daemons()
        expect(daemons, "no daemon")
        sh("ip", "netns", "del", w.a.name)
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in daemons), "the daemon leaves a namespace without a name")
        wait_until(lambda: "vb" not in w.b.sh("ip", "-o", "link"), "the veth is gone")
        sh("ip", "netns", "add", w.a.name)
