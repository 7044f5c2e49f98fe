#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The engine and the wire codec are pure: what their archives need from outside is memory, bytes and one CRC.
usage: purity.py [--allow SYMBOL] ARCHIVE..."""
import argparse
import re
import subprocess
import sys

ALLOWED = re.compile(
    r"^(memcpy|memmove|memset|memcmp|strlen|bcmp|abort"
    r"|crc32_gzip_refl"
    r"|_GLOBAL_OFFSET_TABLE_|_Unwind_Resume|__stack_chk_fail|__dso_handle"
    r"|__gxx_personality_v0|__cxa_(begin_catch|end_catch|rethrow|allocate_exception|free_exception|throw|pure_virtual|guard_\w+)"
    r"|_Zn[aw]m.*|_Zd[al]Pv.*"                                        # operator new and delete
    r"|_ZTI.*|_ZTV.*|_ZTS.*"
    r"|_ZSt7nothrow|_ZSt\d+__throw_\w+|_ZNSt\w*(bad_alloc|exception)\w*"
    r"|_ZNK?St8__detail20_Prime_rehash_policy\w*|_ZSt11_Hash_bytesPKvmm"  # unordered containers
    r"|_ZSt\d+_Rb_tree_\w+"                                              # ordered ones
    r"|_ZNK?St7__cxx1112basic_string\w*|_ZNSt7__cxx119to_string\w*"       # text of snapshots
    r")$")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--allow", action="append", default=[])
    options.add_argument("archives", nargs="+")
    given = options.parse_args()
    defined, undefined = set(), {}
    for archive in given.archives:
        for line in subprocess.run(["nm", "-A", archive], check=True, capture_output=True, text=True).stdout.splitlines():
            where, kind, symbol = re.match(r"(\S+?):\s*[0-9a-f]*\s+(\w)\s+(\S+)", line).groups()
            if kind == "U":
                undefined.setdefault(symbol, where)
            else:
                defined.add(symbol)
    wanted = {symbol: where for symbol, where in undefined.items() if symbol not in defined}
    foreign = {symbol: where for symbol, where in wanted.items() if not ALLOWED.match(symbol) and symbol not in given.allow}
    for symbol, where in sorted(foreign.items()):
        print(f"{where} needs {symbol}, which is not in the allow list")
    if not wanted:
        print("nothing undefined: wrong archives?")
        return 1
    return 1 if foreign else 0


sys.exit(main())
