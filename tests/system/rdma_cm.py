# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Connections by address: stock programs over librdmacm, between two hosts and on one."""
import glob
import json
import os
import re
import signal
import time

from world import BUILD, Skip, World, ended_well, expect, preloaded, wait_until

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
    if not ended_well(answer):
        other.kill()
        expect(False, f"{' '.join(map(str, client))}: exit {answer.code}\n{answer.out}\nserver:\n{other.wait().out}")
    told = other.wait(timeout)
    return answer, told if ended_well(told) else told.ok()


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
            answer = w.b.run("rping", "-c", "-a", V4[0], "-C", "2", timeout=30)
            expect(ended_well(answer), f"turn {turn}: exit {answer.code}\n{answer.out}")
        expect(server.running(), "the server is gone")
        server.kill(signal.SIGTERM)
        server.wait()


def ucmatose():
    with World() as w:
        for address in (V4[0], V6[0]):
            both(w, w.a, ("ucmatose", "-c", "50", "-b", address), w.b, ("ucmatose", "-c", "50", "-s", address))


def ucmatose_options():
    """Identifiers that move to another channel, a type of service, an ACK timeout, messages larger than the path MTU, port space IB."""
    with World() as w:
        for options in (("-m",), ("-m", "-S", "5000", "-C", "20"), ("-P", "ib")):
            both(w, w.a, ("ucmatose", "-c", "5", *options), w.b, ("ucmatose", "-c", "5", "-t", "16", "-a", "14", *options, "-s", V4[0]))


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


def many_groups():
    """Forty groups of one queue pair; a socket takes twenty. All are joined, each brings its messages, all are left."""
    program = os.path.join(BUILD, "tests/system/programs/many_groups")
    with World() as w:
        for prefix, own, far in (("239.77.1.", V4[0], V4[1]), ("ff0e::77:", V6[0], V6[1])):
            wanted = {f"{prefix}{i}" for i in range(1, 41)}
            joined = lambda: wanted & set(w.a.sh("ip", "maddress", "show", "dev", "va").split())
            hearer = w.a.start(program, "hear", own, len(wanted))
            said = hearer.popen.stdout.readline()
            expect(said == "joined\n", f"not joined: {said}")
            expect(joined() == wanted, f"not members of {sorted(wanted - joined())}")
            sender = w.b.start(program, "send", far, len(wanted))
            wait_until(lambda: not joined() or not hearer.running() or not sender.running(), "all are heard and left", 60)
            expect(hearer.popen.stdout.readline() == "left\n" and hearer.running(), "the hearer has ended")
            expect(sender.running(), "the sender has ended")
            for process in (hearer, sender):
                process.kill()
                process.wait()


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
    """Datagram rsockets as librdmacm has them make an address handle without a GRH: no RoCE device takes that. All else they do is
    seen with a library before it that adds the GRH."""
    grh = os.path.join(BUILD, "tests/system/programs/preload_grh.so")
    with World() as w:
        server = w.a.start("udpong", "-b", V4[0])
        wait_until(lambda: ":7174" in w.a.sh("ss", "-Hlun"), "udpong listens")
        expect(w.b.run("udpong", "-C", "10", "-s", V4[0], timeout=30).code != 0, "an address handle without a GRH is taken")
        server.kill()
        server.wait()
        server = serve(w.a, *preloaded(grh, "udpong", "-b", V4[0]), ready=lambda: ":7174" in w.a.sh("ss", "-Hlun"))
        for options in (("-C", "100"), ("-C", "100", "-T", "e"), ("-C", "100", "-T", "a", "-S", "1000")):
            w.b.run(*preloaded(grh, "udpong", "-s", V4[0], *options)).ok().has(r"[1-9]\d*k? .*\d\.\d\ds")
        server.kill()
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


def perftest_pair(w, *line, address=V4[0], far_enough=lambda: False):
    """Returns the client and the server when the client is done or `far_enough`. perftest connects twice. On a busy machine the client's
    second request may come before its server listens again. The client of 4.5-0.17 then asks again with identifiers that it has
    destroyed, and crashes (23.07 too); so we start both again."""
    for tries_left in (3, 2, 1, 0):
        server = serve(w.a, *line)
        client = w.b.start(*line, address)
        end = time.monotonic() + 60
        while client.running() and not far_enough() and time.monotonic() < end:
            time.sleep(0.05)
        if client.popen.returncode == 0 or far_enough():
            return client, server
        answer = client.wait(1)
        server.kill()
        told = server.wait().out
        wait_until(lambda: listeners(w.a) == 0, "the killed server's listener is gone")
        too_early = re.search(r"EVENT_REJECTED; error: 8|EVENT_UNREACHABLE; error: 1\b", answer.out)
        expect(answer.code == -signal.SIGSEGV and too_early and tries_left, f"{' '.join(line)}: exit {answer.code}\n{answer.out}\nserver:\n{told}")


