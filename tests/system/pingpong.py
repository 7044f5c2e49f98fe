# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The ping-pong programs of ibverbs-utils, between namespaces, through a router and on one host."""
from world import World, join, wait_until

FAMILIES = {"ipv4": ("10.77.0.1", "10.77.0.2"), "ipv6": ("fd77::1", "fd77::2")}


# The programs exchange their parameters over TCP on IPv4 alone, whatever the GIDs are.
def pingpong(w, program, server_host, server_address, client_host, client_address, *options, tcp=None):
    server = [f"ibv_{program}_pingpong", "-d", "ur0", "-g", server_host.gid_index(server_address), *options]
    client = [f"ibv_{program}_pingpong", "-d", "ur0", "-g", client_host.gid_index(client_address), *options, tcp or server_address]
    answer, _ = w.pair(server_host, server, client_host, client)
    if program == "xsrq":
        answer.has("^success$")
    else:
        answer.has(r"iters in", r"bytes in")


def between(program, family, *options, mtu=1500):
    with World(mtu=mtu) as w:
        server, client = FAMILIES[family]
        tcp = FAMILIES["ipv4"][0]
        pingpong(w, program, w.a, server, w.b, client, *options, tcp=tcp)
        if program != "srq" and program != "xsrq":
            pingpong(w, program, w.a, server, w.b, client, *options, "-e", tcp=tcp)
        else:
            pingpong(w, program, w.a, server, w.b, client, *options, "-e", *(("-q", "8") if program == "srq" else ()), tcp=tcp)


def rc_ipv4(): between("rc", "ipv4")
def rc_ipv6(): between("rc", "ipv6")
def uc_ipv4(): between("uc", "ipv4")
def uc_ipv6(): between("uc", "ipv6")
def ud_ipv4(): between("ud", "ipv4", "-s", "1024")
def ud_ipv6(): between("ud", "ipv6", "-s", "1024")
def srq_ipv4(): between("srq", "ipv4")
def srq_ipv6(): between("srq", "ipv6")
def xsrq_ipv4(): between("xsrq", "ipv4")
def xsrq_ipv6(): between("xsrq", "ipv6")


def every_mtu(program):
    with World(mtu=4500) as w:
        for mtu in (256, 512, 1024, 2048, 4096):
            pingpong(w, program, w.a, "10.77.0.1", w.b, "10.77.0.2", "-m", mtu, "-s", "65536", "-n", "200", "-c")


def rc_every_mtu(): every_mtu("rc")
def uc_every_mtu(): every_mtu("uc")


def rc_validates_buffers():
    with World() as w:
        pingpong(w, "rc", w.a, "10.77.0.1", w.b, "10.77.0.2", "-c", "-s", "100000", "-n", "500", "-e")


def one_host():
    with World() as w:
        for program, options in (("rc", ()), ("uc", ()), ("ud", ("-s", "1024")), ("srq", ())):
            pingpong(w, program, w.a, "10.77.0.1", w.a, "10.77.0.1", *options)
            pingpong(w, program, w.a, "10.77.0.1", w.a, "10.77.0.1", *options, "-e", *(("-q", "8") if program == "srq" else ()))


def loopback():
    with World(names=("a",)) as w:
        w.a.add_device("lo")
        pingpong(w, "rc", w.a, "127.0.0.1", w.a, "127.0.0.1")
        pingpong(w, "rc", w.a, "::1", w.a, "::1", tcp="127.0.0.1")


def routed():
    with World(names=("a", "router", "b")) as w:
        join(w.a, "va", "10.78.1.1/24", "fd78:1::1/64", w.router, "ra", "10.78.1.254/24", "fd78:1::fe/64")
        join(w.b, "vb", "10.78.2.1/24", "fd78:2::1/64", w.router, "rb", "10.78.2.254/24", "fd78:2::fe/64")
        w.router.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for host, v4, v6 in ((w.a, "10.78.1.254", "fd78:1::fe"), (w.b, "10.78.2.254", "fd78:2::fe")):
            host.sh("ip", "route", "add", "default", "via", v4)
            host.sh("ip", "-6", "route", "add", "default", "via", v6)
        for address in ("10.78.1.1", "fd78:1::1"):
            wait_until(lambda: w.b.reaches(address), f"the router forwards to {address}")
        w.a.add_device("va")
        w.b.add_device("vb")
        for program, options in (("rc", ()), ("ud", ("-s", "1024"))):
            pingpong(w, program, w.a, "10.78.1.1", w.b, "10.78.2.1", *options)
            pingpong(w, program, w.a, "fd78:1::1", w.b, "fd78:2::1", *options, tcp="10.78.1.1")
