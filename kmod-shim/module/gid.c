// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A copy of the GID table that ib_core keeps, for uroced and for packets that arrive at QP 1. */
#include <linux/if_vlan.h>
#include <linux/string.h>

#include "kmod-shim/module/uroce.h"

static void uroce_set_gid(struct uroce_device *dev, u16 index, const struct uroce_gid *entry)
{
	spin_lock(&dev->gid_lock);
	dev->gids[index] = *entry;
	spin_unlock(&dev->gid_lock);
	uroce_channel_note_change(dev->net);
}

int uroce_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct uroce_device *dev = uroce_dev(attr->device);
	struct uroce_gid entry = { .gid = attr->gid, .vlan = UROCE_NO_VLAN };
	struct net_device *ndev;

	if (attr->index >= UROCE_GID_TABLE_LEN)
		return -EINVAL;
	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	if (ndev) {
		entry.ifindex = ndev->ifindex;
		entry.foreign = !net_eq(dev_net(ndev), dev_net(dev->ndev));
		if (is_vlan_dev(ndev))
			entry.vlan = vlan_dev_vlan_id(ndev);
	}
	rcu_read_unlock();
	uroce_set_gid(dev, attr->index, &entry);
	return 0;
}

int uroce_del_gid(const struct ib_gid_attr *attr, void **context)
{
	const struct uroce_gid empty = { .vlan = UROCE_NO_VLAN };

	if (attr->index >= UROCE_GID_TABLE_LEN)
		return -EINVAL;
	uroce_set_gid(uroce_dev(attr->device), attr->index, &empty);
	return 0;
}

/* The entry with this GID; of several, as link-local addresses may have, the one of this netdev.
 * `ifindex` 0: any. */
bool uroce_find_gid(struct uroce_device *dev, const union ib_gid *gid, u32 ifindex,
		    struct uroce_gid *found)
{
	static const union ib_gid zero;
	bool there = false;
	int i;

	if (!memcmp(gid, &zero, sizeof(zero)))
		return false;
	spin_lock(&dev->gid_lock);
	for (i = 0; i < UROCE_GID_TABLE_LEN && !there; i++) {
		const struct uroce_gid *entry = &dev->gids[i];

		there = !memcmp(&entry->gid, gid, sizeof(*gid)) && !entry->foreign &&
			(!ifindex || ifindex == entry->ifindex);
		if (there)
			*found = *entry;
	}
	spin_unlock(&dev->gid_lock);
	return there;
}
