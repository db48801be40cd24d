// VERSION's JSON. The only file that knows nlohmann-json; it runs once per session.
#include <limits>
#include <nlohmann/json.hpp>

#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {
namespace {

// Leaves `value` alone if the key is absent; false if it is there and not an integer of that range.
template <typename Int>
bool take(const nlohmann::json& object, const char* key, Int& value) {
  const auto found = object.find(key);
  if (found == object.end()) return true;
  if (!found->is_number_unsigned()) return false;
  const auto number = found->get<std::uint64_t>();
  if (number > std::numeric_limits<Int>::max()) return false;
  value = static_cast<Int>(number);
  return true;
}

}  // namespace

std::string encode_capabilities(const Capabilities& capabilities) {
  return nlohmann::json{{"capabilities",
                         {{"max_msg_fds", capabilities.max_msg_fds},
                          {"max_data_xfer_size", capabilities.max_data_xfer_size},
                          {"max_dma_maps", capabilities.max_dma_maps},
                          {"pgsizes", capabilities.pgsizes}}}}
      .dump();
}

Decoded<Capabilities> decode_capabilities(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return tl::unexpected(Refusal{0, "has capabilities that are no JSON object"});
  Capabilities result;
  const auto capabilities = json.find("capabilities");
  if (capabilities == json.end()) return result;
  if (!capabilities->is_object() || !take(*capabilities, "max_msg_fds", result.max_msg_fds) ||
      !take(*capabilities, "max_data_xfer_size", result.max_data_xfer_size) ||
      !take(*capabilities, "max_dma_maps", result.max_dma_maps) ||
      !take(*capabilities, "pgsizes", result.pgsizes)) {
    return tl::unexpected(Refusal{0, "has a capability of the wrong type or range"});
  }
  return result;
}

}  // namespace pvrdma::vfio_user
