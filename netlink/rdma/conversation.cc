// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "netlink/rdma/conversation.h"

#include <libmnl/libmnl.h>

#include <cerrno>
#include <cstring>

namespace uroce::netlink {

namespace {

constexpr size_t kMostWaiting = 256;         // datagrams
constexpr size_t kLongestExplanation = 512;  // bytes of the extended acknowledgement's text

}  // namespace

void Conversation::on_datagram(std::span<const uint8_t> datagram, bool administrator) {
  if (gave_up_ && !waiting_.empty()) return;
  gave_up_ = false;
  const Bytes aligned(datagram.begin(), datagram.end());
  for (size_t at = 0; at + sizeof(nlmsghdr) <= aligned.size();) {
    const auto* message = reinterpret_cast<const nlmsghdr*>(aligned.data() + at);
    const size_t length = message->nlmsg_len;
    if (length < sizeof(nlmsghdr) || length > aligned.size() - at) return;
    if (waiting_.size() >= kMostWaiting) {
      gave_up_ = true;
      dump_.reset();
      return acknowledge(*message, ECONNABORTED, {"too many answers wait for this client", 0});
    }
    on_message(*message, administrator);
    at += MNL_ALIGN(length);
  }
}

void Conversation::on_message(const nlmsghdr& message, bool administrator) {
  AttributeFault fault;
  bool wants_acknowledgement = (message.nlmsg_flags & NLM_F_ACK) != 0;
  int error = 0;
  const bool is_request = (message.nlmsg_flags & NLM_F_REQUEST) != 0 && message.nlmsg_type >= NLMSG_MIN_TYPE;
  if (is_request) error = answer(message, administrator, fault, wants_acknowledgement);
  if (wants_acknowledgement || error != 0) acknowledge(message, error, fault);
}

int Conversation::answer(const nlmsghdr& message, bool administrator, AttributeFault& fault,
                         bool& acknowledge) {
  const Handler* handler = find_handler(message.nlmsg_type);
  if (handler == nullptr) {
    fault.text = "there is no such command here";
    return EINVAL;
  }
  if (handler->administrators_only && !administrator) {
    fault.text = "only root and the user whose uroced this is may do that";
    return EPERM;
  }
  Request request{&message, {}, port_, administrator};
  const bool is_dump = (message.nlmsg_flags & NLM_F_DUMP) != 0;
  if (is_dump) {
    if (handler->dump == nullptr) return EINVAL;
    acknowledge = false;  // NLMSG_DONE is the acknowledgement
    return start_dump(request, *handler);
  }
  if (!parse_attributes(message, request.attributes, fault)) return EINVAL;
  Answer told(request);
  const int error = handler->answer(model_, request, told);
  fault.text = std::move(told.text);
  if (error != 0 || !told.message()) return error;
  if (told.message()->overflowed()) return EMSGSIZE;
  waiting_.push_back(told.message()->take());
  return 0;
}

int Conversation::start_dump(const Request& request, const Handler& handler) {
  if (dump_ != nullptr) return EBUSY;
  const auto* bytes = reinterpret_cast<const uint8_t*>(request.header);
  auto dump = std::make_unique<Dump>();
  dump->request_bytes.assign(bytes, bytes + request.header->nlmsg_len);
  dump->request = request;
  dump->request.header = reinterpret_cast<const nlmsghdr*>(dump->request_bytes.data());
  dump->handler = &handler;
  AttributeFault fault;
  const bool valid = parse_attributes(*dump->request.header, dump->request.attributes, fault);
  dump_ = std::move(dump);
  if (valid) {
    continue_dump();
  } else {
    DumpWriter(dump_->request, waiting_).done(EINVAL);
    dump_.reset();
  }
  return 0;
}

void Conversation::continue_dump() {
  DumpWriter writer(dump_->request, waiting_);
  const int error = dump_->handler->dump(model_, dump_->request, dump_->position, writer);
  if (writer.is_full()) return;
  writer.done(error);
  dump_.reset();
}

const Bytes* Conversation::next() {
  if (waiting_.empty() && dump_ != nullptr) continue_dump();
  return waiting_.empty() ? nullptr : &waiting_.front();
}

// Always with the texts of an extended acknowledgement, and without the request: whether the client has asked
// for that is known only to its own socket, and clients that have not look no further than the header of the
// request.
void Conversation::acknowledge(const nlmsghdr& request, int error, const AttributeFault& fault) {
  MessageBuilder out;
  const bool explained = error != 0 && (!fault.text.empty() || fault.offset != 0);
  out.start(NLMSG_ERROR, static_cast<uint16_t>(NLM_F_CAPPED | (explained ? NLM_F_ACK_TLVS : 0)),
            request.nlmsg_seq, port_);
  nlmsgerr told{};
  told.error = -error;
  told.msg = request;
  out.payload(&told, sizeof told);
  if (explained) {
    if (!fault.text.empty()) {
      const std::string text = fault.text.substr(0, kLongestExplanation);
      out.bytes(NLMSGERR_ATTR_MSG, {reinterpret_cast<const uint8_t*>(text.c_str()), text.size() + 1});
    }
    if (fault.offset != 0) {
      out.bytes(NLMSGERR_ATTR_OFFS, {reinterpret_cast<const uint8_t*>(&fault.offset), sizeof fault.offset});
    }
  }
  waiting_.push_back(out.take());
}

}  // namespace uroce::netlink
