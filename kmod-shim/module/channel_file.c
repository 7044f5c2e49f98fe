// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The channel to uroced as a file: /dev/uroce. */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "kmod-shim/module/uroce.h"

static int uroce_file_open(struct inode *inode, struct file *file)
{
	struct net *netns = current->nsproxy->net_ns;
	struct uroce_channel *channel;
	struct uroce_net *net;

	if (!ns_capable(netns->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	net = uroce_net_of(netns);
	channel = uroce_channel_open(net);
	if (IS_ERR(channel)) {
		uroce_net_put(net);
		return PTR_ERR(channel);
	}
	file->private_data = channel;
	return stream_open(inode, file);
}

static int uroce_file_release(struct inode *inode, struct file *file)
{
	uroce_channel_close(file->private_data);
	return 0;
}

static ssize_t uroce_file_read(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct uroce_channel *channel = file->private_data;
	struct uroce_channel_mad mad;
	size_t given = 0;

	if (bytes < sizeof(mad))
		return -EINVAL;
	while (bytes - given >= sizeof(mad) && uroce_channel_pop(channel, &mad)) {
		if (copy_to_user(to + given, &mad, sizeof(mad)))
			return given ? given : -EFAULT; /* a lost packet */
		given += sizeof(mad);
	}
	if (given)
		return given;
	if (file->f_flags & O_NONBLOCK)
		return -EAGAIN;
	/* News end the wait, too: they are asked for elsewhere. */
	if (wait_event_interruptible(channel->wait, uroce_channel_has_input(channel)))
		return -ERESTARTSYS;
	if (!uroce_channel_pop(channel, &mad))
		return -EAGAIN;
	return copy_to_user(to, &mad, sizeof(mad)) ? -EFAULT : sizeof(mad);
}

static ssize_t uroce_file_write(struct file *file, const char __user *from, size_t bytes,
				loff_t *at)
{
	struct uroce_channel_mad mad;
	int err;

	if (bytes != sizeof(mad))
		return -EINVAL;
	if (copy_from_user(&mad, from, sizeof(mad)))
		return -EFAULT;
	err = uroce_channel_accept(file->private_data, &mad);
	return err ? err : bytes;
}

static __poll_t uroce_file_poll(struct file *file, poll_table *table)
{
	struct uroce_channel *channel = file->private_data;

	poll_wait(file, &channel->wait, table);
	return EPOLLOUT | EPOLLWRNORM |
	       (uroce_channel_has_input(channel) ? EPOLLIN | EPOLLRDNORM : 0);
}

static long uroce_ask_device(struct uroce_channel *channel, void __user *arg)
{
	struct uroce_channel_device *device = kmalloc(sizeof(*device), GFP_KERNEL);
	long err = 0;

	if (!device)
		return -ENOMEM;
	if (copy_from_user(&device->after, arg, sizeof(device->after)))
		err = -EFAULT;
	if (!err)
		err = uroce_channel_describe(channel, device);
	if (!err && copy_to_user(arg, device, sizeof(*device)))
		err = -EFAULT;
	kfree(device);
	return err;
}

static long uroce_ask_slot(struct uroce_channel *channel, void __user *arg)
{
	struct uroce_channel_slot slot;
	int err;

	if (copy_from_user(&slot, arg, sizeof(slot)))
		return -EFAULT;
	err = uroce_slot_find(channel->net, &slot);
	if (err)
		return err;
	return copy_to_user(arg, &slot, sizeof(slot)) ? -EFAULT : 0;
}

static long uroce_file_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct uroce_channel *channel = file->private_data;
	void __user *at = (void __user *)arg;
	struct uroce_channel_news news;
	u32 number;

	switch (command) {
	case UROCE_CHANNEL_VERSION_IOCTL:
		return put_user((u32)UROCE_CHANNEL_VERSION, (u32 __user *)at);
	case UROCE_CHANNEL_NEWS:
		uroce_channel_take_news(channel, &news);
		return copy_to_user(at, &news, sizeof(news)) ? -EFAULT : 0;
	case UROCE_CHANNEL_DEVICE:
		return uroce_ask_device(channel, at);
	case UROCE_CHANNEL_SLOT:
		return uroce_ask_slot(channel, at);
	case UROCE_CHANNEL_READY:
		if (get_user(number, (u32 __user *)at))
			return -EFAULT;
		if (number > 1)
			return -EINVAL;
		uroce_channel_set_ready(channel, number);
		return 0;
	case UROCE_CHANNEL_RELEASE:
		if (get_user(number, (u32 __user *)at))
			return -EFAULT;
		return uroce_slot_release(channel->net, number);
	default:
		return -ENOTTY;
	}
}

const struct file_operations uroce_channel_fops = {
	.owner = THIS_MODULE,
	.open = uroce_file_open,
	.release = uroce_file_release,
	.read = uroce_file_read,
	.write = uroce_file_write,
	.poll = uroce_file_poll,
	.unlocked_ioctl = uroce_file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
