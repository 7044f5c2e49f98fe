// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// An XDP program: a netdev that loses one in 32 of the RoCEv2 packets that arrive, and nothing else. Data
// and the messages of the connection manager alike.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#define SECTION(name) __attribute__((section(name), used))

enum {
  ONE_IN = 32, /* more, and the five retries of ucmatose are not enough */
  ROCE_PORT = 4791,
  PORT_AT = 2, /* of the UDP header */
  IPV4_PROTOCOL_AT = 9,
  IPV6_NEXT_HEADER_AT = 6,
  IPV4_BYTES = 20, /* RoCE packets have no options */
  IPV6_BYTES = 40,
};

static __u32 (*random_number)(void) = (void*)BPF_FUNC_get_prandom_u32;

SECTION("xdp") int lossy(struct xdp_md* packet) {
  const __u8 *end = (const __u8*)(long)packet->data_end, *ip = (const __u8*)(long)packet->data + ETH_HLEN,
             *udp;

  if (ip + IPV6_BYTES + PORT_AT + 2 > end) return XDP_PASS;
  if (ip[0] >> 4 == 4 && ip[IPV4_PROTOCOL_AT] == IPPROTO_UDP)
    udp = ip + IPV4_BYTES;
  else if (ip[0] >> 4 == 6 && ip[IPV6_NEXT_HEADER_AT] == IPPROTO_UDP)
    udp = ip + IPV6_BYTES;
  else
    return XDP_PASS;
  if ((udp[PORT_AT] << 8 | udp[PORT_AT + 1]) != ROCE_PORT) return XDP_PASS;
  return random_number() % ONE_IN == 0 ? XDP_DROP : XDP_PASS;
}

char _license[] SECTION("license") = "Dual BSD/GPL";
