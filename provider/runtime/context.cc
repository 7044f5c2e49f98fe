// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "provider/runtime/context.h"

#include <arpa/inet.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "provider/engine/unreliable_pace.h"
#include "provider/runtime/broker.h"
#include "provider/runtime/clock.h"
#include "provider/runtime/environment.h"
#include "provider/runtime/kick_queue.h"
#include "provider/runtime/lane.h"
#include "provider/runtime/memory.h"
#include "provider/runtime/pages.h"
#include "provider/runtime/process.h"
#include "provider/runtime/progress_thread.h"

namespace uroce::runtime {
namespace {

// The contexts of this process, for its exit.
struct LiveLane {
  Lane* lane;
  uint32_t generation;
};
std::mutex live_lock;
std::vector<LiveLane> live_lanes;

// A program may leave right after it polled a message: the acknowledgement that was to ride behind its answer
// goes out alone.
void settle_debts_at_exit() {
  const std::unique_lock lock(live_lock, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (const LiveLane& live : live_lanes) {
    if (!is_generation(live.generation) || !live.lane->try_enter()) continue;
    live.lane->settle_debts();
    live.lane->leave();
  }
}

void begin_life(Lane* lane) {
  static const int registered = std::atexit(settle_debts_at_exit);
  static_cast<void>(registered);
  const std::lock_guard lock(live_lock);
  live_lanes.push_back({lane, process_generation()});
}

void end_life(const Lane* lane) {
  const std::lock_guard lock(live_lock);
  std::erase_if(live_lanes, [lane](const LiveLane& live) { return live.lane == lane; });
}

constexpr int64_t kCountersEveryNs = 10'000'000;

// Data-path members leave errno as they found it.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }

 private:
  int saved_;
};

}  // namespace

struct Context::Impl {
  Impl(const ContextConfig& c, std::unique_ptr<Broker> b)
      : config(c), broker(std::move(b)), page(broker->device_page()), kicks([this](const uroce_kick& kick) {
          if (kick.kind == UROCE_KICK_COMPLETION) thread->event_sent();
          return config.kick(kick);
        }) {}

  void leave_and_tell() {
    lane->leave();
    thread->deadline_moved(lane->deadline_ns());
    if (!kicks.empty() && kicks.flush()) thread->kicks_are_left();
  }

  // Lane held.
  void publish(bool now_at_all_costs) {
    if (lane->transport() == nullptr) return;
    if (!now_at_all_costs && lane->now().ns < next_counters_ns) return;
    next_counters_ns = lane->now().ns + kCountersEveryNs;
    publish_counters(*broker->slot_page(), lane->engine().counters(), lane->transport()->counters(),
                     lane->foreign_destination());
    if (lane->transport()->description() == description) return;
    description = lane->transport()->description();
    publish_transport_text(*broker->slot_page(), lane->transport()->describe());
  }

  void gone() {
    lane->enter();
    publish(true);
    lane->fail();
    lane->leave();
    is_fatal.store(true, std::memory_order_release);
    // Whoever removed the device told the program; a daemon that died could not.
    uroce_device_page last;
    page.copy(last);
    if (last.removed == 0) kicks.push_device_fatal();
    kicks.flush();
  }

