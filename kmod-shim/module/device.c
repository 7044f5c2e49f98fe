// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The ib_device of a link: what it can do, its registration and its end. */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>

#include "kmod-shim/module/uroce.h"

static int uroce_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	struct uroce_device *dev = uroce_dev(ibdev);
	u32 odp = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		  IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV;

	if (udata->inlen || udata->outlen)
		return -EINVAL;
	attr->sys_image_guid = dev->node_guid;
	attr->max_mr_size = ~0ull;
	attr->page_size_cap = 0xfffff000;
	attr->vendor_id = UROCE_VENDOR_ID;
	attr->vendor_part_id = UROCE_VENDOR_PART_ID;
	attr->hw_ver = 1;
	attr->max_qp = UROCE_MAX_QP_PER_CONTEXT;
	attr->max_qp_wr = UROCE_MAX_QP_WR;
	attr->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_BAD_QKEY_CNTR |
				 IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_UD_AV_PORT_ENFORCE |
				 IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_N_NOTIFY_CQ | IB_DEVICE_MEM_WINDOW | IB_DEVICE_XRC |
				 IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_MEM_WINDOW_TYPE_2B;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY | IBK_ON_DEMAND_PAGING;
	attr->max_send_sge = UROCE_MAX_SGE;
	attr->max_recv_sge = UROCE_MAX_SGE;
	attr->max_sge_rd = UROCE_MAX_SGE;
	attr->max_cq = uroce_limit(UROCE_CQ);
	attr->max_cqe = UROCE_MAX_CQE;
	attr->max_mr = uroce_limit(UROCE_MR);
	attr->max_pd = uroce_limit(UROCE_PD);
	attr->max_mw = uroce_limit(UROCE_MW);
	attr->max_ah = uroce_limit(UROCE_AH);
	attr->max_srq = uroce_limit(UROCE_SRQ);
	attr->max_srq_wr = UROCE_MAX_SRQ_WR;
	attr->max_srq_sge = UROCE_MAX_SGE;
	attr->max_qp_rd_atom = UROCE_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = UROCE_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = UROCE_MAX_RD_ATOMIC * UROCE_MAX_QP_PER_CONTEXT;
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->max_mcast_grp = 8192;
	attr->max_mcast_qp_attach = 56;
	attr->max_total_mcast_qp_attach = uroce_limit(UROCE_MCAST);
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = odp;
	attr->odp_caps.per_transport_caps.uc_odp_caps = odp;
	attr->odp_caps.per_transport_caps.ud_odp_caps = odp;
	attr->odp_caps.per_transport_caps.xrc_odp_caps = odp;
	attr->timestamp_mask = ~0ull;
	attr->hca_core_clock = 1000000; /* kHz: time stamps are nanoseconds */
	return 0;
}

static void uroce_get_dev_fw_str(struct ib_device *ibdev, char *text)
{
	snprintf(text, IB_FW_VERSION_NAME_MAX, "%s", THIS_MODULE->version);
}

/* The end of ib_unregister_device: nobody uses the link any more. */
static void uroce_dealloc_driver(struct ib_device *ibdev)
{
	struct uroce_device *dev = uroce_dev(ibdev);

	mutex_lock(&uroce_devices_lock);
	list_del(&dev->entry);
	mutex_unlock(&uroce_devices_lock);
	uroce_channel_note_change(dev->net);
	WARN_ON(!xa_empty(&dev->keys) || !xa_empty(&dev->srqs));
	xa_destroy(&dev->keys);
	xa_destroy(&dev->srqs);
	dev_put(dev->ndev);
	uroce_net_put(dev->net);
}

const struct ib_device_ops uroce_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)UROCE_DRIVER_ID,
	.uverbs_abi_ver = UROCE_ABI_VERSION,

	.add_gid = uroce_add_gid,
	.alloc_mw = uroce_alloc_mw,
	.alloc_pd = uroce_alloc_pd,
	.alloc_ucontext = uroce_alloc_ucontext,
	.alloc_xrcd = uroce_alloc_xrcd,
	.attach_mcast = uroce_attach_mcast,
	.create_ah = uroce_create_ah,
	.create_cq = uroce_create_cq,
	.create_qp = uroce_create_qp,
	.create_srq = uroce_create_srq,
	.create_user_ah = uroce_create_ah,
	.dealloc_driver = uroce_dealloc_driver,
	.dealloc_mw = uroce_dealloc_mw,
	.dealloc_pd = uroce_dealloc_pd,
	.dealloc_ucontext = uroce_dealloc_ucontext,
	.dealloc_xrcd = uroce_dealloc_xrcd,
	.del_gid = uroce_del_gid,
	.dereg_mr = uroce_dereg_mr,
	.destroy_ah = uroce_destroy_ah,
	.destroy_cq = uroce_destroy_cq,
	.destroy_qp = uroce_destroy_qp,
	.destroy_srq = uroce_destroy_srq,
	.detach_mcast = uroce_detach_mcast,
	.disassociate_ucontext = uroce_disassociate_ucontext,
	.get_dev_fw_str = uroce_get_dev_fw_str,
	.get_dma_mr = uroce_get_dma_mr,
	.get_link_layer = uroce_get_link_layer,
	.get_port_immutable = uroce_get_port_immutable,
	.modify_qp = uroce_modify_qp,
	.modify_srq = uroce_modify_srq,
	.poll_cq = uroce_poll_cq,
	.post_recv = uroce_post_recv,
	.post_send = uroce_post_send,
	.query_device = uroce_query_device,
	.query_pkey = uroce_query_pkey,
	.query_port = uroce_query_port,
	.query_qp = uroce_query_qp,
	.query_srq = uroce_query_srq,
	.reg_user_mr = uroce_reg_user_mr,
	.req_notify_cq = uroce_req_notify_cq,
	.rereg_user_mr = uroce_rereg_user_mr,
	.resize_cq = uroce_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, uroce_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, uroce_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, uroce_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, uroce_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, uroce_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, uroce_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, uroce_context, ibuc),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, uroce_xrcd, ibxrcd),
};

