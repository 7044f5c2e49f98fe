// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* All links, and how many objects each of them has. */
#include "kmod-shim/module/uroce.h"

LIST_HEAD(uroce_devices);
DEFINE_MUTEX(uroce_devices_lock);

static const u32 uroce_limits[UROCE_KINDS] = {
	[UROCE_PD] = 32768,  [UROCE_MR] = 262144,  [UROCE_MW] = 131072,	 [UROCE_CQ] = 65536,
	[UROCE_SRQ] = 32768, [UROCE_XRCD] = 32768, [UROCE_AH] = 1 << 20, [UROCE_MCAST] = 8192 * 56,
};

u32 uroce_limit(enum uroce_kind kind)
{
	return uroce_limits[kind];
}

int uroce_take(struct uroce_device *dev, enum uroce_kind kind)
{
	if (atomic_inc_return(&dev->counts[kind]) <= uroce_limits[kind])
		return 0;
	atomic_dec(&dev->counts[kind]);
	return -ENOMEM;
}

void uroce_give(struct uroce_device *dev, enum uroce_kind kind)
{
	atomic_dec(&dev->counts[kind]);
}