def perftest(w, program, *options, address=V4[0]):
    client, server = perftest_pair(w, program, "-d", "ur0", "-R", "-F", "-n", "200", *options, address=address)
    client.wait().ok()
    server.wait(60).ok()


def perftest_reliable():
    with World() as w:
        for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat"):
            perftest(w, program)
        for options in (("-q", "4"), ("--use-srq",)):
            perftest(w, "ib_send_bw", *options)


def perftest_events():
    with World() as w:
        for program in ("ib_send_bw", "ib_read_bw", "ib_send_lat", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat"):
            perftest(w, program, "-e")


def perftest_datagram():
    with World() as w:
        perftest(w, "ib_send_bw", "-c", "UD", "-s", "512")
        perftest(w, "ib_send_lat", "-c", "UD", "-s", "64", "-e")


def perftest_ipv6():
    """perftest resolves names as IPv4 only, whatever --ipv6 says, until 23.07 brings --ipv6-addr. XRC it refuses with -R in all versions."""
    with World() as w:
        if "--ipv6-addr" not in w.a.run("ib_send_bw", "--help").out:
            raise Skip("this perftest connects by IPv4 only: --ipv6-addr came with 23.07")
        for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat"):
            perftest(w, program, "--ipv6-addr", address=V6[0])
        perftest(w, "ib_send_bw", "-c", "UD", "-s", "512", "--ipv6-addr", address=V6[0])


def perftest_exchanges_over_a_connection():
    """-z: the queue pairs are connected by hand, what they need to know goes over a connection by address."""
    with World() as w:
        for kind in ("RC", "UC"):
            line = ("ib_write_bw", "-d", "ur0", "-z", "-F", "-n", "200", "-c", kind)
            both(w, w.a, line, w.b, (*line, V4[0]))


def qperf():
    """With -cm. Without it qperf addresses by LID, as InfiniBand does and RoCE cannot."""
    with World() as w:
        server = w.a.start("qperf")
        wait_until(lambda: w.a.listens(19765), "qperf listens")
        for test in ("rc_bw", "rc_bi_bw", "rc_lat", "rc_rdma_write_bw", "rc_rdma_read_lat", "rc_rdma_write_poll_lat", "rc_compare_swap_mr",
                     "rc_fetch_add_mr"):
            w.b.run("qperf", V4[0], "-t", "1", "-cm", "1", test, timeout=30).ok().has(r"= +[1-9]")
        w.b.run("qperf", V4[0], "-t", "1", "rc_lat", timeout=30).has("failed to modify QP to RTR")
        server.kill()
        server.wait()


def iperf_over_rsockets():
    """The older iperf, whose threads read and write. Up to librdmacm 44 select() of librspreload names wrong descriptors and loses
    its time limit, so iperf3 waits for ever over any device. Up to 52 its thread for connections goes on in freed memory once it has
    four, and then may wait for the wrong one for ever; so there are three."""
    libraries = glob.glob("/usr/lib/*/rsocket/librspreload.so.1")
    expect(libraries, "librspreload is not installed")
    with World() as w:
        for streams in ("1", "3"):
            client, server = both(w, w.a, preloaded(libraries[0], "iperf", "-s", "-P", streams), w.b,
                                  preloaded(libraries[0], "iperf", "-c", V4[0], "-t", "1", "-P", streams))
            for side in (client, server):
                side.has(r"[1-9]\S* [MG]Bytes")


def nobody_listens():
    with World() as w:
        answer = w.b.run("rping", "-c", "-a", V4[0], "-p", "9999")
        expect(answer.code != 0, "connected to nobody")
        answer.has("REJECTED|error 8|reject").lacks("UNREACHABLE")  # as it is after silence


def talking_client(host):
    """rping's client once its peer's messages come. Before, it may be connecting still: if its request is withdrawn before the server has
    made a queue pair, the thread of `rping -s -P` ends without destroying the identifier, which then stays as long as the server does."""
    received = lambda: int(re.search(r"rdma_recvs (\d+)", host.run("rdma", "statistic").ok().out)[1])
    before = received()
    client = host.start("rping", "-c", "-a", V4[0], "-C", "100000")
    wait_until(lambda: received() > before, "messages come")
    return client


def killed_client_and_server():
    with World() as w:
        # Without -v: nobody reads what they print, and a program whose pipe is full answers nothing.
        server = serve(w.a, "rping", "-s", "-P", "-a", V4[0])
        client = talking_client(w.b)
        client.kill()
        client.wait()
        wait_until(lambda: "CONNECT" not in w.a.run("rdma", "resource", "show", "cm_id").out, "the server has heard of it")
        client = talking_client(w.b)
        server.kill()
        server.wait()
        client.wait(30)  # at all


def lossy(w):
    """One in 32 RoCE packets is lost, both ways."""
    program = os.path.join(BUILD, "tests/system/programs/lossy.bpf.o")
    if not os.path.exists(program):
        raise Skip("clang, which makes the program that loses packets, was not there at the build")
    for host, netdev in ((w.a, "va"), (w.b, "vb")):
        host.sh("ip", "link", "set", netdev, "xdp", "obj", program, "sec", "xdp")


def loss():
    """Requests, replies and disconnections are sent again until they arrive; data as well."""
    with World() as w:
        lossy(w)
        rping(w, w.a, w.b, V4[0])
        rping(w, w.a, w.b, V6[0])
        both(w, w.a, ("ucmatose", "-c", "50"), w.b, ("ucmatose", "-c", "50", "-s", V4[0]))
        server = serve(w.a, "cmtime", "-c", "200")
        w.b.run("cmtime", "-c", "200", "-s", V4[0]).ok()
        server.kill()
        server.wait()
        for host in (w.a, w.b):
            counters = host.status()["connection_manager"]
            expect(counters["retransmitted"] and counters["duplicates"], f"nothing was lost, or nothing sent again: {counters}")


def waiting_request(w):
    """A server that does not look at its requests, and a client whose request waits there."""
    server = serve(w.a, "rping", "-s", "-P", "-a", V4[0])
    server.kill(signal.SIGSTOP)
    client = w.b.start("rping", "-c", "-a", V4[0], "-C", "2")
    wait_until(lambda: w.a.status()["connection_manager"]["identifiers"] == 2, "the request has arrived")
    return server, client


def killed_listener_with_waiting_requests():
    with World() as w:
        server, client = waiting_request(w)
        server.kill()
        server.wait()
        ended = client.wait(20)
        expect(ended.code != 0, "the client is connected to nobody")
        ended.has("REJECTED")
        wait_until(lambda: w.a.status()["connection_manager"]["identifiers"] == 0, "identifiers are left")


def worker_dies_under_a_listener():
    """The listener is told. The request that waited with it is refused: nobody listens any more. A new server works."""
    with World() as w:
        server, client = waiting_request(w)
        worker = w.a.status()["pid"]
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: w.a.status()["pid"] != worker, "a new worker")
        server.kill(signal.SIGCONT)
        ended = server.wait(20)
        expect(ended.code != 0, "the listener takes its device's removal for a good end")
        ended.has("device removal|DEVICE_REMOVAL")
        refused = client.wait(60)
        expect(refused.code != 0, "the client is connected to nobody")
        refused.has("REJECTED|UNREACHABLE")
        rping(w, w.a, w.b, V4[0])