static bool uroce_guid_is_taken(__be64 guid)
{
	struct uroce_device *other;

	list_for_each_entry (other, &uroce_devices, entry)
		if (other->node_guid == guid)
			return true;
	return false;
}

/* From the MAC address where there is one that no other link has (bridges and macvlans share
 * theirs), else a random one. */
static void uroce_choose_guid(struct uroce_device *dev)
{
	u8 guid[8];

	if (dev->ndev->type == ARPHRD_ETHER && is_valid_ether_addr(dev->ndev->dev_addr)) {
		addrconf_addr_eui48(guid, (const char *)dev->ndev->dev_addr);
		memcpy(&dev->node_guid, guid, sizeof(guid));
	}
	while (!dev->node_guid || uroce_guid_is_taken(dev->node_guid)) {
		get_random_bytes(guid, sizeof(guid));
		guid[0] &= ~3; /* an EUI-64 of no vendor, of one node */
		memcpy(&dev->node_guid, guid, sizeof(guid));
	}
}

static void uroce_device_init(struct uroce_device *dev, struct net_device *ndev,
			      struct uroce_net *net, struct device *parent)
{
	struct ib_device *ibdev = &dev->ibdev;

	spin_lock_init(&dev->port_lock);
	spin_lock_init(&dev->gid_lock);
	spin_lock_init(&dev->gsi_lock);
	xa_init_flags(&dev->keys, XA_FLAGS_ALLOC1);
	xa_init_flags(&dev->srqs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	dev_hold(ndev);
	dev->ndev = ndev;
	kref_get(&net->ref);
	dev->net = net;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = 1;
	ibdev->local_dma_lkey = 0;
	ibdev->dev.parent = parent;
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_PEEK_CQ); /* the kick */
	ibdev->driver_def = uroce_uapi;
	strscpy(ibdev->node_desc, "uroce", sizeof(ibdev->node_desc));
	ib_set_device_ops(ibdev, &uroce_device_ops);

	mutex_lock(&uroce_devices_lock);
	uroce_choose_guid(dev);
	ibdev->node_guid = dev->node_guid;
	list_add_tail(&dev->entry, &uroce_devices);
	mutex_unlock(&uroce_devices_lock);
}

/* Where links are seen in one namespace only, that of the netdev is the one that it is made for. */
static void uroce_choose_namespace(struct uroce_device *dev)
{
	struct net *net = dev_net(dev->ndev);

	if (!rdma_dev_access_netns(&dev->ibdev, net))
		write_pnet(&dev->ibdev.coredev.rdma_net, net);
}

/* Is its netdev still there, and in the namespace that the link was made for? */
static bool uroce_is_at_home(struct uroce_device *dev)
{
	bool at_home = false;

	rtnl_lock();
	if (dev->ndev->reg_state == NETREG_REGISTERED) {
		struct uroce_net *net = uroce_net_of(dev_net(dev->ndev));

		at_home = net == dev->net;
		uroce_net_put(net);
	}
	rtnl_unlock();
	return at_home;
}

int uroce_device_create(const char *name, struct net_device *ndev, struct uroce_net *net,
			struct device *parent)
{
	struct uroce_device *dev = ib_alloc_device(uroce_device, ibdev);
	struct ib_device *registered;
	int err;

	if (!dev)
		return -ENOMEM;
	uroce_device_init(dev, ndev, net, parent);
	uroce_choose_namespace(dev);
	uroce_mark_name(&dev->ibdev);
	err = ib_device_set_netdev(&dev->ibdev, ndev, 1);
	if (!err)
		err = ib_register_device(&dev->ibdev, name, NULL);
	if (err) {
		ib_dealloc_device(&dev->ibdev); /* calls dealloc_driver */
		return err;
	}

	/* From here on it can go at any time, as it must if its netdev went, or moved, before the
	 * notifier knew of it. */
	registered = ib_device_get_by_netdev(ndev, (enum rdma_driver_id)UROCE_DRIVER_ID);
	if (!registered)
		return 0;
	if (!uroce_is_at_home(uroce_dev(registered))) {
		ib_unregister_device_queued(registered);
		err = -ENODEV;
	} else {
		uroce_port_update(uroce_dev(registered));
		uroce_channel_note_change(uroce_dev(registered)->net);
	}
	ib_device_put(registered);
	return err;
}
