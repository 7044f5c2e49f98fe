// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/fault.h"

#include <gtest/gtest.h>

#include <cstring>

namespace uroce::transport {
namespace {

// Gives packets that carry their number.
class Source final : public Transport {
 public:
  explicit Source(uint32_t packets) : left_(packets) {}
  engine::PathId intern(const engine::Path&) override { return {1}; }
  void release(engine::PathId) override {}
  const engine::Path& path(engine::PathId) const override { return path_; }
  size_t send(engine::TxBatch&, size_t) override { return 0; }
  size_t receive(PacketSink& sink) override {
    if (left_ == 0) return 0;
    std::byte bytes[16] = {};
    std::memcpy(bytes, &next_, 4);
    ++next_, --left_;
    sink.on_packet(bytes, {});
    return 1;
  }
  int wait_descriptor() const override { return -1; }
  int join_group(const wire::Gid&, uint32_t) override { return 0; }
  int leave_group(const wire::Gid&, uint32_t) override { return 0; }
  const Counters& counters() const override { return counters_; }
  size_t receive_buffer() const override { return 4711; }
  std::string describe() const override { return "source"; }
  uint32_t description() const override { return 0; }

 private:
  uint32_t left_, next_ = 0;
  Counters counters_;
  engine::Path path_;
};

class Numbers : public PacketSink {
 public:
  void on_packet(std::span<const std::byte> packet, const engine::RxMeta&) override {
    uint32_t n;
    std::memcpy(&n, packet.data(), 4);
    seen.push_back(n);
  }
  std::vector<uint32_t> seen;
};

std::vector<uint32_t> through(const char* text, uint32_t packets) {
  FaultConfig config;
  std::string why;
  EXPECT_TRUE(parse_faults(text, config, why)) << why;
  auto transport = make_fault_transport(std::make_unique<Source>(packets), config);
  Numbers numbers;
  while (transport->receive(numbers) > 0) {
  }
  return numbers.seen;
}

TEST(Fault, nothing_asked_changes_nothing) {
  const auto seen = through("", 1000);
  ASSERT_EQ(seen.size(), 1000u);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], i);
}

TEST(Fault, drops_about_as_many_as_asked_and_the_same_ones_for_a_seed) {
  const auto seen = through("drop=0.1,seed=5", 10000);
  EXPECT_GT(seen.size(), 8800u);
  EXPECT_LT(seen.size(), 9200u);
  EXPECT_EQ(seen, through("drop=0.1,seed=5", 10000));
  EXPECT_NE(seen, through("drop=0.1,seed=6", 10000));
}

TEST(Fault, reordering_loses_and_doubles_nothing) {
  auto seen = through("reorder=0.3,seed=9", 10000);
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), 10000u);
  for (uint32_t i = 0; i < 10000; ++i) ASSERT_EQ(seen[i], i);
}

TEST(Fault, duplicates_are_extra) {
  EXPECT_GT(through("duplicate=0.5", 1000).size(), 1300u);
}

TEST(Fault, wrong_text_is_named) {
  FaultConfig config;
  std::string why;
  for (const char* text : {"drop", "drop=2", "drop=-1", "drop=x", "delay=1", "seed=", "drop=0.1,,"}) {
    why.clear();
    EXPECT_FALSE(parse_faults(text, config, why)) << text;
    EXPECT_NE(why.find("UROCE_FAULT"), std::string::npos);
  }
}

TEST(Fault, every_reason_has_words) {
  for (size_t i = 0; i < static_cast<size_t>(Drop::kCount); ++i)
    EXPECT_STRNE(to_string(static_cast<Drop>(i)), "?");
}

}  // namespace
}  // namespace uroce::transport
