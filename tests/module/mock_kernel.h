/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel as far as the module's logic sees it, for tests in user space: every <linux/...>,
 * <net/...> and <rdma/...> header that the sources name leads here. Locks check that they are held
 * once and that nothing sleeps below a spinlock; allocations fail when a test wants it; everything
 * is freed under AddressSanitizer's eyes.
 */
#ifndef MOCK_KERNEL_H
#define MOCK_KERNEL_H

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>
#include <rdma/ib_user_verbs.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#define __force
#define __user
#define BIT_ULL(n) (1ull << (n))
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define WARN_ON(x) mock_warn(!!(x), #x)
#define strscpy(to, from, bytes) snprintf(to, bytes, "%s", from)
#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)

extern int mock_warnings;
static inline bool mock_warn(bool wrong, const char *what)
{
	if (wrong) {
		fprintf(stderr, "WARN_ON(%s)\n", what);
		mock_warnings++;
	}
	return wrong;
}

#define ERR_PTR(error) ((void *)(intptr_t)(error))
#define PTR_ERR(pointer) ((int)(intptr_t)(pointer))
#define IS_ERR(pointer) ((uintptr_t)(pointer) >= (uintptr_t)-4095)

/* ---- locks */

extern int mock_spinning; /* spinlocks held */
typedef struct {
	bool held;
} spinlock_t;
struct mutex {
	bool held;
};
static inline void mock_lock(bool *held, bool spins)
{
	assert(!*held);
	if (spins)
		mock_spinning++;
	else
		assert(mock_spinning == 0);
	*held = true;
}
static inline void mock_unlock(bool *held, bool spins)
{
	assert(*held);
	if (spins)
		mock_spinning--;
	*held = false;
}
#define spin_lock_init(lock) ((lock)->held = false)
#define spin_lock(lock) mock_lock(&(lock)->held, true)
#define spin_unlock(lock) mock_unlock(&(lock)->held, true)
#define spin_lock_bh spin_lock
#define spin_unlock_bh spin_unlock
#define spin_lock_irq spin_lock
#define spin_unlock_irq spin_unlock
#define spin_lock_irqsave(lock, flags) ((void)((flags) = 0), spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))
#define mutex_lock(lock) mock_lock(&(lock)->held, false)
#define mutex_unlock(lock) mock_unlock(&(lock)->held, false)
#define DEFINE_MUTEX(name) struct mutex name
#define rcu_read_lock()
#define rcu_read_unlock()
#define rcu_dereference(pointer) (pointer)

typedef struct {
	int value;
} atomic_t;
#define atomic_inc_return(a) (++(a)->value)
#define atomic_dec(a) ((a)->value--)

struct kref {
	int count;
};
#define kref_init(ref) ((ref)->count = 1)
static inline void kref_get(struct kref *ref)
{
	assert(ref->count > 0);
	ref->count++;
}
static inline void kref_put(struct kref *ref, void (*release)(struct kref *))
{
	assert(ref->count > 0);
	if (--ref->count == 0)
		release(ref);
}

/* ---- memory */

extern int mock_allocations_until_failure; /* negative: none fails */
#define GFP_KERNEL 0
#define GFP_KERNEL_ACCOUNT 0
static inline void *mock_allocate(size_t count, size_t bytes)
{
	assert(mock_spinning == 0);
	if (mock_allocations_until_failure == 0)
		return NULL;
	if (mock_allocations_until_failure > 0)
		mock_allocations_until_failure--;
	return calloc(count, bytes);
}
#define kzalloc(bytes, flags) mock_allocate(1, bytes)
#define kvcalloc(count, bytes, flags) mock_allocate(count, bytes)
#define kfree(pointer) free(pointer)
#define kvfree(pointer) free(pointer)
static inline const void *memchr_inv(const void *from, int byte, size_t bytes)
{
	for (const u8 *at = from; bytes--; at++)
		if (*at != byte)
			return at;
	return NULL;
}

/* ---- bitmaps */

#define BITS_PER_LONG 64
#define BITS_TO_LONGS(bits) (((bits) + 63) / 64)
#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]
static inline bool test_bit(unsigned int bit, const unsigned long *map)
{
	return map[bit / 64] >> bit % 64 & 1;
}
static inline void __set_bit(unsigned int bit, unsigned long *map)
{
	map[bit / 64] |= 1ul << bit % 64;
}
static inline void __clear_bit(unsigned int bit, unsigned long *map)
{
	map[bit / 64] &= ~(1ul << bit % 64);
}
static inline bool __test_and_clear_bit(unsigned int bit, unsigned long *map)
{
	bool was = test_bit(bit, map);

	__clear_bit(bit, map);
	return was;
}
static inline unsigned int find_next_bit(const unsigned long *map, unsigned int bits,
					 unsigned int from)
{
	while (from < bits && !test_bit(from, map))
		from++;
	return from;
}
static inline unsigned int find_next_zero_bit(const unsigned long *map, unsigned int bits,
					      unsigned int from)
{
	while (from < bits && test_bit(from, map))
		from++;
	return from;
}
#define for_each_set_bit(bit, map, bits)                                                           \
	for ((bit) = find_next_bit(map, bits, 0); (bit) < (bits);                                  \
	     (bit) = find_next_bit(map, bits, (bit) + 1))
#define bitmap_empty(map, bits) (find_next_bit(map, bits, 0) >= (bits))
#define bitmap_zero(map, bits) memset(map, 0, BITS_TO_LONGS(bits) * 8)
static inline void bitmap_or(unsigned long *to, const unsigned long *a, const unsigned long *b,
			     unsigned int bits)
{
	for (unsigned int i = 0; i < BITS_TO_LONGS(bits); i++)
		to[i] = a[i] | b[i];
}
static inline void bitmap_andnot(unsigned long *to, const unsigned long *a, const unsigned long *b,
				 unsigned int bits)
{
	for (unsigned int i = 0; i < BITS_TO_LONGS(bits); i++)
		to[i] = a[i] & ~b[i];
}

/* ---- lists */

struct list_head {
	struct list_head *next, *prev;
};
#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }
static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}
static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
}
#define list_for_each_entry(entry, head, member)                                                   \
	for ((entry) = container_of((head)->next, __typeof__(*(entry)), member);                   \
	     &(entry)->member != (head);                                                           \
	     (entry) = container_of((entry)->member.next, __typeof__(*(entry)), member))

