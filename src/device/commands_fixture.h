// CommandsFixture: a running guest that sends commands, for each VM hardware version. Thread: one.
#pragma once

#include <gtest/gtest.h>
#include <string>

#include "device/fake_guest.h"
#include "verbs/status.h"

namespace pvrdma::device {

using abi::Command;
using test::FakeGuest;

inline constexpr auto kInvalid = static_cast<std::uint32_t>(verbs::CommandError::kInvalid);
inline constexpr auto kNoSuchObject = static_cast<std::uint32_t>(verbs::CommandError::kNoSuchObject);
inline constexpr auto kNotSupported = static_cast<std::uint32_t>(verbs::CommandError::kNotSupported);
inline constexpr auto kNotPermitted = static_cast<std::uint32_t>(verbs::CommandError::kNotPermitted);
inline constexpr auto kBusy = static_cast<std::uint32_t>(verbs::CommandError::kBusy);
inline constexpr auto kBadAddress = static_cast<std::uint32_t>(verbs::CommandError::kBadAddress);
inline constexpr auto kNoMemory = static_cast<std::uint32_t>(verbs::CommandError::kNoMemory);
inline constexpr auto kAddressInUse = static_cast<std::uint32_t>(verbs::CommandError::kAddressInUse);

class CommandsFixture : public testing::TestWithParam<HardwareVersion> {
 protected:
  CommandsFixture() { guest_.bring_up(); }

  // Sends a command that has a response, and checks the fields that all responses have in common.
  template <typename Response, typename Request>
  Response ask(Command which, const Request& request) {
    EXPECT_EQ(guest_.command(which, request), 0u) << name_of(which);
    EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 1u) << name_of(which);
    const auto response = guest_.response<Response>();
    EXPECT_EQ(response.hdr.response, FakeGuest::kCookie);
    EXPECT_EQ(response.hdr.ack, 0x8000'0000u + static_cast<std::uint32_t>(which));
    EXPECT_EQ(response.hdr.err, 0);
    return response;
  }
  // Sends a command without a response.
  template <typename Request>
  void tell(Command which, const Request& request) {
    EXPECT_EQ(guest_.command(which, request), 0u) << name_of(which);
    EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u) << name_of(which) << " has no response";
  }
  template <typename Request>
  void expect_refused(Command which, const Request& request, std::uint32_t why) {
    guest_.store(guest_.region.resp_slot_dma, abi::ResponseHeader{});
    EXPECT_EQ(guest_.command(which, request), why) << name_of(which);
    EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u) << name_of(which);
    if (abi::expects_response(which)) {
      const auto response = guest_.response<abi::ResponseHeader>();
      EXPECT_EQ(response.err, why) << "MODIFY_QP reads it";
      EXPECT_EQ(response.ack, abi::ack_of(which));
    }
  }
  template <typename Request>
  static Request with(std::uint32_t Request::*field, std::uint32_t value) {
    Request request{};
    request.*field = value;
    return request;
  }
  verbs::Engine::ObjectCounts counts() { return guest_.adapter().engine().object_counts(); }
  abi::CreateBindRequest bind_request(std::uint32_t index = 0) const {
    abi::CreateBindRequest request{};
    request.mtu = 1024;
    request.vlan = 0xfff;
    request.index = index;
    request.new_gid.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x50, 0x56, 0xff, 0xfe, 1, 2, 3};
    request.gid_type = static_cast<std::uint8_t>(default_roce(GetParam()));
    return request;
  }
  struct Made {
    std::uint32_t pd;
    FakeGuest::Cq cq;
    FakeGuest::Pages rings;
    std::uint32_t qp;
  };
  Made make_qp(std::uint32_t context = 0, abi::QpType type = abi::QpType::kRc) {
    Made made{guest_.create_pd(context), guest_.create_cq(context), guest_.pages(3), 0};
    guest_.interrupts(abi::Vector::kResponse);
    const auto request = guest_.qp_request(made.pd, made.cq.handle, made.rings, type);
    if (separates_qp_handle(GetParam())) {
      made.qp = ask<abi::CreateQpResponseV2>(Command::kCreateQp, request).qp_handle;
    } else {
      made.qp = ask<abi::CreateQpResponse>(Command::kCreateQp, request).qpn;
    }
    return made;
  }

  FakeGuest guest_{test::some_adapter(GetParam())};
};

inline std::string version_name(const testing::TestParamInfo<HardwareVersion>& each) {
  return "v" + std::to_string(number_of(each.param));
}

inline const auto kEveryVersion =
    testing::Values(HardwareVersion::k13, HardwareVersion::k14, HardwareVersion::k17, HardwareVersion::k18);

}  // namespace pvrdma::device
