// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Threads that are cancelled, that block every signal, and memory that is not there any more.
// Usage: threads cancel|blocked_signals|own_handler|many
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "verbs_pair.h"

namespace {

// Pollers are cancelled at any moment; the device goes on working for the others. They poll a CQ that stays
// empty, so that they move the others' packets and take no completion from them.
void cancel_case(ibv_context* context) {
  Pair pair(context);
  ibv_cq* empty = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  REQUIRE(empty != nullptr);
  for (int i = 0; i < 200; ++i) {
    pthread_t thread;
    REQUIRE(pthread_create(
                &thread, nullptr,
                [](void* argument) -> void* {
                  ibv_wc wc;
                  for (;;) {
                    REQUIRE(ibv_poll_cq(static_cast<ibv_cq*>(argument), 1, &wc) == 0);
                    pthread_testcancel();
                  }
                },
                empty) == 0);
    if (i % 2 == 0) pair.write_and_check(static_cast<unsigned char>(i));
    REQUIRE(pthread_cancel(thread) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    pair.write_and_check(static_cast<unsigned char>(i));
  }
  REQUIRE(ibv_destroy_cq(empty) == 0);
}

// The write meets memory that was unmapped under its registration: an error completion, not a dead process.
void unmapped(ibv_context* context) {
  Pair pair(context);
  constexpr size_t kBytes = 1 << 16;
  void* region = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(region != MAP_FAILED);
  ibv_mr* mr = ibv_reg_mr(pair.pd, region, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  REQUIRE(mr != nullptr);
  REQUIRE(munmap(region, kBytes) == 0);
  pair.post(IBV_WR_RDMA_WRITE, pair.buffer, region, 4096, 7, mr->rkey);
  const ibv_wc wc = pair.wait();
  REQUIRE(wc.wr_id == 7);
  if (wc.status != IBV_WC_REM_ACCESS_ERR && wc.status != IBV_WC_REM_OP_ERR)
    fail("status %s", ibv_wc_status_str(wc.status));
  REQUIRE(ibv_dereg_mr(mr) == 0);
}

void blocked_signals_case(ibv_context* context) {
  std::thread([context] {
    sigset_t all;
    sigfillset(&all);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0);
    for (int i = 0; i < 20; ++i) unmapped(context);
  }).join();
}

void own_handler_case(ibv_context* context) {
  // The program brings its own handler after the device was opened, as language runtimes do.
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(42); };
  REQUIRE(sigaction(SIGSEGV, &action, nullptr) == 0);
  REQUIRE(sigaction(SIGBUS, &action, nullptr) == 0);
  Pair pair(context);
  // Enough work that the device notices.
  for (int i = 0; i < 20000; ++i) pair.write_and_check(static_cast<unsigned char>(i));
  unmapped(context);
}

// Every thread has its own queue pairs, all share the context.
void many_case(ibv_context* context) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([context] {
      Pair pair(context);
      for (int i = 0; i < 500; ++i) pair.write_and_check(static_cast<unsigned char>(i));
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  ibv_context* context = open_device();
  if (which == "cancel") {
    cancel_case(context);
  } else if (which == "blocked_signals") {
    blocked_signals_case(context);
  } else if (which == "own_handler") {
    own_handler_case(context);
  } else if (which == "many") {
    many_case(context);
  } else {
    fail("usage: threads cancel|blocked_signals|own_handler|many");
  }
  REQUIRE(ibv_close_device(context) == 0);
  std::puts("done");
}
