# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Stock programs between the kernel's rxe and uroce. Every case is done with the server on each side in turn."""
from interop_world import CONFORMANCE, VALIDATE, expect

FAMILIES = ("ipv4", "ipv6")


def pingpong(w, program, family, *options, server_options=(), turns=None):
    """The programs exchange their parameters over TCP on IPv4 alone, whatever the GIDs are."""
    for server, client in turns or w.serve_everywhere:
        line = lambda host: (f"ibv_{program}_pingpong", "-d", host.device, "-g", host.gid(family), *options)
        answer, _ = w.pair(server, line(server), client, (*line(client), server.address("ipv4")))
        answer.has("iters in", "bytes in")


def rc_ipv4(w): pingpong(w, "rc", "ipv4", "-c", "-n", "300")
def rc_ipv6(w): pingpong(w, "rc", "ipv6", "-c", "-n", "300")
def uc_ipv4(w): pingpong(w, "uc", "ipv4", "-n", "300")
def uc_ipv6(w): pingpong(w, "uc", "ipv6", "-n", "300")
def ud_ipv4(w): pingpong(w, "ud", "ipv4", "-s", "1024", "-n", "300")
def ud_ipv6(w): pingpong(w, "ud", "ipv6", "-s", "1024", "-n", "300")
def rc_events(w): pingpong(w, "rc", "ipv4", "-e", "-n", "300")
def srq(w): pingpong(w, "srq", "ipv4", "-n", "300")


def rc_every_mtu(w):
    for mtu in (256, 512, 1024, 2048, 4096):
        pingpong(w, "rc", "ipv6" if mtu == 512 else "ipv4", "-m", mtu, "-s", "65537", "-n", "40", "-c")


def uc_every_mtu(w):
    for mtu, turn in zip((256, 512, 1024, 2048, 4096), (0, 1, 0, 1, 0)):
        pingpong(w, "uc", "ipv4", "-m", mtu, "-s", "16385", "-n", "40", turns=[w.serve_everywhere[turn]])


def ud_largest(w): pingpong(w, "ud", "ipv4", "-s", "4096", "-n", "100")


def perftest(w, program, *options):
    """-u 20: rxe's retry, when its timer fires early on a loaded machine, may lose its place (Documentation/interop.md)."""
    for server, client in w.serve_everywhere:
        line = lambda host: (program, "-d", host.device, "-x", host.gid("ipv4"), "-F", "-u", "20", *options)
        answer, _ = w.pair(server, line(server), client, (*line(client), server.address("ipv4")), timeout=120)
        expect(any(row.strip()[:1].isdigit() for row in answer.out.splitlines()), f"{program}: no result in\n{answer.out}")


def send_bw_all(w): perftest(w, "ib_send_bw", "-a", "-n", "5")
def write_bw_all(w): perftest(w, "ib_write_bw", "-a", "-n", "5")
def read_bw_all(w): perftest(w, "ib_read_bw", "-a", "-n", "5")
def send_lat_one_byte(w): perftest(w, "ib_send_lat", "-s", "1", "-n", "200")
def write_lat_one_byte(w): perftest(w, "ib_write_lat", "-s", "1", "-n", "200")
def read_lat_one_byte(w): perftest(w, "ib_read_lat", "-s", "1", "-n", "200")
def fetch_and_add(w): perftest(w, "ib_atomic_bw", "-A", "FETCH_AND_ADD", "-n", "200")
def compare_and_swap(w): perftest(w, "ib_atomic_lat", "-A", "CMP_AND_SWAP", "-n", "200")
def bidirectional(w): perftest(w, "ib_send_bw", "-b", "-n", "100")
def many_qps(w): perftest(w, "ib_write_bw", "-q", "8", "-n", "50")


def validate(w, family, rounds, timeout=150):
    w.pair(w.rxe, (VALIDATE, w.rxe.gid(family)), w.ur, (VALIDATE, w.ur.gid(family), w.rxe.address("ipv4")), timeout=timeout,
           environment={"VALIDATE_ROUNDS": rounds})


def every_byte_ipv4(w): validate(w, "ipv4", 60)
def every_byte_ipv6(w): validate(w, "ipv6", 60)


def by_address(w, server_command, client_command, families=FAMILIES):
    """`server_command` and `client_command` make a line of an address."""
    for server, client in w.serve_everywhere:
        for family in families:
            address = server.address(family)
            w.by_address(server, server_command(address), client, client_command(address))


