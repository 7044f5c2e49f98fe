// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Address vectors, resolved once into what sendmsg wants: destination, control messages, and the CRC of the
// constant headers.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "provider/engine/path.h"
#include "provider/transport/udp_pool.h"
#include "provider/wire/icrc.h"

namespace uroce::transport {

struct UdpPath {
  engine::Path path;
  uint32_t references = 0;  // 0: free, nothing is sent
  bool ipv4 = false;
  // The kernel or the netdev refused segmentation towards this destination: single sends for good.
  bool single_sends = false;
  union {
    sockaddr_in in;
    sockaddr_in6 in6;
  } destination{};
  socklen_t destination_bytes = 0;
  // Control messages without UDP_SEGMENT: source address, traffic class and hop limit where they differ from
  // the default.
  alignas(8) std::byte control[96];
  size_t control_bytes = 0;
  std::vector<wire::IcrcFlow> flows;  // by socket of the pool
};

class UdpPathTable {
 public:
  explicit UdpPathTable(UdpSendPool& pool) : pool_(pool) {}

  // As Transport::intern and release.
  engine::PathId intern(const engine::Path& path);
  void release(engine::PathId id);
  // nullptr for an id that is not in use.
  UdpPath* find(engine::PathId id) {
    if (id.value == 0 || id.value > paths_.size()) return nullptr;
    UdpPath* path = paths_[id.value - 1].get();
    return path->references == 0 ? nullptr : path;
  }
  const engine::Path& path(engine::PathId id) const { return paths_[id.value - 1]->path; }

 private:
  engine::PathId find_equal(const engine::Path& path) const;

  UdpSendPool& pool_;
  std::vector<std::unique_ptr<UdpPath>> paths_;  // by id - 1
  // Released ids, oldest first: an id comes back as late as possible, since a batch that has not left may
  // still name it.
  std::deque<uint32_t> free_;
};

}  // namespace uroce::transport
