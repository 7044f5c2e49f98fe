// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/transport/udp.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "provider/transport/udp_membership.h"
#include "provider/transport/udp_path.h"
#include "provider/transport/udp_pool.h"
#include "provider/transport/udp_receive.h"
#include "provider/transport/udp_send.h"

namespace uroce::transport {
namespace {

class UdpTransport final : public Transport {
 public:
  explicit UdpTransport(const UdpConfig& config)
      : pool_(config.send_sockets),
        paths_(pool_),
        sender_(paths_, pool_, counters_, config.segmentation),
        receiver_(config.receive_socket, config.slot, config.other_slot, counters_, config.coalescing),
        memberships_(config.receive_socket) {}

  engine::PathId intern(const engine::Path& path) override { return paths_.intern(path); }
  void release(engine::PathId id) override { paths_.release(id); }
  const engine::Path& path(engine::PathId id) const override { return paths_.path(id); }
  size_t send(engine::TxBatch& batch, size_t first) override { return sender_.send(batch, first); }
  size_t receive(PacketSink& sink) override { return receiver_.receive(sink); }
  int wait_descriptor() const override { return receiver_.descriptor(); }
  int join_group(const wire::Gid& group, uint32_t ifindex) override {
    return memberships_.join(group, ifindex);
  }
  int leave_group(const wire::Gid& group, uint32_t ifindex) override {
    return memberships_.leave(group, ifindex);
  }
  const Counters& counters() const override { return counters_; }

  size_t receive_buffer() const override {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    getsockopt(receiver_.descriptor(), SOL_SOCKET, SO_RCVBUF, &bytes, &length);
    return static_cast<size_t>(bytes);
  }
  uint32_t description() const override { return sender_.description(); }
  std::string describe() const override {
    return "udp, " + sender_.describe() + (receiver_.coalescing() ? ", GRO" : ", GRO off") +
           ", receive buffer " + std::to_string(receive_buffer() / 1024) + " KiB";
  }

 private:
  Counters counters_;
  UdpSendPool pool_;
  UdpPathTable paths_;
  UdpSender sender_;
  UdpReceiver receiver_;
  UdpMemberships memberships_;
};

}  // namespace

std::unique_ptr<Transport> make_udp_transport(const UdpConfig& config, std::string& why) {
  int type = 0;
  socklen_t length = sizeof type;
  if (getsockopt(config.receive_socket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_DGRAM) {
    const int error = errno == 0 ? EINVAL : errno;
    why = std::string("the slot's receive socket is unusable: ") + strerrordesc_np(error);
    errno = error;
    return nullptr;
  }
  return std::make_unique<UdpTransport>(config);
}

}  // namespace uroce::transport
