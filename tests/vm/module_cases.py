# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The cases of module_guest.py. Each leaves the world to World.settle()."""
import json
import os
import re
import shutil
import signal
import time

from module_world import MODULE, UROCE, UROCED, code, expect, sh, wait_until
from module_installed import Installed, missing
import module_raw as raw


# ---- programs

def what_rdma_and_devinfo_say(w):
    link = w.a.sh("rdma", "link", "show")
    expect("ur0/1 state ACTIVE physical_state LINK_UP netdev va" in link, link)
    info = w.a.sh("ibv_devinfo", "-v", "-d", "ur0")
    for part in ("PORT_ACTIVE", "link_layer:\t\tEthernet", "RoCE v2", "::ffff:10.78.0.1", "fd78::1", "max_mtu:\t\t4096"):
        expect(part in info, f"no '{part}' in\n{info}")


def rc_ipv4(w):
    w.pingpong("ibv_rc_pingpong", "-n", 300, "-c")


def rc_ipv6(w):
    w.pingpong("ibv_rc_pingpong", "-n", 300, "-c", family="ipv6")


def rc_events(w):
    w.pingpong("ibv_rc_pingpong", "-n", 100, "-e")


def uc_ipv4(w):
    w.pingpong("ibv_uc_pingpong", "-n", 300)


def ud_ipv4(w):
    w.pingpong("ibv_ud_pingpong", "-n", 300)


def srq_events(w):
    w.pingpong("ibv_srq_pingpong", "-n", 300, "-e")


def xsrq(w):
    server = w.a.start("ibv_xsrq_pingpong", "-d", "ur0", "-g", w.a.gid(), "-n", 100)
    wait_until(lambda: ":18515" in w.a.sh("ss", "-ltnH") or not server.running(), "the server listens")
    w.b.start("ibv_xsrq_pingpong", "-d", "ur1", "-g", w.b.gid(), "-n", 100, w.a.address()).ok()
    server.ok()


def perftest(tool, *words):
    def case(w):
        server = w.a.start(tool, "-d", "ur0", "-x", w.a.gid(), "-F", *words)
        wait_until(lambda: ":18515" in w.a.sh("ss", "-ltnH") or not server.running(), f"{tool} listens")
        w.b.start(tool, "-d", "ur1", "-x", w.b.gid(), "-F", *words, w.a.address()).ok()
        server.ok()
    case.__name__ = "_".join([tool, *(word.lstrip("-") for word in map(str, words))])
    return case


def resources_of_a_running_program(w):
    server = w.a.start("ibv_rc_pingpong", "-d", "ur0", "-g", w.a.gid())
    server.says("local address")
    text = sh("rdma", "resource", "show", "qp", "link", "ur0/1")
    expect(re.search(r"type RC state INIT .* comm ibv_rc_pingpong", text), text)
    qpn = int(re.search(r"lqpn (\d+) .*type RC", text)[1])
    expect(qpn >> 14 in range(1, 1023), f"QPN {qpn:#x} has no slot")
    expect("mrlen 4096" in sh("rdma", "resource", "show", "mr", "dev", "ur0"), "no region is shown")


def rping_ipv4(w):
    w.by_address(["rping", "-s", "-a", w.a.address(), "-C", "10", "-V"], ["rping", "-c", "-a", w.a.address(), "-C", "10", "-V"])


def rping_ipv6(w):
    address = w.a.address("ipv6")
    w.by_address(["rping", "-s", "-a", address, "-C", "10", "-V"], ["rping", "-c", "-a", address, "-C", "10", "-V"])


def ucmatose(w):
    w.by_address(["ucmatose", "-c", "5"], ["ucmatose", "-c", "5", "-s", w.a.address()])


def udaddy(w):
    w.by_address(["udaddy", "-c", "3", "-b", w.a.address()], ["udaddy", "-c", "3", "-s", w.a.address(), "-b", w.b.address()])


