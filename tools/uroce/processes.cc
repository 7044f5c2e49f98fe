// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroce/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace uroce::cli {

namespace {

namespace fs = std::filesystem;

// Socket inode -> uid, of the sockets that are bound to the port.
std::map<uint64_t, uid_t> sockets_on(uint16_t port) {
  std::map<uint64_t, uid_t> sockets;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* file : {"/proc/net/udp", "/proc/net/udp6"}) {
    std::ifstream table(file);
    std::string line;
    std::getline(table, line);  // titles
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string slot, local, skipped;
      uid_t uid = 0;
      uint64_t inode = 0;
      words >> slot >> local >> skipped >> skipped >> skipped >> skipped >> skipped >> uid >> skipped >>
          inode;
      if (words && local.ends_with(wanted)) sockets[inode] = uid;
    }
  }
  return sockets;
}

}  // namespace

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [rest, trouble] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (trouble == std::errc() && rest == name.data() + name.size()) found.push_back(pid);
  }
  return found;
}

std::string command_name(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

std::optional<pid_t> stopped_process(pid_t pid) {
  for (const pid_t candidate : all_processes()) {
    std::ifstream file(fmt::format("/proc/{}/stat", candidate));
    std::string text;
    std::getline(file, text);
    // pid (name, which may hold anything) state parent ...
    std::istringstream words(text.substr(std::min(text.rfind(')') + 1, text.size())));
    char state = 0;
    pid_t parent = 0;
    if (words >> state >> parent && (state == 'T' || state == 't') && (candidate == pid || parent == pid))
      return candidate;
  }
  return std::nullopt;
}

std::vector<PortHolder> udp_port_holders(uint16_t port) {
  auto sockets = sockets_on(port);
  std::vector<PortHolder> holders;
  if (sockets.empty()) return holders;
  std::map<uint64_t, uid_t> unseen = sockets;
  for (const pid_t pid : all_processes()) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), none)) {
      const std::string target = fs::read_symlink(entry.path(), none);
      if (target.rfind("socket:[", 0) != 0) continue;
      uint64_t inode = 0;
      std::from_chars(target.data() + 8, target.data() + target.size(), inode);
      const auto at = sockets.find(inode);
      if (at == sockets.end()) continue;
      unseen.erase(inode);
      const auto known = [&](const PortHolder& h) { return h.pid == pid; };
      if (std::none_of(holders.begin(), holders.end(), known)) holders.push_back({at->second, pid});
    }
  }
  for (const auto& socket : unseen) {
    const uid_t uid = socket.second;
    const auto known = [&](const PortHolder& h) { return h.pid == 0 && h.uid == uid; };
    if (std::none_of(holders.begin(), holders.end(), known)) holders.push_back({uid, 0});
  }
  return holders;
}

std::string describe(const PortHolder& holder) {
  if (holder.pid == 0) return fmt::format("a process of uid {} (or the kernel)", holder.uid);
  return fmt::format("process {} ({}) of uid {}", holder.pid, command_name(holder.pid), holder.uid);
}

}  // namespace uroce::cli
