# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Inside the guest: a machine on which uroce and its module are installed, with udev, and with a systemd that knows no other unit.
The systemd is in a process namespace of its own, since the guest's first process is another."""
import os

from module_world import BUILD, MODULE, sh, wait_until

UNITS = "/run/units"
MODPROBE = "/etc/modprobe.d/uroce.conf"
SYSTEMD = "/lib/systemd/systemd"
UDEVD = "/lib/systemd/systemd-udevd"


def missing():
    """The program that is needed and not here."""
    return next((program for program in (SYSTEMD, UDEVD) if not os.path.exists(program)), None)


class Installed:
    def __init__(self, world):
        self.world = world

    def __enter__(self):
        sh("cmake", "--install", BUILD, "--prefix", "/usr/local")
        # What depmod would write down; it takes minutes over the files of the host.
        with open(MODPROBE, "w", encoding="ascii") as file:
            file.write("".join(f"alias {alias} uroce\n" for alias in sh("modinfo", "-F", "alias", MODULE).split()))
            file.write(f"install uroce /sbin/insmod {MODULE}\n")
        if not os.path.exists("/sys/fs/cgroup/cgroup.procs"):
            sh("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        os.makedirs(UNITS, exist_ok=True)
        for name in ("sysinit", "basic", "shutdown"):
            with open(f"{UNITS}/{name}.target", "w", encoding="ascii") as file:
                file.write("[Unit]\nDefaultDependencies=no\n")
        sh(UDEVD, "--daemon")
        self.systemd = self.world.a.start_outside("env", f"SYSTEMD_UNIT_PATH=/usr/local/lib/systemd/system:{UNITS}", "unshare", "--pid",
                                                  "--fork", "--kill-child", "--mount-proc", SYSTEMD, "--system", "--unit=basic.target",
                                                  "--log-target=console", "--show-status=no")
        wait_until(lambda: self._first() and os.path.exists("/run/systemd/private"), "systemd answers")
        return self

    def _first(self):
        """systemd itself."""
        return sh("pgrep", "-P", self.systemd.popen.pid, check=False).strip()

    def sh(self, *words):
        return sh("nsenter", "--target", self._first(), "--pid", "--mount", *words)

    def __exit__(self, *_):
        self.systemd.kill()
        sh("udevadm", "control", "--exit")
        os.unlink(MODPROBE)