def rping_over_a_vlan(w):
    for host in w.hosts:
        host.sh("ip", "link", "add", "link", host.netdev, "name", "v9", "type", "vlan", "id", "9")
        host.sh("ip", "address", "add", f"10.79.0.{host.number}/24", "dev", "v9")
        host.sh("ip", "link", "set", "v9", "up")
    try:
        for host in w.hosts:
            wait_until(lambda host=host: host.gid(address=f"10.79.0.{host.number}") >= 0, "the VLAN's address is a GID")
        w.by_address(["rping", "-s", "-a", "10.79.0.1", "-C", "5", "-V"], ["rping", "-c", "-a", "10.79.0.1", "-C", "5", "-V"])
        refused, text = w.a.code("rdma", "link", "add", "urv", "type", "uroce", "netdev", "v9")
        expect(refused != 0 and "not permitted" in text, text)
    finally:
        for host in w.hosts:
            host.sh("ip", "link", "del", "v9")


def what_uroce_status_says(w):
    rping_ipv4(w)
    told = json.loads(w.a.sh(UROCE, "status", "--json"))["kernel_module"]
    expect(told["links"] == ["ur0"] and told["sent"] > 0 and told["received"] > 0, told)
    expect(not any(told[name] for name in ("other_qp", "refused", "dropped_outgoing", "dropped_incoming")), told)


def the_stand_in_makes_no_link_beside_it(w):
    refused, text = w.a.code(UROCE, "run", "--", "rdma", "link", "add", "urx", "type", "uroce", "netdev", "lo")
    expect(refused != 0 and "urx" not in sh("rdma", "link", "show"), text)


def what_uroce_doctor_says(w):
    def told(name):
        status, text = w.a.code(UROCE, "doctor", "--json")
        checks = {check["name"]: check for check in json.loads(text)["checks"]}
        expect((status != 0) == any(check["verdict"] == "problem" for check in checks.values()), text)
        return checks[name]
    check = told("kernel-module")
    expect(check["verdict"] == "works" and check["what"].endswith("its links: ur0"), check)
    expect("of its own" not in told("real-devices")["what"], told("real-devices"))
    expect(told("module-provider")["verdict"] == "works", told("module-provider"))
    w.a.sh("ip", "link", "set", "va", "down")
    expect(told("kernel-module")["verdict"] == "warning", told("kernel-module"))
    w.a.stop_daemon()
    check = told("kernel-module")
    expect(check["verdict"] == "problem" and f"{UROCED} --autostart" in check["todo"], check)


def management_datagrams(w):
    """There is no subnet manager and no other way than by GIDs: programs of InfiniBand fabrics are told so, and nothing breaks."""
    expect(os.path.exists("/dev/infiniband/umad0"), "no umad")
    if shutil.which("ibstat"):
        text = w.a.sh("ibstat", "ur0")
        expect("State: Active" in text and "Link layer: Ethernet" in text, text)
    for words in (["ibping", "-C", "ur0", "-t", "500", "-c", "1", "1"], ["sminfo", "-C", "ur0"], ["saquery", "-C", "ur0"],
                  ["perfquery", "-C", "ur0"], ["smpquery", "-C", "ur0", "nodeinfo", "1"]):
        if not shutil.which(words[0]):
            continue
        ended, text = w.a.code(*words)
        print("   ", words[0], ended, text.strip()[-300:], flush=True)
        expect(ended in (0, 1, 255) and re.search(r"failed|100% packet loss|can't|unable|not found", text, re.I), f"{words}: {ended} {text}")
    rping_ipv4(w)


# ---- other credentials

def after_setuid_and_in_a_child(w):
    """write() is refused by ib_uverbs there; the provider's commands go by INVOKE_WRITE."""
    text = w.a.start("/usr/bin/python3", raw.__file__, "credentials", "ur0").ok()
    expect("all as it should be" in text, text)


# ---- ends

