// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Is memory there, with the rights that a registration asks for? Registering pins nothing, but must refuse
// what a device could not reach (EFAULT), without touching it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::verbs {

// 0, or EFAULT when part of [va, va + bytes) is not mapped or not readable (with `write`: not writable).
// Ranges up to kPopulateBytes are brought into memory by the way; larger ones are only looked up, so that a
// sparse registration stays sparse and its cost does not grow with its size.
constexpr size_t kPopulateBytes = size_t{64} << 20;
int check_mapped(uintptr_t va, size_t bytes, bool write);

}  // namespace uroce::verbs
