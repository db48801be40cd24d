// Shared by the tests of the wire format: frames of every kind with random contents, their bytes, and the
// comparison of two frames. Thread: a test's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "transport/wire/format.h"

namespace pvrdma::transport::wire {

using Bytes = std::vector<std::byte>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  template <typename T>
  T any() {
    return static_cast<T>(engine_());
  }
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }
  bool flip() { return below(2) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }
  std::string text(std::size_t longest, std::string_view alphabet) {
    std::string text(below(longest + 1), ' ');
    for (char& c : text) c = alphabet[below(alphabet.size())];
    return text;
  }
  verbs::Endpoint endpoint() {
    verbs::Endpoint endpoint;
    for (auto& byte : endpoint.gid.bytes) byte = any<std::uint8_t>();
    endpoint.qpn = verbs::Qpn(any<std::uint32_t>() & 0xff'ffff);
    return endpoint;
  }
  HelloId hello_id() {
    HelloId id{};
    for (auto& byte : id) byte = any<std::uint8_t>();
    return id;
  }
  SegmentId segment() {
    return {.dvs = static_cast<std::uint32_t>(1 + below(0xffff'ffff)),
            .vlan = static_cast<std::uint16_t>(below(4096))};
  }

 private:
  std::mt19937_64 engine_;
};

// Messages that an encoder accepts. Each field has any of its valid values.
verbs::Request any_request(Random& random);
verbs::Response any_response(Random& random);
verbs::Datagram any_datagram(Random& random);

constexpr std::size_t kKinds = std::variant_size_v<Body>;

// `kind` is an index of Body, below kKinds.
Frame any_frame(std::size_t kind, Random& random);

// The head of the frame, without a payload; empty if it cannot be encoded.
Bytes encoded(const Frame& frame);

void expect_same(const verbs::Request& a, const verbs::Request& b);
void expect_same(const Frame& a, const Frame& b);

}  // namespace pvrdma::transport::wire
