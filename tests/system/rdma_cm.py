# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Connections by address: stock programs over librdmacm, between two hosts and on one."""
import json
import os
import signal
import time

from world import World, expect, wait_until

V4, V6 = ("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")


def listeners(host):
    return host.status().get("connection_manager", {}).get("listeners", 0)


def serve(host, *command, ready=None, **options):
    """Starts a server and waits until it listens, or until `ready` says so."""
    before = listeners(host)
    process = host.start(*command, **options)
    ready = ready or (lambda: listeners(host) > before)
    wait_until(lambda: not process.running() or ready(), f"{command[0]} listens")
    if not process.running():
        expect(False, f"{command[0]} ended early: {process.wait().out}")
    return process


def both(w, server_host, server, client_host, client, timeout=60):
    other = serve(server_host, *server)
    answer = client_host.run(*client, timeout=timeout)
    if answer.code != 0:
        other.kill()
        expect(False, f"{' '.join(map(str, client))}: exit {answer.code}\n{answer.out}\nserver:\n{other.wait().out}")
    return answer, other.wait(timeout).ok()


def rping(w, server_host, client_host, address):
    both(w, server_host, ("rping", "-s", "-a", address, "-C", "20", "-V"), client_host,
         ("rping", "-c", "-a", address, "-C", "20", "-V"))


def rping_ipv4():
    with World() as w:
        rping(w, w.a, w.b, V4[0])


def rping_ipv6():
    with World() as w:
        rping(w, w.a, w.b, V6[0])


def rping_one_host():
    with World() as w:
        rping(w, w.a, w.a, V4[0])
        rping(w, w.a, w.a, V6[0])


def rping_wildcard():
    with World() as w:
        for address in (V4[0], V6[0]):
            both(w, w.a, ("rping", "-s", "-a", "::" if ":" in address else "0.0.0.0", "-C", "5"), w.b,
                 ("rping", "-c", "-a", address, "-C", "5"))


def rping_persistent():
    with World() as w:
        server = serve(w.a, "rping", "-s", "-P", "-a", V4[0])
        for turn in range(100):
            w.b.run("rping", "-c", "-a", V4[0], "-C", "2", timeout=30).ok()
        expect(server.running(), "the server is gone")
        server.kill(signal.SIGTERM)
        server.wait()


def ucmatose():
    with World() as w:
        for address in (V4[0], V6[0]):
            both(w, w.a, ("ucmatose", "-c", "50", "-b", address), w.b, ("ucmatose", "-c", "50", "-s", address))


def ucmatose_options():
    with World() as w:
        both(w, w.a, ("ucmatose", "-c", "5", "-m"), w.b, ("ucmatose", "-c", "5", "-t", "16", "-m", "-s", V4[0]))


def udaddy():
    with World() as w:
        for address in (V4[0], V6[0]):  # without -b it listens to IPv4 alone
            both(w, w.a, ("udaddy", "-c", "5", "-b", address), w.b, ("udaddy", "-c", "5", "-s", address))


def mckey():
    with World() as w:
        for group, own, far in (("239.1.2.3", V4[0], V4[1]), ("ff0e::4", V6[0], V6[1])):
            receiver = serve(w.a, "mckey", "-m", group, "-b", own, "-C", "10",
                             ready=lambda: group in w.a.sh("ip", "maddress"))
            w.b.run("mckey", "-m", group, "-b", far, "-s", "-C", "10").ok()
            receiver.wait(20).ok()


def rdma_server_client():
    with World() as w:
        both(w, w.a, ("rdma_server",), w.b, ("rdma_client", "-s", V4[0]))


def rdma_xserver_xclient():
    with World() as w:
        for kind in ("r", "x"):
            both(w, w.a, ("rdma_xserver", "-c", kind), w.b, ("rdma_xclient", "-s", V4[0], "-c", kind))


def rstream():
    with World() as w:
        for options in (("-S", "100000", "-I", "10", "-C", "20"), ("-T", "b", "-S", "64", "-I", "10", "-C", "100")):
            both(w, w.a, ("rstream", *options), w.b, ("rstream", "-s", V4[0], *options))


def riostream():
    with World() as w:
        both(w, w.a, ("riostream", "-S", "65536", "-I", "10", "-C", "20"), w.b, ("riostream", "-s", V4[0], "-S", "65536", "-I", "10", "-C", "20"))


