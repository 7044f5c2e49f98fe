// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_socket.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "provider/transport/udp.h"
#include "provider/wire/packet.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

namespace uroce::transport {
namespace {

constexpr int kDefaultHopLimit = 64;
constexpr int kSendBufferBytes = 1 << 20;

bool set(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

int fail_with(int fd) {
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// What arrives must come with its destination, TOS, TTL and segment size.
bool set_receive_options(int fd, bool ipv6) {
  const bool ipv4_options =
      set(fd, IPPROTO_IP, IP_RECVTOS, 1) && set(fd, IPPROTO_IP, IP_RECVTTL, 1) && hear_all_groups(fd, false);
  if (!ipv4_options) return false;
  if (!ipv6) return set(fd, IPPROTO_IP, IP_PKTINFO, 1);
  return set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) && set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
         set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) && set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) &&
         set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);  // NICs send RoCEv2 over IPv6 with checksum 0
}

bool bind_to_any(int fd, bool ipv6) {
  if (ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(wire::kRocePort);
    return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(wire::kRocePort);
  return bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

int new_udp_socket(int family, int flags) {
  return static_cast<int>(syscall(SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC | flags, IPPROTO_UDP));
}

int open_receive_socket(bool ipv6, int receive_buffer) {
  const int fd = new_udp_socket(ipv6 ? AF_INET6 : AF_INET, SOCK_NONBLOCK);
  if (fd < 0) return -1;
  if (!set(fd, SOL_SOCKET, SO_RCVBUFFORCE, receive_buffer)) set(fd, SOL_SOCKET, SO_RCVBUF, receive_buffer);
  const bool ready =
      set(fd, SOL_SOCKET, SO_REUSEPORT, 1) && set_receive_options(fd, ipv6) && bind_to_any(fd, ipv6);
  return ready ? fd : fail_with(fd);
}

bool hear_all_groups(int fd, bool on) {
  if (is_ipv6_socket(fd)) {
    // 4.20 and later; before, every socket hears all of them and the engine drops foreign ones.
    set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, on ? 1 : 0);
  }
  return set(fd, IPPROTO_IP, IP_MULTICAST_ALL, on ? 1 : 0);
}

bool attach_slot_steering(int fd, uint32_t members) {
  // The program sees the UDP payload: the destination QPN is bytes 5 to 7 of the BTH, its top ten bits are
  // the slot. A packet that is too short ends the program with 0.
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, wire::Qpn::kIndexBits),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, members, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

int open_send_socket(int family) {
  const int fd = new_udp_socket(family, SOCK_NONBLOCK);
  if (fd < 0) return -1;
  set(fd, SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);
  // Nothing is ever read here: what arrives must not pile up.
  set(fd, SOL_SOCKET, SO_RCVBUF, 0);
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  // PROBE: DF is set, and a forged "fragmentation needed" changes nothing.
  const bool ready = family == AF_INET
                         ? set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) &&
                               set(fd, IPPROTO_IP, IP_TTL, kDefaultHopLimit) &&
                               bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(sockaddr_in)) == 0
                         : set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) &&
                               set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
                               set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, kDefaultHopLimit) &&
                               bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(sockaddr_in6)) == 0;
  return ready ? fd : fail_with(fd);
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<sockaddr_in6&>(address).sin6_port);
}

bool is_ipv6_socket(int fd) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_INET6;
}

}  // namespace uroce::transport
