# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The guest's first file system: busybox, a handful of modules, and what to run once the host's root is there."""
import os
import shutil

from kernel import Missing

INIT = """#!/bin/sh
/bin/busybox mkdir -p /proc /sys /dev /host /top /new
alias mount='/bin/busybox mount' mkdir='/bin/busybox mkdir'
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do /bin/busybox insmod /modules/$module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro host /host
mount -t tmpfs tmpfs /top
mkdir /top/upper /top/work
mount -t overlay -o lowerdir=/host,upperdir=/top/upper,workdir=/top/work overlay /new
mount -t tmpfs -o mode=755 tmpfs /new/run
/bin/busybox cp -r /guest /new/run/guest
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
exec /bin/busybox switch_root /new /bin/sh /run/guest/init
"""


def busybox():
    """Path of a statically linked busybox."""
    for path in (shutil.which("busybox"), "/bin/busybox"):
        if path and os.path.exists(path):
            with open(path, "rb") as file:
                if b"/lib64/ld-linux" not in file.read(4096):
                    return path
    raise Missing("no statically linked busybox: apt-get install busybox-static")


def build(path, modules, guest_files):
    """Writes a cpio archive. `guest_files` (name to bytes) is found in /run/guest by the guest."""
    with open(busybox(), "rb") as file:
        binary = file.read()
    entries = [("bin", None, 0o755), ("modules", None, 0o755), ("guest", None, 0o755), ("dev", None, 0o755),
               ("bin/busybox", binary, 0o755), ("init", INIT.encode(), 0o755), ("bin/sh", binary, 0o755),
               ("modules/order", " ".join(name for name, _ in modules).encode(), 0o644)]
    entries += [(f"modules/{name}", data, 0o644) for name, data in modules]
    entries += [(f"guest/{name}", data, 0o755) for name, data in guest_files.items()]
    with open(path, "wb") as file:
        for number, (name, data, mode) in enumerate(entries, 1):
            file.write(_entry(number, name, data, mode))
        file.write(_entry(0, "TRAILER!!!", b"", 0))


def _entry(inode, name, data, mode):
    """One entry in the `newc` format: thirteen fields of eight hexadecimal digits, the name, the data, each padded to four bytes."""
    kind = 0o040000 if data is None else 0o100000
    data = data or b""
    fields = (inode, kind | mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
