// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/uverbs_call.h"

namespace uroce::daemon {

int get_context(UverbsCall& call) {
  if (call.command.driver_out < sizeof(uroce_get_context_resp)) return EINVAL;
  if (call.registry.device(call.device).live == 0) return EIO;
  const uint32_t slot = call.host.open_context(call.device, call.connection, call.why);
  if (slot == 0) return errno;
  call.slot = slot;
  call.makes_async_pair = true;
  ib_uverbs_get_context_resp response{};
  response.async_fd = ~0u;  // the stand-in puts the number of the descriptor here
  response.num_comp_vectors = 1;
  const uroce_get_context_resp ours{UROCE_ABI_VERSION, slot, call.registry.context(slot).cookie};
  call.reply.core(response);
  call.reply.driver(ours);
  return 0;
}

}  // namespace uroce::daemon
