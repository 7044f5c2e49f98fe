# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A stock Debian kernel for the guest: fetched with apt-get, unpacked into a cache folder, never installed."""
import fcntl
import lzma
import os
import re
import shutil
import subprocess

# What the first file system needs: the host's root over 9p, and something to write to over it.
WANTED = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
SERIES = {"6.1": r"linux-image-(6\.1\.\d+-\d+)-amd64", "6.12": r"linux-image-(6\.12\.\d+\+deb\d+)-amd64"}
# Half of the package, and of no use here.
LEFT_OUT = ("drivers/gpu/drm/[ainr]*/*", "drivers/media", "drivers/net/wireless", "sound")


class Missing(Exception):
    """Why there can be no guest here, and what to do about it."""


class Kernel:
    """An unpacked package: `image`, `release`, and `tree`, the folder to mount on /lib/modules/RELEASE."""

    def __init__(self, folder):
        self.image = next(os.path.join(folder, "boot", name) for name in os.listdir(os.path.join(folder, "boot"))
                          if name.startswith("vmlinuz-"))
        self.release = os.path.basename(self.image).removeprefix("vmlinuz-")
        self.tree = os.path.join(folder, "lib/modules", self.release)

    def first_modules(self):
        """(name, bytes) of the modules that lead to the root file system, in the order to load them."""
        found = {}
        with open(os.path.join(self.tree, "modules.dep"), encoding="utf-8") as file:
            for line in file:
                path, _, needs = line.partition(":")
                found[_module_name(path)] = [path, *needs.split()]
        order = []
        for name in WANTED:  # what is not listed is built in
            for path in reversed(found.get(name, [])):
                if path not in order:
                    order.append(path)
        return [(_module_name(path), _contents(os.path.join(self.tree, path))) for path in order]


def _module_name(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def _contents(path):
    with open(path, "rb") as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def prepare(series, cache):
    """The newest kernel of `series` in `cache`, fetched when there is none; or the one in a folder of that name, as
    `make install modules_install` leave it: boot/vmlinuz-RELEASE and lib/modules/RELEASE."""
    if os.path.isdir(os.path.join(series, "boot")):
        return Kernel(os.path.abspath(series))
    if series not in SERIES:
        raise Missing(f"--kernel {series}: known are {', '.join(SERIES)}, and folders with boot and lib/modules")
    if not shutil.which("depmod", path=_path()):
        raise Missing("depmod is not here: apt-get install kmod")
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = _newest(SERIES[series], os.listdir(cache))
        folder = os.path.join(cache, there or _fetch(series, cache))
    return Kernel(folder)


def _path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _newest(pattern, names):
    version = lambda name: [int(number) for number in re.findall(r"\d+", name)]
    return max((name for name in names if re.fullmatch(pattern, name)), key=version, default=None)


def _fetch(series, cache):
    if not shutil.which("apt-get"):
        raise Missing("no apt-get, by which a Debian kernel would be fetched")
    listed = subprocess.run(["apt-cache", "search", "--names-only", "^linux-image-6"], stdout=subprocess.PIPE, text=True, check=False)
    name = _newest(SERIES[series], [line.split()[0] for line in listed.stdout.splitlines()])
    if name is None:
        raise Missing(f"apt knows no kernel package of {series}: run apt-get update; 6.12 is in Debian 12's security and backports archives")
    work = os.path.join(cache, "unpacking")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    got = subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", name], cwd=work, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
    files = [file for file in os.listdir(work) if file.endswith(".deb")]
    if got.returncode != 0 or not files:
        raise Missing(f"apt-get download {name}: {got.stdout.strip()[-300:]}")
    _unpack(os.path.join(work, files[0]), work)
    os.rename(work, os.path.join(cache, name))
    return name


def _unpack(package, folder):
    left_out = [f"--exclude=./lib/modules/*/kernel/{part}" for part in LEFT_OUT]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as data:
        subprocess.run(["tar", "-x", "-C", folder, *left_out, "./boot", "./lib"], stdin=data.stdout, check=True)
    os.unlink(package)
    subprocess.run(["depmod", "-b", folder, Kernel(folder).release], env={**os.environ, "PATH": _path()}, check=True)
