// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp_send.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "provider/wire/packet.h"

namespace uroce::transport {
namespace {

// Every kernel with UDP_SEGMENT takes 64 segments; newer ones take 128.
constexpr size_t kMaxSegments = 64;
constexpr uint32_t kMaxDatagram = 65507;

std::string print(const wire::Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (gid.is_ipv4())
    inet_ntop(AF_INET, gid.raw.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, gid.raw.data(), text, sizeof text);
  return text;
}

uint32_t on_wire(const engine::TxBatch::Entry& entry) {
  return entry.length + static_cast<uint32_t>(wire::kIcrcBytes);
}

}  // namespace

UdpSender::Run UdpSender::next_run(const engine::TxBatch& batch, size_t first) const {
  const auto entries = batch.entries();
  const engine::TxBatch::Entry& head = entries[first];
  Run run{};
  run.path = paths_.find(head.path);
  run.socket = head.dest_qpn.slot() % pool_.size();
  run.first = first;
  run.count = 1;
  run.segment = run.bytes = on_wire(head);
  if (run.path == nullptr || !segmentation_ || run.path->single_sends) return run;
  while (first + run.count < entries.size() && run.count < kMaxSegments) {
    const engine::TxBatch::Entry& next = entries[first + run.count];
    const uint32_t bytes = on_wire(next);
    const bool fits = next.path == head.path && next.dest_qpn.slot() % pool_.size() == run.socket &&
                      bytes <= run.segment && run.bytes + bytes <= kMaxDatagram;
    if (!fits) break;
    ++run.count;
    run.bytes += bytes;
    if (bytes < run.segment) break;  // only the last segment may be shorter
  }
  return run;
}

// The kernel numbers the segments of one send 0, 1, 2 ... in the IPv4 Identification, which the ICRC covers.
void UdpSender::seal(engine::TxBatch& batch, const Run& run) const {
  const wire::IcrcFlow& flow = run.path->flows[run.socket];
  for (size_t i = 0; i < run.count; ++i) {
    const engine::TxBatch::Entry& entry = batch.entries()[run.first + i];
    std::byte* packet = batch.data() + entry.offset;
    wire::store_icrc(packet + entry.length, flow.compute({packet, entry.length}, static_cast<uint16_t>(i)));
  }
}

void UdpSender::add_message(engine::TxBatch& batch, const Run& run) {
  seal(batch, run);
  UdpPath& path = *run.path;
  std::byte* control = controls_[pending_].bytes;
  size_t control_bytes = path.control_bytes;
  std::memcpy(control, path.control, control_bytes);
  if (run.count > 1) {
    cmsghdr header{};
    header.cmsg_len = CMSG_LEN(sizeof(uint16_t));
    header.cmsg_level = IPPROTO_UDP;
    header.cmsg_type = UDP_SEGMENT;
    const auto segment = static_cast<uint16_t>(run.segment);
    std::memset(control + control_bytes, 0, CMSG_SPACE(sizeof segment));
    std::memcpy(control + control_bytes, &header, sizeof header);
    std::memcpy(control + control_bytes + CMSG_LEN(0), &segment, sizeof segment);
    control_bytes += CMSG_SPACE(sizeof segment);
  }
  parts_[pending_] = {batch.data() + batch.entries()[run.first].offset, run.bytes};
  msghdr& message = messages_[pending_].msg_hdr;
  message = {};
  message.msg_name = &path.destination;
  message.msg_namelen = path.destination_bytes;
  message.msg_iov = &parts_[pending_];
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = control_bytes;
  runs_[pending_++] = run;
}

void UdpSender::count_sent(const Run& run) {
  counters_.sent_packets += run.count;
  counters_.sent_bytes += run.bytes - run.count * wire::kIcrcBytes;
}

// True: the run is done with (dropped). False: it stays.
bool UdpSender::handle_error(const Run& run, int error) {
  Drop reason = Drop::send_failed;
  switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM: return false;
    case EINVAL:
    case EIO:
      // A netdev without transmit checksums, or IPsec, refuses segmentation; the packets themselves are good.
      if (run.count > 1) {
        run.path->single_sends = true;
        ++refusals_;
        refused_error_ = error;
        refused_towards_ = run.path->path.destination;
        return false;
      }
      break;
    case EMSGSIZE: reason = Drop::send_too_big; break;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ENODEV: reason = Drop::send_unreachable; break;
    default: break;
  }
  counters_.drops[static_cast<size_t>(reason)] += run.count;
  return true;
}

size_t UdpSender::flush() {
  size_t done = 0;
  while (done < pending_) {
    const Run& head = runs_[done];
    const int fd = pool_.descriptor(head.path->ipv4, head.socket);
    // The raw call: glibc's is a cancellation point, and the lane is held here.
    const long sent = syscall(SYS_sendmmsg, fd, &messages_[done], pending_ - done, MSG_NOSIGNAL);
    ++counters_.sent_calls;
    if (sent > 0) {
      for (long i = 0; i < sent; ++i) count_sent(runs_[done++]);
      continue;
    }
    if (errno == EINTR) continue;
    if (!handle_error(head, errno)) break;
    ++done;
  }
  pending_ = 0;
  return done;
}

size_t UdpSender::send(engine::TxBatch& batch, size_t first) {
  const size_t end = batch.entries().size();
  size_t next = first;   // first entry that is in no run yet
  size_t taken = first;  // everything before has left
  while (taken < end) {
    while (next < end && pending_ < kMaxMessages) {
      const Run run = next_run(batch, next);
      if (run.path == nullptr) {
        // Released meanwhile: nobody waits for these packets. Keep the order of what is taken.
        if (pending_ > 0) break;
        counters_.drops[static_cast<size_t>(Drop::send_unreachable)] += run.count;
        next += run.count;
        taken = next;
        continue;
      }
      const bool other_socket =
          pending_ > 0 && (run.socket != runs_[0].socket || run.path->ipv4 != runs_[0].path->ipv4);
      if (other_socket) break;
      add_message(batch, run);
      next += run.count;
    }
    if (pending_ == 0) continue;
    const size_t queued = pending_;
    const size_t done = flush();
    if (done == queued) {
      taken = next;
      continue;
    }
    const Run& stuck = runs_[done];
    next = taken = stuck.first;
    if (!(stuck.count > 1 && stuck.path->single_sends)) break;  // no buffer: the caller comes again
  }
  return taken - first;
}

std::string UdpSender::describe() const {
  if (!segmentation_) return "GSO off";
  if (refused_error_ == 0) return "GSO " + std::to_string(kMaxSegments) + " segments";
  return "GSO refused towards " + print(refused_towards_) + " (" + strerrordesc_np(refused_error_) +
         "): single sends there";
}

}  // namespace uroce::transport
