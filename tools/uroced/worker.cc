// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/worker.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "netlink/rdma/server.h"
#include "netlink/route/route_table.h"
#include "tools/uroced/admin.h"
#include "tools/uroced/hello.h"
#include "tools/uroced/lifetime.h"
#include "tools/uroced/log.h"
#include "tools/uroced/module_arrival.h"
#include "tools/uroced/process_scan.h"
#include "tools/uroced/rdma_cm_server.h"
#include "tools/uroced/rdma_model.h"
#include "tools/uroced/tree_directory.h"
#include "tools/uroced/uverbs_server.h"

namespace uroce::daemon {

namespace {

constexpr auto kCounterPeriod = std::chrono::seconds(1);
constexpr auto kQuarantinePeriod = std::chrono::seconds(1);

class Worker final : public ConnectionUser, public DeviceListener {
 public:
  Worker(Inheritance& inheritance, netlink::RouteTable& routes, const std::string& tree)
      : registry_(*inheritance.state),
        keeper_(std::move(inheritance.keeper), std::move(inheritance.kept)),
        routes_(routes),
        tree_(tree, kHasRdmaCm),
        events_(loop_, keeper_),
        slots_(registry_, keeper_),
        connections_(loop_, registry_, keeper_, std::move(inheritance.names), *this),
        contexts_(registry_, keeper_, slots_, events_),
        devices_(registry_, keeper_, routes, tree_, slots_, *this),
        module_(loop_, registry_, keeper_, slots_, contexts_, [this](uint32_t slot) { end_context(slot); }),
        module_arrival_(loop_, [this] { take_late_module(); }),
        broker_(registry_, connections_, contexts_, devices_, slots_, module_),
        uverbs_(registry_, connections_, events_, contexts_),
        rdma_cm_(loop_, registry_, keeper_, connections_, devices_, routes, slots_),
        hello_(registry_, connections_, devices_, broker_, rdma_cm_, [this] { return facts_for_hello(); },
               {[this] { lifetime_.note_use(); }, [this](bool leave) { return lifetime_.is_no_use(leave); }}),
        admin_(registry_, connections_, devices_, contexts_, slots_, broker_, module_, rdma_cm_,
               [this](const std::string& why) { leave(why); }),
        model_(registry_, devices_, contexts_, rdma_cm_),
        end_signals_(loop_, {SIGTERM, SIGINT}, [this] { leave("asked by a signal"); }),
        keeper_watch_(loop_, keeper_.descriptor(), [this] { leave("the keeper has died"); }),
        routes_watch_(loop_, routes.descriptor(), [this] { routes_.dispatch(); }),
        counters_timer_(loop_, [this] { refresh_counters(); }),
        quarantine_timer_(loop_, [this] { review_quarantine(); }),
        lifetime_(
            loop_, static_cast<pid_t>(registry_.state().keeper_pid),
            [this] {
              return Lifetime::Situation{somebody_is_attached(), devices_.any() || module_.attached()};
            },
            [this](const std::string& why) { leave(why); }) {
    contexts_.connect(connections_, devices_);
  }

  // Takes over what an earlier worker left, in the order in which things hang on each other.
  bool start(std::string& why) {
    registry_.recover();
    routes_.on_change([this] { devices_.follow_netdevs(); });
    if (!start_netlink(why)) return false;
    lock_tree();
    connections_.adopt();
    broker_.adopt();
    contexts_.adopt();
    devices_.adopt();
    if (!devices_.any()) module_.attach();
    rdma_cm_.adopt();
    keeper_.discard_unclaimed();
    warn_of(tree_.link_host_devices("/sys", "/dev"));
    refresh_counters();
    watch_what_is_there();
    if (registry_.state().generation > 1)
      spdlog::warn("worker {} has taken over", registry_.state().generation);
    return true;
  }

  void remove_tree() { tree_.remove_all(); }

  int run() {
    keeper_.tell_ready();
    loop_.run();
    return 0;
  }

