// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The port: its state and limits, which follow the netdev, and the events that tell of a change. */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <rdma/ib_mad.h>

#include "kmod-shim/module/uroce.h"

/* GRH 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4: what may stand around a payload. */
#define UROCE_HEADER_BYTES 96

enum ib_mtu uroce_active_mtu(unsigned int netdev_mtu)
{
	unsigned int payload =
		netdev_mtu > UROCE_HEADER_BYTES ? netdev_mtu - UROCE_HEADER_BYTES : 0;
	int mtu;

	for (mtu = IB_MTU_4096; mtu >= IB_MTU_256; mtu--)
		if (payload >= 128u << mtu)
			return mtu;
	return 0;
}

static bool uroce_is_up(struct uroce_device *dev)
{
	return READ_ONCE(dev->net->ready) && netif_running(dev->ndev) &&
	       netif_carrier_ok(dev->ndev);
}

int uroce_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct uroce_device *dev = uroce_dev(ibdev);
	enum ib_mtu mtu = uroce_active_mtu(READ_ONCE(dev->ndev->mtu));
	const struct ethtool_ops *ops = dev->ndev->ethtool_ops;
	bool up = uroce_is_up(dev);

	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = mtu ? mtu : IB_MTU_256;
	attr->gid_tbl_len = UROCE_GID_TABLE_LEN;
	attr->pkey_tbl_len = 1;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = UROCE_MAX_MSG_SIZE;
	attr->max_vl_num = 1;
	attr->ip_gids = true;
	/* It complains in the log about netdevs that know no speed. */
	if (ops && ops->get_link_ksettings)
		return ib_get_eth_speed(ibdev, port, &attr->active_speed, &attr->active_width);
	attr->active_speed = IB_SPEED_SDR;
	attr->active_width = IB_WIDTH_1X;
	return 0;
}

enum rdma_link_layer uroce_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

int uroce_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

int uroce_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->gid_tbl_len = UROCE_GID_TABLE_LEN;
	immutable->pkey_tbl_len = 1;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

void uroce_port_event(struct uroce_device *dev, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = 1,
		.event = type,
	};

	ib_dispatch_event(&event);
}

/* The kernel says the same thing twice at times (UP, then CHANGE); programs are to hear it once. */
void uroce_port_update(struct uroce_device *dev)
{
	bool up;

	spin_lock_bh(&dev->port_lock);
	up = uroce_is_up(dev);
	if (up != dev->port_up) {
		dev->port_up = up;
		uroce_port_event(dev, up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR);
	}
	spin_unlock_bh(&dev->port_lock);
}

/* Called with a reference to the device, so that it is registered. */
void uroce_netdev_event(struct uroce_device *dev, unsigned long event)
{
	switch (event) {
	case NETDEV_UNREGISTER: /* also sent when it moves to another namespace */
		ib_unregister_device_queued(&dev->ibdev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		uroce_port_update(dev);
		uroce_channel_note_change(dev->net);
		break;
	case NETDEV_CHANGEMTU:
	case NETDEV_CHANGENAME:
		uroce_channel_note_change(dev->net);
		break;
	}
}
