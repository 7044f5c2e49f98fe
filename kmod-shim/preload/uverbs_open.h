// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef UROCE_PRELOAD_UVERBS_OPEN_H
#define UROCE_PRELOAD_UVERBS_OPEN_H

#include <stdint.h>

// Opens uverbs<minor> of this namespace's uroced. A close-on-exec descriptor, or a negative errno.
int uverbs_open(uint32_t minor);

#endif
