// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/preload/fake_daemon.h"

#include <linux/netlink.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "kmod-shim/uapi/uroce_abi.h"

namespace uroce::preload_test {

namespace fs = std::filesystem;

namespace {

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

bool is_stranger(int client) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid();
}

void send_to_client(int fd, const uroce_msg& header, const void* payload, size_t bytes,
                    const std::vector<int>& descriptors = {}) {
  iovec parts[2] = {{const_cast<uroce_msg*>(&header), sizeof header}, {const_cast<void*>(payload), bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size() * sizeof(int));
  }
  sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

FakeDaemon::FakeDaemon() {
  make_tree();
  make_netlink();
  stop_ = eventfd(0, EFD_CLOEXEC);
  release_ = eventfd(0, EFD_CLOEXEC);
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, UROCE_DAEMON_NAME_FORMAT, geteuid());
  check(bind(listener_, reinterpret_cast<sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length))) == 0,
        "bind");
  check(listen(listener_, 64) == 0, "listen");
  thread_ = std::thread([this] { run(); });
}

FakeDaemon::~FakeDaemon() {
  eventfd_write(stop_, 1);
  eventfd_write(release_, 1);
  thread_.join();
  for (const Client& client : clients_) close(client.fd);
  for (const int fd : {listener_, netlink_, stop_, release_, async_far_end_.load()}) {
    if (fd >= 0) close(fd);
  }
  std::error_code ignored;
  fs::remove_all(tree_, ignored);
}

void FakeDaemon::make_tree() {
  char name[] = "/tmp/uroce-preload-test-XXXXXX";
  check(mkdtemp(name) != nullptr && chmod(name, 0755) == 0, "mkdtemp");
  tree_ = name;
  const fs::path root(tree_);
  const fs::path device = root / "sys/devices/platform/uroce.0";
  write_file(device / "infiniband/ur0/node_guid", "0011:2233:4455:6677\n");
  write_file(device / "infiniband/ur0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
  write_file(device / "infiniband_verbs/uverbs0/ibdev", "ur0\n");
  fs::create_directories(root / "sys/class/infiniband");
  fs::create_directories(root / "sys/class/infiniband_verbs");
  fs::create_symlink("../../devices/platform/uroce.0/infiniband/ur0", root / "sys/class/infiniband/ur0");
  fs::create_symlink("../../devices/platform/uroce.0/infiniband_verbs/uverbs0",
                     root / "sys/class/infiniband_verbs/uverbs0");
  fs::create_symlink("/sys/class/net/lo",
                     root / "sys/class/infiniband/host0");  // as uroced shows the host's own devices
  fs::create_symlink("../..", device / "infiniband/ur0/device");
  write_file(root / "sys/class/misc/rdma_cm/abi_version", "4\n");
  write_file(root / "dev/infiniband/uverbs0", "");
  write_file(root / "dev/infiniband/rdma_cm", "");
}

void FakeDaemon::make_netlink() {
  netlink_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  check(bind(netlink_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind netlink");
  socklen_t length = sizeof address;
  check(getsockname(netlink_, reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname");
  netlink_port_ = address.nl_pid;
}

std::vector<std::vector<uint8_t>> FakeDaemon::commands() const {
  const std::lock_guard lock(mutex_);
  return commands_;
}

void FakeDaemon::refuse(uint32_t role, int status, const std::string& text) {
  const std::lock_guard lock(mutex_);
  refused_role_ = role;
  refusal_ = status;
  refusal_text_ = text;
}

void FakeDaemon::fail_next_command(int status, const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  failure_text_ = sentence;
  fails_ = status;
}

void FakeDaemon::release_command() {
  eventfd_write(release_, 1);
}

bool FakeDaemon::send_async(uint64_t element, uint32_t event_type) {
  const ib_uverbs_async_event_desc record{element, event_type, 0};
  return send(async_far_end_, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof record);
}

void FakeDaemon::run() {
  for (;;) {
    std::vector<pollfd> watched = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}, {netlink_, POLLIN, 0}};
    for (const Client& client : clients_) watched.push_back({client.fd, POLLIN, 0});
    const size_t first_far_end = watched.size();
    for (const int far_end : rdma_cm_.far_ends()) watched.push_back({far_end, 0, 0});
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    for (size_t i = first_far_end; i-- > 3;) {
      if (watched[i].revents == 0 || serve(clients_[i - 3])) continue;
      rdma_cm_.closed(clients_[i - 3].fd);
      close(clients_[i - 3].fd);
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i) - 3);
    }
    rdma_cm_.drop_those_hung_up();
    if (watched[1].revents != 0) accept_client();
    if (watched[2].revents != 0) echo_netlink();
  }
}

void FakeDaemon::accept_client() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) clients_.push_back({fd, 0});
}

bool FakeDaemon::serve(Client& client) {
  std::vector<uint8_t> message(UROCE_MSG_MAX);
  const ssize_t n = recv(client.fd, message.data(), message.size(), 0);
  uroce_msg header;
  if (n < static_cast<ssize_t>(sizeof header)) return false;
  std::memcpy(&header, message.data(), sizeof header);
  const std::vector<uint8_t> payload(message.begin() + sizeof header, message.begin() + n);
  if (header.magic != UROCE_MSG_MAGIC || header.version != UROCE_MSG_VERSION) return false;
  if (header.type == UROCE_MSG_HELLO && payload.size() == sizeof(uroce_hello)) {
    uroce_hello hello;
    std::memcpy(&hello, payload.data(), sizeof hello);
    on_hello(client, header, hello);
    return hello.role != UROCE_ROLE_WORLD;
  }
  return header.type == UROCE_MSG_COMMAND &&
         (client.role == UROCE_ROLE_UVERBS || client.role == UROCE_ROLE_RDMA_CM) &&
         on_command(client, header, payload);
}

