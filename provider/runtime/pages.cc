// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/pages.h"

#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace uroce::runtime {
namespace {

// A writer that died inside its update leaves the sequence odd for ever; then the content is taken as it is.
constexpr int kTries = 1000;

}  // namespace

template <typename Read>
void DevicePageReader::consistently(Read&& read) const {
  for (int i = 0; i < kTries; ++i) {
    const uint32_t before = sequence();
    if (before & 1) {
      sched_yield();
      continue;
    }
    read();
    std::atomic_thread_fence(std::memory_order_acquire);
    if (__atomic_load_n(&page_->sequence, __ATOMIC_RELAXED) == before) return;
  }
  read();
}

void DevicePageReader::copy(uroce_device_page& out) const {
  consistently([&] { std::memcpy(&out, page_, sizeof out); });
}

bool DevicePageReader::gid(uint32_t index, uroce_gid_entry& out) const {
  if (index >= std::size(page_->gids)) return false;
  consistently([&] { std::memcpy(&out, &page_->gids[index], sizeof out); });
  static constexpr uint8_t kEmpty[16] = {};
  return std::memcmp(out.gid, kEmpty, sizeof kEmpty) != 0;
}

bool DevicePageReader::has_gid(const wire::Gid& gid) const {
  bool found = false;
  consistently([&] {
    found = false;
    for (const uroce_gid_entry& entry : page_->gids)
      found |= std::memcmp(entry.gid, gid.raw.data(), sizeof entry.gid) == 0;
  });
  return found;
}

void publish_counters(uroce_slot_page& page, const engine::Counters& engine,
                      const transport::Counters& transport, uint64_t foreign_destination) {
  uint64_t values[UROCE_CNT_COUNT] = {};
  values[UROCE_CNT_SENT_PKTS] = transport.sent_packets;
  values[UROCE_CNT_RCVD_PKTS] = transport.received_packets;
  values[UROCE_CNT_DUPLICATE_REQUEST] = engine.duplicate_request;
  values[UROCE_CNT_OUT_OF_SEQ_REQUEST] = engine.out_of_seq_request;
  values[UROCE_CNT_RCVD_RNR_ERR] = engine.rcvd_rnr_err;
  values[UROCE_CNT_SEND_RNR_ERR] = engine.send_rnr_err;
  values[UROCE_CNT_RCVD_SEQ_ERR] = engine.rcvd_seq_err;
  values[UROCE_CNT_ACK_DEFERRED] = engine.ack_deferred;
  values[UROCE_CNT_RETRY_EXCEEDED_ERR] = engine.retry_exceeded_err;
  values[UROCE_CNT_RETRY_RNR_EXCEEDED_ERR] = engine.retry_rnr_exceeded_err;
  values[UROCE_CNT_COMPLETER_RETRY_ERR] = engine.completer_retry_err;
  values[UROCE_CNT_RDMA_SENDS] = engine.rdma_sends;
  values[UROCE_CNT_RDMA_RECVS] = engine.rdma_recvs;
  values[UROCE_CNT_SENT_BYTES] = transport.sent_bytes;
  values[UROCE_CNT_RCVD_BYTES] = transport.received_bytes;
  values[UROCE_CNT_CNP_SENT] = engine.cnp_sent;
  values[UROCE_CNT_CNP_RCVD] = engine.cnp_received;
  values[UROCE_CNT_RETRANSMITTED_PKTS] = engine.retransmitted_pkts;
  values[UROCE_CNT_TIMEOUTS] = engine.timeouts;
  values[UROCE_CNT_MEMORY_FAULTS] = engine.memory_faults;
  uint64_t dropped = foreign_destination;
  for (uint64_t count : engine.drops) dropped += count;
  using transport::Drop;
  for (size_t i = 0; i < transport.drops.size(); ++i) {
    const uint64_t count = transport.drops[i];
    switch (static_cast<Drop>(i)) {
      case Drop::bad_icrc: values[UROCE_CNT_BAD_ICRC] = count; break;
      case Drop::other_slot: values[UROCE_CNT_OTHER_SLOT] = count; break;
      case Drop::send_no_buffer:
      case Drop::send_too_big:
      case Drop::send_unreachable:
      case Drop::send_failed: values[UROCE_CNT_SEND_ERR] += count; break;
      default: dropped += count;
    }
  }
  values[UROCE_CNT_DROPPED_PKTS] = dropped;
  for (size_t i = 0; i < std::size(values); ++i)
    __atomic_store_n(&page.counters[i], values[i], __ATOMIC_RELAXED);
  __atomic_store_n(&page.counter_count, UROCE_CNT_COUNT, __ATOMIC_RELEASE);
}

void publish_qp_state(uroce_slot_page& page, wire::Qpn qpn, uint32_t state) {
  __atomic_store_n(&page.qps[qpn.index()].state, state, __ATOMIC_RELAXED);
}

void publish_transport_text(uroce_slot_page& page, const std::string& text) {
  std::snprintf(page.transport_text, sizeof page.transport_text, "%s", text.c_str());
}

}  // namespace uroce::runtime
