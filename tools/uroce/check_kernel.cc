// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/uroce/check.h"
#include "tools/uroce/fd.h"
#include "tools/uroce/kernel_devices.h"

namespace uroce::cli {

namespace {

#ifndef UDP_SEGMENT
constexpr int UDP_SEGMENT = 103;
#endif
#ifndef UDP_GRO
constexpr int UDP_GRO = 104;
#endif

constexpr int kOldestMajor = 5, kOldestMinor = 4;
constexpr uint64_t kWantedReceiveBuffer = 4 << 20;
constexpr int kSegmentBytes = 1024;

bool has_capability(int capability) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("CapEff:", 0) == 0)
      return (std::stoull(line.substr(7), nullptr, 16) >> capability & 1) != 0;
  }
  return false;
}

Check kernel_version() {
  utsname name{};
  uname(&name);
  int major = 0, minor = 0;
  std::sscanf(name.release, "%d.%d", &major, &minor);
  const std::string what = fmt::format("kernel {} on {}", name.release, name.machine);
  if (major > kOldestMajor || (major == kOldestMajor && minor >= kOldestMinor))
    return {"kernel", Verdict::works, what, ""};
  return {"kernel", Verdict::warning, what,
          fmt::format("kernels before {}.{} have never been tried", kOldestMajor, kOldestMinor)};
}

Check namespaces() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : errno);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {"network-namespaces", Verdict::works, "network namespaces can be made", ""};
  }
  return {"network-namespaces", Verdict::note,
          fmt::format("no network namespace can be made here ({})", std::strerror(WEXITSTATUS(status))),
          "it needs CAP_SYS_ADMIN (docker: --privileged); devices on the netdevs that are here work without"};
}

Check administration() {
  if (has_capability(CAP_NET_ADMIN))
    return {"cap-net-admin", Verdict::works, "this process has CAP_NET_ADMIN", ""};
  return {"cap-net-admin", Verdict::note, "this process has no CAP_NET_ADMIN",
          "netdevs and addresses cannot be changed, and receive buffers are bound to net.core.rmem_max; all "
          "else works"};
}

Check receive_buffers() {
  uint64_t limit = 0;
  std::ifstream("/proc/sys/net/core/rmem_max") >> limit;
  const std::string what = fmt::format("net.core.rmem_max is {}", limit);
  if (limit >= kWantedReceiveBuffer) return {"receive-buffers", Verdict::works, what, ""};
  if (has_capability(CAP_NET_ADMIN)) {
    return {"receive-buffers", Verdict::works, what + "; with CAP_NET_ADMIN uroced may exceed it", ""};
  }
  return {"receive-buffers", Verdict::warning, what + "; bursts may be lost and have to be sent again",
          fmt::format("as root: sysctl -w net.core.rmem_max={}", kWantedReceiveBuffer)};
}

Check segmentation() {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int bytes = kSegmentBytes, on = 1;
  const bool sends = setsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes) == 0;
  const bool receives = setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0;
  if (sends && receives) return {"udp-segmentation", Verdict::works, "UDP_SEGMENT and UDP_GRO are there", ""};
  return {"udp-segmentation", Verdict::warning,
          fmt::format("{}{}{} missing", sends ? "" : "UDP_SEGMENT", sends || receives ? "" : " and ",
                      receives ? "" : "UDP_GRO"),
          "every packet takes a system call of its own: bulk transfers are slower. A kernel from 5.0 on has "
          "both"};
}

Check steering() {
  const Fd fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Fd four(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int socket_fd = fd ? fd.get() : four.get(), on = 1;
  sock_filter first[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog program{1, first};
  if (setsockopt(socket_fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
      setsockopt(socket_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0) {
    return {"port-steering", Verdict::works, "packets of one UDP port can be steered to several processes",
            ""};
  }
  return {"port-steering", Verdict::problem,
          fmt::format("SO_ATTACH_REUSEPORT_CBPF does not work ({})", std::strerror(errno)),
          "uroce needs it; a seccomp profile, gVisor or a kernel without it may be the reason"};
}

// The family of netlink sockets over which `rdma` and libibverbs reach uroced.
Check user_netlink() {
  const Fd a(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  const Fd b(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  sockaddr_nl address{}, peer{};
  address.nl_family = AF_NETLINK;
  socklen_t bytes = sizeof peer;
  char byte = 'u', got = 0;
  if (a && b && bind(a.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      bind(b.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      getsockname(b.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
      sendto(a.get(), &byte, 1, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&peer), sizeof peer) == 1 &&
      recv(b.get(), &got, 1, MSG_DONTWAIT) == 1 && got == byte) {
    return {"netlink", Verdict::works, "processes can talk over NETLINK_USERSOCK", ""};
  }
  return {"netlink", Verdict::problem,
          fmt::format("NETLINK_USERSOCK does not work ({})", std::strerror(errno)),
          "`rdma` cannot reach uroced without it; make devices with `uroce link add` instead"};
}

Check real_devices() {
  std::string names;
  for (const KernelDevice& device : kernel_devices("")) {
    if (!device.of_module) names += (names.empty() ? "" : ", ") + device.name;
  }
  if (!names.empty()) {
    return {"real-devices", Verdict::note, "this machine has RDMA devices of its own: " + names,
            "programs see them beside uroce's"};
  }
  std::error_code none;
  const bool has_core = std::filesystem::exists("/sys/module/ib_core", none);
  return {"real-devices", Verdict::works,
          has_core ? "the kernel's RDMA core is loaded, without devices"
                   : "the kernel has no RDMA core loaded; uroce needs none",
          ""};
}

}  // namespace

void check_kernel(std::vector<Check>& out) {
  out.push_back(kernel_version());
  out.push_back(namespaces());
  out.push_back(administration());
  out.push_back(receive_buffers());
  out.push_back(segmentation());
  out.push_back(steering());
  out.push_back(user_netlink());
  out.push_back(real_devices());
  out.push_back({"memlock", Verdict::works, "no memory is pinned: the memlock limit does not matter", ""});
}

}  // namespace uroce::cli
