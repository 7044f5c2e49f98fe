// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef UROCE_PRELOAD_RDMA_CM_OPEN_H
#define UROCE_PRELOAD_RDMA_CM_OPEN_H

// Opens rdma_cm of this namespace's uroced. A close-on-exec descriptor, or a negative errno.
int rdma_cm_open(void);

#endif
