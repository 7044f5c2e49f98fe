// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tools/uroced/process_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

namespace uroce::daemon {

namespace {

// "socket:[123]" with prefix "socket:[" -> 123; 0 for anything else.
uint64_t number_in_brackets(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return 0;
  uint64_t number = 0;
  std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
  return number;
}

uint64_t read_link_number(int directory, const char* name, std::string_view prefix) {
  char target[64];
  const ssize_t n = readlinkat(directory, name, target, sizeof target);
  return n <= 0 ? 0 : number_in_brackets({target, static_cast<size_t>(n)}, prefix);
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// Tells network namespaces apart without the right to read their links: a process's view of them is a tree of
// files that are the namespace's own. 0: no such process, or it is hidden.
uint64_t netns_mark(const std::string& process) {
  struct stat st {};
  return stat(fmt::format("/proc/{}/net/dev", process).c_str(), &st) == 0 ? st.st_ino : 0;
}

// Visit returns false to stop.
void for_each_process(const std::function<bool(pid_t, int proc_fd)>& visit) {
  const Directory proc(opendir("/proc"));
  if (proc == nullptr) return;
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end || pid <= 0) continue;
    if (!visit(pid, dirfd(proc.get()))) return;
  }
}

void for_each_socket(pid_t pid, const std::function<void(uint64_t inode)>& visit) {
  const Directory fds(opendir(fmt::format("/proc/{}/fd", pid).c_str()));
  if (fds == nullptr) return;
  while (const dirent* entry = readdir(fds.get())) {
    if (const uint64_t inode = read_link_number(dirfd(fds.get()), entry->d_name, "socket:["); inode != 0)
      visit(inode);
  }
}

void read_udp_table(const char* path, uint16_t port, std::vector<PortHolder>& holders) {
  std::ifstream table(path);
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    // sl local:port remote:port state queues timer retransmits uid timeout inode ...
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits;
    uid_t uid = 0;
    unsigned timeout = 0;
    uint64_t inode = 0;
    if (!(fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
          inode))
      continue;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos || std::strtoul(local.c_str() + colon + 1, nullptr, 16) != port) continue;
    holders.push_back({uid, inode, 0});
  }
}

}  // namespace

uint64_t inode_of(int fd) {
  struct stat st {};
  return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

uint64_t own_netns_inode() {
  struct stat st {};
  return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

std::set<uint64_t> held_sockets(const std::set<uint64_t>& inodes, const std::set<pid_t>& excluded) {
  std::set<uint64_t> held;
  for_each_process([&](pid_t pid, int) {
    if (excluded.count(pid) == 0) {
      for_each_socket(pid, [&](uint64_t inode) {
        if (inodes.count(inode) != 0) held.insert(inode);
      });
    }
    return held.size() < inodes.size();
  });
  return held;
}

bool sockets_can_be_seen(pid_t pid) {
  return Directory(opendir(fmt::format("/proc/{}/fd", pid).c_str())) != nullptr;
}

std::vector<PortHolder> udp_port_holders(uint16_t port) {
  std::vector<PortHolder> holders;
  read_udp_table("/proc/self/net/udp", port, holders);
  read_udp_table("/proc/self/net/udp6", port, holders);
  for_each_process([&](pid_t pid, int) {
    for_each_socket(pid, [&](uint64_t inode) {
      for (PortHolder& holder : holders) {
        if (holder.inode == inode && holder.pid == 0) holder.pid = pid;
      }
    });
    return true;
  });
  return holders;
}

std::string describe(const PortHolder& holder) {
  if (holder.inode == 0) return "the kernel (rdma_rxe?)";
  if (holder.pid == 0) return fmt::format("a process of uid {}", holder.uid);
  return fmt::format("process {} ({}) of uid {}", holder.pid, command_name(holder.pid), holder.uid);
}

Presence anybody_in_netns(const std::set<pid_t>& excluded) {
  const uint64_t here = netns_mark("self");
  // The first process always exists: if not even it can be seen (hidepid), others are hidden too.
  if (here == 0 || netns_mark("1") == 0) return Presence::unknown;
  Presence presence = Presence::nobody;
  for_each_process([&](pid_t pid, int) {
    if (excluded.count(pid) == 0 && netns_mark(std::to_string(pid)) == here) presence = Presence::somebody;
    return presence == Presence::nobody;
  });
  return presence;
}

bool netns_has_name(uint64_t netns_inode) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  const std::string root = fmt::format(" net:[{}] ", netns_inode);
  while (std::getline(mounts, line)) {
    if (line.find(root) != std::string::npos) return true;
  }
  return false;
}

size_t open_descriptors(pid_t pid) {
  const Directory fds(opendir(fmt::format("/proc/{}/fd", pid).c_str()));
  size_t count = 0;
  while (fds != nullptr && readdir(fds.get()) != nullptr) ++count;
  return count < 2 ? 0 : count - 2;  // . and ..
}

bool users_are_known() {
  std::ifstream map("/proc/self/uid_map");
  uint64_t inside = 1, outside = 1, count = 0;
  if (!map.is_open()) return true;  // a kernel without user namespaces
  return map >> inside >> outside >> count && inside == 0 && outside == 0 && count == UINT32_MAX;
}

std::string command_name(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace uroce::daemon