def link_del_under_a_program(w):
    watch = w.a.watch()
    server = w.a.start("ibv_rc_pingpong", "-d", "ur0", "-g", w.a.gid(), "-e")
    server.says("local address")
    w.a.sh("rdma", "link", "del", "ur0", timeout=20)
    watch.says("IBV_EVENT_DEVICE_FATAL")
    expect(w.a.state() == "none", "the link is still there")
    w.a.add_link()  # the old file may still be open
    server.kill()
    w.pingpong("ibv_rc_pingpong", "-n", 50)


def netdev_down_and_up(w):
    watch = w.a.watch()
    w.a.sh("ip", "link", "set", "va", "down")
    watch.says("IBV_EVENT_PORT_ERR")
    expect(w.a.state() == "DOWN", w.a.state())
    w.a.sh("ip", "link", "set", "va", "up")
    watch.says("IBV_EVENT_PORT_ACTIVE")
    time.sleep(0.5)  # a second event would come now
    text = watch.output()
    expect(text.count("PORT_ERR") == 1 and text.count("PORT_ACTIVE") == 1, text)
    w.a.sh("ip", "address", "add", f"{w.a.address('ipv6')}/64", "dev", "va", "nodad")  # gone with the link
    wait_until(lambda: w.a.gid("ipv6") >= 0, "the address is a GID again")
    rping_ipv6(w)


def mtu_is_followed(w):
    for mtu, name in ((1500, "1024 (3)"), (4300, "4096 (5)")):
        for host in w.hosts:
            host.sh("ip", "link", "set", host.netdev, "mtu", mtu)
        expect(f"active_mtu:\t\t{name}" in w.a.sh("ibv_devinfo", "-d", "ur0"), f"no {name} with MTU {mtu}")
    w.pingpong("ibv_rc_pingpong", "-n", 100, "-s", 65536, "-m", 4096, "-c")
    for host in w.hosts:
        host.sh("ip", "link", "set", host.netdev, "mtu", 1500)


def netdev_in_another_namespace(w):
    sh("ip", "netns", "add", "c")
    w.a.sh("ip", "link", "add", "d0", "type", "dummy")
    w.a.sh("rdma", "link", "add", "urd", "type", "uroce", "netdev", "d0")
    w.a.sh("ip", "link", "set", "d0", "netns", "c")
    wait_until(lambda: "urd" not in sh("rdma", "link", "show"), "the link has gone")
    sh("ip", "netns", "exec", "c", "rdma", "link", "add", "urd", "type", "uroce", "netdev", "d0")
    # From where its netdev is not, there is no data path: a plain refusal.
    refused, text = w.a.code("ibv_devinfo", "-d", "urd")
    expect(refused != 0, text)
    sh("ip", "netns", "del", "c")
    wait_until(lambda: "urd" not in sh("rdma", "link", "show"), "the link has gone with its namespace")


def killed_daemon(w):
    watch = w.a.watch()
    busy = w.a.start("ib_write_bw", "-d", "ur0", "-x", w.a.gid(), "-F", "-D", "60")
    wait_until(lambda: ":18515" in w.a.sh("ss", "-ltnH") or not busy.running(), "the server listens")
    client = w.b.start("ib_write_bw", "-d", "ur1", "-x", w.b.gid(), "-F", "-D", "60", w.a.address())
    wait_until(lambda: "type RC state RT" in sh("rdma", "resource", "show", "qp", "link", "ur0/1"), "it is connected")
    for pid in w.a.daemon_processes():
        os.kill(pid, signal.SIGKILL)
    watch.says("IBV_EVENT_PORT_ERR")
    watch.says("IBV_EVENT_DEVICE_FATAL")
    expect(w.a.state() == "DOWN", w.a.state())
    client.wait()
    busy.wait()
    refused, text = w.a.code("ibv_rc_pingpong", "-d", "ur0", "-g", w.a.gid())
    expect(refused != 0 and "uroced does not answer" in text, text)
    # Connection requests fail soon, not after a minute of silence.
    refused, text = w.a.code("rping", "-c", "-a", w.b.address(), "-C", "1")
    expect(refused != 0, text)
    w.a.daemon.wait()
    w.a.start_daemon()
    wait_until(lambda: w.a.state() == "ACTIVE", "the port is up again")
    rc_ipv4(w)
    rping_ipv4(w)


