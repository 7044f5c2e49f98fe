// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/fuzz/packet_feeder.h"

#include <algorithm>
#include <cstring>

#include "provider/engine/qp.h"
#include "provider/wire/byte_order.h"

namespace uroce::fuzz {

using engine::QpState;
using engine::QpType;
using engine::SgEntry;
using engine::WrOpcode;

PacketFeeder::PacketFeeder() : host_(1, {}), storage_(64 << 10), batch_(storage_) {
  peer_.raw[10] = peer_.raw[11] = 0xff;
  peer_.raw[12] = 10;
  peer_.raw[15] = 2;
  region_ = host_.region(64 << 10);
  srq_ = host_.new_srq(32);
  xrc_srq_ = host_.new_srq(32, true, 5);
  for (const QpState state : {QpState::rts, QpState::rtr, QpState::init}) {
    for (const QpType type : {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_target, QpType::xrc_initiator})
      add(type, state, false);
  }
  add(QpType::rc, QpState::rts, true);
  add(QpType::ud, QpState::rts, true);
}

void PacketFeeder::add(QpType type, QpState state, bool shared) {
  Member member;
  member.options.type = type;
  member.options.mtu = engine::PathMtu::mtu_256;
  member.options.capabilities = {16, 16, 4, 4, 64};
  member.options.xrc_domain = 5;
  member.options.max_dest_rd_atomic = 4;
  if (shared) member.options.srq = srq_;
  member.qp = host_.new_qp(member.options);
  bring_up(member, state);
  members_.push_back(member);
}

void PacketFeeder::bring_up(Member& member, QpState state) {
  const wire::Psn first(kFirstPsn);
  host_.to_init(member.qp, member.options);
  if (state == QpState::init) return;
  host_.to_rtr(member.qp, member.options, engine::PathId{2}, wire::Qpn::of(2, 20), first, peer_);
  if (state == QpState::rts) host_.to_rts(member.qp, member.options, first);
}

void PacketFeeder::post(Member& member) {
  const SgEntry sge = region_.sge(next_id_ * 640 % 32768, 600);
  host_.receive(srq_, ++next_id_, {sge});
  host_.receive(xrc_srq_, ++next_id_, {sge});
  host_.receive(member.qp, ++next_id_, {sge});
  static constexpr WrOpcode kOpcodes[] = {WrOpcode::send, WrOpcode::read, WrOpcode::write,
                                          WrOpcode::fetch_add};
  ++next_id_;
  engine::SendRequest request = test::request(kOpcodes[next_id_ / 4 % 4], next_id_, {&sge, 1}, 0x1000, 0x100);
  request.ud_path = engine::PathId{2};
  request.ud_qpn = wire::Qpn::of(2, 20);
  host_.post(member.qp, request);
}

void PacketFeeder::packet(uint8_t queue_pair, int8_t psn, std::span<const uint8_t> bytes) {
  std::vector<std::byte> copy(bytes.size());  // of its own size, so that a sanitizer sees the end
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  if (queue_pair != 0 && queue_pair <= members_.size() && copy.size() >= wire::kBthBytes) {
    Member& member = members_[queue_pair - 1];
    copy[5] = static_cast<std::byte>(member.qp->qpn().value() >> 16);
    copy[6] = static_cast<std::byte>(member.qp->qpn().value() >> 8);
    copy[7] = static_cast<std::byte>(member.qp->qpn().value());
    if (psn != -128) {
      const bool response = wire::opcode_info(static_cast<uint8_t>(copy[0])).has(wire::OpcodeInfo::response);
      const engine::Qp& qp = member.qp->impl();
      const wire::Psn due = response ? qp.req.una : qp.resp.expected;
      const uint32_t flags = wire::load_be32(copy.data() + 8) & 0xff000000;
      wire::store_be32(copy.data() + 8,
                       flags | (due + static_cast<uint32_t>(static_cast<int32_t>(psn))).value());
    }
  }
  engine::RxMeta meta;
  meta.source = peer_;
  meta.destination = host_.gid;
  meta.traffic_class = static_cast<uint8_t>(psn) & 3;
  host_.engine.on_packet(host_.now, copy, meta);
}

void PacketFeeder::drain() {
  host_.engine.take_rings(host_.now);
  for (bool more = true; more;) {
    batch_.clear();
    more = host_.engine.poll_transmit(host_.now, batch_);
  }
  host_.poll();
  host_.events();
  // What a packet brought down lives again, so that the next one meets a working queue pair.
  for (Member& member : members_) {
    if (member.qp->state() != QpState::error && member.qp->state() != QpState::sqe) continue;
    host_.modify(member.qp, QpState::reset);
    bring_up(member, QpState::rts);
  }
}

void PacketFeeder::feed(std::span<const uint8_t> input) {
  while (input.size() >= 5) {
    const uint8_t action = input[0];
    const uint8_t queue_pair = input[1];
    const auto psn = static_cast<int8_t>(input[2]);
    size_t length = std::min<size_t>(static_cast<size_t>(input[3]) | static_cast<size_t>(input[4]) << 8,
                                     input.size() - 5);
    const auto bytes = input.subspan(5, (action & 1) != 0 ? length & ~size_t{3} : length);
    input = input.subspan(5 + length);
    if ((action & 0x0e) == 0) host_.now.ns += 1'000'000;
    host_.engine.on_deadline(host_.now);
    if ((action & 0x70) == 0 && queue_pair != 0) post(members_[queue_pair % members_.size()]);
    packet(queue_pair, psn, bytes);
    drain();
  }
}

}  // namespace uroce::fuzz
