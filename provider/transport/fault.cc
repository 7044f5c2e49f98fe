// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/fault.h"

#include <cerrno>
#include <charconv>
#include <random>
#include <vector>

namespace uroce::transport {
namespace {

struct Kept {
  std::vector<std::byte> bytes;
  engine::RxMeta meta;
};

class FaultTransport final : public Transport, private PacketSink {
 public:
  FaultTransport(std::unique_ptr<Transport> inner, const FaultConfig& config)
      : inner_(std::move(inner)), config_(config), random_(config.seed) {}

  engine::PathId intern(const engine::Path& path) override { return inner_->intern(path); }
  void release(engine::PathId id) override { inner_->release(id); }
  const engine::Path& path(engine::PathId id) const override { return inner_->path(id); }
  size_t send(engine::TxBatch& batch, size_t first) override { return inner_->send(batch, first); }
  int wait_descriptor() const override { return inner_->wait_descriptor(); }
  int join_group(const wire::Gid& group, uint32_t ifindex) override {
    return inner_->join_group(group, ifindex);
  }
  int leave_group(const wire::Gid& group, uint32_t ifindex) override {
    return inner_->leave_group(group, ifindex);
  }
  const Counters& counters() const override { return inner_->counters(); }
  uint32_t description() const override { return inner_->description(); }
  size_t receive_buffer() const override { return inner_->receive_buffer(); }
  std::string describe() const override {
    return inner_->describe() + ", with faults (seed " + std::to_string(config_.seed) + ")";
  }

  size_t receive(PacketSink& sink) override {
    sink_ = &sink;
    const size_t n = inner_->receive(*this);
    if (n == 0) release_kept();
    sink_ = nullptr;
    return n;
  }

 private:
  bool happens(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }

  void release_kept() {
    for (const Kept& k : kept_) sink_->on_packet(k.bytes, k.meta);
    kept_.clear();
  }

  void on_packet(std::span<const std::byte> packet, const engine::RxMeta& meta) override {
    // A damaged packet does not pass the ICRC: for the engine it is a lost one.
    if (happens(config_.drop) || happens(config_.corrupt)) return;
    if (happens(config_.reorder)) {
      kept_.push_back({{packet.begin(), packet.end()}, meta});
      return;
    }
    sink_->on_packet(packet, meta);
    if (happens(config_.duplicate)) sink_->on_packet(packet, meta);
    if (!kept_.empty() && happens(0.5)) release_kept();
  }

  std::unique_ptr<Transport> inner_;
  FaultConfig config_;
  std::mt19937_64 random_;
  PacketSink* sink_ = nullptr;
  std::vector<Kept> kept_;
};

bool parse_probability(std::string_view text, double& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && out >= 0 && out <= 1;
}

bool parse_item(std::string_view item, FaultConfig& out) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  if (name == "drop") return parse_probability(value, out.drop);
  if (name == "duplicate") return parse_probability(value, out.duplicate);
  if (name == "reorder") return parse_probability(value, out.reorder);
  if (name == "corrupt") return parse_probability(value, out.corrupt);
  if (name != "seed") return false;
  const auto result = std::from_chars(value.data(), value.data() + value.size(), out.seed);
  return result.ec == std::errc() && result.ptr == value.data() + value.size();
}

}  // namespace

bool parse_faults(std::string_view text, FaultConfig& out, std::string& why) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (!parse_item(item, out)) {
      why = "UROCE_FAULT: \"" + std::string(item) +
            "\" is none of drop=P, duplicate=P, reorder=P, corrupt=P (0 to 1), seed=N";
      errno = EINVAL;
      return false;
    }
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return true;
}

std::unique_ptr<Transport> make_fault_transport(std::unique_ptr<Transport> inner, const FaultConfig& config) {
  return std::make_unique<FaultTransport>(std::move(inner), config);
}

}  // namespace uroce::transport