/* ---- xarray: a list of (index, value); value NULL: reserved */

struct mock_entry {
	struct mock_entry *next;
	u32 index;
	void *value;
};
struct xarray {
	struct mock_entry *first;
	spinlock_t lock;
};
struct xa_limit {
	u32 max, min;
};
#define XA_LIMIT(low, high) ((struct xa_limit){ .min = low, .max = high })
#define xa_limit_31b XA_LIMIT(0, 0x7fffffff)
#define XA_FLAGS_ALLOC 0
#define XA_FLAGS_ALLOC1 0
#define XA_FLAGS_LOCK_IRQ 0
#define xa_init_flags(xa, flags) (*(xa) = (struct xarray){ 0 })
#define xa_empty(xa) (!(xa)->first)
#define xa_err(result) ((void)(result), 0)
#define xa_lock_irqsave(xa, flags) spin_lock_irqsave(&(xa)->lock, flags)
#define xa_unlock_irqrestore(xa, flags) spin_unlock_irqrestore(&(xa)->lock, flags)
static inline struct mock_entry **mock_find(struct xarray *xa, u32 index)
{
	struct mock_entry **at = &xa->first;

	while (*at && (*at)->index != index)
		at = &(*at)->next;
	return at;
}
static inline void *xa_load(struct xarray *xa, u32 index)
{
	struct mock_entry *entry = *mock_find(xa, index);

	return entry ? entry->value : NULL;
}
static inline void *xa_erase(struct xarray *xa, u32 index)
{
	struct mock_entry **at = mock_find(xa, index), *entry = *at;

	spin_lock(&xa->lock); /* waits for who looks at it */
	if (entry)
		*at = entry->next;
	spin_unlock(&xa->lock);
	free(entry);
	return NULL;
}
static inline void *xa_store(struct xarray *xa, u32 index, void *value)
{
	struct mock_entry *entry = *mock_find(xa, index);

	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		entry->index = index;
		entry->next = xa->first;
		xa->first = entry;
	}
	entry->value = value;
	return NULL;
}
static inline int xa_alloc_cyclic(struct xarray *xa, u32 *index, void *value, struct xa_limit limit,
				  u32 *next, int flags)
{
	bool wrapped = *next > limit.max;
	u32 from = *next < limit.min || wrapped ? limit.min : *next;

	assert(mock_spinning == 0);
	if (mock_allocations_until_failure == 0)
		return -ENOMEM;
	for (u64 step = 0; step <= (u64)limit.max - limit.min; step++) {
		u64 at = from + step;

		if (at > limit.max) {
			at = limit.min + (at - limit.max - 1);
			wrapped = true;
		}
		if (*mock_find(xa, at))
			continue;
		xa_store(xa, at, value);
		*index = at;
		*next = at + 1;
		return wrapped;
	}
	return -EBUSY;
}
static inline void xa_destroy(struct xarray *xa)
{
	while (xa->first)
		xa_erase(xa, xa->first->index);
}
#define xa_alloc_cyclic_irq xa_alloc_cyclic
#define xa_erase_irq xa_erase
#define xa_store_irq(xa, index, value, flags) xa_store(xa, index, value)

