// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_receive.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "provider/transport/udp_socket.h"
#include "provider/wire/byte_order.h"
#include "provider/wire/packet.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace uroce::transport {
namespace {

union SocketAddress {
  sockaddr_in in;
  sockaddr_in6 in6;
};

void read_source(const SocketAddress& from, engine::RxMeta& meta) {
  if (from.in.sin_family == AF_INET) {
    meta.source = wire::Gid::from_ipv4_be(from.in.sin_addr.s_addr);
    meta.source_port = ntohs(from.in.sin_port);
    return;
  }
  std::memcpy(meta.source.raw.data(), &from.in6.sin6_addr, 16);
  meta.source_port = ntohs(from.in6.sin6_port);
}

template <typename T>
T data_of(const cmsghdr* header) {
  T value;
  std::memcpy(&value, CMSG_DATA(header), sizeof value);
  return value;
}

bool same_flow(const engine::RxMeta& a, const engine::RxMeta& b) {
  return a.source_port == b.source_port && a.source == b.source && a.destination == b.destination;
}

size_t flow_slot(const engine::RxMeta& meta, size_t slots) {
  uint32_t source, destination;
  std::memcpy(&source, meta.source.raw.data() + 12, 4);
  std::memcpy(&destination, meta.destination.raw.data() + 12, 4);
  return ((source ^ (destination * 31) ^ (uint32_t{meta.source_port} * 2654435761u)) >> 8) % slots;
}

}  // namespace

UdpReceiver::UdpReceiver(int fd, uint32_t slot, OtherSlot other_slot, Counters& counters, bool coalescing)
    : fd_(fd),
      slot_(slot),
      other_slot_(std::move(other_slot)),
      counters_(counters),
      ipv6_(is_ipv6_socket(fd)),
      buffer_(new std::byte[kBufferBytes]),
      flows_([] {
        const Flow none{{}, wire::IcrcFlow({}, {}, 0, 0)};
        std::array<Flow, kFlows> all = [&]<size_t... I>(std::index_sequence<I...>) {
          return std::array<Flow, kFlows>{((void)I, none)...};
        }
        (std::make_index_sequence<kFlows>());
        return all;
      }()) {
  const int on = coalescing ? 1 : 0;
  coalescing_ = setsockopt(fd_, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0 && coalescing;
}

UdpReceiver::~UdpReceiver() {
  close(fd_);
}

// False when the kernel did not say where the packet went to.
bool UdpReceiver::read_control(const msghdr& message, Arrival& out) const {
  bool have_destination = false;
  auto* mutable_message = const_cast<msghdr*>(&message);
  for (cmsghdr* c = CMSG_FIRSTHDR(mutable_message); c != nullptr; c = CMSG_NXTHDR(mutable_message, c)) {
    if (c->cmsg_level == IPPROTO_IPV6) {
      switch (c->cmsg_type) {
        case IPV6_PKTINFO: {
          const auto info = data_of<in6_pktinfo>(c);
          std::memcpy(out.meta.destination.raw.data(), &info.ipi6_addr, 16);
          out.meta.ifindex = info.ipi6_ifindex;
          have_destination = true;
          break;
        }
        case IPV6_TCLASS: out.meta.traffic_class = static_cast<uint8_t>(data_of<int>(c)); break;
        case IPV6_HOPLIMIT: out.meta.hop_limit = static_cast<uint8_t>(data_of<int>(c)); break;
        default: break;
      }
    } else if (c->cmsg_level == IPPROTO_IP) {
      switch (c->cmsg_type) {
        case IP_PKTINFO: {
          const auto info = data_of<in_pktinfo>(c);
          out.meta.destination = wire::Gid::from_ipv4_be(info.ipi_addr.s_addr);
          out.meta.ifindex = static_cast<uint32_t>(info.ipi_ifindex);
          have_destination = true;
          break;
        }
        case IP_TOS: out.meta.traffic_class = data_of<uint8_t>(c); break;
        case IP_TTL: out.meta.hop_limit = static_cast<uint8_t>(data_of<int>(c)); break;
        default: break;
      }
    } else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      out.segment = static_cast<size_t>(data_of<int>(c));
    }
  }
  return have_destination;
}

const wire::IcrcFlow& UdpReceiver::flow_of(const engine::RxMeta& meta) {
  Flow& flow = flows_[flow_slot(meta, kFlows)];
  if (!same_flow(flow.key, meta))
    flow = {meta, wire::IcrcFlow(meta.source, meta.destination, meta.source_port, wire::kRocePort)};
  return flow.icrc;
}

// One RoCEv2 datagram. True when `sink` got it. `identification`: what its IPv4 header must have carried.
bool UdpReceiver::take(std::span<const std::byte> datagram, uint16_t guess, uint16_t& identification,
                       const engine::RxMeta& meta, PacketSink& sink) {
  if (datagram.size() < wire::kBthBytes + wire::kIcrcBytes) {
    drop(Drop::too_short);
    return false;
  }
  const auto packet = datagram.first(datagram.size() - wire::kIcrcBytes);
  const uint32_t icrc = wire::load_icrc(packet.data() + packet.size());
  const auto solved = flow_of(meta).solve_identification(packet, icrc, guess);
  if (!solved) {
    drop(Drop::bad_icrc);
    return false;
  }
  identification = *solved;
  const wire::Qpn qpn(wire::load_be32(packet.data() + 4));
  if (qpn.slot() != slot_ && qpn.value() != wire::Qpn::kMulticast) {
    const bool handed_on = other_slot_ && other_slot_(packet, meta, qpn.slot());
    drop(handed_on ? Drop::other_slot : Drop::other_slot_lost);
    return false;
  }
  ++counters_.received_packets;
  counters_.received_bytes += packet.size();
  sink.on_packet(packet, meta);
  return true;
}

size_t UdpReceiver::receive(PacketSink& sink) {
  SocketAddress from;
  alignas(8) std::byte control[256];
  iovec part{buffer_.get(), kBufferBytes};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  // The raw call: glibc's is a cancellation point, and the lane is held here.
  const long bytes = syscall(SYS_recvmsg, fd_, &message, MSG_DONTWAIT);
  if (bytes < 0) return 0;
  ++counters_.received_calls;

  Arrival arrival;
  read_source(from, arrival.meta);
  if (!read_control(message, arrival) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    drop(Drop::truncated);
    return 1;  // something was there: come again
  }
  const std::span<const std::byte> all(buffer_.get(), static_cast<size_t>(bytes));
  const size_t segment = arrival.segment == 0 ? all.size() : arrival.segment;
  uint16_t guess = 0;
  size_t packets = 0;
  for (size_t at = 0; at < all.size(); at += segment) {
    uint16_t identification = guess;
    take(all.subspan(at, std::min(segment, all.size() - at)), guess, identification, arrival.meta, sink);
    guess = static_cast<uint16_t>(identification + 1);
    ++packets;
  }
  return packets == 0 ? 1 : packets;
}

}  // namespace uroce::transport
