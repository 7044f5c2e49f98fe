/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the plugin asks of a libibverbs when it is loaded, with the layout of rdma-core 44 or one that does
 * not exist. */
#include <stdint.h>
#include <string.h>

enum { context_offset = 320, ops_in_context = 8 };

struct driver_ops {
  const char* name;
};
static const struct driver_ops* registered;

const char* fake_registered(void) {
  return registered ? registered->name : NULL;
}

#ifdef FAKE_FUTURE
void verbs_register_driver_99(const struct driver_ops* ops)
#else
void verbs_register_driver_34(const struct driver_ops* ops)
#endif
{
  registered = ops;
}

/* Public slot of an operation in ibv_context_ops, and its index in the private table. */
static const struct {
  unsigned char slot, index;
} public_ops[] = {
    {7, 2}, {8, 10}, {9, 25}, {11, 53}, {12, 69}, {20, 57}, {25, 55}, {26, 54},
};

void verbs_set_ops(char* context, void* const* ops) {
  char* priv;

  memcpy(&priv, context + context_offset - 112, sizeof(priv));
  memcpy(priv + 24, ops, FAKE_OPS * sizeof(*ops));
  for (unsigned i = 0; i < sizeof(public_ops) / sizeof(public_ops[0]); ++i)
    memcpy(context + context_offset + ops_in_context + 8 * public_ops[i].slot, &ops[public_ops[i].index],
           sizeof(void*));
}

void* ibv_qp_to_qp_ex(char* qp) {
  return qp[352] & 2 ? qp : NULL;
}

void verbs_uninit_context(void* context) {
  (void)context;
}

void* _verbs_init_and_alloc_context(void) {
  return NULL;
}
