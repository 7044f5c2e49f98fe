# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Wrong input: a clear error, nothing lost, nobody else disturbed."""
import os
import shutil
import tempfile

from pingpong import pingpong
from world import BUILD, UROCE, World, expect, wait_until


def port_held_by_another_program():
    with World(names=("a",)) as w:
        holder = w.a.start("/usr/bin/python3", "-c", "import socket,time; s=socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 4791)); time.sleep(60)",
                           uroce=False)
        wait_until(lambda: ":4791 " in w.a.sh("ss", "-Hlun"), "the port is taken")
        answer = w.a.run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo")
        device = w.a.run("ibv_devinfo", "-d", "ur0")
        expect(answer.code != 0 or device.code != 0, f"nobody said that the port is taken\n{answer.out}{device.out}")
        doctor = w.a.run(UROCE, "doctor", uroce=False)
        doctor.has(r"4791.*(held|in use|taken)")
        doctor.has(str(holder.pid) + r"|python3")
        holder.kill()
        holder.wait()


def unknown_libibverbs():
    """A plugin for another ABI number only: libibverbs says which one it misses. Layouts behind a known number: verbs.plugin."""
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        plugin = os.path.join(BUILD, "provider/verbs/liburoce-rdmav34.so")
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(plugin, os.path.join(directory, "liburoce-rdmav33.so"))
            devices = lambda: w.a.run("env", f"RDMAV_DRIVERS={directory}/liburoce", "ibv_devices")
            devices().lacks("ur0").has(r"liburoce-rdmav34\.so")
            shutil.copy(plugin, directory)
            devices().ok().has("ur0")


def garbage_on_every_socket():
    """Random bytes on the UDP port, the Unix socket and netlink, while a program works."""
    with World() as w:
        noise = w.a.start("/usr/bin/python3", "-c", """
import os, random, socket, struct, time
r = random.Random(4791)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 8
daemon = '\\0uroce-%d' % os.getuid()
def unix():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(2)
    s.connect(daemon)
    return s
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)  # RDMA, which the stand-in takes to the daemon
netlink.setblocking(False)
n = connected = answered = 0
while time.monotonic() < end:
    n += 1
    bth = bytes([r.randrange(256), 0x40, 0xff, 0xff, 0]) + struct.pack('>I', r.randrange(1 << 24))[1:] + r.randbytes(4)
    udp.sendto(bth + r.randbytes(r.randrange(0, 1400)), ('10.77.0.1', 4791))
    try:
        s = unix()
        hello = struct.pack('<IHHIi', 0x436f5275, 2, r.choice([1, 1, 1, 2, 3, 4, 5, 99]), 1, 0)
        s.send(hello + struct.pack('<IIQ', r.randrange(8), r.randrange(2000), r.getrandbits(64)) + b'0.1.0'.ljust(32, b'\\0'))
        for _ in range(r.randrange(4)):
            s.send(struct.pack('<IHHIi', 0x436f5275, 2, r.randrange(1, 8), r.randrange(5), 0) + r.randbytes(r.randrange(0, 300)))
        if r.random() < 0.3:
            s.send(r.randbytes(r.randrange(1, 5000)))
        s.close()
        connected += 1
    except (OSError, socket.timeout):
        pass
    body = r.randbytes(r.randrange(1, 400))
    try:
        netlink.send(r.choice([b'', struct.pack('<IHHII', 16 + len(body), 0x1400 | r.randrange(32), 5, n, 0)]) + body)
        answered += len(netlink.recv(65536)) > 0
    except OSError:
        pass
print('rounds', n, 'connected', connected, 'answered', answered, flush=True)
""")
        for _ in range(6):
            pingpong(w, "rc", w.a, "10.77.0.1", w.b, "10.77.0.2", "-c", "-n", "300")
        noise.wait(60).ok().has(r"rounds [1-9]\d+ connected [1-9]\d+ answered [1-9]\d+")
        w.a.run("ibv_devinfo", "-d", "ur0").ok().has("PORT_ACTIVE")
        w.a.run("rdma", "resource", "show").ok()


def forged_packets_write_nothing():
    """Well-formed packets with right ICRCs from a stranger: wrong source, wrong keys; the transfer is not disturbed."""
    with World() as w:
        w.b.sh("ip", "address", "add", "10.77.0.66/24", "dev", "vb")
        forger = w.b.start("/usr/bin/python3", "-c", """
import random, time
from scapy.all import IP, UDP, Raw, raw, conf, L3RawSocket
from scapy.contrib.roce import BTH
import socket, struct
r = random.Random(1)
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
end = time.monotonic() + 8
n = 0
while time.monotonic() < end:
    qpn = (1 << 14) | r.randrange(0, 40)
    op = r.choice([0, 1, 2, 4, 6, 7, 10, 12, 14, 17, 19, 20, 36, 42, 100])
    p = IP(src='10.77.0.66', dst='10.77.0.1', flags='DF', id=0) / UDP(sport=50000, dport=4791, chksum=0) / BTH(opcode=op, dqpn=qpn, psn=r.randrange(1 << 24), ackreq=1, migreq=1) / Raw(r.randbytes(4 * r.randrange(0, 60)))
    s.sendto(raw(p), ('10.77.0.1', 0))
    n += 1
print('sent', n, flush=True)
""", uroce=False)
        for _ in range(6):
            pingpong(w, "rc", w.a, "10.77.0.1", w.b, "10.77.0.2", "-c", "-n", "300")
        forger.wait(60).ok().has(r"sent [1-9]\d\d+")
        counters = w.a.status()["devices"][0]["counters"]
        expect(counters["bad_icrc"] == 0, f"the forged ICRCs are wrong, which proves nothing: {counters}")
        expect(counters["dropped_pkts"] > 100, f"the forged packets did not come so far as a queue pair: {counters}")


def environment_that_makes_no_sense():
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        for variable in ("UROCE_FAULT=drop=2", "UROCE_TRANSPORT=pigeon", "UROCE_UDP_GSO=perhaps"):
            answer = w.a.run("env", variable, "ibv_devinfo", "-d", "ur0")
            expect(answer.code != 0, f"{variable} was taken:\n{answer.out}")
            answer.has(variable.split("=")[0])


def no_segmentation():
    with World() as w:
        with_out = {"UROCE_UDP_GSO": "0", "UROCE_UDP_GRO": "0"}
        program = os.path.join(BUILD, "tests/system/programs/odd_validate")
        server = w.a.start(program, w.a.gid_index("10.77.0.1"), environment=with_out)
        wait_until(lambda: w.a.listens(18515), "odd_validate listens")
        transport = w.a.status()["contexts"][0]["transport"]
        expect("GSO off" in transport and "GRO off" in transport, transport)
        w.b.run(program, w.b.gid_index("10.77.0.2"), "10.77.0.1", timeout=120, environment=with_out).ok()
        server.wait().ok()


def netdev_goes_away():
    with World() as w:
        w.a.sh("ip", "link", "del", "va")
        wait_until(lambda: "ur0" not in w.a.run("rdma", "link", "show").out, "the device goes with its netdev")
        w.a.run("ibv_devices").ok().lacks("ur0")
