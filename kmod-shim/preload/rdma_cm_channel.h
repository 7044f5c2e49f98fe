// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What belongs to one open /dev/infiniband/rdma_cm. The program's descriptor is a stream socket in which one
// byte lies for each event that waits in uroced; commands go over a connection of their own. Zero is a valid
// start.
//
// exchange.commands is also held by whoever takes bytes off the descriptor, so that bytes and events agree
// whenever it is free. Of two channels, the one at the lower address is locked first.
#ifndef UROCE_PRELOAD_RDMA_CM_CHANNEL_H
#define UROCE_PRELOAD_RDMA_CM_CHANNEL_H

#include <stdint.h>

#include "kmod-shim/preload/exchange.h"
#include "kmod-shim/preload/kept.h"

struct rdma_cm_channel {
  struct exchange exchange;
  struct kept line;  // the connection
  uint32_t number;   // uroced's name for the channel
};

#endif
