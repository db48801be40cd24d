// What is kept of an adapter, so that the daemon's next process can continue with its client: numbered
// descriptors, and a stream of src/state that describes them. The stream has a KeptRecord and then the
// adapter itself (device/adapter_state.cc). ADR 20.
//
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "guestmem/address_space.h"
#include "state/reader.h"
#include "state/stream.h"
#include "vfio_user/handler.h"
#include "vfio_user/protocol.h"
#include "vfio_user/request_table.h"
#include "vfio_user/saved_session.h"

namespace pvrdma::adapters {

// The number of a kept descriptor. No number is used twice, even by later processes. 0: no descriptor.
using KeptId = std::uint64_t;

struct KeptMap {
  vfio_user::DmaMapRequest request;
  KeptId fd = 0;  // 0: not RAM
};

struct KeptVector {
  std::uint32_t vector = 0;
  KeptId eventfd = 0;
};

// All maps of memory, and as many others as no VM has: flash, ROMs and BARs. An adapter with more is not
// kept, so that a VMM cannot make the record long. Maps of one file share its descriptor.
inline constexpr std::uint32_t kKeptMapsMax = guestmem::kMaxRamMaps + 1024;
inline constexpr std::uint32_t kKeptVectorsMax = 64;

struct KeptClient {
  KeptId socket = 0;
  vfio_user::SavedSession session;
  std::vector<KeptId> held_fds;
  std::vector<KeptMap> maps;
  std::vector<KeptVector> vectors;
};

struct KeptRecord {
  KeptId listener = 0;
  KeptId counter = 0;         // a keep::ChangeCounter
  std::uint64_t changes = 0;  // the record is valid while the counter has this value
  bool has_client = false;    // false: nothing follows
  bool has_objects = false;   // saved with the guest's objects, at the end of the process
  KeptId doorbells = 0;
  KeptClient client;
};

inline constexpr state::RecordKind kKeptRecord{0x200, 1};

template <typename Archive>
void describe(Archive& archive, std::vector<std::uint8_t>& bytes, const char* name, std::uint32_t most) {
  archive.list(name, bytes, most, 1, [&archive](std::uint8_t& byte) { archive.number("byte", byte); });
}

template <typename Archive>
void describe(Archive& archive, vfio_user::SavedSession& session) {
  auto& [max_request_bytes, input, reply, reply_has_fd, request, unanswered] = session;
  archive.number("max_request_bytes", max_request_bytes);
  describe(archive, input, "input", vfio_user::kSavedInputBytesMax);
  describe(archive, reply, "reply", vfio_user::kSavedOutputBytesMax);
  archive.flag("reply_has_fd", reply_has_fd);
  describe(archive, request, "request", vfio_user::kSavedOutputBytesMax);
  archive.list("unanswered", unanswered, vfio_user::RequestTable::kMaxUnderWay, 19,
               [&archive](vfio_user::SavedRequest& each) {
                 auto& [id, command, address, count] = each;
                 archive.number("id", id);
                 archive.choice("command", command, vfio_user::Command::kDmaRead,
                                vfio_user::Command::kDmaWrite);
                 archive.number("address", address);
                 archive.number("count", count);
               });
}

template <typename Archive>
void describe(Archive& archive, KeptMap& map) {
  auto& [request, fd] = map;
  auto& [iova, size, fd_offset, readable, writable] = request;
  archive.number("iova", iova);
  archive.number("size", size);
  archive.number("fd_offset", fd_offset);
  archive.flag("readable", readable);
  archive.flag("writable", writable);
  archive.number("fd", fd);
}

template <typename Archive>
void describe(Archive& archive, KeptClient& client) {
  auto& [socket, session, held_fds, maps, vectors] = client;
  archive.number("socket", socket);
  describe(archive, session);
  archive.list("held_fds", held_fds, vfio_user::kMaxMessageFds, 8,
               [&archive](KeptId& fd) { archive.number("fd", fd); });
  archive.list("maps", maps, kKeptMapsMax, 34, [&archive](KeptMap& map) { describe(archive, map); });
  archive.list("vectors", vectors, kKeptVectorsMax, 12, [&archive](KeptVector& each) {
    auto& [vector, eventfd] = each;
    archive.number("vector", vector);
    archive.number("eventfd", eventfd);
  });
}

template <typename Archive>
void describe(Archive& archive, KeptRecord& record) {
  auto& [listener, counter, changes, has_client, has_objects, doorbells, client] = record;
  archive.number("listener", listener);
  archive.number("counter", counter);
  archive.number("changes", changes);
  archive.flag("has_client", has_client);
  if (!has_client) return;
  archive.flag("has_objects", has_objects);
  archive.number("doorbells", doorbells);
  describe(archive, client);
}

// What is to be kept of an adapter, in place of the previous record.
struct KeptAdapter {
  std::string name;
  std::map<KeptId, Fd> fds;       // those that are not kept yet
  std::vector<KeptId> ids;        // all numbers in the record
  std::vector<std::byte> stream;  // the KeptRecord and the adapter
  bool has_client = false;
  std::string trouble;  // why its client is not kept; empty: it is kept, or there is no client
};

// What the previous process kept of an adapter.
struct GivenBack {
  std::map<KeptId, Fd> fds;
  std::vector<std::byte> stream;
  KeptRecord record;  // the first part of the stream

  // A copy of the descriptor; empty: it was not kept.
  Fd copy(KeptId id) const;
};

// Removes the file of the adapter's socket and, if it is empty, the folder of its VMM: no adapter will use
// them.
void remove_files(const GivenBack& given);

// Errors: what is wrong with the stream.
Result<GivenBack> read_kept(std::map<KeptId, Fd> fds, std::vector<std::byte> stream);
// Skips the KeptRecord of a stream that read_kept() has accepted. The adapter follows.
void skip_kept_record(state::Reader& reader);

}  // namespace pvrdma::adapters
