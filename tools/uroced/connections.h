// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The clients: accepting them, knowing who they are, hearing their messages and their end. An end is
// whichever comes first, that of the connection or that of the process: a forked child keeps the connection
// of its parent.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tools/uroced/keeper_line.h"
#include "tools/uroced/listener.h"
#include "tools/uroced/loop.h"
#include "tools/uroced/message.h"
#include "tools/uroced/registry.h"

namespace uroce::daemon {

class ConnectionUser {
 public:
  virtual void on_message(uint32_t connection, Message& message) = 0;
  // Its record is still there.
  virtual void on_ended(uint32_t connection) = 0;

 protected:
  ~ConnectionUser() = default;
};

class Connections {
 public:
  Connections(Loop& loop, Registry& registry, KeeperLine& keeper, Names names, ConnectionUser& user);
  ~Connections();

  // After a restart: those of the earlier worker; everyone is told to send again what is unanswered.
  void adopt();

  // The listening sockets are closed; who waits there is turned away.
  void stop_accepting();

  // Queued when the client does not read; a client that lets too much pile up is cut off.
  void send(uint32_t connection, uint16_t type, uint32_t seq, int status,
            std::span<const std::byte> payload = {}, std::span<const int> descriptors = {});
  // A reply: its seq is remembered, so that the repetition of a request that was answered is told from a new
  // one.
  void reply(uint32_t connection, const uroce_msg& request, int status,
             std::span<const std::byte> payload = {}, std::span<const int> descriptors = {});
  bool was_answered(uint32_t connection, uint32_t seq) const;
  // Now or not at all. False: not sent.
  bool try_send(uint32_t connection, uint16_t type, std::span<const std::byte> payload);

  // Ends it, after what is queued was sent (or could not be).
  void close_after_reply(uint32_t connection);
  void close(uint32_t connection, const std::string& reason);

  Fd duplicate_pidfd(uint32_t connection) const;
  uint32_t count() const;
  bool open(uint32_t connection) const { return clients_[connection] != nullptr; }

 private:
  struct Packet {
    uroce_msg header;
    std::vector<std::byte> payload;
    std::vector<Fd> descriptors;
  };
  struct Client {
    Fd socket, pidfd;
    std::unique_ptr<FdWatch> watch, death;
    std::deque<Packet> queue;
    bool answered = false, closes = false;
    bool stranger = false;  // another uid's
    uint32_t answered_seq = 0;
  };

  void start_accepting();
  void accept_some(int listener);
  void accept_one(Fd socket);
  bool write_record(uint32_t position, int socket);
  void start(uint32_t position, Fd socket, Fd pidfd);
  void read_some(uint32_t position);
  void write_some(uint32_t position);

  Loop& loop_;
  Registry& registry_;
  KeeperLine& keeper_;
  Names names_;
  ConnectionUser& user_;
  std::vector<std::unique_ptr<Client>> clients_;  // by position; 0 stays empty
  std::vector<std::unique_ptr<FdWatch>> accepting_;
  Timer accept_again_;
  uint32_t last_position_ = 0;
  uint32_t strangers_ = 0;
};

}  // namespace uroce::daemon
