// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Copies and atomics on memory that may not be there. A fault inside these routines (SIGSEGV, SIGBUS) becomes
// `false`; any other fault goes to the handler that was installed before ours.
//
// The program may replace our handler at any time. handler_in_place() tells; the memory layer then copies
// through a memfd, where the kernel answers EFAULT instead of raising a signal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::runtime {

// Installs the handlers (again, if they were replaced before; the present ones become the chain). False with
// errno.
bool install_fault_handlers();

// True when SIGSEGV and SIGBUS still come to us. Two system calls, about 0.25 us.
bool fault_handlers_in_place();

// A blocked SIGSEGV that is raised by a fault kills the process: unblocks both for this thread, once.
void unblock_faults_of_this_thread();

// Ascending; the last bytes are stored last; aligned 8-byte words of the destination are stored whole.
bool copy_or_fault(void* destination, const void* source, size_t bytes);
bool compare_swap_or_fault(uint64_t* word, uint64_t compare, uint64_t swap, uint64_t& original);
bool fetch_add_or_fault(uint64_t* word, uint64_t add, uint64_t& original);

}  // namespace uroce::runtime
