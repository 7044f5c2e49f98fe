// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A capture of RoCEv2 frames, for the oracles to read.
#pragma once

#include <cstdint>
#include <cstdio>

#include "provider/wire/ip_header.h"
#include "provider/wire/packet.h"

namespace uroce::wire::test {

class FrameFile {
 public:
  explicit FrameFile(const char* path);
  // One frame: IP, UDP, the packet with its pad, the ICRC. packet.bth.pad must fit the payload.
  void add(const Packet& packet, const IpFields& ip, uint16_t source_port);
  // False: something was not written.
  bool close();

 private:
  void put32(uint32_t v);

  std::FILE* file_;
  uint32_t number_ = 0;
  bool failed_ = false;
};

}  // namespace uroce::wire::test