  uint32_t generation = 0;  // of the process that opened it
  ContextConfig config;
  std::unique_ptr<Broker> broker;
  DevicePageReader page;
  KickQueue kicks;
  std::unique_ptr<Lane> lane;
  std::unique_ptr<ProgressThread> thread;
  std::atomic<bool> is_fatal{false};
  int64_t next_counters_ns = 0;
  uint32_t description = 0;  // of the transport, as shown last
};

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Context> Context::open(const ContextConfig& config, std::string& why) {
  const uint32_t generation = process_generation();
  if (generation == 0) {
    why = "cannot watch for forks (no MADV_WIPEONFORK, no pthread_atfork)";
    return nullptr;
  }
  auto broker = Broker::attach(config.slot, config.cookie, why);
  if (broker == nullptr) return nullptr;
  auto impl = std::make_unique<Impl>(config, std::move(broker));
  impl->generation = generation;

  auto memory = ProgramMemory::open();
  if (memory == nullptr) {
    why = std::string("cannot make a memfd for copies: ") + std::strerror(errno);
    return nullptr;
  }
  Broker* relay = impl->broker.get();
  auto transport = make_transport(
      relay->take_receive_socket(), config.slot,
      [relay](std::span<const std::byte> packet, const engine::RxMeta& meta, uint32_t slot) {
        return relay->relay(packet, meta, slot);
      },
      why);
  if (transport == nullptr) return nullptr;
  publish_transport_text(*relay->slot_page(), transport->describe());

  uroce_device_page page;
  impl->page.copy(page);
  engine::EngineConfig engine_config;
  engine_config.slot = config.slot;
  // The peer's buffer is not known; it is likely to be one like ours.
  engine_config.unreliable_bytes_per_us = engine::unreliable_pace::rate_for(transport->receive_buffer());
  if (page.min_timeout_ms != 0)
    engine_config.minimum_ib_timeout_ns = int64_t{page.min_timeout_ms} * 1'000'000;
  impl->lane =
      std::make_unique<Lane>(engine_config, std::move(memory), std::move(transport), impl->page, impl->kicks);
  impl->lane->show_states_in(relay->slot_page());
  impl->thread = std::make_unique<ProgressThread>(
      *impl->lane, impl->kicks, *impl->broker, [p = impl.get()] { p->gone(); },
      [p = impl.get()] { p->publish(false); });
  if (!impl->thread->start()) {
    why = std::string("cannot start the background thread: ") + std::strerror(errno);
    return nullptr;
  }
  begin_life(impl->lane.get());
  return std::unique_ptr<Context>(new Context(std::move(impl)));
}

Context::~Context() {
  if (!alive()) {
    // Neither the thread nor the sockets are ours: leave them to the exit of this process.
    static_cast<void>(impl_.release());
    return;
  }
  end_life(impl_->lane.get());
  impl_->thread->stop();
  impl_->lane->enter();
  impl_->lane->settle_debts();
  impl_->publish(true);
  impl_->lane->leave();
}

bool Context::alive() const {
  return is_generation(impl_->generation);
}

// What is owed goes out first: this may be the end of a QP, and its peer waits for the last acknowledgement.
Context::LaneHold::LaneHold(Context& context) : context_(context) {
  context_.impl_->lane->enter();
  context_.impl_->lane->settle_debts();
}

Context::LaneHold::~LaneHold() {
  const KeepErrno keep;
  context_.impl_->lane->drain();
  context_.impl_->publish(false);
  context_.impl_->leave_and_tell();
}

engine::Engine& Context::LaneHold::engine() {
  return context_.impl_->lane->engine();
}
engine::Time Context::LaneHold::now() {
  return context_.impl_->lane->now();
}

engine::PathId Context::intern_path(uint8_t sgid_index, const wire::Gid& destination, uint8_t traffic_class,
                                    uint8_t hop_limit, uint32_t flow_label, engine::Path* resolved) {
  uroce_gid_entry entry;
  errno = EINVAL;
  if (!impl_->page.gid(sgid_index, entry) || destination.is_zero()) return {};
  engine::Path path;
  std::memcpy(path.source.raw.data(), entry.gid, sizeof entry.gid);
  path.destination = destination;
  if (path.source.is_ipv4() != destination.is_ipv4()) return {};
  path.traffic_class = traffic_class;
  // The kernel takes a unicast hop limit from the route, not from the program (ib_resolve_unicast_gid_dmac);
  // many programs say 1.
  constexpr uint8_t kDefaultHopLimit = 64;
  path.hop_limit = destination.is_multicast() && hop_limit != 0 ? hop_limit : kDefaultHopLimit;
  path.flow_label = flow_label;
  path.ifindex = entry.ifindex;
  if (resolved != nullptr) *resolved = path;
  engine::PathId id;
  impl_->lane->enter();
  if (impl_->lane->transport() != nullptr) {
    id = impl_->lane->transport()->intern(path);
  } else {
    errno = EIO;
  }
  const int error = errno;
  impl_->lane->leave();
  errno = error;
  return id;
}

void Context::release_path(engine::PathId id) {
  if (id == engine::PathId{}) return;
  impl_->lane->enter();
  if (impl_->lane->transport() != nullptr) impl_->lane->transport()->release(id);
  impl_->lane->leave();
}

int Context::join_group(const wire::Gid& group) {
  return change_membership(group, true);
}
int Context::leave_group(const wire::Gid& group) {
  return change_membership(group, false);
}

int Context::change_membership(const wire::Gid& group, bool join) {
  uroce_device_page page;
  impl_->page.copy(page);
  int error = EIO;
  impl_->lane->enter();
  if (transport::Transport* transport = impl_->lane->transport())
    error = join ? transport->join_group(group, page.ifindex) : transport->leave_group(group, page.ifindex);
  impl_->lane->leave();
  return error;
}

// The holder of the lane looks for rings before it lets go, so a failed try loses nothing.
void Context::posted(engine::QueuePair* qp) {
  const KeepErrno keep;
  impl_->lane->engine().ring(qp);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!impl_->lane->try_enter()) return;
  impl_->lane->read_clock();
  impl_->lane->drain();
  impl_->leave_and_tell();
}

void Context::progress() {
  const KeepErrno keep;
  impl_->thread->polled();
  if (!impl_->lane->try_enter()) return;
  impl_->lane->pass(Lane::Look::at_once);
  impl_->publish(false);
  impl_->leave_and_tell();
}

void Context::armed() {
  const KeepErrno keep;
  impl_->thread->armed();
}

void Context::forget_events(uint32_t kick_kind, uint32_t id) {
  impl_->kicks.forget(kick_kind, id);
}

void Context::publish_qp(const engine::QueuePair* qp) {
  publish_qp_state(*impl_->broker->slot_page(), qp->qpn(), static_cast<uint32_t>(qp->state()));
}

void Context::device_page(uroce_device_page& out) const {
  impl_->page.copy(out);
}
bool Context::gid(uint32_t index, uroce_gid_entry& out) const {
  return impl_->page.gid(index, out);
}
bool Context::fatal() const {
  return impl_->is_fatal.load(std::memory_order_acquire);
}
int64_t Context::now_ns() const {
  return runtime::now().ns;
}
uint32_t Context::slot() const {
  return impl_->config.slot;
}

}  // namespace uroce::runtime
