// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/route/route_table.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "netlink/route/lookup.h"
#include "netlink/route/snapshot.h"

namespace uroce::netlink {

namespace {

constexpr int kMostEvents = 1024;  // read in one dispatch

// Events only say "look again": what they carry is read afresh, so a lost one costs nothing.
class LiveRouteTable final : public RouteTable {
 public:
  LiveRouteTable(int events, std::unique_ptr<KernelLine> line) : events_(events), line_(std::move(line)) {}
  ~LiveRouteTable() override { close(events_); }

  bool refresh(std::string& why) {
    std::vector<Link> links;
    std::vector<Address> addresses;
    stale_ = !read_links(*line_, links, why) || !read_addresses(*line_, addresses, why);
    if (stale_) return false;
    is_news_ = links != links_ || addresses != addresses_;
    links_ = std::move(links);
    addresses_ = std::move(addresses);
    return true;
  }

  int descriptor() const override { return events_; }

  void dispatch() override {
    if (!read_events() && !stale_) return;
    std::string why;
    if (refresh(why) && is_news_ && changed_) changed_();
  }

  void on_change(std::function<void()> changed) override { changed_ = std::move(changed); }

  const std::vector<Link>& links() const override { return links_; }
  const std::vector<Address>& addresses() const override { return addresses_; }

  const Link* find_link(const std::string& name) const override {
    const auto at = std::find_if(links_.begin(), links_.end(), [&](const Link& l) { return l.name == name; });
    return at == links_.end() ? nullptr : &*at;
  }

  const Link* find_link(uint32_t ifindex) const override {
    const auto at = std::lower_bound(links_.begin(), links_.end(), ifindex,
                                     [](const Link& l, uint32_t wanted) { return l.ifindex < wanted; });
    return at == links_.end() || at->ifindex != ifindex ? nullptr : &*at;
  }

  std::optional<RouteResult> route(const wire::Gid& destination, const wire::Gid& source,
                                   uint32_t ifindex) override {
    return look_up_route(*line_, destination, source, ifindex);
  }

  std::optional<std::array<uint8_t, 6>> neighbour(const wire::Gid& address, uint32_t ifindex) override {
    return look_up_neighbour(*line_, address, ifindex);
  }

 private:
  // True when there was any event, or when some were lost (ENOBUFS).
  bool read_events() {
    bool any = false;
    for (int i = 0; i < kMostEvents; ++i) {
      char byte;
      const ssize_t n = recv(events_, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != ENOBUFS) break;
      any = true;
    }
    return any;
  }

  int events_;
  std::unique_ptr<KernelLine> line_;
  std::vector<Link> links_;
  std::vector<Address> addresses_;
  std::function<void()> changed_;
  bool is_news_ = false;
  bool stale_ = true;
};

int subscribe(std::string& why) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  why = std::string("cannot follow the netdevs: ") + std::strerror(errno);
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace

std::unique_ptr<RouteTable> RouteTable::open(std::string& why) {
  auto line = KernelLine::open(why);
  if (line == nullptr) return nullptr;
  const int events = subscribe(why);
  if (events < 0) return nullptr;
  auto table = std::make_unique<LiveRouteTable>(events, std::move(line));
  if (!table->refresh(why)) return nullptr;
  return table;
}

}  // namespace uroce::netlink