  void on_message(uint32_t connection, Message& message) override {
    const uint32_t role = registry_.connection(connection).role;
    switch (message.header.type) {
      case UROCE_MSG_HELLO:
        if (connections_.was_answered(connection, message.header.seq)) return;
        refresh_counters();
        hello_.on_hello(connection, message);
        return;
      case UROCE_MSG_COMMAND:
        if (role == UROCE_ROLE_RDMA_CM) return rdma_cm_.on_command(connection, message);
        if (role != UROCE_ROLE_UVERBS) break;
        uverbs_.on_command(connection, message);
        watch_what_is_there();
        return;
      case UROCE_MSG_ADMIN:
        if (role != UROCE_ROLE_ADMIN) break;
        return on_admin(connection, message);
      case UROCE_MSG_RELAY:
        if (role != UROCE_ROLE_BROKER) break;
        return broker_.relay(connection, message);
      default: break;
    }
    connections_.close(connection, "it sends what its role does not allow");
  }

  void on_ended(uint32_t connection) override {
    const ConnectionRecord& record = registry_.connection(connection);
    if (record.role == UROCE_ROLE_BROKER) broker_.detach(connection);
    if (record.role == UROCE_ROLE_RDMA_CM) rdma_cm_.close_channel(connection);
    if ((record.role == UROCE_ROLE_UVERBS && record.slot != 0) || module_.owns(connection)) {
      contexts_.close(record.slot);
      watch_what_is_there();
    }
    lifetime_.check_soon();
  }

  void port_event(uint32_t device, uint32_t event_type) override { contexts_.port_event(device, event_type); }

  void device_added() override { rdma_cm_.on_device_added(); }

  void device_removed(uint32_t device) override {
    contexts_.for_each([&](uint32_t slot, const ContextRecord& context) {
      if (context.device == device) end_context(slot);
    });
    rdma_cm_.on_device_removed(device);
  }

  bool still_open(uint32_t device) const override {
    for (uint32_t i = 1; i < kMaxConnections; ++i) {
      const ConnectionRecord& record = registry_.connection(i);
      if (record.live != 0 && record.role == UROCE_ROLE_UVERBS && record.device == device) return true;
    }
    return false;
  }

 private:
  bool start_netlink(std::string& why);
  void end_netlink();
  void lock_tree();
  Hello::Facts facts_for_hello() const;

  void on_admin(uint32_t connection, const Message& message) {
    const std::string_view text(reinterpret_cast<const char*>(message.payload.data()),
                                message.payload.size());
    const std::string told = admin_.answer(text, registry_.connection(connection).pid);
    connections_.reply(connection, message.header, 0, std::as_bytes(std::span(told)));
  }

  // Loaded while we run. Where there has been a device of our own, the port, QP 1 and slots are not free.
  void take_late_module() {
    if (leaving_ || module_.attached()) return;
    if (!slots_.is_open()) return module_.attach();
    spdlog::warn(
        "the kernel module was loaded, and its links stay down: this daemon has had devices of its own; "
        "after `uroce stop` another one (uroced --autostart) serves the module");
  }

  void end_context(uint32_t slot) {
    contexts_.make_fatal(slot);
    broker_.tell_gone(slot);
  }

  bool somebody_is_attached() const {
    for (uint32_t i = 1; i < kMaxConnections; ++i) {
      const ConnectionRecord& record = registry_.connection(i);
      if (record.live != 0 && record.role != 0 && record.role != UROCE_ROLE_WORLD &&
          record.role != UROCE_ROLE_ADMIN)
        return true;
    }
    return false;
  }

  // Timers run only while there is something for them to do: an idle daemon sleeps.
  void watch_what_is_there() {
    if (contexts_.live() == 0) {
      if (counters_timer_.pending()) refresh_counters();
      counters_timer_.cancel();
    } else if (!counters_timer_.pending()) {
      counters_timer_.start_every(kCounterPeriod);
    }
    if (slots_.anything_quarantined() && !quarantine_timer_.pending())
      quarantine_timer_.start_every(kQuarantinePeriod);
  }

  // Counter files are at most a second old while a context is open, and fresh at each HELLO.
  void refresh_counters() {
    devices_.for_each([&](uint32_t position) {
      warn_of(tree_.write_counters(devices_.facts(position), contexts_.counters(position)));
    });
  }

  // Once: counters are written every second.
  void warn_of(const SysfsTree::Failure& failure) {
    if (failure.error != 0 && !std::exchange(told_of_trouble_, true))
      spdlog::warn("the files that stand for /sys are incomplete: {}", failure.text);
  }

  void review_quarantine() {
    slots_.review_quarantine();
    module_.release_slots();
    if (!slots_.anything_quarantined()) quarantine_timer_.cancel();
  }

