// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The stand-in is silent in any program. The one exception: a program that wants RDMA and is refused by
// uroced for a reason that an errno cannot carry (the daemon is another user's, its slots are used up). Said
// once per process, on stderr.
#ifndef UROCE_PRELOAD_REFUSAL_H
#define UROCE_PRELOAD_REFUSAL_H

void refusal_tell(const char* sentence);

#endif