def udpong():
    with World() as w:
        server = serve(w.a, "udpong")
        w.b.run("udpong", "-s", V4[0], timeout=60).ok()
        server.kill(signal.SIGTERM)
        server.wait()


def cmtime():
    with World() as w:
        server = serve(w.a, "cmtime", "-c", "1000")
        w.b.run("cmtime", "-c", "1000", "-s", V4[0], timeout=120).ok()
        server.kill(signal.SIGTERM)
        server.wait()


def rcopy():
    with World() as w:
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "from"), os.path.join(folder, "to")
            with open(source, "wb") as file:
                file.write(os.urandom(3_000_001))
            server = serve(w.a, "rcopy")
            w.b.run("rcopy", source, f"{V4[0]}:{target}").ok()
            server.kill()
            server.wait()
            with open(source, "rb") as one, open(target, "rb") as two:
                expect(one.read() == two.read(), "the copy is not the same")


def perftest(w, program, *options, address=V4[0]):
    line = (program, "-d", "ur0", "-R", "-F", "-n", "200", *options)
    both(w, w.a, line, w.b, (*line, address))


def perftest_reliable():
    with World() as w:
        for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat"):
            perftest(w, program)
        perftest(w, "ib_send_bw", "-e")


def perftest_datagram():
    with World() as w:
        perftest(w, "ib_send_bw", "-c", "UD", "-s", "512")
        perftest(w, "ib_send_lat", "-c", "UD", "-s", "64", "-e")


def iperf_over_rsockets():
    import glob
    preload = glob.glob("/usr/lib/*/rsocket/librspreload.so*")
    expect(preload, "librspreload is not installed")
    with World() as w:
        wrapped = ("env", f"LD_PRELOAD={preload[0]}")
        inside = lambda *command: ("sh", "-c", f"LD_PRELOAD=$LD_PRELOAD:{preload[0]} exec {' '.join(command)}")
        server = serve(w.a, *inside("iperf3", "-s", "-1"))
        w.b.run(*inside("iperf3", "-c", V4[0], "-t", "2"), timeout=60).ok().has("receiver")
        server.kill(signal.SIGTERM)
        server.wait()


def nobody_listens():
    with World() as w:
        start = time.monotonic()
        answer = w.b.run("rping", "-c", "-a", V4[0], "-p", "9999", timeout=30)
        expect(answer.code != 0, "connected to nobody")
        answer.has("REJECTED|error 8|reject")
        expect(time.monotonic() - start < 15, "a refusal takes as long as silence")


def killed_client_and_server():
    with World() as w:
        server = serve(w.a, "rping", "-s", "-P", "-a", V4[0], "-v")
        client = w.b.start("rping", "-c", "-a", V4[0], "-v", "-C", "100000")
        wait_until(lambda: "CONNECT" in w.b.run("rdma", "resource", "show", "cm_id").out, "connected")
        client.kill()
        client.wait()
        wait_until(lambda: "CONNECT" not in w.a.run("rdma", "resource", "show", "cm_id").out, "the server has heard of it")
        client = w.b.start("rping", "-c", "-a", V4[0], "-C", "100000")
        wait_until(lambda: "CONNECT" in w.b.run("rdma", "resource", "show", "cm_id").out, "connected again")
        server.kill()
        server.wait()
        client.wait(30)  # at all


def worker_dies_under_a_connection():
    """The server is told and ends; the data of its connection had gone on."""
    with World() as w:
        server = serve(w.a, "rping", "-s", "-P", "-a", V4[0])
        client = w.b.start("rping", "-c", "-a", V4[0], "-C", "100000")
        wait_until(lambda: "CONNECT" in w.b.run("rdma", "resource", "show", "cm_id").out, "connected")
        worker = w.a.status()["pid"]
        os.kill(worker, signal.SIGKILL)
        ended = server.wait(20)
        expect(ended.code != 0, "the server takes its device's removal for a good end")
        ended.has("device removal")
        expect(w.a.status()["pid"] != worker, "no new worker")
        client.kill()
        client.wait()


def resources():
    with World() as w:
        server = serve(w.a, "rping", "-s", "-P", "-a", V4[0], "-p", "7174")
        shown = json.loads(w.a.run("rdma", "-j", "resource", "show", "cm_id").ok().out)
        expect(any("7174" in json.dumps(entry) and "LISTEN" in json.dumps(entry) for entry in shown), f"no listener in {shown}")
        server.kill(signal.SIGTERM)
        server.wait()
