// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/slot_group.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "provider/transport/udp.h"
#include "tools/uroced/log.h"
#include "tools/uroced/process_scan.h"

namespace uroce::daemon {

namespace {

constexpr uint16_t kRocePort = 4791;
// Nobody says how much of UC and UD was read: what lies here while the process waits for a CPU (32 ms of it
// at the rate of a sender) is all that stands between it and the loss. Memory that nothing lies in costs
// nothing.
//
// UROCE_RECEIVE_BUFFER=BYTES asks for another size: to see a program with the small buffers of other
// machines.
int wanted_receive_buffer() {
  constexpr int kUsual = 32 << 20, kLeast = 4096, kMost = 64 << 20;
  const char* text = secure_getenv("UROCE_RECEIVE_BUFFER");
  if (text == nullptr) return kUsual;
  int bytes = kUsual;
  std::from_chars(text, text + std::strlen(text), bytes);
  return std::clamp(bytes, kLeast, kMost);
}

void drop_everything(int fd) {
  sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog program{1, code};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    spdlog::warn("cannot attach a filter to a receive socket: {}", std::strerror(errno));
  }
}

void drop_nothing(int fd) {
  const int unused = 0;
  setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
}

void drain(int fd) {
  char byte;
  while (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == EINTR) {
  }
}

bool have_ipv6() {
  const Fd fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return static_cast<bool>(fd);
}

// Whether anybody has the port: with SO_REUSEPORT we would silently join a group of our own uid, behind
// members that are not ours.
int probe_port(bool ipv6) {
  const Fd fd(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(kRocePort);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(kRocePort);
  const auto* address =
      ipv6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (ipv6) {
    const int off = 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  return bind(fd.get(), address, ipv6 ? sizeof v6 : sizeof v4) == 0 ? 0 : errno;
}

std::string who_has_the_port() {
  std::string text;
  for (const PortHolder& holder : udp_port_holders(kRocePort)) {
    const std::string one = describe(holder);
    if (text.find(one) != std::string::npos) continue;
    text += (text.empty() ? "" : ", ") + one;
  }
  return text.empty() ? "somebody who cannot be seen from here" : text;
}

}  // namespace

SlotGroup::SlotGroup(Registry& registry, KeeperLine& keeper)
    : registry_(registry), keeper_(keeper), ipv6_(have_ipv6()) {
  // The keeper's table says how many there are: a member that was made but not handed over before its worker
  // died was the last one, and harmless to lose.
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    Fd member = keeper.take_inherited(Keep::slot_socket, slot);
    if (!member) break;
    sockets_.push_back(std::move(member));
    if (Fd holder = keeper.take_inherited(Keep::slot_holder, slot); holder)
      holders_[slot] = std::move(holder);
  }
  if (!is_open()) return;
  note_receive_buffer();
  // The earlier worker may have died before it did either.
  drop_everything(socket_of(0));
  std::string why;
  if (steer(why) != 0) spdlog::warn(why);
}

int SlotGroup::open_port(std::string& why) {
  if (!of_module_) return bind_port(why);
  why =
      "the kernel module serves this network namespace: run the command without uroce's preload library, or "
      "unload the "
      "module";
  return EBUSY;
}

int SlotGroup::bind_port(std::string& why) {
  if (is_open()) return steer(why);
  if (const int error = probe_port(ipv6_); error != 0) {
    why = error == EADDRINUSE
              ? fmt::format(
                    "UDP port {} is taken in this network namespace by {}; RoCEv2 needs it: end that program",
                    kRocePort, who_has_the_port())
              : fmt::format("cannot bind UDP port {}: {}", kRocePort, std::strerror(error));
    return error;
  }
  if (const int error = grow_to(0, why); error != 0) return error;
  // Nothing reads QP1 yet, and what no slot claims must not pile up.
  drop_everything(socket_of(0));
  return 0;
}

int SlotGroup::grow_to(uint32_t slot, std::string& why) {
  while (sockets_.size() <= slot) {
    const auto next = static_cast<uint32_t>(sockets_.size());
    Fd fd(transport::open_receive_socket(ipv6_, wanted_receive_buffer()));
    if (!fd) {
      const int error = errno;
      why = fmt::format("cannot make receive socket {} on UDP port {}: {}", next, kRocePort,
                        std::strerror(error));
      if (error == EMFILE || error == ENFILE) why += "; raise `ulimit -n` before uroced starts";
      return error;
    }
    if (!keeper_.keep(Keep::slot_socket, next, fd.get())) {
      why = "the keeper process does not take the socket";
      return EIO;
    }
    // The kernel (6.6 and later) gives an IPv4 multicast packet that only one socket hears to whomever the
    // steering program names, here slot 0, and one that several hear to each of them. So slot 0 hears all.
    if (next == 0) transport::hear_all_groups(fd.get(), true);
    sockets_.push_back(std::move(fd));
    note_receive_buffer();
  }
  return steer(why);
}

// Tried again with each context where it has failed: sockets are never closed.
int SlotGroup::steer(std::string& why) {
  if (steered_ == sockets_.size()) return 0;
  if (!transport::attach_slot_steering(socket_of(0), static_cast<uint32_t>(sockets_.size()))) {
    const int error = errno;
    why = fmt::format("cannot attach the program that steers packets to slots: {}", std::strerror(error));
    return error;
  }
  steered_ = sockets_.size();
  return 0;
}

void SlotGroup::note_receive_buffer() {
  socklen_t bytes = sizeof receive_buffer_;
  getsockopt(sockets_.back().get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_, &bytes);
}

uint32_t SlotGroup::find_clean() const {
  for (uint32_t slot = UROCE_SLOT_FIRST; slot <= UROCE_SLOT_LAST; ++slot) {
    if (registry_.context(slot).state == SlotState::clean) return slot;
  }
  return 0;
}

uint32_t SlotGroup::take(std::string& why) {
  uint32_t slot = find_clean();
  // Rather an old slot than one more socket.
  if ((slot == 0 || slot >= sockets_.size()) && anything_quarantined()) {
    review_quarantine();
    slot = find_clean();
  }
  if (slot == 0) {
    why = fmt::format("all {} contexts of this network namespace are in use; close some", UROCE_SLOT_LAST);
    errno = ENOMEM;
    return 0;
  }
  if (const int error = grow_to(slot, why); error != 0) {
    errno = ENOMEM;
    return 0;
  }
  make_fresh(slot);
  return slot;
}

bool SlotGroup::take_given(uint32_t slot, std::string& why) {
  if (registry_.context(slot).state == SlotState::quarantined) review_quarantine();
  if (registry_.context(slot).state != SlotState::clean) {
    why = fmt::format("context {} is still held by process {}", slot, registry_.context(slot).pid);
    errno = EBUSY;
    return false;
  }
  if (grow_to(slot, why) != 0) {
    errno = ENOMEM;
    return false;
  }
  make_fresh(slot);
  return true;
}

void SlotGroup::make_fresh(uint32_t slot) {
  // The earlier owner may have been killed while it was member of a group.
  transport::hear_all_groups(socket_of(slot), false);
  drain(socket_of(slot));
  drop_nothing(socket_of(slot));
}

void SlotGroup::retire(uint32_t slot, Fd holder) {
  if (slot < sockets_.size()) {
    drop_everything(socket_of(slot));
    transport::hear_all_groups(socket_of(slot), false);
    drain(socket_of(slot));
  }
  registry_.edit(registry_.context(slot).state) = SlotState::quarantined;
  if (holder && keeper_.keep(Keep::slot_holder, slot, holder.get())) holders_[slot] = std::move(holder);
}

bool SlotGroup::anything_quarantined() const {
  for (uint32_t slot = UROCE_SLOT_FIRST; slot < sockets_.size(); ++slot) {
    if (registry_.context(slot).state == SlotState::quarantined) return true;
  }
  return false;
}

void SlotGroup::review_quarantine() {
  std::set<uint64_t> waiting;
  for (uint32_t slot = UROCE_SLOT_FIRST; slot < sockets_.size(); ++slot) {
    if (registry_.context(slot).state == SlotState::quarantined) waiting.insert(inode_of(socket_of(slot)));
  }
  if (waiting.empty()) return;
  // The owner, and whatever children it has forked: whoever still has the descriptor open.
  const std::set<pid_t> ourselves{getpid(), static_cast<pid_t>(registry_.state().keeper_pid)};
  const std::set<uint64_t> held = held_sockets(waiting, ourselves);
  for (uint32_t slot = UROCE_SLOT_FIRST; slot < sockets_.size(); ++slot) {
    const ContextRecord& context = registry_.context(slot);
    if (context.state != SlotState::quarantined || held.count(inode_of(socket_of(slot))) != 0) continue;
    // An owner that /proc shows nothing of (another pid namespace, a process that may not be looked at): then
    // only its death counts.
    if (const auto holder = holders_.find(slot); holder != holders_.end()) {
      pollfd ends{holder->second.get(), POLLIN, 0};
      const bool lives = poll(&ends, 1, 0) == 0;
      if (lives && !sockets_can_be_seen(static_cast<pid_t>(context.pid))) continue;
      keeper_.drop(Keep::slot_holder, slot);
      holders_.erase(holder);
    }
    drain(socket_of(slot));
    registry_.edit(context.state) = SlotState::clean;
    registry_.edit(context.pid) = 0;
  }
}

uint64_t SlotGroup::dropped_by_control_slot() const {
  if (!is_open()) return 0;
  uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t bytes = sizeof memory;
  return getsockopt(socket_of(0), SOL_SOCKET, SO_MEMINFO, memory, &bytes) == 0 ? memory[SK_MEMINFO_DROPS] : 0;
}

}  // namespace uroce::daemon
