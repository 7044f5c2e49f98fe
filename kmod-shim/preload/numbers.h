// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// snprintf is not async-signal-safe, and its locale is the program's.
#ifndef UROCE_PRELOAD_NUMBERS_H
#define UROCE_PRELOAD_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

// `format` with each "%u" replaced by the next of `numbers`, cut off where `room` ends; the length without
// the NUL.
size_t numbers_format(char* out, size_t room, const char* format, const uint32_t* numbers);

#endif
