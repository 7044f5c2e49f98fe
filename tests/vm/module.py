#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Tests of the kernel module: builds it for a stock Debian kernel and runs the cases of module_guest.py in a virtual machine.

  tests/vm/module.py [--kernel 6.1|6.12|FOLDER] [--timeout SECONDS] [--cache FOLDER] [--append WORDS] [--with-rxe] [CASE...]

UROCE_BUILD names the build folder, whose uroced and provider are used. Exit 77: this cannot be done here, and why.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True

import kernel  # noqa: E402
import module_build  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    build = os.environ.setdefault("UROCE_BUILD", os.path.join(module_build.TOP, "build/release"))
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--timeout", default="800")
    parser.add_argument("--cache", default=os.path.join(build, "vm"))
    parser.add_argument("--append", default="")
    parser.add_argument("--with-rxe", action="store_true", help="the cases of rxe.py, between rxe and the module's link")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    cache = os.path.abspath(options.cache)
    try:
        os.environ["UROCE_MODULE"] = module_build.build(kernel.prepare(options.kernel, cache), cache)
    except kernel.Missing as reason:
        print(f"skipped: {reason}")
        return 77
    program = os.path.join(HERE, "guest.py" if options.with_rxe else "module_guest.py")
    os.execv(os.path.join(HERE, "run"), ["run", "--kernel", options.kernel, "--timeout", options.timeout, "--cache", cache,
                                         f"--append={options.append}", "--", "/usr/bin/python3", program, *options.cases])


if __name__ == "__main__":
    sys.exit(main())
