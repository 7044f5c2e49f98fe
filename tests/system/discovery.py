# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What stock tools see of a device."""
import re
import tempfile
import time

from world import World, expect, gid_text, wait_until


def ibv_devices():
    with World() as w:
        w.a.run("ibv_devices").ok().has(r"^\s+ur0\s+[0-9a-f]{16}$").lacks(r"ur0\s+0{16}")


def ibv_devinfo():
    with World() as w:
        out = w.a.run("ibv_devinfo", "-v").ok()
        out.has(r"hca_id:\s+ur0", r"transport:\s+InfiniBand", r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet", r"max_mtu:\s+4096",
                r"active_mtu:\s+1024", r"GID\[\s*\d+\]:\s+::ffff:10\.77\.0\.1, RoCE v2", r"GID\[\s*\d+\]:\s+fd77::1, RoCE v2",
                r"GID\[\s*\d+\]:\s+fe80::[0-9a-f:]+, RoCE v2", r"vendor_id:\s+0x[0-9a-f]*[1-9a-f]")
        out.lacks(r"vendor_id:\s+0xffffff").lacks(r"node_guid:\s+0000:0000:0000:0000")


def ibstat():
    with World() as w:
        w.a.run("ibstat").ok().has(r"CA 'ur0'", r"State: Active", r"Physical state: LinkUp", r"Link layer: Ethernet")
        w.a.run("ibstat", "-l").ok().has(r"^ur0$")
        w.a.run("ibstatus").ok().has(r"Infiniband device 'ur0' port 1", r"state:\s+4: ACTIVE", r"link_layer:\s+Ethernet")


def rdma_link():
    with World() as w:
        links = w.a.run("rdma", "link", "show", "-jp").ok().json()
        expect(len(links) == 1, f"{links}")
        link = links[0]
        expect((link["ifname"], link["port"], link["state"], link["physical_state"], link["netdev"]) ==
               ("ur0", 1, "ACTIVE", "LINK_UP", "va"), f"{link}")


def rdma_dev():
    with World() as w:
        dev = w.a.run("rdma", "dev", "show", "-jd").ok().json()[0]
        expect(dev["ifname"] == "ur0" and dev["node_type"] == "ca", f"{dev}")
        expect(dev["node_guid"] != "0000:0000:0000:0000", f"{dev}")
        w.a.run("rdma", "dev", "set", "ur0", "name", "mlx7").ok()
        w.a.run("rdma", "dev", "show").ok().has(r"mlx7")
        w.a.run("ibv_devinfo", "-d", "mlx7").ok().has(r"hca_id:\s+mlx7")
        w.a.run("rdma", "system", "show").ok().has(r"netns (exclusive|shared)")


def rdma_resource():
    with World() as w:
        w.a.run("rdma", "resource", "show").ok().has(r"ur0: pd \d+ cq \d+ qp \d+ cm_id \d+ mr \d+")
        server = w.a.start("ibv_rc_pingpong", "-d", "ur0", "-g", w.a.gid_index("10.77.0.1"))
        wait_until(lambda: w.a.listens(18515), "ibv_rc_pingpong listens")
        qps = w.a.run("rdma", "resource", "show", "qp", "-jd").ok().json()
        mine = [qp for qp in qps if qp["type"] == "RC"]
        expect(len(mine) == 1 and mine[0]["state"] == "INIT", f"{qps}")
        expect(mine[0]["comm"] == "ibv_rc_pingpong", f"{qps}")
        for kind in ("pd", "cq", "mr", "ctx"):
            w.a.run("rdma", "resource", "show", kind).ok().has("ibv_rc_pingpong")
        server.kill()
        server.wait()
        wait_until(lambda: not w.a.run("rdma", "resource", "show", "qp", "-jd").ok().json(), "the dead process's QP is gone")


def rdma_statistic():
    with World() as w:
        w.a.run("rdma", "statistic", "show").ok().has(r"link ur0/1 .*sent_pkts \d+ .*rcvd_pkts \d+")


