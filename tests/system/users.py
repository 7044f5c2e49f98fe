# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Who may do what: unprivileged users, a second uid, strangers on our names."""
import os

from world import BUILD, STAND_IN, UROCE, Skip, World, expect, wait_until

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


def two_users_cannot_have_daemons_side_by_side():
    """Root is the second one here: another user's daemon has the namespace."""
    with World(names=("a",)) as w:
        own = lambda *command: w.a.run(*command, user=NOBODY)
        own("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo").ok()
        refused = rf"belongs to uid {NOBODY} .*you are uid 0"
        for command in (["rdma", "link"], ["ibv_devinfo"], [UROCE, "status"], [UROCE, "log"], [UROCE, "stop"], [UROCE, "doctor"],
                        [UROCE, "link", "add", "ur1", "netdev", "lo"]):
            answer = w.a.run(*command, uroce=command[0] != UROCE).has(refused)
            expect(answer.code != 0, f"{' '.join(command)} has worked")
        # Without `uroce run`, which says it too: the program's own stderr.
        bare = {"LD_PRELOAD": STAND_IN, "UROCE_DAEMON": os.path.join(BUILD, "tools/uroced/uroced")}
        w.a.run("rdma", "link", uroce=False, environment=bare).has(refused)
        w.a.run("cat", "/sys/class/infiniband/ur0/node_guid", uroce=False, environment=bare).has(r"^(?!uroce).*No such file").lacks("uroce:")
        expect(len(w.a.daemons()) == 2, f"keeper and worker, and nobody else: {w.a.daemons()}")
        own("ibv_devices").ok().has("ur0")
        w.a.run(UROCE, "stop", uroce=False, user=NOBODY).ok()


def an_idle_daemon_makes_way():
    with World(names=("a",)) as w:
        w.a.run("rdma", "link").ok()
        w.a.run(UROCE, "status", uroce=False, user=NOBODY).has("makes way")
        w.a.run(UROCE, "status", uroce=False).ok()
        w.a.run("rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo", user=NOBODY).ok()
        w.a.run("ibv_devices", user=NOBODY).ok().has("ur0")
        w.a.run("rdma", "link", "delete", "ur0", user=NOBODY).ok()
        # From inside a program that nobody has helped to start.
        bare = {"LD_PRELOAD": STAND_IN, "UROCE_DAEMON": os.path.join(BUILD, "tools/uroced/uroced")}
        w.a.run("rdma", "link", "add", "ur1", "type", "uroce", "netdev", "lo", uroce=False, environment=bare).ok()
        w.a.run("rdma", "link").ok().has("ur1")


def two_users_at_once():
    """One of them has a device, the other is told; whoever it is."""
    with World(names=("a",)) as w:
        for number in range(4):
            users = (0, NOBODY)
            adds = [w.a.start(UROCE, "link", "add", "ur0", "netdev", "lo", uroce=False, user=user) for user in users]
            answers = [add.wait(60) for add in adds]
            winners = [user for user, answer in zip(users, answers) if answer.code == 0]
            expect(len(winners) == 1, f"round {number}: {[(a.code, a.out) for a in answers]}")
            loser = answers[1 - users.index(winners[0])]
            expect("uid" in loser.out, f"the other is told nothing: {loser.out}")
            expect(len(w.a.daemons()) == 2, f"keeper and worker, and nobody else: {w.a.daemons()}")
            w.a.run(UROCE, "stop", uroce=False, user=winners[0]).ok()


def user_namespaces_that_share_a_network():
    """Both users are uid 0 inside; the names say nothing, the credentials do."""
    with World(names=("a",)) as w:
        def inside(user, *command):
            return w.a.run("unshare", "-Ur", UROCE, "run", "--", *command, user=user, uroce=False, timeout=60)
        first = inside(61001, "rdma", "link", "add", "ur0", "type", "uroce", "netdev", "lo")
        if "unshare failed" in first.out:
            raise Skip("no user namespaces for users here")
        first.ok()
        inside(61001, "rdma", "link").ok().has("ur0")
        w.a.run("rdma", "link", user=61001).ok().has("ur0")  # the same user outside
        second = inside(61002, "rdma", "link")
        expect(second.code != 0, f"the second user got in: {second.out}")
        second.has("belongs to uid 65534 .*you are uid 0", "every user whom your user namespace does not know")
        w.a.run("rdma", "link", user=61002).has("belongs to uid 61001 .*you are uid 61002")
        expect(len(w.a.daemons()) == 2, f"keeper and worker, and nobody else: {w.a.daemons()}")
        w.a.run(UROCE, "stop", uroce=False, user=61001).ok()


def a_user_namespace_that_knows_nobody():
    """There uid 65534 is everybody: such a daemon could keep nobody out."""
    with World(names=("a",)) as w:
        answer = w.a.run("unshare", "-U", UROCE, "link", "add", "ur0", "netdev", "lo", user=61001, uroce=False)
        if "unshare failed" in answer.out:
            raise Skip("no user namespaces for users here")
        expect(answer.code != 0, answer.out)
        answer.has("65534 also stands for all users")
