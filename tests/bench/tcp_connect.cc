// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A thousand TCP connections, all begun before the first is waited for, as cmtime does: what setting up a
// connection costs in the kernel's stack. Server: tcp_connect; client: tcp_connect HOST. A connection is
// there when the server has accepted it and said so with a byte. Prints connections per second.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

constexpr uint16_t kPort = 18601;
constexpr int kConnections = 1000;

int fail(const char* what) {
  std::perror(what);
  return 1;
}

int serve(sockaddr_in address) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return fail("bind");
  if (listen(listener, 2 * kConnections) != 0) return fail("listen");
  int fd = -1;
  for (int i = 0; i < kConnections; ++i) {
    fd = accept(listener, nullptr, nullptr);
    if (fd < 0) return fail("accept");
    if (write(fd, "", 1) != 1) return fail("write");
  }
  char byte;
  while (read(fd, &byte, 1) > 0) {  // until the client has gone
  }
  return 0;
}

int connect_all(const sockaddr_in& address) {
  std::vector<pollfd> waiting;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kConnections; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail("socket");
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS)
      return fail("connect");
    waiting.push_back({fd, POLLIN, 0});
  }
  // In order: who is early is found ready when its turn comes.
  for (pollfd& one : waiting) {
    char byte;
    if (poll(&one, 1, -1) != 1 || read(one.fd, &byte, 1) != 1) return fail("read");
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("%.0f\n", kConnections / taken.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  if (argc == 1) return serve(address);
  inet_pton(AF_INET, argv[1], &address.sin_addr);
  return connect_all(address);
}
