#include "standin/request.h"

#include <cstring>

namespace pvrdma::standin {

std::optional<Request> parse_request(std::span<const std::byte> datagram) {
  Request request{};
  if (datagram.size() < sizeof(request.header)) return std::nullopt;
  std::memcpy(&request.header, datagram.data(), sizeof(request.header));
  const std::size_t command_bytes = request.header.command_bytes;
  const std::size_t run_count = request.header.run_count;
  if (command_bytes > PVRDMA_WIRE_MAX_COMMAND_BYTES || run_count > PVRDMA_WIRE_MAX_RUNS) return std::nullopt;
  const std::size_t padded_bytes = (command_bytes + 7) / 8 * 8;
  const auto after = datagram.subspan(sizeof(request.header));
  if (after.size() != padded_bytes + run_count * sizeof(pvrdma_wire_run)) return std::nullopt;
  request.command = after.first(command_bytes);
  request.runs = {reinterpret_cast<const pvrdma_wire_run*>(after.data() + padded_bytes), run_count};
  for (const pvrdma_wire_run& run : request.runs) {
    if (run.pages == 0) return std::nullopt;
  }
  return request;
}

}  // namespace pvrdma::standin
