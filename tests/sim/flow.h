// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One direction of a reliable connection: a program that posts random requests and one that takes what
// arrives. Both know what must come out of every request and check it: once, in order, every byte, nothing
// beside it.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "tests/engine/world.h"
#include "tests/sim/random.h"

namespace uroce::sim {

struct FlowOptions {
  uint64_t operations = 1000;
  uint32_t depth = 16;
  uint32_t max_bytes = 16384;
  double eager_receives = 0.9;  // how probably a receive is given back at once; small: many RNR NAKs
};

// Buffers of a receive queue, given out again when they were checked.
class ReceivePool {
 public:
  ReceivePool(test::Host& host, test::QueuePair* qp, engine::SharedReceiveQueue* srq, uint32_t buffers,
              uint32_t bytes);
  void refill(Random& random, double probability);
  uint64_t va_of(uint64_t wr_id) const { return region_.va + wr_id * stride_ + kGuard; }
  void give_back(uint64_t wr_id) { free_.push_back(wr_id); }
  // What lies between the buffers is untouched.
  bool guards_are_whole() const;

 private:
  static constexpr uint32_t kGuard = 64;
  test::Host& host_;
  test::QueuePair* qp_;
  engine::SharedReceiveQueue* srq_;
  uint32_t buffers_;
  uint32_t bytes_;
  uint64_t stride_;
  test::Region region_;
  std::deque<uint64_t> free_;
};

class Flow {
 public:
  // `from_qp` is connected to `to_qp`; `pool` feeds the latter's receives. `shared` is a word at `to` that
  // all flows count in.
  Flow(test::Host& from, test::QueuePair* from_qp, test::Host& to, test::QueuePair* to_qp, ReceivePool& pool,
       const test::Region& shared, const FlowOptions& options, uint64_t seed);

  // ---- what the two programs do when they run ---------------------------------------------------
  void post_some(Random& random);
  void on_sent(const engine::Completion& completion);
  void on_received(const engine::Completion& completion);

  bool done() const { return finished_ == options_.operations && arriving_.empty(); }
  // Empty while all is right, else the first thing that was not.
  const std::string& wrong() const { return wrong_; }
  // At the end: memory that nobody may have touched.
  void check_untouched();
  uint64_t finished() const { return finished_; }
  std::vector<uint64_t>& shared_values() { return shared_values_; }
  uint32_t from_qpn() const { return from_qp_->qpn().value(); }
  uint32_t to_qpn() const { return to_qp_->qpn().value(); }
  std::string state() const;

 private:
  struct Operation {
    uint64_t number = 0;
    engine::WrOpcode opcode{};
    bool signaled = false;
    bool shared = false;  // counts in the shared word
    uint32_t length = 0;
    uint32_t immediate = 0;
    uint64_t source_offset = 0;  // READ
    uint64_t expected = 0;       // atomic: the value before
  };
  static constexpr uint32_t kGuard = 64;

  Operation plan(Random& random);
  void plan_atomic(Random& random, Operation& op, engine::SendRequest& request);
  void finish(const Operation& op);
  bool may_post() const;
  void fail(const std::string& what, const Operation& op);
  uint64_t slice(const test::Region& region, uint64_t number) const {
    return region.va + number % options_.depth * stride_ + kGuard;
  }
  uint64_t pattern(uint64_t number) const { return seed_ + number; }

  test::Host& from_;
  test::Host& to_;
  test::QueuePair* from_qp_;
  test::QueuePair* to_qp_;
  ReceivePool& pool_;
  test::Region shared_;
  FlowOptions options_;
  uint64_t seed_;
  uint64_t stride_;
  test::Region local_;    // sources of SEND and WRITE, targets of READ and atomics
  test::Region target_;   // of WRITE
  test::Region source_;   // of READ
  test::Region words_;    // of atomics
  uint64_t counter_ = 0;  // what words_ must hold once all posted operations are done
  uint64_t posted_ = 0;
  uint64_t finished_ = 0;
  std::deque<Operation> open_;      // posted, not finished
  std::deque<Operation> arriving_;  // will show as a receive completion
  std::vector<uint64_t> shared_values_;
  std::string wrong_;
};

}  // namespace uroce::sim
