// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the environment asks of the data path (uroce-provider(7)): which transport, with which faults.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "provider/engine/path.h"
#include "provider/transport/transport.h"

namespace uroce::runtime {

using RelayPacket =
    std::function<bool(std::span<const std::byte> packet, const engine::RxMeta& meta, uint32_t slot)>;

// UROCE_UDP_GSO=0, UROCE_UDP_GRO=0: no segmentation offload. UROCE_FAULT: a fault wrapper around the
// transport, see provider/transport/fault.h. Takes `receive_socket` over in every case. nullptr with a
// sentence.
std::unique_ptr<transport::Transport> make_transport(int receive_socket, uint32_t slot, RelayPacket relay,
                                                     std::string& why);

}  // namespace uroce::runtime
