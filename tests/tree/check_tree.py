#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Rules about the tree that no compiler checks. usage: check_tree.py TOP RULE [arguments]"""
import ast
import concurrent.futures
import os
import re
import subprocess
import sys

TOP = sys.argv[1]
SOURCES = (".h", ".cc", ".c")

# Which folders a folder may include from, besides itself.
LAYERS = {
    "provider/wire": set(),
    "provider/engine": {"provider/wire"},
    "provider/transport": {"provider/wire", "provider/engine"},
    "provider/runtime": {"provider/wire", "provider/engine", "provider/transport", "kmod-shim/uapi"},
    "provider/verbs": {"provider/wire", "provider/engine", "provider/runtime", "kmod-shim/uapi"},
    "kmod-shim/uapi": set(),
    "kmod-shim/preload": {"kmod-shim/uapi"},
    "kmod-shim/module": {"kmod-shim/uapi"},
    "netlink/rdma": {"provider/wire", "kmod-shim/uapi"},
    "netlink/route": {"provider/wire"},
    "tools/uroced": {"provider/wire", "provider/engine", "provider/transport", "kmod-shim/uapi", "netlink/rdma", "netlink/route",
                     "tools/uroced/cm"},
    "tools/uroced/cm": {"provider/wire", "provider/engine"},
    # Its doctor makes the directory that the daemon would make.
    "tools/uroce": {"tools/uroced", "kmod-shim/uapi", "provider/wire", "provider/engine", "provider/transport"},
}
# The data path reads the clock in one file; nothing pure reads it or draws a random number.
CLOCK_FILES = {"provider/runtime/clock.cc", "provider/transport/fault.cc"}
CLOCKS = re.compile(r"\b(clock_gettime|gettimeofday|steady_clock|system_clock|high_resolution_clock|time\(nullptr\)|rdtsc|random_device|"
                    r"getrandom|mt19937|rand\(\))")
# Structures of libibverbs' private provider interface.
PRIVATE_ABI = re.compile(r"\b(struct\s+)?(verbs_device_ops|verbs_match_ent|verbs_sysfs_dev|verbs_context_ops)\s*\{")

# Cases of tests/system that are no tests.
NOT_RUN = {
    "harness.waits": "what another case ends",
}


def files(*roots, suffixes=SOURCES):
    for root in roots or ("provider", "kmod-shim", "netlink", "tools", "tests"):
        for folder, _, names in os.walk(os.path.join(TOP, root)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(folder, name), TOP)


def text(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def without_comments(source):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.S)


def layering():
    for path in files("provider", "kmod-shim", "netlink", "tools"):
        folder = os.path.dirname(path)
        allowed = LAYERS.get(folder)
        if allowed is None:
            yield f"{path}: its folder has no row in LAYERS"
            continue
        for included in re.findall(r'#include "([^"]+)"', text(path)):
            if not os.path.exists(os.path.join(TOP, included)) and "/" in included:
                yield f"{path}: includes {included}, which is not there"
            target = os.path.dirname(included)
            if target and target != folder and target not in allowed:
                yield f"{path}: {folder} may not include from {target}"


def clocks():
    for path in files("provider"):
        if path in CLOCK_FILES:
            continue
        for match in CLOCKS.finditer(without_comments(text(path))):
            yield f"{path}: {match.group(0)} outside {', '.join(sorted(CLOCK_FILES))}"


def private_abi():
    for path in files("provider", "tools", "netlink"):
        if path != "provider/verbs/private_abi.h" and PRIVATE_ABI.search(without_comments(text(path))):
            yield f"{path}: declares a structure of the private provider interface"


def cases():
    """A case of tests/system that no test runs would only seem to show something."""
    lists = re.findall(r"uroce_system_tests\((\w+)([^)]*)\)", text("tests/system/CMakeLists.txt"))
    run = {f"{file}.{case}" for file, names in lists for case in names.split()}
    there = {f"{file}.{node.name}" for file in {file for file, _ in lists} for node in ast.parse(text(f"tests/system/{file}.py")).body
             if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.args.args and not node.args.vararg}
    for case in sorted(there - run - set(NOT_RUN)):
        yield f"{case}: tests/system/CMakeLists.txt does not run it"
    for case in sorted((run - there) | (set(NOT_RUN) - (there - run))):
        yield f"{case}: listed, but there is no such case"


def licences():
    for path in list(files()) + list(files(suffixes=("CMakeLists.txt", ".py", ".sh"))):
        head = text(path)[:200]
        if text(path).strip() and "SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause" not in head:
            yield f"{path}: no SPDX line"


def drops_live():
    """Every reason to drop a packet occurs in code, and where it is reported."""
    for header, enum in (("provider/engine/engine.h", "PacketDrop"), ("provider/transport/transport.h", "Drop")):
        body = re.search(r"enum class %s[^{]*\{(.*?)\}" % enum, without_comments(text(header)), re.S).group(1)
        names = [name.strip() for name in body.split(",") if name.strip() and name.strip() != "kCount"]
        code = "\n".join(text(p) for p in files("provider") if p.endswith(".cc"))
        for name in names:
            # The lane counts those: only it knows the GID table.
            if name == "foreign_destination":
                continue
            if len(re.findall(r"%s::%s\b" % (enum, name), code)) < 2:
                yield f"{header}: {enum}::{name} is never counted"


def paths():
    """The tree speaks of the project alone."""
    for path in list(files()) + list(files("Documentation", "tools", "tests", suffixes=(".md", ".py", ".sh", ".1", ".7", ".8", ".txt"))) + ["README.md"]:
        if path == "tests/tree/check_tree.py":
            continue
        for match in re.finditer(r"/(?:home|root|work)/[a-z]", text(path)):
            yield f"{path}: names a path of one machine: {match.group(0)}"
        for match in re.finditer(r"(?<![\w.])C\d{2,3}\b", text(path)):
            yield f"{path}: names {match.group(0)}, a number of a list that is not in the tree"


def file_sizes():
    for path in files("provider", "kmod-shim", "netlink", "tools"):
        lines = text(path).count("\n")
        if lines > 500:
            yield f"{path}: {lines} lines; split it by direction or verb"


def headers():
    compiler = sys.argv[3]

    def one(path):
        language = "c" if path.startswith("kmod-shim") else "c++"
        standard = "-std=gnu11" if language == "c" else "-std=c++20"
        command = [compiler, "-x", language, standard, "-fsyntax-only", "-Wall", "-Wno-unused", "-D_GNU_SOURCE", "-I", TOP, "-include",
                   os.path.join(TOP, path), "/dev/null"]
        command += subprocess.run(["pkg-config", "--cflags", "libnl-route-3.0", "libmnl"], stdout=subprocess.PIPE, text=True).stdout.split()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return f"{path} does not stand alone:\n{done.stdout}" if done.returncode else None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # The module's need the kernel's own, and are compiled with it.
        for problem in pool.map(one, [p for p in files("provider", "kmod-shim", "netlink", "tools")
                                      if p.endswith(".h") and not p.startswith("kmod-shim/module/")]):
            if problem:
                yield problem


def format():
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *[p for p in files() if not p.startswith("kmod-shim")]], cwd=TOP,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        yield "\n".join(sorted({line.split(":")[0] for line in done.stdout.splitlines() if "error:" in line})) + "\nare not formatted: clang-format -i"


problems = list(globals()[sys.argv[2]]())
print("\n".join(problems) or "nothing to say")
sys.exit(1 if problems else 0)