def delete_and_wrong_adds():
    with World() as w:
        w.a.run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "va").has("File exists")
        w.a.run("rdma", "link", "add", "ur1", "type", "uroce", "netdev", "va").has("File exists")
        w.a.run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo").has("Too many open files in system")
        w.a.run("rdma", "link", "add", "ur1", "type", "uroce", "netdev", "nothere").has(r"nothere|No such device")
        w.a.run("rdma", "link", "add", "ur1", "type", "nosuchtype", "netdev", "lo").has("Invalid argument")
        w.a.run("rdma", "link", "delete", "ur0").ok()
        w.a.run("ibv_devices").ok().lacks("ur0")
        w.a.run("rdma", "link", "show").ok().lacks("ur0")
        again = w.a.run("rdma", "link", "delete", "ur0")
        expect(again.code != 0, "a device was deleted twice")
        w.a.add_device("va", "ur0")
        w.a.run("ibv_devices").ok().has("ur0")


def addresses_are_followed():
    with World() as w:
        w.a.sh("ip", "address", "add", "10.77.9.1/24", "dev", "va")
        gids = lambda: w.a.run("sh", "-c", "cat /sys/class/infiniband/ur0/ports/1/gids/*").out
        wait_until(lambda: gid_text("10.77.9.1") in gids(), "the new address has a GID")
        before = w.a.gid_index("10.77.0.1")
        w.a.sh("ip", "address", "del", "10.77.9.1/24", "dev", "va")
        wait_until(lambda: gid_text("10.77.9.1") not in gids(), "the removed address has none")
        expect(w.a.gid_index("10.77.0.1") == before, "a GID moved")


def ibv_asyncwatch():
    with tempfile.NamedTemporaryFile("r") as told, World() as w:
        def expect_event(pattern):
            wait_until(lambda: re.search(pattern, open(told.name, encoding="utf-8").read()), f"ibv_asyncwatch tells '{pattern}'")

        w.a.start("sh", "-c", f"exec stdbuf -oL ibv_asyncwatch -d ur0 >{told.name}")
        wait_until(lambda: w.a.run("rdma", "resource", "show", "ctx").out.count("asyncwatch"), "ibv_asyncwatch is attached")
        w.a.sh("ip", "link", "set", "va", "down")
        expect_event("PORT_ERR")
        expect("DOWN" in w.a.run("rdma", "link", "show").out, "told before it was so")
        w.a.sh("ip", "link", "set", "va", "up")
        expect_event("PORT_ACTIVE")
        expect("ACTIVE" in w.a.run("rdma", "link", "show").out, "told before it was so")
        changes = lambda: open(told.name, encoding="utf-8").read().count("GID_CHANGE")
        before = changes()
        w.a.sh("ip", "address", "add", "10.77.9.1/24", "dev", "va")
        wait_until(lambda: changes() > before, "ibv_asyncwatch tells of the new address")


def a_removed_device_is_told_once():
    with World() as w:
        watch = w.a.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "ur0")
        wait_until(lambda: w.a.run("rdma", "resource", "show", "ctx").out.count("asyncwatch"), "ibv_asyncwatch is attached")
        w.a.run("rdma", "link", "delete", "ur0").ok()
        wait_until(lambda: not w.a.run("ibv_devices").out.count("ur0"), "the device is gone")
        time.sleep(0.5)
        watch.kill(15)
        told = watch.wait().out.lower().count("fatal")
        expect(told == 1, f"told {told} times")


def namespaces_are_apart():
    with World() as w:
        w.a.run("rdma", "link", "add", "ura", "type", "uroce", "netdev", "lo").ok()
        w.b.run("ibv_devices").ok().lacks("ura")
        w.b.run("rdma", "link", "show").ok().lacks("ura")
        w.a.run("ibv_devices").ok().has("ura", "ur0")


def a_command_in_backquotes_returns():
    with World(devices=False) as w:
        w.a.run("sh", "-c", 'x=$(rdma link add ur0 type uroce netdev va; rdma link); echo "got $x"', timeout=10).ok().has("got link ur0/1")