void FakeDaemon::on_hello(Client& client, const uroce_msg& header, const uroce_hello& hello) {
  uroce_hello_reply told{};
  uroce_msg reply = header;
  {
    const std::lock_guard lock(mutex_);
    if (hello.role == refused_role_) {
      reply.status = refusal_;
      std::snprintf(told.text, sizeof told.text, "%s", refusal_text_.c_str());
    }
  }
  if (is_stranger(client.fd)) reply.status = EPERM;
  told.netlink_port = announced_port_ != 0 ? announced_port_.load() : netlink_port_;
  std::snprintf(told.tree, sizeof told.tree, "%s", tree_.c_str());
  if (reply.status == 0) client.role = hello.role;
  if (hello.role < std::size(hellos_)) ++hellos_[hello.role];
  std::vector<int> descriptors;
  if (client.role == UROCE_ROLE_RDMA_CM) descriptors.push_back(rdma_cm_.open(client.fd, told.channel));
  send_to_client(client.fd, reply, &told, sizeof told, descriptors);
  for (const int fd : descriptors) close(fd);
}

bool FakeDaemon::on_command(Client& client, const uroce_msg& header, const std::vector<uint8_t>& written) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(written);
  }
  if (holds_.exchange(0) != 0) {
    held_ = true;
    eventfd_t ignored;
    eventfd_read(release_, &ignored);
    held_ = false;
  }
  uroce_msg reply{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_COMMAND, header.seq, 0};
  if (leaves_.exchange(0) != 0) {
    reply.type = UROCE_MSG_GONE;
    reply.seq = 0;
    send_to_client(client.fd, reply, nullptr, 0);
    return true;
  }
  if (restarts_.exchange(0) != 0) {
    const uroce_msg restarted{UROCE_MSG_MAGIC, UROCE_MSG_VERSION, UROCE_MSG_RESTARTED, 0, 0};
    send_to_client(client.fd, restarted, nullptr, 0);
    send_to_client(client.fd, reply, "\1\0\0\0\1\0\0\0", 8);  // the answer of the one that died
  }
  reply.status = fails_.exchange(0);
  if (reply.status != 0) {
    const std::lock_guard lock(mutex_);
    send_to_client(client.fd, reply, failure_text_.data(), failure_text_.size());
    return true;
  }
  if (client.role == UROCE_ROLE_UVERBS) {
    on_uverbs_command(client, reply, written);
  } else {
    on_rdma_cm_command(client, reply, written);
  }
  return true;
}

void FakeDaemon::on_rdma_cm_command(const Client& client, uroce_msg reply,
                                    const std::vector<uint8_t>& written) {
  std::vector<uint8_t> answer;
  if (reply.status == 0) reply.status = rdma_cm_.command(client.fd, written, answer);
  send_to_client(client.fd, reply, answer.data(), reply.status == 0 ? answer.size() : 0);
}

void FakeDaemon::on_uverbs_command(const Client& client, uroce_msg reply,
                                   const std::vector<uint8_t>& written) {
  ib_uverbs_cmd_hdr command{};
  std::memcpy(&command, written.data(), std::min(sizeof command, written.size()));
  const bool extended = (command.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
  ib_uverbs_ex_cmd_hdr more{};
  if (extended && written.size() >= sizeof command + sizeof more)
    std::memcpy(&more, written.data() + sizeof command, sizeof more);
  const size_t word = extended ? 8 : 4;
  std::vector<uint8_t> answer(word * (command.out_words + more.provider_out_words), 0);
  if (reply.status != 0) answer.clear();
  const uint32_t handle = next_handle_++, number = handle + 1000;
  const auto put = [&](size_t at, uint32_t value) {
    if (at + sizeof value <= answer.size()) std::memcpy(answer.data() + at, &value, sizeof value);
  };
  switch (command.command & IB_USER_VERBS_CMD_COMMAND_MASK) {
    case IB_USER_VERBS_CMD_GET_CONTEXT: {
      int ends[2];
      if (reply.status != 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) break;
      put(offsetof(ib_uverbs_get_context_resp, num_comp_vectors), 1);
      send_to_client(client.fd, reply, answer.data(), answer.size(), {ends[0], ends[1]});
      close(ends[0]);
      if (async_far_end_ >= 0) close(async_far_end_);
      async_far_end_ = ends[1];
      return;
    }
    case IB_USER_VERBS_CMD_CREATE_CQ:
      put(0, handle);
      put(extended ? word * command.out_words : sizeof(ib_uverbs_create_cq_resp), handle);  // cq_id
      break;
    case IB_USER_VERBS_CMD_CREATE_QP:
      put(0, handle);
      put(offsetof(ib_uverbs_create_qp_resp, qpn), number);
      break;
    case IB_USER_VERBS_CMD_CREATE_SRQ:
      put(0, handle);
      put(sizeof(ib_uverbs_create_srq_resp), number);
      break;
    default: break;
  }
  send_to_client(client.fd, reply, answer.data(), answer.size());
}

void FakeDaemon::echo_netlink() {
  char buffer[8192];
  sockaddr_nl source{};
  socklen_t length = sizeof source;
  const ssize_t n =
      recvfrom(netlink_, buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&source), &length);
  if (n > 0)
    sendto(netlink_, buffer, static_cast<size_t>(n), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&source),
           length);
}

}  // namespace uroce::preload_test
