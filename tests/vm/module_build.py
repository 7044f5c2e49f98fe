# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The kernel module for a guest: Debian's headers for its kernel, fetched with apt-get and unpacked beside it, and a build that
must be free of warnings."""
import fcntl
import glob
import os
import re
import shutil
import subprocess

from kernel import Missing

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build(chosen, cache):
    """Path of uroce.ko for the kernel `chosen`."""
    folder = os.path.join(cache, f"module-{chosen.release}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        own = os.path.join(chosen.tree, "build")  # of a kernel that somebody has built
        return _make(own if os.path.isdir(own) else _headers(chosen.release, folder), folder)


def _make(headers, folder):
    for tool in ("make", "gcc-12"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not here: apt-get install {tool}")
    command = ["make", "-f", os.path.join(TOP, "Kbuild.extra"), f"KDIR={headers}", f"OUT={folder}/build", "W=1"]
    if shutil.which("sparse"):
        command.append("C=1")
    done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode or re.search(r"\b(warning|error):(?! the compiler differs)", done.stdout):
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-6000:]}")
    return os.path.join(folder, "build/kmod-shim/module/uroce.ko")


def _headers(release, folder):
    tree = os.path.join(folder, "headers")
    if not os.path.exists(os.path.join(tree, "complete")):
        shutil.rmtree(tree, ignore_errors=True)
        os.makedirs(tree)
        for package in _packages(release):
            _unpack(package, folder, tree)
        # The folder of the flavour says where the common one is installed.
        flavour = os.path.join(tree, "usr/src", f"linux-headers-{release}")
        common = glob.glob(os.path.join(tree, "usr/src/linux-headers-*-common"))[0]
        with open(os.path.join(flavour, "Makefile"), "w", encoding="utf-8") as file:
            file.write(f"include {common}/Makefile\n")
        open(os.path.join(tree, "complete"), "w", encoding="utf-8").close()
    return os.path.join(tree, "usr/src", f"linux-headers-{release}")


def _packages(release):
    """6.1.0-57-amd64 needs ...-57-common and linux-kbuild-6.1 of the same source; 6.12.117+deb12-amd64 its own of both."""
    base = release.removesuffix("-amd64")
    source = subprocess.run(["apt-cache", "show", f"linux-headers-{release}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, check=False).stdout
    version = re.search(r"^Version: (.*)$", source, re.M)
    if not version:
        raise Missing(f"apt knows no package linux-headers-{release}: run apt-get update")
    kbuild = base if "+" in base else ".".join(base.split(".")[:2])
    return [f"linux-headers-{release}={version[1]}", f"linux-headers-{base}-common={version[1]}", f"linux-kbuild-{kbuild}={version[1]}"]


def _unpack(package, folder, tree):
    work = os.path.join(folder, "unpacking")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    got = subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package], cwd=work, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False)
    files = glob.glob(os.path.join(work, "*.deb"))
    if got.returncode != 0 or not files:
        raise Missing(f"apt-get download {package}: {got.stdout.strip()[-300:]}")
    subprocess.run(["dpkg-deb", "-x", files[0], tree], check=True)
    shutil.rmtree(work)
