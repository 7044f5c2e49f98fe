# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Who may do what: unprivileged users, a second uid, strangers on our names."""
from world import UROCE, World, expect, wait_until

NOBODY = 65534


def unprivileged_user_alone():
    """No root anywhere: the user's own daemon, a device on a netdev that exists."""
    with World(names=("a",)) as w:
        run = lambda *command: w.a.run(*command, user=NOBODY)
        run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo").ok()
        run("ibv_devices").ok().has("ur0")
        gid = run("sh", "-c", "grep -l 0000:0000:0000:0000:0000:ffff:7f00:0001 /sys/class/infiniband/ur0/ports/1/gids/*").ok().out
        index = gid.strip().rsplit("/", 1)[1]
        server = w.a.start("ibv_rc_pingpong", "-d", "ur0", "-g", index, user=NOBODY)
        wait_until(lambda: w.a.listens(18515), "listens")
        run("ibv_rc_pingpong", "-d", "ur0", "-g", index, "127.0.0.1").ok()
        server.wait().ok()
        w.a.run(UROCE, "stop", uroce=False, user=NOBODY).ok()


def second_uid_is_refused():
    with World() as w:
        answer = w.a.run("ibv_devinfo", "-d", "ur0", user=NOBODY)
        expect(answer.code != 0, "a second user got the device")
        answer.has(r"uid 0 .*you are uid 65534")
        status = w.a.run(UROCE, "status", uroce=False, user=NOBODY)
        expect(status.code != 0, "a second user got the status")
        status.has(r"uid 0 .*you are uid 65534")
        expect(w.a.run("rdma", "link", "delete", "ur0", user=NOBODY).code != 0, "a second user may delete")
        w.a.run("ibv_devices").ok().has("ur0")


def a_squatted_name_is_not_believed():
    with World(devices=False) as w:
        squatter = w.a.start("/usr/bin/python3", "-c", """
import socket, time
for name in ('uroce-0', 'uroce-65534'):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind('\\0' + name)
    s.listen(5)
    globals()[name] = s
print('ready', flush=True)
time.sleep(60)
""", user=NOBODY, uroce=False)
        wait_until(lambda: "uroce-0" in w.a.sh("ss", "-xlH", "-A", "unix_seqpacket"), "the name is taken")
        answer = w.a.run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "va", timeout=30)
        expect(answer.code != 0, "root trusted a stranger's daemon")
        answer.has(f"uid {NOBODY} has taken the name @uroce-0")
        squatter.kill()
        squatter.wait()
