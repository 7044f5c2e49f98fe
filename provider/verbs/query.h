// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the device and its port say of themselves.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace uroce::verbs {

// `bytes`: size of the program's structure, which may be shorter or longer than the one we know; what is not
// known stays zero.
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    size_t bytes);
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out);
// The clock of completion timestamps, in ticks of hca_core_clock (nanoseconds) in tv_nsec, as other devices
// do.
int query_rt_values(ibv_context* context, ibv_values_ex* values);

}  // namespace uroce::verbs