def killed_worker(w):
    """The keeper starts another; programs notice nothing."""
    watch = w.a.watch()
    server = w.a.start("ib_send_lat", "-d", "ur0", "-x", w.a.gid(), "-F", "-n", 4000)
    wait_until(lambda: ":18515" in w.a.sh("ss", "-ltnH") or not server.running(), "the server listens")
    client = w.b.start("ib_send_lat", "-d", "ur1", "-x", w.b.gid(), "-F", "-n", 4000, w.a.address())
    wait_until(lambda: "type RC state RT" in sh("rdma", "resource", "show", "qp", "link", "ur0/1"), "it is connected")
    for pid in w.a.daemon_processes()[1:]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: w.a.daemon.output().count("links are served") == 2, "the next worker serves")
    client.ok()
    server.ok()
    rping_ipv4(w)
    expect("IBV_EVENT" not in watch.output(), watch.output())


def slots_come_back(w):
    """More contexts one after the other than there are sockets made: ended slots are used again."""
    for _ in range(12):
        w.a.sh("ibv_devinfo", "-d", "ur0")
    time.sleep(2.5)
    server = w.a.start("ibv_rc_pingpong", "-d", "ur0", "-g", w.a.gid())
    server.says("local address")
    slot = int(re.search(r"QPN 0x(\w+)", server.output())[1], 16) >> 14
    expect(slot <= 13, f"slot {slot}")


def unload_under_programs(w):
    busy, text = code("rmmod", "uroce")
    expect(busy != 0 and "in use" in text, f"uroced holds the channel, and yet: {text}")
    watch = w.a.watch()
    for host in w.hosts:
        host.stop_daemon()
    watch.says("IBV_EVENT_PORT_ERR")
    sh("rmmod", "uroce", timeout=20)
    watch.says("IBV_EVENT_DEVICE_FATAL")
    expect("uroce" not in sh("lsmod"), "the module is still there")
    watch.kill()
    sh("insmod", MODULE)


def module_loaded_under_a_daemon(w):
    """As one that a program of the stand-in has started."""
    for host in w.hosts:
        host.stop_daemon()
    sh("rmmod", "uroce")
    for host in w.hosts:
        host.daemon = host.start(UROCED, "--foreground")
        host.daemon.says("uroced: process")
    # One of them has had a device of its own.
    w.b.sh(UROCE, "run", "--", "rdma", "link", "add", "urx", "type", "uroce", "netdev", "vb")
    w.b.sh(UROCE, "run", "--", "rdma", "link", "del", "urx")
    sh("insmod", MODULE)
    w.a.daemon.says("links are served")
    w.b.daemon.says("after `uroce stop` another one")
    check = w.b.code(UROCE, "doctor")[1]
    expect(f"uroce stop; then {UROCED} --autostart" in check, check)
    w.b.sh(UROCE, "stop")
    w.b.daemon.wait()
    w.b.start_daemon()
    for host in w.hosts:
        host.add_link()
    rc_ipv4(w)


