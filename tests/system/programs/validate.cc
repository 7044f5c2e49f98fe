// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Data under every verb is looked at, byte for byte: WRITE, READ, SEND, atomics, scattered, at odd sizes and
// offsets; nothing outside the target is touched. Two processes: `validate` listens, `validate HOST`
// connects; the parameters go over TCP. VALIDATE_ROUNDS in the environment makes it shorter or longer.
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "verbs_pair.h"

namespace {

constexpr uint16_t kPort = 18515;
constexpr size_t kBytes = 4 << 20;

uint64_t rounds() {
  const char* wanted = std::getenv("VALIDATE_ROUNDS");
  const uint64_t count = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 300;
  REQUIRE(count > 0);
  return count;
}

// Whether remote atomics and the processor's own do not disturb each other.
bool atomics_are_global(ibv_context* context) {
  ibv_device_attr attributes{};
  REQUIRE(ibv_query_device(context, &attributes) == 0);
  return attributes.atomic_cap == IBV_ATOMIC_GLOB;
}

struct Card {
  uint32_t qpn, rkey;
  uint64_t address;
  ibv_gid gid;
};

int connect_to(const char* host) {
  if (host == nullptr) {
    const int listener = socket(AF_INET6, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(kPort);
    REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 && listen(listener, 1) == 0);
    const int fd = accept(listener, nullptr, nullptr);
    close(listener);
    return fd;
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  REQUIRE(getaddrinfo(host, std::to_string(kPort).c_str(), &hints, &found) == 0);
  const int fd = socket(found->ai_family, SOCK_STREAM, 0);
  REQUIRE(connect(fd, found->ai_addr, found->ai_addrlen) == 0);
  freeaddrinfo(found);
  return fd;
}

template <typename T>
T swap(int fd, const T& mine) {
  T theirs;
  REQUIRE(write(fd, &mine, sizeof mine) == sizeof mine);
  size_t have = 0;
  while (have < sizeof theirs) {
    const ssize_t n = read(fd, reinterpret_cast<char*>(&theirs) + have, sizeof theirs - have);
    REQUIRE(n > 0);
    have += static_cast<size_t>(n);
  }
  return theirs;
}

// The byte at `i` of pattern `seed`.
unsigned char pattern(uint64_t seed, size_t i) {
  return static_cast<unsigned char>((i * 131 + (i >> 8) * 7 + seed * 29) ^ (i >> 16));
}

}  // namespace

int main(int argc, char** argv) {
  const char* host = argc > 2 ? argv[2] : nullptr;
  const int gid_index = argc > 1 ? std::atoi(argv[1]) : 0;
  ibv_context* context = open_device();
  Pair pair(context);  // for its PD and CQ; the queue pair below is the one that matters
  std::vector<unsigned char> target(kBytes, 0xee), source(kBytes);
  const int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mr* target_mr = ibv_reg_mr(pair.pd, target.data(), kBytes, access);
  ibv_mr* source_mr = ibv_reg_mr(pair.pd, source.data(), kBytes, access);
  REQUIRE(target_mr != nullptr && source_mr != nullptr);
  REQUIRE(ibv_query_gid(context, 1, gid_index, &pair.gid) == 0);

  const int fd = connect_to(host);
  ibv_qp* qp = pair.make_qp();
  const Card theirs =
      swap(fd, Card{qp->qp_num, target_mr->rkey, reinterpret_cast<uint64_t>(target.data()), pair.gid});
  pair.join(qp, theirs.qpn, theirs.gid, gid_index);

  std::mt19937_64 random(20260101);  // the same on both sides: each knows what the other does
  for (uint64_t round = 0, end = rounds(); round < end; ++round) {
    const size_t limit = round % 10 == 0 ? kBytes - 4096 : 20000;
    const size_t bytes = random() % limit + (round % 7 == 0 ? 0 : 1);
    const size_t offset = 1024 + random() % (kBytes - bytes - 2048);
    const size_t from = random() % (kBytes - bytes);
    for (size_t i = 0; i < bytes; ++i) source[from + i] = pattern(round, i);

    // In turns: one side sends into the other's receive, which lands at `offset`; WRITE and READ need no
    // turn.
    const int verb = static_cast<int>(round % 3);
    ibv_sge parts[3];
    int count = 0;
    size_t done = 0;
    for (; count < 3; ++count) {
      const size_t part = count == 2 ? bytes - done : (bytes - done) / 2;
      parts[count] = {reinterpret_cast<uint64_t>(source.data() + from + done), static_cast<uint32_t>(part),
                      source_mr->lkey};
      done += part;
    }
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = round;
    wr.sg_list = parts;
    wr.num_sge = count;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.rkey = theirs.rkey;
    wr.wr.rdma.remote_addr = theirs.address + offset;
    int expected = 1;
    if (verb == 0) {
      wr.opcode = IBV_WR_RDMA_WRITE;
    } else {
      wr.opcode = verb == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
      wr.imm_data = htonl(static_cast<uint32_t>(round));
      ibv_sge into{reinterpret_cast<uint64_t>(target.data() + offset), static_cast<uint32_t>(bytes),
                   target_mr->lkey};
      ibv_recv_wr receive{}, *bad_receive = nullptr;
      receive.wr_id = 1000000 + round;
      receive.sg_list = &into;
      receive.num_sge = 1;
      REQUIRE(ibv_post_recv(qp, &receive, &bad_receive) == 0);
      expected = 2;
    }
    swap(fd, round);  // both are ready
    REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
    for (int i = 0; i < expected; ++i) {
      const ibv_wc wc = pair.wait();
      if (wc.status != IBV_WC_SUCCESS) fail("round %lu: %s", round, ibv_wc_status_str(wc.status));
      if (wc.wr_id >= 1000000) {
        REQUIRE(wc.byte_len == bytes && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(wc.imm_data) == round);
        REQUIRE(wc.opcode == (verb == 1 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM));
      }
    }
    swap(fd, round);  // both are done
    for (size_t i = 0; i < bytes; ++i)
      if (target[offset + i] != pattern(round, i))
        fail("round %lu verb %d: byte %zu of %zu is wrong", round, verb, i, bytes);
    for (size_t i = 0; i < kBytes; ++i)
      if ((i < offset || i >= offset + bytes) && target[i] != 0xee)
        fail("round %lu: byte %zu outside the target was written", round, i);

    // READ it back out of the peer's memory.
    std::vector<unsigned char>& back = source;
    const size_t at = random() % (kBytes - bytes);
    ibv_sge whole{reinterpret_cast<uint64_t>(back.data() + at), static_cast<uint32_t>(bytes),
                  source_mr->lkey};
    wr.opcode = IBV_WR_RDMA_READ;
    wr.sg_list = &whole;
    wr.num_sge = 1;
    REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
    const ibv_wc wc = pair.wait();
    if (wc.status != IBV_WC_SUCCESS) fail("READ of round %lu: %s", round, ibv_wc_status_str(wc.status));
    for (size_t i = 0; i < bytes; ++i)
      if (back[at + i] != pattern(round, i)) fail("READ of round %lu: byte %zu is wrong", round, i);
    swap(fd, round);
    std::fill(target.begin(), target.end(), 0xee);
    swap(fd, round);
  }

  // The peer and, where the device allows it, our processor add to one counter, and it must come out even.
  const bool global = atomics_are_global(context);
  auto* counter =
      reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(target.data()) + 63) & ~uintptr_t{63});
  *counter = 0;
  const uint64_t aligned_remote = (theirs.address + 63) & ~uint64_t{63};
  swap(fd, 1);
  uint64_t sum_of_results = 0;
  for (int i = 0; i < 1000; ++i) {
    ibv_sge result{reinterpret_cast<uint64_t>(source.data()), 8, source_mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &result;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic = {aligned_remote, 3, 0, theirs.rkey};
    REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
    if (global) __atomic_fetch_add(counter, 5, __ATOMIC_SEQ_CST);
    REQUIRE(pair.wait().status == IBV_WC_SUCCESS);
    uint64_t before;
    std::memcpy(&before, source.data(), 8);
    sum_of_results += before;
  }
  swap(fd, 1);
  const uint64_t sum = 1000 * (global ? 8 : 3);
  if (*counter != sum) fail("the counter is %lu, not %lu", *counter, sum);
  REQUIRE(sum_of_results > 0);
  REQUIRE(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(target_mr) == 0 && ibv_dereg_mr(source_mr) == 0);
  std::puts("done");
}
