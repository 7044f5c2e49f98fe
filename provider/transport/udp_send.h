// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The way out over udp: batches cut into runs of equal packets, each run one segmented datagram, several runs
// one sendmmsg.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "provider/engine/path.h"
#include "provider/transport/transport.h"
#include "provider/transport/udp_path.h"

namespace uroce::transport {

class UdpSender {
 public:
  UdpSender(UdpPathTable& paths, UdpSendPool& pool, Counters& counters, bool segmentation)
      : paths_(paths), pool_(pool), counters_(counters), segmentation_(segmentation) {}

  // As Transport::send.
  size_t send(engine::TxBatch& batch, size_t first);
  // "GSO 64 segments", "GSO off", "GSO refused towards 10.0.0.2 (Invalid argument)".
  std::string describe() const;
  uint32_t description() const { return refusals_; }

 private:
  static constexpr size_t kMaxMessages = 32;

  // Packets of one destination that leave as one datagram, all but the last of `segment` bytes (ICRC
  // included).
  struct Run {
    UdpPath* path;
    size_t socket;
    size_t first, count;
    uint32_t segment, bytes;
  };
  Run next_run(const engine::TxBatch& batch, size_t first) const;
  void seal(engine::TxBatch& batch, const Run& run) const;
  void add_message(engine::TxBatch& batch, const Run& run);
  // How many of the pending runs left or were dropped; fewer: no buffer now, or the last one must be cut
  // smaller.
  size_t flush();
  bool handle_error(const Run& run, int error);
  void count_sent(const Run& run);

  UdpPathTable& paths_;
  UdpSendPool& pool_;
  Counters& counters_;
  bool segmentation_;
  uint32_t refusals_ = 0;  // of segmentation, one per destination
  int refused_error_ = 0;
  wire::Gid refused_towards_;

  size_t pending_ = 0;
  Run runs_[kMaxMessages];
  mmsghdr messages_[kMaxMessages]{};
  iovec parts_[kMaxMessages]{};
  struct Control {
    alignas(8) std::byte bytes[sizeof(UdpPath::control) + 32];
  } controls_[kMaxMessages];
};

}  // namespace uroce::transport
