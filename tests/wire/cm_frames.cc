// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Writes a capture with the messages that tshark can dissect. Usage: cm_frames FILE.pcap
// cm_tshark_oracle.py knows the values.
#include "provider/wire/cm_message.h"
#include "tests/wire/frame_file.h"

namespace {

using namespace uroce::wire;

void put(test::FrameFile& file, const CmMessage& message, uint64_t transaction) {
  Mad mad;
  write_cm(message, transaction, mad);
  Packet packet;
  packet.bth.opcode = static_cast<Opcode>(0x64);  // UD SEND only
  packet.bth.dest_qpn = Qpn(kGsiQpn);
  packet.deth = {kGsiQkey, Qpn(kGsiQpn)};
  packet.payload = mad;
  IpFields ip;
  ip.source = Gid::from_ipv4_be(0x0100000a);
  ip.destination = Gid::from_ipv4_be(0x0200000a);
  file.add(packet, ip, 49152);
}

CmReq request() {
  CmReq m;
  m.local_id = 0x01020304;
  m.service_id = ip_service_id(0x0106, 7471);
  m.local_ca_guid = 0x1112131415161718;
  m.local_qkey = 0x21222324;
  m.local_qpn = 0x010203;
  m.responder_resources = 17;
  m.initiator_depth = 18;
  m.remote_response_timeout = 20;
  m.transport = CmTransport::uc;
  m.starting_psn = 0x0a0b0c;
  m.local_response_timeout = 21;
  m.retry_count = 5;
  m.pkey = 0x8001;
  m.path_mtu = 3;
  m.rnr_retry_count = 6;
  m.max_cm_retries = 15;
  m.srq = true;
  m.primary.local_gid = Gid::from_ipv4_be(0x0100000a);
  m.primary.remote_gid = Gid::from_ipv4_be(0x0200000a);
  m.primary.flow_label = 0x12345;
  m.primary.packet_rate = 7;
  m.primary.traffic_class = 0x68;
  m.primary.hop_limit = 64;
  m.primary.sl = 3;
  m.primary.local_ack_timeout = 19;
  CmIpHeader header;
  header.ipv4 = true;
  header.source_port = 40000;
  header.source = m.primary.local_gid;
  header.destination = m.primary.remote_gid;
  write_ip_header(header, std::span(m.private_data.bytes).first<kIpHeaderBytes>());
  return m;
}

CmRep reply() {
  CmRep m;
  m.local_id = 0x05060708;
  m.remote_id = 0x01020304;
  m.local_qkey = 0x31323334;
  m.local_qpn = 0x040506;
  m.local_eecn = 0x070809;
  m.starting_psn = 0x0d0e0f;
  m.responder_resources = 4;
  m.initiator_depth = 5;
  m.target_ack_delay = 9;
  m.failover_accepted = 2;
  m.rnr_retry_count = 7;
  m.srq = true;
  m.local_ca_guid = 0x4142434445464748;
  return m;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  test::FrameFile file(argv[1]);
  put(file, request(), 0xa1a2a3a4a5a6a7a8);
  put(file, reply(), 2);
  put(file, CmRtu{11, 12, {}}, 3);
  CmRej rej;
  rej.local_id = 21;
  rej.remote_id = 22;
  rej.of = CmMessageKind::rep;
  rej.reason = CmRejectReason::consumer_defined;
  rej.info_length = 8;
  put(file, rej, 4);
  put(file, CmDreq{31, 32, 0x0f0e0d, {}}, 5);
  put(file, CmDrep{41, 42, {}}, 6);
  return file.close() ? 0 : 1;
}
