// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The commands that only look.
#include <rdma/ib_user_sa.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provider/wire/byte_order.h"
#include "tools/uroced/rdma_cm_server.h"

namespace uroce::daemon {

namespace {

constexpr uint8_t kPort = 1;
constexpr uint16_t kPkeyBe = 0xffff;
constexpr uint8_t kPacketLifeTime = 16;
constexpr uint8_t kExactly = 2;  // selector of MTU, rate and lifetime
constexpr uint8_t kRate = 3;     // enum ibv_rate: 10 Gbit/s

template <typename Storage>
std::span<std::byte> room_of(Storage& address) {
  return {reinterpret_cast<std::byte*>(&address), sizeof address};
}

// A path record as the subnet administrator sends it (IBA 15.2.5.16).
void write_path_record(const cm::CmId& id, std::span<std::byte, 64> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  const auto put = [&](size_t at, unsigned value) { out[at] = static_cast<std::byte>(value); };
  std::memcpy(&out[8], id.route.path.destination.raw.data(), 16);
  std::memcpy(&out[24], id.route.path.source.raw.data(), 16);
  wire::store_be32(&out[44], id.route.path.hop_limit);
  put(48, id.route.path.traffic_class);
  put(49, 0x80 | 1);  // reversible, one path
  wire::store_be16(&out[50], kPkeyBe);
  put(54, kExactly << 6 | id.path_mtu);
  put(55, kExactly << 6 | kRate);
  put(56, kExactly << 6 | kPacketLifeTime);
}

void fill_path(const cm::CmId& id, ib_user_path_rec& out) {
  std::memcpy(out.dgid, id.destination.ip.raw.data(), sizeof out.dgid);
  std::memcpy(out.sgid, id.source.ip.raw.data(), sizeof out.sgid);
  out.pkey = kPkeyBe;
  if (!id.routed) return;
  out.reversible = 1;
  out.numb_path = 1;
  out.hop_limit = id.route.path.hop_limit;
  out.traffic_class = id.route.path.traffic_class;
  out.mtu_selector = out.rate_selector = out.packet_life_time_selector = kExactly;
  out.mtu = id.path_mtu;
  out.rate = kRate;
  out.packet_life_time = kPacketLifeTime;
}

}  // namespace

int RdmaCmServer::query_route(Call& call) {
  rdma_ucm_query request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  const cm::CmId& id = *cm_.find(request.id);
  rdma_ucm_query_route_resp answer{};
  cm::write_sockaddr(id.source, room_of(answer.src_addr));
  cm::write_sockaddr(id.destination, room_of(answer.dst_addr));
  if (id.port) {
    const cm::DeviceView device = host_.device(id.port->device);
    answer.node_guid = device.node_guid_be;
    answer.ibdev_index = device.index;
    answer.port_num = kPort;
    answer.num_paths = id.routed ? 1 : 0;
    fill_path(id, answer.ib_route[0]);
  }
  // An older client has no room for the device's index.
  constexpr size_t kWithoutIndex = offsetof(rdma_ucm_query_route_resp, ibdev_index);
  if (call.room < kWithoutIndex) return ENOSPC;
  const auto* bytes = reinterpret_cast<const std::byte*>(&answer);
  call.answer.assign(bytes, bytes + std::min(call.room, sizeof answer));
  return 0;
}

int RdmaCmServer::query_path(Call& call, const cm::CmId& id) {
  if (call.room < sizeof(rdma_ucm_query_path_resp)) return ENOSPC;
  ib_path_rec_data path{};
  path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  write_path_record(id, std::span<std::byte, 64>(reinterpret_cast<std::byte*>(path.path_rec), 64));
  const uint32_t head[] = {id.routed ? 1u : 0u, 0};
  static_assert(sizeof head == sizeof(rdma_ucm_query_path_resp));
  const auto append = [&call](const void* from, size_t count) {
    const auto* bytes = static_cast<const std::byte*>(from);
    call.answer.insert(call.answer.end(), bytes, bytes + count);
  };
  append(head, sizeof head);
  if (id.routed && call.room >= sizeof head + sizeof path) append(&path, sizeof path);
  return 0;
}

int RdmaCmServer::query(Call& call) {
  rdma_ucm_query request;
  if (!read(call, request)) return EINVAL;
  if (const int error = check(call, request.id); error != 0) return error;
  const cm::CmId& id = *cm_.find(request.id);
  if (request.option == RDMA_USER_CM_QUERY_PATH) return query_path(call, id);
  rdma_ucm_query_addr_resp answer{};
  if (id.port) {
    const cm::DeviceView device = host_.device(id.port->device);
    answer.node_guid = device.node_guid_be;
    answer.ibdev_index = device.index;
    answer.port_num = kPort;
    answer.pkey = kPkeyBe;
  }
  switch (request.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      answer.src_size = static_cast<uint16_t>(cm::write_sockaddr(id.source, room_of(answer.src_addr)));
      answer.dst_size = static_cast<uint16_t>(cm::write_sockaddr(id.destination, room_of(answer.dst_addr)));
      break;
    case RDMA_USER_CM_QUERY_GID: {
      const auto write_gid = [&](const cm::Address& from, auto& to) {
        cm::SockaddrIb ib{};
        ib.family = cm::kAfIb;
        ib.pkey_be = kPkeyBe;
        std::memcpy(ib.gid, from.ip.raw.data(), sizeof ib.gid);
        ib.service_be = __builtin_bswap64(wire::ip_service_id(id.port_space, from.port));
        std::memcpy(&to, &ib, sizeof ib);
      };
      write_gid(id.source, answer.src_addr);
      write_gid(id.destination, answer.dst_addr);
      answer.src_size = answer.dst_size = sizeof(cm::SockaddrIb);
      break;
    }
    default: return ENOSYS;
  }
  constexpr size_t kWithoutIndex = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
  if (call.room < kWithoutIndex) return ENOSPC;
  const auto* bytes = reinterpret_cast<const std::byte*>(&answer);
  call.answer.assign(bytes, bytes + std::min(call.room, sizeof answer));
  return 0;
}

}  // namespace uroce::daemon