/* ---- processes, waiting */

struct pid {
	int number, count;
};
struct net {
	int unused;
};
struct nsproxy {
	struct net *net_ns;
};
struct task_struct {
	struct pid *pid;
	struct nsproxy *nsproxy;
};
extern struct task_struct *current;
#define PIDTYPE_TGID 0
#define get_task_pid(task, type) ((task)->pid->count++, (task)->pid)
#define put_pid(pid) ((pid)->count--)
#define pid_vnr(pid) ((u32)(pid)->number)
typedef struct {
	int wakes;
} wait_queue_head_t;
#define init_waitqueue_head(wait) ((wait)->wakes = 0)
#define wake_up(wait) ((wait)->wakes++)
extern u64 mock_random;
#define get_random_u64() (mock_random += 0x9e3779b97f4a7c15ull)

/* ---- netdevs, addresses, headers of packets */

struct ethtool_ops {
	int get_link_ksettings;
};
struct net_device {
	struct net *net;
	u32 ifindex;
	unsigned int mtu;
	bool running, carrier;
	u16 vlan; /* 0: none */
	const struct ethtool_ops *ethtool_ops;
};
#define netif_running(ndev) ((ndev)->running)
#define netif_carrier_ok(ndev) ((ndev)->carrier)
#define is_vlan_dev(ndev) ((ndev)->vlan != 0)
#define vlan_dev_vlan_id(ndev) ((ndev)->vlan)
#define dev_net(ndev) ((ndev)->net)
#define net_eq(a, b) ((a) == (b))
enum {
	NETDEV_UP = 1,
	NETDEV_DOWN,
	NETDEV_CHANGE,
	NETDEV_UNREGISTER,
	NETDEV_CHANGEMTU,
	NETDEV_CHANGENAME
};

static inline bool ipv6_addr_v4mapped(const struct in6_addr *a)
{
	static const u8 prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(a->s6_addr, prefix, 12);
}
#define ipv6_addr_any(a) (!memchr_inv((a)->s6_addr, 0, 16))
#define ipv6_addr_is_multicast(a) ((a)->s6_addr[0] == 0xff)
#define IP_DF 0x4000
struct iphdr {
	u8 ihl : 4, version : 4;
	u8 tos;
	u16 tot_len, id, frag_off;
	u8 ttl, protocol;
	u16 check;
	u32 saddr, daddr;
};
struct ipv6hdr {
	u8 priority : 4, version : 4;
	u8 flow_lbl[3];
	u16 payload_len;
	u8 nexthdr, hop_limit;
	struct in6_addr saddr, daddr;
};
static inline u16 ip_fast_csum(const void *header, unsigned int words)
{
	const u8 *at = header;
	u32 sum = 0;

	for (unsigned int i = 0; i < words * 4; i += 2)
		sum += at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

/* ---- RDMA */

#include "tests/module/mock_rdma.h"

#endif
