// Reads and writes VERSION's JSON, once per session. Only this file uses nlohmann-json.
//
// It uses the stream parser: a parsed document allocates even in its destructor, so a host without memory
// could not go on.
#include <fmt/core.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {
namespace {

// Reads {"capabilities": {...}} and ignores other keys. If a key occurs twice, the last one counts.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool is_object() const { return is_object_; }
  bool wrong() const { return wrong_; }
  const Capabilities& result() const { return result_; }

  bool null() override { return other_value(); }
  bool boolean(bool /*value*/) override { return other_value(); }
  bool number_integer(number_integer_t /*value*/) override { return other_value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return other_value(); }
  bool string(string_t& /*value*/) override { return other_value(); }
  bool binary(binary_t& /*value*/) override { return other_value(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!inside()) return other_value();
    if (key_ == "max_msg_fds") take(value, result_.max_msg_fds);
    if (key_ == "max_data_xfer_size") take(value, result_.max_data_xfer_size);
    if (key_ == "max_dma_maps") take(value, result_.max_dma_maps);
    if (key_ == "pgsizes") take(value, result_.pgsizes);
    return true;
  }
  bool start_object(std::size_t /*elements*/) override {
    if (depth_ == 0) is_object_ = true;
    if (depth_ == 1 && key_ == "capabilities") {
      in_capabilities_ = true;
      wrong_ = false;
      result_ = {};
    } else {
      other_value();
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_capabilities_ = false;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    other_value();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ <= 2) key_ = name;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool inside() const { return in_capabilities_ && depth_ == 2; }

  // A value of a type that no known capability has.
  bool other_value() {
    const bool known = inside() && (key_ == "max_msg_fds" || key_ == "max_data_xfer_size" ||
                                    key_ == "max_dma_maps" || key_ == "pgsizes");
    if (known || (depth_ == 1 && key_ == "capabilities")) wrong_ = true;
    return true;
  }

  template <typename Int>
  void take(std::uint64_t number, Int& value) {
    if (number > std::numeric_limits<Int>::max()) wrong_ = true;
    value = static_cast<Int>(number);
  }

  Capabilities result_;
  std::string key_;  // the last one at depth 1 or 2
  std::size_t depth_ = 0;
  bool is_object_ = false;
  bool in_capabilities_ = false;
  bool wrong_ = false;
};

}  // namespace

std::string encode_capabilities(const Capabilities& capabilities) {
  return fmt::format(
      R"({{"capabilities":{{"max_msg_fds":{},"max_data_xfer_size":{},"max_dma_maps":{},"pgsizes":{}}}}})",
      capabilities.max_msg_fds, capabilities.max_data_xfer_size, capabilities.max_dma_maps,
      capabilities.pgsizes);
}

Decoded<Capabilities> decode_capabilities(std::string_view text) {
  Reader reader;
  if (!nlohmann::json::sax_parse(text, &reader) || !reader.is_object()) {
    return tl::unexpected(Refusal{0, "has capabilities that are not a JSON object"});
  }
  if (reader.wrong()) return tl::unexpected(Refusal{0, "has a capability of the wrong type or range"});
  return reader.result();
}

}  // namespace pvrdma::vfio_user