def keeper_dies():
    """A listener and a connected server end with an error. The far side is told nothing: who has sent sees that nobody answers, who waits
    for a message waits, as with a machine that has lost its power. rping's client may be either, one that writes without pause is not."""
    with World() as w:
        much_is_sent = lambda: int(w.b.sh("cat", "/sys/class/net/vb/statistics/tx_bytes")) > 5_000_000
        writer, target = perftest_pair(w, "ib_write_bw", "-d", "ur0", "-R", "-F", "-D", "600", far_enough=much_is_sent)
        idle = serve(w.a, "rping", "-s", "-a", V4[0], "-p", "7175")
        server = serve(w.a, "rping", "-s", "-a", V4[0])
        client = talking_client(w.b)
        os.kill(w.a.status()["keeper_pid"], signal.SIGKILL)
        wait_until(lambda: not w.a.daemons(), "the worker leaves too")
        for name, program in (("listener", idle), ("server", server)):
            expect(program.wait(30).code != 0, f"the {name} takes the end of its daemon for a good one")
        expect(writer.running(), "data needs a daemon")
        target.kill()
        target.wait()
        ended = writer.wait(60)
        expect(ended.code != 0, "the client takes the end of its peer for a good one")
        ended.has("Failed status 12")
        client.kill()
        client.wait()


def worker_dies_under_a_connection():
    """The server is told and ends; the data of its connection had gone on."""
    with World() as w:
        server = serve(w.a, "rping", "-s", "-P", "-a", V4[0])
        client = talking_client(w.b)
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
