// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/preload/fake_rdma_cm.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::preload_test {

FakeRdmaCm::~FakeRdmaCm() {
  hang_up();
}

void FakeRdmaCm::queue_event(uint32_t id, uint64_t uid) {
  const std::lock_guard lock(mutex_);
  Channel& channel = *ids_.at(id);
  channel.events.push_back({id, uid});
  send_bytes(channel);
}

void FakeRdmaCm::forget_events() {
  const std::lock_guard lock(mutex_);
  for (Channel& channel : channels_) channel.events.clear();
}

void FakeRdmaCm::hang_up() {
  const std::lock_guard lock(mutex_);
  for (const Channel& channel : channels_) {
    shutdown(channel.far_end, SHUT_RDWR);  // the daemon's thread may be in poll with it, which keeps it open
    close(channel.far_end);
  }
  channels_.clear();
  ids_.clear();
}

size_t FakeRdmaCm::open_channels() const {
  const std::lock_guard lock(mutex_);
  return channels_.size();
}

int FakeRdmaCm::open(int connection, uint32_t& number) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  const std::lock_guard lock(mutex_);
  number = next_number_++;
  channels_.push_back({connection, ends[1], number, 0, {}});
  return ends[0];
}

void FakeRdmaCm::closed(int connection) {
  const std::lock_guard lock(mutex_);
  const Channel* channel = of_connection(connection);
  if (channel == nullptr) return;
  std::erase_if(ids_, [&](const auto& id) { return id.second == channel; });
  close(channel->far_end);
  channels_.remove_if([&](const Channel& c) { return &c == channel; });
}

std::vector<int> FakeRdmaCm::far_ends() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> all;
  for (const Channel& channel : channels_) all.push_back(channel.far_end);
  return all;
}

void FakeRdmaCm::drop_those_hung_up() {
  std::vector<int> connections;
  {
    const std::lock_guard lock(mutex_);
    for (const Channel& channel : channels_) {
      pollfd waits{channel.far_end, 0, 0};
      if (poll(&waits, 1, 0) == 1) connections.push_back(channel.connection);
    }
  }
  for (const int connection : connections) {
    closed(connection);
    shutdown(connection, SHUT_RDWR);
  }
}

FakeRdmaCm::Channel* FakeRdmaCm::of_connection(int connection) {
  for (Channel& channel : channels_) {
    if (channel.connection == connection) return &channel;
  }
  return nullptr;
}

void FakeRdmaCm::send_bytes(Channel& channel) {
  while (channel.bytes < channel.events.size() &&
         send(channel.far_end, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
    ++channel.bytes;
}

uint32_t FakeRdmaCm::withdraw(Channel& channel, size_t events_gone) {
  const size_t owed = channel.events.size() + events_gone - channel.bytes;
  const size_t count = events_gone - std::min(owed, events_gone);
  channel.bytes -= count;
  return static_cast<uint32_t>(count);
}

std::vector<FakeRdmaCm::Event> FakeRdmaCm::take_events(Channel& channel, uint32_t id) {
  std::vector<Event> taken;
  std::copy_if(channel.events.begin(), channel.events.end(), std::back_inserter(taken),
               [&](const Event& event) { return event.id == id; });
  std::erase_if(channel.events, [&](const Event& event) { return event.id == id; });
  return taken;
}

int FakeRdmaCm::destroy(Channel& channel, uint32_t id, uroce_cm_reply& told, uint32_t& reported) {
  if (!ids_.contains(id)) return ENOENT;
  if (ids_[id] != &channel) return EINVAL;
  told.withdrawn = withdraw(channel, take_events(channel, id).size());
  reported = reported_[id];
  ids_.erase(id);
  return 0;
}

int FakeRdmaCm::migrate(Channel& channel, const rdma_ucm_migrate_id& order, uroce_cm_reply& told,
                        uint32_t& reported) {
  if (!ids_.contains(order.id)) return ENOENT;
  Channel& old = *ids_[order.id];
  if (old.number != order.fd) return EINVAL;
  reported = reported_[order.id];
  if (&old == &channel) return 0;
  const auto events = take_events(old, order.id);
  told.withdrawn = withdraw(old, events.size());
  channel.events.insert(channel.events.end(), events.begin(), events.end());
  send_bytes(channel);
  ids_[order.id] = &channel;
  return 0;
}

int FakeRdmaCm::command(int connection, const std::vector<uint8_t>& written, std::vector<uint8_t>& answer) {
  const std::lock_guard lock(mutex_);
  Channel* channel = of_connection(connection);
  rdma_ucm_cmd_hdr header;
  if (channel == nullptr || written.size() < sizeof header) return EINVAL;
  std::memcpy(&header, written.data(), sizeof header);
  const auto request = [&](auto& out) {
    std::memcpy(&out, written.data() + sizeof header, std::min(sizeof out, written.size() - sizeof header));
  };
  uroce_cm_reply told{};
  uint32_t word = 0;
  int status = 0;
  std::vector<uint8_t> response(sizeof word);
  switch (header.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      word = next_id_++;
      ids_[word] = channel;
      break;
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_LEAVE_MCAST: {
      rdma_ucm_destroy_id order{};
      request(order);
      status = destroy(*channel, order.id, told, word);
      break;
    }
    case RDMA_USER_CM_CMD_MIGRATE_ID: {
      rdma_ucm_migrate_id order{};
      request(order);
      status = migrate(*channel, order, told, word);
      break;
    }
    case RDMA_USER_CM_CMD_GET_EVENT: {
      --channel->bytes;
      if (channel->events.empty()) return EAGAIN;
      rdma_ucm_event_resp event{};
      event.uid = channel->events.front().uid;
      event.id = word = channel->events.front().id;
      event.event = 9;
      ++reported_[event.id];
      channel->events.pop_front();
      send_bytes(*channel);
      response.resize(sizeof event);
      std::memcpy(response.data(), &event, sizeof event);
      break;
    }
    default: response.assign(header.out, 0xab); break;
  }
  if (response.size() == sizeof word) std::memcpy(response.data(), &word, sizeof word);
  answer.resize(sizeof told);
  std::memcpy(answer.data(), &told, sizeof told);
  answer.insert(answer.end(), response.begin(), response.end());
  return status;
}

}  // namespace uroce::preload_test
