// Fuzzes what parses a program's bytes: the datagram's framing, and the uverbs or rdma_cm command in it.
//
// The input is one datagram. What the parsers accept must lie inside it, and an answer must keep to the room
// that the command offers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "standin/cm_command.h"
#include "standin/request.h"
#include "standin/uverbs_command.h"

namespace {

using namespace pvrdma;
using namespace pvrdma::standin;

void check_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  PVRDMA_CHECK(part.empty() ||
                   (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size()),
               "a part outside its datagram");
}

void check_command(std::span<const std::byte> bytes) {
  const auto command = parse_uverbs_command(bytes);
  if (!command) return;
  check_inside(command->body, bytes);
  ib_uverbs_modify_qp modify;
  if (command->read(modify)) PVRDMA_CHECK(command->body.size() >= sizeof(modify), "read beyond the body");
  const auto part = command->provider_part<std::uint64_t, ib_uverbs_create_cq>();
  PVRDMA_CHECK(!part || command->body.size() >= sizeof(ib_uverbs_create_cq) + 8, "read beyond the body");
  UverbsAnswer answer;
  for (int i = 0; i < 3; ++i) answer.put(*command, ib_uverbs_query_qp_resp{});
  PVRDMA_CHECK(answer.response_bytes <= command->response_room_bytes, "an answer larger than its room");
}

void check_cm_command(std::span<const std::byte> bytes) {
  const auto command = parse_cm_command(bytes);
  if (!command) return;
  check_inside(command->body, bytes);
  check_inside(command->appended, bytes);
  rdma_ucm_connect connect;
  if (command->read(connect, offsetof(rdma_ucm_connect, ece)))
    PVRDMA_CHECK(command->body.size() >= offsetof(rdma_ucm_connect, ece), "read beyond the body");
  UverbsAnswer answer;
  for (int i = 0; i < 20; ++i) answer.put(*command, rdma_ucm_event_resp{});
  PVRDMA_CHECK(answer.response_bytes <= command->response_room_bytes, "an answer larger than its room");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> aligned((size + 7) / 8);
  const auto datagram = std::as_writable_bytes(std::span(aligned)).first(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, datagram.begin());
  const auto request = parse_request(datagram);
  if (!request) return 0;
  check_inside(request->command, datagram);
  check_inside(std::as_bytes(request->runs), datagram);
  for (const pvrdma_wire_run& run : request->runs) PVRDMA_CHECK(run.pages != 0, "a run of no pages");
  check_command(request->command);
  check_cm_command(request->command);
  return 0;
}
