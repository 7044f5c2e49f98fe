#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Verbs through the stock libibverbs: in_world.py CASE. Exit 77: skipped, with the reason."""
import glob
import gzip
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../system"))

SUITE = "/usr/share/doc/rdma-core/tests"  # of python3-pyverbs
# Tests of other vendors' own verbs, and of GPUs.
NOT_OURS = ("test_mlx5*", "test_efa*", "test_cuda*")
# Why a test of the suite may be skipped; anything else is a verb that we should have.
FAIR = (
    r"Create QP type 8 is not supported",  # RAW_PACKET: Ethernet frames, not RDMA
    r"Create Raw Packet QP .* is not supported",
    r"dmabuf is not supported by /dev/dri|Device /dev/dri/\S+ is not present|Lack of permission to access /dev/dri",
    r"There are no huge pages of size \S+ allocated",
    r"Extended CQ is not supported",  # the tag matching tests ask for its flags
    r"Tag matching is not supported",
)
LEAST_PASSED = 142


def conformance():
    from world import BUILD, World
    with World() as w:
        program = os.path.join(BUILD, "tests/verbs/conformance/verbs_conformance")
        w.a.run(program, timeout=200).ok().lacks(r"\[  FAILED  \]").has(r"\[  PASSED  \] [1-9]\d+ tests")


def copy_suite(to):
    shutil.copytree(SUITE, to)
    for packed in glob.glob(os.path.join(to, "*.gz")):
        with gzip.open(packed) as source, open(packed[:-3], "wb") as plain:
            shutil.copyfileobj(source, plain)
        os.remove(packed)
    for pattern in NOT_OURS:
        for file in glob.glob(os.path.join(to, pattern)):
            os.remove(file)


class HugePages:
    """Some for the suite's tests of on-demand paging, where root may have them."""
    PATH = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

    def __enter__(self):
        try:
            with open(self.PATH, encoding="ascii") as file:
                self.before = int(file.read())
            self._set(self.before + 32)
        except OSError as problem:
            self.before = None
            print(f"no huge pages: {problem}")

    def __exit__(self, *_):
        if self.before is not None:
            self._set(self.before)

    def _set(self, count):
        with open(self.PATH, "w", encoding="ascii") as file:
            file.write(str(count))


def pyverbs():
    from run import Skip
    from world import World, expect
    if not os.path.isdir(SUITE):
        raise Skip(f"no {SUITE} (package python3-pyverbs)")
    with tempfile.TemporaryDirectory() as directory, HugePages(), World() as w:
        suite = os.path.join(directory, "tests")
        copy_suite(suite)
        gid = w.a.gid_index("10.77.0.1")
        done = w.a.run("/usr/bin/python3", os.path.join(suite, "run_tests.py"), "--dev", "ur0", "--gid", gid, "-v", timeout=600)
        done.ok().lacks(r"\.\.\. (FAIL|ERROR)$")
        skipped = re.findall(r"\.\.\. skipped (.*)$", done.out, re.M)
        unfair = [reason for reason in skipped if not any(re.search(fair, reason) for fair in FAIR)]
        expect(not unfair, "skipped without a good reason:\n" + "\n".join(unfair))
        ran = int(re.search(r"^Ran (\d+) tests", done.out, re.M).group(1))
        print(f"{ran - len(skipped)} passed, {len(skipped)} skipped")
        expect(ran - len(skipped) >= LEAST_PASSED, f"{ran - len(skipped)} of {ran} passed, {LEAST_PASSED} must")


def main():
    if os.geteuid() != 0:
        print("skipped: makes network namespaces, which needs root")
        return 77
    from run import Skip
    try:
        {"conformance": conformance, "pyverbs": pyverbs}[sys.argv[1]]()
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
