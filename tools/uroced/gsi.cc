// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/gsi.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "provider/transport/udp.h"
#include "provider/wire/packet.h"
#include "tools/uroced/log.h"

namespace uroce::daemon {

namespace {

constexpr size_t kMostPerWakeUp = 64;

// Slot 0 also gets what belongs to no slot: that is dropped before it wakes anybody. The program sees the UDP
// header first.
bool admit_gsi_only(int fd) {
  constexpr uint32_t kUdp = 8, kOpcodeAt = kUdp, kQpnAt = kUdp + 4;
  sock_filter code[] = {
      {BPF_LD | BPF_B | BPF_ABS, 0, 0, kOpcodeAt},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, static_cast<uint32_t>(wire::Opcode::ud_send_only)},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kQpnAt},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xffffff},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, wire::kGsiQpn},
      {BPF_RET | BPF_K, 0, 0, 0xffffffff},
      {BPF_RET | BPF_K, 0, 0, 0},
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace

Gsi::Gsi(Loop& loop, SlotGroup& slots, DeviceOf device_of, OnMad on_mad)
    : loop_(loop),
      slots_(slots),
      device_of_(std::move(device_of)),
      on_mad_(std::move(on_mad)),
      storage_(engine::TxBatch::kMaxPacket),
      batch_(storage_) {}

bool Gsi::open(std::string& why) {
  if (transport_ != nullptr) return true;
  if (!slots_.is_open()) {
    why = "there is no socket on the RoCE port";
    return false;
  }
  transport::UdpConfig config;
  config.receive_socket = fcntl(slots_.socket_of(0), F_DUPFD_CLOEXEC, 0);
  if (config.receive_socket < 0) {
    why = std::strerror(errno);
    return false;
  }
  config.send_sockets = 1;
  config.segmentation = false;
  config.coalescing = false;
  if (!admit_gsi_only(config.receive_socket)) spdlog::warn("cannot filter QP 1: {}", std::strerror(errno));
  transport_ = transport::make_udp_transport(config, why);
  if (transport_ == nullptr) return false;
  watch_ = std::make_unique<FdWatch>(loop_, transport_->wait_descriptor(), [this] { receive_some(); });
  return true;
}

// Bounded, so that a flood leaves time for everything else.
void Gsi::receive_some() {
  for (size_t i = 0; i < kMostPerWakeUp && transport_->receive(*this) != 0; ++i) {
  }
}

void Gsi::on_packet(std::span<const std::byte> bytes, const engine::RxMeta& meta) {
  wire::Packet packet;
  const bool sound = wire::parse_packet(bytes, packet) == wire::ParseError::none &&
                     packet.bth.opcode == wire::Opcode::ud_send_only &&
                     packet.bth.dest_qpn.value() == wire::kGsiQpn && packet.deth.qkey == wire::kGsiQkey &&
                     packet.payload.size() == wire::kMadBytes;
  if (!sound) {
    ++counters_.not_for_gsi;
    return;
  }
  cm::Route from;
  if (!device_of_(meta.destination, meta.ifindex, from)) {
    ++counters_.foreign_address;
    return;
  }
  from.path.source = meta.destination;
  from.path.destination = meta.source;
  from.path.traffic_class = meta.traffic_class & 0xfc;  // without the ECN bits
  on_mad_(from, packet.payload);
}

void Gsi::send(const cm::Outgoing& out) {
  if (transport_ == nullptr) return;
  const engine::PathId path = transport_->intern(out.route.path);
  if (path.value == 0) return;  // the family is not available: the peer hears nothing, timeouts tell
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::ud_send_only;
  packet.bth.dest_qpn = wire::Qpn(wire::kGsiQpn);
  packet.bth.psn = psn_;
  ++psn_;
  packet.deth.qkey = wire::kGsiQkey;
  packet.deth.source_qpn = wire::Qpn(wire::kGsiQpn);
  batch_.clear();
  std::byte* at = batch_.reserve(engine::TxBatch::kMaxPacket - wire::kIcrcBytes);
  if (at != nullptr) {
    const size_t headers = wire::write_headers(packet, at);
    std::memcpy(at + headers, out.mad.data(), out.mad.size());
    batch_.commit(path, packet.bth.dest_qpn, headers + out.mad.size());
    transport_->send(batch_, 0);  // what finds no buffer is lost: the state machine sends it again
  }
  transport_->release(path);
}

}  // namespace uroce::daemon
