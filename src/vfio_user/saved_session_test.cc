// Another session continues one that stopped at any point. The client sees no difference.
#include "vfio_user/saved_session.h"

#include <cerrno>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/session.h"

namespace pvrdma::vfio_user {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Bytes write_request(std::uint16_t id, std::uint64_t offset = 8) {
  return message(id, Command::kRegionWrite, bytes_of(wire::RegionAccess{offset, 1, 4}, std::uint32_t{7}));
}

class SavedSessionTest : public testing::Test {
 protected:
  SocketPair pair_;
  RawPeer peer_{std::move(pair_.theirs)};
  FakeHandler device_;
  std::optional<Session> session_{std::in_place, std::move(pair_.ours), device_, "test"};

  void SetUp() override {
    peer_.send(qemu_version());
    ASSERT_EQ(run(), "");
    ASSERT_TRUE(peer_.receive());
    device_.take_calls();
  }
  std::string run() {
    while (true) {
      const auto worked = session_->run();
      if (!worked) return worked.error().message;
      if (!*worked) return "";
    }
  }
  // Continues as another process would: on the same socket, with copies of the descriptors that wait in it.
  void go_on() {
    const auto saved = session_->save();
    ASSERT_TRUE(saved) << saved.error().message;
    std::vector<ClientFd> held;
    for (const ClientFd& fd : session_->held_fds()) held.emplace_back(Fd(::dup(fd.get())));
    Fd socket(::dup(session_->fd()));
    session_.reset();
    device_.disconnected("its process has ended");
    session_.emplace(std::move(socket), device_, "next");
    ASSERT_TRUE(session_->restore(*saved, held));
    EXPECT_THAT(device_.take_calls(), testing::Contains("connected"));
  }
};

TEST_F(SavedSessionTest, GoesOnInTheMiddleOfEachMessage) {
  const Bytes request = write_request(5);
  for (std::size_t cut = 0; cut <= request.size(); ++cut) {
    if (cut != 0) {
      ASSERT_TRUE(peer_.send(std::span(request).first(cut)));
      ASSERT_EQ(run(), "");
    }
    const auto before = device_.take_calls();
    go_on();
    if (cut != request.size()) {
      ASSERT_TRUE(peer_.send(std::span(request).subspan(cut)));
      ASSERT_EQ(run(), "");
      EXPECT_THAT(device_.take_calls(), ElementsAre("write 1 0x8 4")) << cut;
    } else {
      EXPECT_THAT(before, ElementsAre("write 1 0x8 4")) << "once";
    }
    EXPECT_EQ(peer_.receive()->header.id, 5) << cut;
    EXPECT_TRUE(peer_.nothing_to_receive());
  }
}

TEST_F(SavedSessionTest, ADescriptorThatCameWithHalfAMessageGoesAlong) {
  const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
  const Bytes request = message(
      6, Command::kSetIrqs,
      bytes_of(wire::SetIrqs{
          .flags = wire::kIrqDataEventfd | wire::kIrqActionTrigger, .index = 2, .start = 0, .count = 1}));
  ASSERT_TRUE(peer_.send(std::span(request).first(10), {eventfd.get()}));
  ASSERT_EQ(run(), "");
  ASSERT_EQ(session_->held_fds().size(), 1);
  go_on();
  ASSERT_TRUE(peer_.send(std::span(request).subspan(10)));
  ASSERT_EQ(run(), "");
  EXPECT_EQ(peer_.receive()->header.error, 0);
  ASSERT_EQ(device_.fds.size(), 1);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(device_.fds[0].get(), &one, 8), 8);
  std::uint64_t seen = 0;
  EXPECT_EQ(::read(eventfd.get(), &seen, 8), 8) << "it is the client's";
}

TEST_F(SavedSessionTest, WhatTheClientHasNotReadGoesOut) {
  device_.max_kept_calls = 0;
  const Bytes request = message(1, Command::kRegionRead, bytes_of(wire::RegionAccess{0, 0, 0x4000}));
  int sent = 0;
  for (; !session_->wants_write(); ++sent) {
    ASSERT_TRUE(peer_.send(request));
    ASSERT_EQ(run(), "");
  }
  ASSERT_TRUE(peer_.send(request));
  ++sent;
  device_.max_kept_calls = 10;
  go_on();
  for (int i = 0; i < sent; ++i) {
    while (peer_.nothing_to_receive()) ASSERT_EQ(run(), "");
    ASSERT_EQ(run(), "");
    const auto reply = peer_.receive();
    ASSERT_TRUE(reply);
    ASSERT_EQ(reply->payload.size(), 16u + 0x4000u);
  }
  EXPECT_FALSE(session_->wants_write());
}

// Nobody waits for the reply any more, but it is not an error when the client sends it.
TEST_F(SavedSessionTest, ARequestThatIsUnansweredKeepsItsPlace) {
  ASSERT_TRUE(session_->dma_read(0x1000, 8, [](int, std::span<const std::byte>) {}));
  const auto asked = peer_.receive();
  ASSERT_TRUE(asked);
  go_on();
  Bytes answer = message(asked->header.id, Command::kDmaRead,
                         bytes_of(wire::DmaAccess{0x1000, 8}, std::uint64_t{1}), kFlagTypeReply);
  ASSERT_TRUE(peer_.send(answer));
  EXPECT_EQ(run(), "");
  ASSERT_TRUE(peer_.send(write_request(9)));
  EXPECT_EQ(run(), "");
  EXPECT_EQ(peer_.receive()->header.id, 9);
}

TEST_F(SavedSessionTest, IsNotThereBeforeTheVersionNorInAMigration) {
  SocketPair fresh;
  const Session before_version(std::move(fresh.ours), device_, "test");
  EXPECT_EQ(before_version.save().error().code, ENOTCONN);
  device_.migrates = kMigrationStopCopy;
  ASSERT_TRUE(
      peer_.send(message(1, Command::kDeviceFeature,
                         bytes_of(wire::DeviceFeature{16, wire::kFeatureSet | wire::kFeatureMigDeviceState},
                                  wire::MigDeviceState{static_cast<std::uint32_t>(MigrationState::kStop)}))));
  ASSERT_EQ(run(), "");
  EXPECT_EQ(session_->save().error().code, EBUSY);
}

TEST_F(SavedSessionTest, RefusesWhatCannotBe) {
  const auto saved = session_->save();
  ASSERT_TRUE(saved);
  const auto refused = [this](SavedSession wrong) {
    SocketPair pair;
    FakeHandler device;
    Session session(std::move(pair.ours), device, "next");
    const auto restored = session.restore(wrong, {});
    return !restored && restored.error().code == EINVAL;
  };
  SavedSession wrong = *saved;
  wrong.max_request_bytes = kMaxDataTransferBytes + 1;
  EXPECT_TRUE(refused(wrong));
  wrong = *saved;
  wrong.input.resize(kSavedInputBytesMax + 1);
  EXPECT_TRUE(refused(wrong));
  wrong = *saved;
  wrong.reply.resize(kSavedOutputBytesMax + 1);
  EXPECT_TRUE(refused(wrong));
  wrong = *saved;
  wrong.unanswered = {{3, Command::kDmaRead, 0, 8}, {3, Command::kDmaRead, 8, 8}};
  EXPECT_TRUE(refused(wrong)) << "two of one id";
  wrong.unanswered.assign(RequestTable::kMaxUnderWay + 1, {});
  EXPECT_TRUE(refused(wrong));
}

}  // namespace
}  // namespace pvrdma::vfio_user
