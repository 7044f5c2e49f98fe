// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool make_netdevs() {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool up = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  // Groups want a netdev that is no loopback.
  return up && std::system(
                   "ip link add d0 type veth peer d1 && ip link set d1 up && ip link set d0 up multicast on "
                   "&& ip address add "
                   "192.0.2.1/24 dev d0 && "
                   "ip address add 2001:db8::1/64 dev d0 nodad && "
                   "ip address add 192.0.2.2/24 dev d1 && ip address add 2001:db8::2/64 dev d1 nodad && "
                   // Its own address as the source of what comes in by the other netdev.
                   "sysctl -qw net.ipv4.conf.all.accept_local=1") == 0;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Port 4791 and every address are ours alone here.
  const bool apart = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
  if (!apart || !make_netdevs()) {
    std::perror("cannot make a network namespace");
    return 1;
  }
  return RUN_ALL_TESTS();
}
