# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The guest's first file system: busybox, a handful of modules, and what to run once the host's root is there."""
import os
import shutil
import subprocess

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
    files = {"init": INIT.encode(), "modules/order": " ".join(name for name, _ in modules).encode()}
    files |= {f"modules/{name}": data for name, data in modules} | {f"guest/{name}": data for name, data in guest_files.items()}
    tree = path + ".tree"
    for folder in ("bin", "modules", "guest", "dev"):
        os.makedirs(os.path.join(tree, folder))
    for name in ("busybox", "sh"):
        shutil.copy(busybox(), os.path.join(tree, "bin", name))
    for name, data in files.items():
        with open(os.open(os.path.join(tree, name), os.O_WRONLY | os.O_CREAT, 0o755), "wb") as file:
            file.write(data)
    names = "\n".join(os.path.relpath(os.path.join(at, name), tree) for at, folders, found in os.walk(tree) for name in folders + found)
    with open(path, "wb") as archive:
        subprocess.run([busybox(), "cpio", "-o", "-H", "newc"], cwd=tree, input=names.encode(), stdout=archive, stderr=subprocess.DEVNULL,
                       check=True)
    shutil.rmtree(tree)
