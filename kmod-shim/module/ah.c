// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Address handles: the kernel's, for QP 1. Programs keep their own without asking. Must not sleep.
 */
#include <rdma/ib_cache.h>

#include "kmod-shim/module/uroce.h"

int uroce_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibah->device);
	struct uroce_ah *ah = container_of(ibah, struct uroce_ah, ibah);
	const struct rdma_ah_attr *attr = init->ah_attr;
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	struct net_device *ndev;
	int err;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !grh->sgid_attr)
		return -EINVAL;
	if (udata) {
		err = uroce_take(dev, UROCE_AH);
		if (err)
			return err;
		ah->counted = true;
	}
	ah->route.local = grh->sgid_attr->gid;
	ah->route.remote = grh->dgid;
	ah->route.flow_label = grh->flow_label & 0xfffff;
	ah->route.traffic_class = grh->traffic_class;
	ah->route.hop_limit = grh->hop_limit;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(grh->sgid_attr);
	ah->route.ifindex = IS_ERR(ndev) ? 0 : ndev->ifindex;
	rcu_read_unlock();
	return 0;
}

int uroce_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	if (container_of(ibah, struct uroce_ah, ibah)->counted)
		uroce_give(uroce_dev(ibah->device), UROCE_AH);
	return 0;
}
