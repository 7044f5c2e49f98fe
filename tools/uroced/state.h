// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What survives the worker: records of fixed size in memory that the keeper maps and every worker inherits.
// Changed only through Registry::edit(), so that a command that was cut off by the worker's death is undone
// by the next worker. No pointers: records refer to each other by index, 0 means none.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>

#include "kmod-shim/uapi/uroce_abi.h"
#include "kmod-shim/uapi/uroce_daemon.h"
#include "netlink/rdma/server.h"

namespace uroce::daemon {

constexpr uint32_t kMaxDevices = 64;
constexpr uint32_t kSlots = UROCE_SLOT_LAST + 1;  // index 0: the control plane's own
constexpr uint32_t kMaxConnections = 4096;
constexpr uint32_t kMaxObjects =
    1u << 20;  // below 2^24: an object's index is part of keys and is the SRQ number
constexpr uint32_t kQpIndices = 1u << 14;
constexpr uint32_t kMaxCmIds = 1u << 16;
constexpr uint32_t kStoredReplyBytes = 512;
constexpr uint32_t kJournalBytes = 64 * 1024;

// ---- devices
// -----------------------------------------------------------------------------------------------------

struct DeviceRecord {
  uint32_t live;
  uint32_t index;  // RDMA_NLDEV_ATTR_DEV_INDEX, never reused
  char name[64];
  uint32_t ifindex;
  uint32_t uverbs_minor;
  uint64_t node_guid_be;
  uint32_t transport;  // enum uroce_transport
  uint32_t min_timeout_ms;
  uint32_t port_state;
  uint32_t of_module;  // not ours but the kernel module's, and `live` is 0
  uroce_gid_entry gids[UROCE_GID_TABLE_LEN];
  uint64_t retired_counters[UROCE_CNT_COUNT];  // of contexts that are gone
};

// ---- contexts: index = slot
// --------------------------------------------------------------------------------------

enum class ObjectKind : uint32_t { free = 0, pd, mr, mw, cq, qp, srq, xrcd, mcast };
constexpr uint32_t kObjectKinds = 9;

enum class SlotState : uint32_t {
  clean = 0,        // nobody has its socket, or it was never made
  live = 1,         // belongs to a context
  closing = 2,      // the context is being taken apart
  quarantined = 3,  // the context is gone; a process may still hold the receive socket
};

struct ContextRecord {
  SlotState state;
  uint32_t device;      // DeviceRecord position
  uint32_t connection;  // position of its uverbs connection
  uint32_t pid;         // owner; stays while quarantined: the holder
  uint64_t cookie;
  uint64_t opened_at;  // seconds since the epoch
  uint32_t first_object;
  uint32_t object_count;
  uint32_t kind_counts[kObjectKinds];
  uint32_t next_qp_index;  // rolls, also from one owner of the slot to the next
  uint32_t fatal;          // the device was removed
  uint32_t reserved;
  uint64_t qp_indices[kQpIndices / 64];  // in use
};

// ---- client connections
// ------------------------------------------------------------------------------------------

struct ConnectionRecord {
  uint32_t live;
  uint32_t role;  // enum uroce_role, 0 before HELLO
  uint32_t pid;
  uint32_t uid;
  uint32_t device;   // role uverbs
  uint32_t slot;     // role uverbs after GET_CONTEXT, role broker
  uint32_t crashes;  // workers that died over the request in flight
  uint32_t has_reply;
  uint32_t seq;  // of the stored reply
  int32_t status;
  uint32_t reply_bytes;
  uint32_t makes_async_pair;  // the reply carries a fresh async socketpair
  uint8_t reply[kStoredReplyBytes];
};

// ---- objects
// -----------------------------------------------------------------------------------------------------

struct MrBody {
  uint64_t start, length, iova;
  uint32_t pd, access, key;
};

struct MwBody {
  uint32_t pd, key;
};

struct CqBody {
  uint32_t entries;
};

struct QpBody {
  uint32_t pd, send_cq, recv_cq, srq, xrcd;
  uint32_t qpn;
  uint32_t type;       // enum ib_qp_type
  uint32_t opened_of;  // OPEN_QP: the XRC target QP behind this handle
  ib_uverbs_query_qp_resp attributes;
};

struct SrqBody {
  uint32_t pd, cq, xrcd;  // cq and xrcd: XRC only
  uint32_t max_wr, max_sge, limit;
};

struct XrcdBody {
  uint64_t file_device, inode;  // 0, 0: private
};

struct McastBody {
  uint32_t qp;
  uint32_t reserved;
  uint8_t gid[16];
};

struct ObjectRecord {
  ObjectKind kind;
  uint32_t slot;            // owner
  uint32_t users;           // objects that refer to it
  uint32_t variant;         // of the key that is made of its index; survives freeing
  uint32_t next, previous;  // in the owner's list, or `next` in the list of free records
  uint64_t user_handle;
  union {
    MrBody mr;
    MwBody mw;
    CqBody cq;
    QpBody qp;
    SrqBody srq;
    XrcdBody xrcd;
    McastBody mcast;
  };
};
static_assert(sizeof(ObjectRecord) <= 256);

// ---- identifiers of rdma_cm: index = number
// -----------------------------------------------------------------------------------

struct CmIdRecord {
  uint32_t live;
  uint32_t connection;  // of its channel
  uint32_t port_space;
  uint32_t events_reported;
  uint64_t uid;  // the program's name for it; 0: a request that was not accepted
};

// ---- the whole
// ---------------------------------------------------------------------------------------------------

// Old contents of what the open transaction has changed, oldest first; each entry is a JournalEntry and its
// bytes, padded to 8.
struct JournalEntry {
  uint64_t offset;
  uint32_t bytes;
  uint32_t reserved;
};

struct State {
  uint64_t started_at;  // seconds since the epoch
  uint32_t keeper_pid;
  uint32_t generation;  // workers so far
  uint32_t next_device_index;
  char tree[192];                 // directory that stands for /sys
  char trouble[512];              // why the first worker could not start
  uint32_t crashed;               // the last worker died of a fault of its own, not by being killed
  uint32_t in_flight_connection;  // a worker is busy with this one's request
  uint32_t in_flight_seq;
  netlink::OpenRequest netlink_requests[netlink::kMostOpenRequests];
  uint32_t objects_used;  // positions handed out so far; 0 is none
  uint32_t free_first, free_last, free_count;
  uint32_t journal_used;  // 0: no transaction open
  alignas(8) uint8_t journal[kJournalBytes];
  DeviceRecord devices[kMaxDevices];
  ContextRecord contexts[kSlots];
  ConnectionRecord connections[kMaxConnections];
  ObjectRecord objects[kMaxObjects];
  CmIdRecord cm_ids[kMaxCmIds];
};

}  // namespace uroce::daemon
