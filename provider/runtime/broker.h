// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The connection of a data path to uroced's transport broker: sockets and pages at the start, relayed packets
// later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kmod-shim/uapi/uroce_daemon.h"
#include "provider/engine/path.h"

namespace uroce::runtime {

class Broker {
 public:
  // Connects to the daemon of our own uid, else of uid 0, and shows `cookie`. nullptr with errno and a
  // sentence.
  static std::unique_ptr<Broker> attach(uint32_t slot, uint64_t cookie, std::string& why);
  ~Broker();
  Broker(const Broker&) = delete;

  int descriptor() const { return connection_; }
  int take_receive_socket();  // -1 after the first call
  uroce_slot_page* slot_page() const { return slot_page_; }
  const uroce_device_page* device_page() const { return device_page_; }

  // Hands a packet of another slot to uroced; false when it did not take it at once.
  bool relay(std::span<const std::byte> packet, const engine::RxMeta& meta, uint32_t slot);

  enum class Input : uint8_t { nothing, packet, gone };
  // Reads one message. packet: given to `on_packet`. gone: the daemon or the device has left.
  Input read_one(const std::function<void(std::span<const std::byte>, const engine::RxMeta&)>& on_packet);

 private:
  Broker() = default;
  bool map_pages(int slot_fd, int device_fd, std::string& why);

  int connection_ = -1;
  int receive_socket_ = -1;
  uroce_slot_page* slot_page_ = nullptr;
  const uroce_device_page* device_page_ = nullptr;
};

}  // namespace uroce::runtime
