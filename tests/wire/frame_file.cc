// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tests/wire/frame_file.h"

#include <vector>

#include "provider/wire/byte_order.h"
#include "provider/wire/icrc.h"

namespace uroce::wire::test {
namespace {

constexpr uint32_t kLinkTypeRawIp = 101;

// Over IPv6 the checksum is not optional (and the ICRC does not cover it).
void add_udp_checksum(std::vector<std::byte>& frame) {
  const size_t udp_bytes = frame.size() - kIpv6Bytes;
  uint32_t sum = 17 + static_cast<uint32_t>(udp_bytes);
  for (size_t i = 8; i < frame.size(); i += 2) sum += load_be16(frame.data() + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  store_be16(frame.data() + kIpv6Bytes + 6, static_cast<uint16_t>(~sum));
}

std::vector<std::byte> frame(const Packet& packet, const IpFields& ip, uint16_t source_port) {
  std::vector<std::byte> bytes(packet.info().header_bytes);
  write_headers(packet, bytes.data());
  bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
  bytes.resize(bytes.size() + packet.bth.pad);
  const IcrcFlow flow(ip.source, ip.destination, source_port, kRocePort);
  const uint32_t icrc = flow.compute(bytes, ip.identification);
  const size_t transport_bytes = bytes.size();
  bytes.resize(transport_bytes + kIcrcBytes);
  store_icrc(bytes.data() + transport_bytes, icrc);
  std::vector<std::byte> out(48);
  out.resize(write_ip_udp(ip, source_port, kRocePort, bytes.size(), out.data()));
  out.insert(out.end(), bytes.begin(), bytes.end());
  if (!ip.source.is_ipv4()) add_udp_checksum(out);
  return out;
}

}  // namespace

FrameFile::FrameFile(const char* path) : file_(std::fopen(path, "wb")) {
  failed_ = file_ == nullptr;
  for (uint32_t word : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, kLinkTypeRawIp}) put32(word);
}

void FrameFile::put32(uint32_t v) {
  if (!failed_) failed_ = std::fwrite(&v, 4, 1, file_) != 1;
}

void FrameFile::add(const Packet& packet, const IpFields& ip, uint16_t source_port) {
  const std::vector<std::byte> bytes = frame(packet, ip, source_port);
  const auto length = static_cast<uint32_t>(bytes.size());
  for (uint32_t word : {number_++, 0u, length, length}) put32(word);
  if (!failed_) failed_ = std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size();
}

bool FrameFile::close() {
  if (file_ == nullptr) return false;
  return std::fclose(file_) == 0 && !failed_;
}

}  // namespace uroce::wire::test
