// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Coming and going: the module, `rdma link add`, network namespaces, netdev events. */
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <rdma/rdma_netlink.h>

#include "kmod-shim/module/uroce.h"

static unsigned int uroce_net_id __read_mostly;
static struct platform_device *uroce_parent;

struct uroce_pernet {
	struct uroce_net *net;
};

struct uroce_net *uroce_net_create(void)
{
	struct uroce_net *net = kzalloc(sizeof(*net), GFP_KERNEL);

	if (!net)
		return NULL;
	kref_init(&net->ref);
	spin_lock_init(&net->lock);
	return net;
}

static void uroce_net_free(struct kref *ref)
{
	kfree(container_of(ref, struct uroce_net, ref));
}

void uroce_net_put(struct uroce_net *net)
{
	kref_put(&net->ref, uroce_net_free);
}

struct uroce_net *uroce_net_of(const struct net *net)
{
	struct uroce_pernet *pernet = net_generic(net, uroce_net_id);

	kref_get(&pernet->net->ref);
	return pernet->net;
}

static int __net_init uroce_net_init(struct net *net)
{
	struct uroce_pernet *pernet = net_generic(net, uroce_net_id);

	pernet->net = uroce_net_create();
	return pernet->net ? 0 : -ENOMEM;
}

/* Links may still be on their way out, and hold it. */
static void __net_exit uroce_net_exit(struct net *net)
{
	struct uroce_pernet *pernet = net_generic(net, uroce_net_id);

	uroce_net_put(pernet->net);
}

static struct pernet_operations uroce_net_ops = {
	.init = uroce_net_init,
	.exit = uroce_net_exit,
	.id = &uroce_net_id,
	.size = sizeof(struct uroce_pernet),
};

static int uroce_netdev_is_suitable(struct net_device *ndev)
{
	/* ib_core puts the addresses of VLANs into the table of the device below. */
	if (is_vlan_dev(ndev))
		return -EPERM;
	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK &&
	    ndev->type != ARPHRD_NONE)
		return -EOPNOTSUPP;
	if (!uroce_active_mtu(READ_ONCE(ndev->mtu)))
		return -EINVAL;
	return 0;
}

/* `rdma link add NAME type uroce netdev NDEV`; there is one such command at a time for a type, but
 * netdevs may go meanwhile. */
static int uroce_newlink(const char *name, struct net_device *ndev)
{
	struct ib_device *other;
	struct uroce_net *net;
	int err;

	err = uroce_netdev_is_suitable(ndev);
	if (err)
		return err;
	other = ib_device_get_by_netdev(ndev, (enum rdma_driver_id)UROCE_DRIVER_ID);
	if (other) {
		ib_device_put(other);
		return -EEXIST;
	}
	rtnl_lock(); /* so that it does not move away just now */
	net = uroce_net_of(dev_net(ndev));
	rtnl_unlock();
	err = uroce_device_create(name, ndev, net, &uroce_parent->dev);
	uroce_net_put(net);
	return err;
}

static struct rdma_link_ops uroce_link_ops = {
	.type = "uroce",
	.newlink = uroce_newlink,
};

static int uroce_notify(struct notifier_block *block, unsigned long event, void *info)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev;

	ibdev = ib_device_get_by_netdev(ndev, (enum rdma_driver_id)UROCE_DRIVER_ID);
	if (ibdev) {
		uroce_netdev_event(uroce_dev(ibdev), event);
		ib_device_put(ibdev);
	}
	return NOTIFY_DONE;
}

static struct notifier_block uroce_notifier = {
	.notifier_call = uroce_notify,
};

static struct miscdevice uroce_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = UROCE_CHANNEL_NODE,
	.mode = 0666, /* open() asks for the capability, which the owner of a user namespace has,
			 too */
	.fops = &uroce_channel_fops,
};

static int __init uroce_init(void)
{
	int err;

	uroce_parent = platform_device_register_simple("uroce", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(uroce_parent))
		return PTR_ERR(uroce_parent);
	err = register_pernet_subsys(&uroce_net_ops);
	if (err)
		goto err_parent;
	err = register_netdevice_notifier(&uroce_notifier);
	if (err)
		goto err_net;
	err = misc_register(&uroce_misc);
	if (err)
		goto err_notifier;
	rdma_link_register(&uroce_link_ops);
	return 0;

err_notifier:
	unregister_netdevice_notifier(&uroce_notifier);
err_net:
	unregister_pernet_subsys(&uroce_net_ops);
err_parent:
	platform_device_unregister(uroce_parent);
	return err;
}

/* Links that are in use are taken away from their users, who read DEVICE_FATAL. An open channel
 * keeps the module loaded. */
static void __exit uroce_exit(void)
{
	rdma_link_unregister(&uroce_link_ops);
	unregister_netdevice_notifier(&uroce_notifier);
	ib_unregister_driver((enum rdma_driver_id)UROCE_DRIVER_ID);
	misc_deregister(&uroce_misc);
	unregister_pernet_subsys(&uroce_net_ops);
	platform_device_unregister(uroce_parent);
}

module_init(uroce_init);
module_exit(uroce_exit);

MODULE_DESCRIPTION("RoCEv2 device whose data path is in user space");
MODULE_AUTHOR("the uroce authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_RDMA_LINK("uroce");
