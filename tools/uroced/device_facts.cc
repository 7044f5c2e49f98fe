// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/device_facts.h"

#include <fmt/format.h>

#include <cstring>

namespace uroce::daemon {

namespace {

// What the kernel takes off for RoCE, whatever the address family and opcode: GRH 40, UDP 8, BTH 12, XRCETH
// 4, AtomicETH 28, ICRC 4.
constexpr uint32_t kHeaderBytes = 96;

struct SpeedName {
  uint8_t speed;
  uint32_t tenths_per_lane;  // in 100 Mbit/s
  const char* suffix;
};
constexpr SpeedName kSpeeds[] = {{1, 25, " SDR"},    {2, 50, " DDR"},    {4, 100, " QDR"},
                                 {8, 100, " FDR10"}, {16, 140, " FDR"},  {32, 250, " EDR"},
                                 {64, 500, " HDR"},  {128, 1000, " NDR"}};

constexpr std::array<std::string_view, UROCE_CNT_COUNT> kCounterNames = {"sent_pkts",
                                                                         "rcvd_pkts",
                                                                         "duplicate_request",
                                                                         "out_of_seq_request",
                                                                         "rcvd_rnr_err",
                                                                         "send_rnr_err",
                                                                         "rcvd_seq_err",
                                                                         "ack_deferred",
                                                                         "retry_exceeded_err",
                                                                         "retry_rnr_exceeded_err",
                                                                         "completer_retry_err",
                                                                         "send_err",
                                                                         "link_downed",
                                                                         "rdma_sends",
                                                                         "rdma_recvs",
                                                                         "sent_bytes",
                                                                         "rcvd_bytes",
                                                                         "cnp_sent",
                                                                         "cnp_rcvd",
                                                                         "retransmitted_pkts",
                                                                         "timeouts",
                                                                         "bad_icrc",
                                                                         "dropped_pkts",
                                                                         "other_slot",
                                                                         "memory_faults"};

}  // namespace

Rate rate_of_megabits(uint32_t megabits_per_s) {
  // The smallest combination that is fast enough, as the kernel names Ethernet speeds.
  struct Row {
    uint32_t megabits;
    Rate rate;
  };
  constexpr Row rows[] = {{1000, {1, 1}},    {10000, {1, 8}},   {20000, {2, 2}},
                          {25000, {1, 32}},  {40000, {2, 8}},   {50000, {1, 64}},
                          {100000, {2, 32}}, {200000, {2, 64}}, {400000, {2, 128}}};
  for (const Row& row : rows) {
    if (megabits_per_s <= row.megabits) return row.rate;
  }
  return rows[std::size(rows) - 1].rate;
}

std::string rate_text(Rate rate) {
  const uint32_t lanes = rate.width == 2 ? 4 : 1;
  for (const SpeedName& row : kSpeeds) {
    if (row.speed != rate.speed) continue;
    const uint32_t tenths = row.tenths_per_lane * lanes;
    return fmt::format("{}{} Gb/sec ({}X{})", tenths / 10, tenths % 10 != 0 ? ".5" : "", lanes, row.suffix);
  }
  return "2.5 Gb/sec (1X SDR)";
}

uint8_t active_mtu(uint32_t netdev_mtu) {
  const uint32_t payload = netdev_mtu > kHeaderBytes ? netdev_mtu - kHeaderBytes : 0;
  for (uint8_t mtu = 5; mtu >= 1; --mtu) {
    if (payload >= 128u << mtu) return mtu;
  }
  return 0;
}

std::string_view counter_name(uint32_t counter) {
  return kCounterNames[counter];
}

std::string guid_text(uint64_t guid_be) {
  uint8_t b[8];
  std::memcpy(b, &guid_be, sizeof b);
  return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", b[0], b[1], b[2], b[3], b[4],
                     b[5], b[6], b[7]);
}

std::string gid_text(const uint8_t (&gid)[16]) {
  std::string text;
  for (int i = 0; i < 16; i += 2)
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
  return text;
}

}  // namespace uroce::daemon