def rping(w):
    by_address(w, lambda a: ("rping", "-s", "-a", a, "-C", "20", "-V"), lambda a: ("rping", "-c", "-a", a, "-C", "20", "-V"))


def ucmatose(w):
    by_address(w, lambda a: ("ucmatose", "-c", "10", "-b", a), lambda a: ("ucmatose", "-c", "10", "-s", a))


def udaddy(w):
    by_address(w, lambda a: ("udaddy", "-c", "3", "-b", a), lambda a: ("udaddy", "-c", "3", "-s", a))


def cmtime(w):
    for server, client in w.serve_everywhere:
        other = w.serve(server, "cmtime", "-c", "50")
        client.run("cmtime", "-c", "50", "-s", server.address("ipv4"), timeout=120).ok()
        other.kill()
        other.wait()


def nobody_listens(w):
    for server, client in w.serve_everywhere:
        answer = client.run("rping", "-c", "-a", server.address("ipv4"), "-p", "9999", timeout=40)
        expect(answer.code != 0, "connected to nobody")
        answer.has("REJECTED|error 8|reject")


def killed_peer(w):
    """The peer's daemon or kernel says it for a dead program, and the other program ends."""
    for server, client in w.serve_everywhere:
        line = lambda role: ("rping", role, "-a", server.address("ipv4"), "-C", "100000")
        for victim in ("server", "client"):
            one = w.serve(server, *line("-s"))
            two = client.start(*line("-c"))
            w.wait_connected(client)
            (one if victim == "server" else two).kill()
            one.wait(60)
            two.wait(60)


def lossy(w, *words):
    with w.loss(*words) as wire:
        for server, client in w.serve_everywhere:
            line = lambda host: ("ibv_rc_pingpong", "-d", host.device, "-g", host.gid("ipv4"), "-c", "-n", "200", "-s", "16384")
            w.pair(server, line(server), client, (*line(client), server.address("ipv4")), timeout=120)
        validate(w, "ipv4", 20)
        return wire.dropped()


def loss_a_tenth_of_a_percent(w): expect(sum(lossy(w, "loss", "0.1%")) > 0, "nothing was lost")
def loss_two_percent(w): expect(min(lossy(w, "loss", "2%")) > 0, "nothing was lost")
def reorder(w): lossy(w, "delay", "1ms", "reorder", "90%", "50%")
def duplicate(w): lossy(w, "duplicate", "5%")


def connect_under_loss(w):
    with w.loss("loss", "10%"):
        for server, client in w.serve_everywhere:
            a = server.address("ipv4")
            w.by_address(server, ("ucmatose", "-c", "10", "-b", a), client, ("ucmatose", "-c", "10", "-s", a), timeout=150)


def dma_buf(w):
    """Here because vgem, which makes them, is a module."""
    w.ur.sh("modprobe", "vgem")
    done = w.ur.run(CONFORMANCE, "--gtest_filter=*dma_buf*", timeout=60).ok()
    done.has(r"PASSED.*1 test").lacks("SKIPPED")


def bad_icrc(w):
    """One datagram to rxe's QP 1 that is right but for its ICRC: that rxe drops it is seen."""
    bth = b"\x64\x00\xff\xff" + (1).to_bytes(4, "big") + bytes(4)
    deth = (0x80010000).to_bytes(4, "big") + (1).to_bytes(4, "big")
    w.ur.run("/usr/bin/python3", "-c", "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
             "s.sendto(bytes.fromhex(sys.argv[1]), (sys.argv[2], 4791))", (bth + deth + bytes(256 + 4)).hex(),
             w.rxe.address("ipv4"), uroce=False).ok()
    w.rxe.run("sleep", "0.5").ok()


BAD_ON_PURPOSE = {bad_icrc: 1}
# Here rxe may refuse what still comes for a QP that has failed or is gone.
LEAVES_A_QP_IN_ERROR = {killed_peer, bad_icrc}
CASES = [rc_ipv4, rc_ipv6, uc_ipv4, uc_ipv6, ud_ipv4, ud_ipv6, rc_events, srq, rc_every_mtu, uc_every_mtu, ud_largest,
         send_bw_all, write_bw_all, read_bw_all, send_lat_one_byte, write_lat_one_byte, read_lat_one_byte, fetch_and_add, compare_and_swap,
         bidirectional, many_qps, every_byte_ipv4, every_byte_ipv6,
         rping, ucmatose, udaddy, cmtime, nobody_listens, killed_peer,
         loss_a_tenth_of_a_percent, loss_two_percent, reorder, duplicate, connect_under_loss, dma_buf, bad_icrc]