def rdma_link_add_is_enough(w):
    """Installed, and systemd and udev run: `rdma link add` loads the module, udev tells systemd, that starts uroced."""
    if missing():
        print(f"    skipped: {missing()} is not here: apt-get install systemd udev", flush=True)
        return
    for host in w.hosts:
        host.stop_daemon()
    sh("rmmod", "uroce")
    with Installed(w) as machine:
        sh("ip", "link", "add", "d9", "type", "dummy")
        sh("ip", "address", "add", "10.80.0.1/24", "dev", "d9")
        sh("ip", "link", "set", "d9", "up")
        sh("rdma", "link", "add", "ur9", "type", "uroce", "netdev", "d9")
        wait_until(lambda: "link ur9/1 state ACTIVE" in sh("rdma", "link", "show"), "the port is up")
        info = machine.sh("ibv_devinfo", "-d", "ur9")
        expect("PORT_ACTIVE" in info, info)
        # Asked to stop, it stays away until the module comes anew.
        machine.sh("uroce", "stop")
        wait_until(lambda: "link ur9/1 state DOWN" in sh("rdma", "link", "show"), "the port is down")
        sh("ip", "link", "del", "d9")
        wait_until(lambda: code("rmmod", "uroce")[0] == 0, "nobody holds the module")
        sh("modprobe", "uroce")
        wait_until(lambda: int(open("/sys/module/uroce/refcnt", encoding="utf-8").read()) > 0, "somebody holds the module")
        machine.sh("systemctl", "stop", "uroced")
        sh("rmmod", "uroce")
    sh("insmod", MODULE)


# ---- namespaces that see only their own devices

def exclusive_namespaces(w):
    w.leave_namespaces()
    sh("rdma", "system", "set", "netns", "exclusive")
    try:
        w.join()
        expect("ur1" not in w.a.sh("rdma", "link", "show") and "ur1" in w.b.sh("rdma", "link", "show"), "links are seen elsewhere")
        rc_ipv4(w)
        rping_ipv4(w)
        # To and fro: ib_core takes the link away from its users and gives it back.
        for _ in range(3):
            watch = w.a.watch()
            w.a.sh("rdma", "dev", "set", "ur0", "netns", "b")
            watch.says("IBV_EVENT_DEVICE_FATAL")
            watch.kill()
            expect("ur0" in w.b.sh("rdma", "dev", "show"), "it is not there")
            w.b.sh("rdma", "dev", "set", "ur0", "netns", "a")
        wait_until(lambda: w.a.state() == "ACTIVE", "the port is up again")
        rping_ipv4(w)
    finally:
        w.leave_namespaces()
        sh("rdma", "system", "set", "netns", "shared")
        w.join()


# ---- wrong input

def hostile_channel(w):
    text = w.b.start("/usr/bin/python3", raw.__file__, "channel", "ur1").ok()
    expect("all as it should be" in text, text)
    w.b.stop_daemon()
    text = w.b.start("/usr/bin/python3", raw.__file__, "own-channel", "ur1").ok()
    expect("all as it should be" in text, text)


def every_slot(w):
    text = w.a.start("/usr/bin/python3", raw.__file__, "slots", "ur0").ok()
    expect("all as it should be" in text, text)
    rc_ipv4(w)


def hostile_kicks(w):
    text = w.a.start("/usr/bin/python3", raw.__file__, "kicks", "ur0").ok()
    expect("all as it should be" in text, text)
    rc_events(w)


CASES = [what_rdma_and_devinfo_say, rc_ipv4, rc_ipv6, rc_events, uc_ipv4, ud_ipv4, srq_events, xsrq,
         perftest("ib_write_bw", "-s", 65536, "-n", 50), perftest("ib_send_lat", "-e", "-n", 100), perftest("ib_read_bw", "-n", 50),
         perftest("ib_atomic_bw", "-n", 50), resources_of_a_running_program, rping_ipv4, rping_ipv6, ucmatose, udaddy, rping_over_a_vlan,
         what_uroce_status_says, what_uroce_doctor_says, management_datagrams, the_stand_in_makes_no_link_beside_it,
         after_setuid_and_in_a_child, link_del_under_a_program, netdev_down_and_up, mtu_is_followed, netdev_in_another_namespace,
         killed_daemon, killed_worker, slots_come_back, unload_under_programs, module_loaded_under_a_daemon,
         exclusive_namespaces, hostile_channel, every_slot, hostile_kicks]
# When named only: systemd as the second init of a guest does not always come up, and not every machine has it.
BY_HAND = [rdma_link_add_is_enough]
