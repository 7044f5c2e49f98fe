// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// librdmacm's datagram sockets make an address handle to themselves without a GRH, which RoCE does not have.
// This makes it a handle with one: from the port's first GID to itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>

struct ibv_ah* ibv_create_ah(struct ibv_pd* pd, struct ibv_ah_attr* attr) {
  struct ibv_ah* (*next)(struct ibv_pd*, struct ibv_ah_attr*) =
      dlvsym(RTLD_NEXT, "ibv_create_ah", "IBVERBS_1.1");
  struct ibv_ah_attr whole = *attr;

  if (!whole.is_global && !ibv_query_gid(pd->context, whole.port_num, 0, &whole.grh.dgid)) {
    whole.is_global = 1;
    whole.grh.sgid_index = 0;
    whole.grh.hop_limit = 64;
  }
  return next(pd, &whole);
}
