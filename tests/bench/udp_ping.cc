// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A raw ping-pong over UDP, both sides polling: what one-way latency the kernel's stack allows here. Server:
// udp_ping; client: udp_ping HOST. Prints the one-way time in microseconds (half of the median round trip).
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

constexpr uint16_t kPort = 18600;
constexpr int kRounds = 20000;

// The size of a 2-byte RDMA WRITE with its headers and ICRC.
constexpr size_t kBytes = 36;

void receive(int fd, sockaddr_in* from) {
  char buffer[64];
  socklen_t length = sizeof *from;
  while (recvfrom(fd, buffer, sizeof buffer, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(from), &length) < 0)
    length = sizeof *from;
}

void send(int fd, const sockaddr_in& to) {
  const char buffer[kBytes] = {};
  sendto(fd, buffer, sizeof buffer, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace

int main(int argc, char** argv) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (argc == 1) {
    address.sin_port = htons(kPort);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
    for (int i = 0; i < kRounds; ++i) {
      sockaddr_in from;
      receive(fd, &from);
      send(fd, from);
    }
    return 0;
  }
  address.sin_port = htons(kPort);
  inet_pton(AF_INET, argv[1], &address.sin_addr);
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    send(fd, address);
    sockaddr_in from;
    receive(fd, &from);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 2);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  std::printf("%.2f\n", times[kRounds / 2]);
}
