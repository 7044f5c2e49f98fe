# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Multicast groups, with perftest: between two hosts, on one, and given back by processes that are killed."""
from world import World, expect, wait_until

IPV4_GROUP = "0:0:0:0:0:0:0:0:0:0:255:255:224:1:1:12"
IPV6_GROUP = "255:2:0:0:0:0:0:0:0:0:0:0:0:1:1:12"
# perftest's own group when none is named: ff01, which no Linux host sends to another.
PERFTEST_GROUP = "255:1:0:0:0:2:201:133:0:0:0:0:0:0:0:0"


def command(host, address, group, much=("-n", "300")):
    return ["ib_send_bw", "-d", "ur0", "-x", host.gid_index(address), "-F", "-c", "UD", "-g", "-M", group, "-s", "512", *much]


def send(w, receiver, receiver_address, sender, sender_address, group):
    # The receiver ends only when every message is there.
    answer, other = w.pair(receiver, command(receiver, receiver_address, group), sender,
                           command(sender, sender_address, group) + ["10.77.0.1"], timeout=30)
    for result in (answer, other):
        result.has(r"^ 512 +300 ")


def ipv4():
    with World() as w:
        send(w, w.a, "10.77.0.1", w.b, "10.77.0.2", IPV4_GROUP)


def ipv6():
    with World() as w:
        send(w, w.a, "fd77::1", w.b, "fd77::2", IPV6_GROUP)


def one_host():
    with World() as w:
        for address, group in (("10.77.0.1", IPV4_GROUP), ("fd77::1", IPV6_GROUP), ("fd77::1", PERFTEST_GROUP)):
            send(w, w.a, address, w.a, address, group)


def killed_members_leave():
    with World() as w:
        for address, group, file, entry in (("10.77.0.1", IPV4_GROUP, "igmp", "0C0101E0"), ("fd77::1", IPV6_GROUP, "igmp6", "0001010c")):
            far = "10.77.0.2" if file == "igmp" else "fd77::2"
            member = w.a.start(*command(w.a, address, group, ("-D", "20")))
            wait_until(lambda: w.a.listens(18515), "the member listens")
            sender = w.b.start(*command(w.b, far, group, ("-D", "20")), "10.77.0.1")
            joined = lambda: entry in w.a.sh("cat", f"/proc/net/{file}")
            wait_until(joined, f"{entry} in {file}")
            member.kill()
            sender.kill()
            member.wait()
            sender.wait()
            wait_until(lambda: not joined(), f"{entry} gone from {file}")
            expect(w.a.status()["running"], "the daemon lives on")
