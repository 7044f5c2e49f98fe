// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "provider/transport/fault.h"
#include "provider/transport/udp.h"

namespace uroce::runtime {
namespace {

// Programs with raised privileges listen to no environment (secure_getenv(3)).
std::string_view variable(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool parse_switch(const char* name, bool& out, std::string& why) {
  const std::string_view value = variable(name);
  if (value.empty() || value == "1" || value == "on") return true;
  if (value == "0" || value == "off") {
    out = false;
    return true;
  }
  why = std::string(name) + "=" + std::string(value) + ": expected 0 or 1";
  errno = EINVAL;
  return false;
}

bool transport_is_known(std::string& why) {
  const std::string_view value = variable("UROCE_TRANSPORT");
  if (value.empty() || value == "auto" || value == "udp") return true;
  why = "UROCE_TRANSPORT=" + std::string(value) + ": this build has auto and udp";
  errno = EINVAL;
  return false;
}

}  // namespace

std::unique_ptr<transport::Transport> make_transport(int receive_socket, uint32_t slot, RelayPacket relay,
                                                     std::string& why) {
  transport::UdpConfig config;
  config.receive_socket = receive_socket;
  config.slot = slot;
  config.other_slot = std::move(relay);

  transport::FaultConfig faults;
  const std::string_view fault_text = variable("UROCE_FAULT");
  const bool understood = transport_is_known(why) &&
                          parse_switch("UROCE_UDP_GSO", config.segmentation, why) &&
                          parse_switch("UROCE_UDP_GRO", config.coalescing, why) &&
                          transport::parse_faults(fault_text, faults, why);
  if (!understood) {
    close(receive_socket);
    errno = EINVAL;
    return nullptr;
  }
  auto udp = transport::make_udp_transport(config, why);
  if (udp == nullptr || fault_text.empty()) return udp;
  return transport::make_fault_transport(std::move(udp), faults);
}

}  // namespace uroce::runtime