  // Every client learns that its device is gone; then the process ends, and the keeper with it.
  void leave(const std::string& why) {
    if (std::exchange(leaving_, true)) return;
    spdlog::info("leaving: {}", why);
    end_netlink();
    contexts_.for_each([&](uint32_t slot, const ContextRecord&) { end_context(slot); });
    tree_.remove_all();
    // From here on a new daemon can take the name.
    connections_.stop_accepting();
    loop_.later([this] { loop_.stop(); });
  }

  Registry registry_;
  KeeperLine keeper_;
  netlink::RouteTable& routes_;
  SysfsTree tree_;
  Loop loop_;
  AsyncEvents events_;
  SlotGroup slots_;
  Connections connections_;
  Contexts contexts_;
  DeviceSet devices_;
  ModuleDevices module_;
  ModuleArrival module_arrival_;
  Broker broker_;
  UverbsServer uverbs_;
  RdmaCmServer rdma_cm_;
  Hello hello_;
  Admin admin_;
  DaemonModel model_;
  Fd tree_lock_;
  std::unique_ptr<netlink::RdmaServer> netlink_;
  std::unique_ptr<FdWatch> netlink_watch_;
  SignalWatch end_signals_;
  FdWatch keeper_watch_, routes_watch_;
  Timer counters_timer_, quarantine_timer_;
  Lifetime lifetime_;
  bool told_of_trouble_ = false, leaving_ = false;
};

bool Worker::start_netlink(std::string& why) {
  Fd earlier = keeper_.take_inherited(Keep::netlink, 0);
  const bool adopts = static_cast<bool>(earlier);
  const std::span<netlink::OpenRequest> requests(registry_.edit(registry_.state().netlink_requests));
  netlink_ = adopts ? netlink::RdmaServer::adopt(model_, earlier.release(), why, requests)
                    : netlink::RdmaServer::open(model_, why, requests);
  if (netlink_ == nullptr) return false;
  // Clients know the port, and what they have sent meanwhile is not lost.
  if (!adopts && !keeper_.keep(Keep::netlink, 0, netlink_->socket())) {
    why = "the keeper process does not take the netlink socket";
    return false;
  }
  netlink_watch_ = std::make_unique<FdWatch>(loop_, netlink_->descriptor(), [this] { netlink_->dispatch(); });
  return true;
}

// Who has asked gets an answer, and who asks from now on hears that nobody is there.
void Worker::end_netlink() {
  netlink_->dispatch();
  netlink_watch_.reset();
  keeper_.drop(Keep::netlink, 0);
  netlink_.reset();
}

// Held by the keeper too, so that a tree is dead only when both are.
void Worker::lock_tree() {
  tree_lock_ = keeper_.take_inherited(Keep::tree_lock, 0);
  if (tree_lock_) return;
  tree_lock_ = daemon::lock_tree(tree_.root());
  if (!tree_lock_ || !keeper_.keep(Keep::tree_lock, 0, tree_lock_.get())) {
    spdlog::warn("cannot lock {}: {}", tree_.root(), std::strerror(errno));
  }
}

Hello::Facts Worker::facts_for_hello() const {
  return {tree_.root(), netlink_ == nullptr ? 0 : netlink_->port()};
}

// The directory of the first worker, or a new one.
bool find_tree(State& state, std::string& tree, std::string& why) {
  if (state.tree[0] == '\0') {
    const auto places = tree_places(geteuid());
    sweep_dead_trees(places, geteuid());
    const auto made = make_tree_directory(places, geteuid(), own_netns_inode(), why);
    if (!made) return false;
    std::snprintf(state.tree, sizeof state.tree, "%s", made->c_str());
  }
  tree = state.tree;
  return true;
}

int fail(State& state, const std::string& why) {
  spdlog::error("cannot work: {}", why);
  std::snprintf(state.trouble, sizeof state.trouble, "%s", why.c_str());
  return 1;
}

int run(Inheritance& inheritance) {
  State& state = *inheritance.state;
  std::string why, tree;
  const auto routes = netlink::RouteTable::open(why);
  if (routes == nullptr || !find_tree(state, tree, why)) return fail(state, why);
  Worker worker(inheritance, *routes, tree);
  if (worker.start(why)) return worker.run();
  if (state.generation == 1) worker.remove_tree();  // there is no next worker
  return fail(state, why);
}

}  // namespace

int run_worker(Inheritance& inheritance) {
  try {
    return run(inheritance);
  } catch (const std::exception& error) {
    return fail(*inheritance.state, error.what());
  }
}

}  // namespace uroce::daemon
