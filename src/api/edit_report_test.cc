#include "api/edit_report.h"

#include <chrono>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "base/event_ring.h"
#include "control/model/edits.h"
#include "support/fake_store.h"

namespace pvrdma::api {
namespace {

class EditReport : public testing::Test {
 protected:
  EditReport() {
    auto made = std::make_unique<control::FakeStore>(std::make_shared<control::FakeCluster>());
    store_ = made.get();
    plane_ = control::Plane::start("esx-01", "i-1", std::move(made), nullptr).value();
    before_ = events::newest().last();
  }
  Result<void> add_host() {
    return edit_and_tell(*plane_, "uid 1000", [](control::Inventory& inventory) {
      return control::edits::add_host(inventory, "esx-07");
    });
  }
  std::vector<events::Event> told() const {
    std::vector<events::Event> edits = events::newest().page(before_, events::EventRing::kSlots).events;
    std::erase_if(edits, [](const events::Event& event) { return event.type != events::Type::kEdit; });
    return edits;
  }

  control::FakeStore* store_ = nullptr;  // owned by plane_
  std::unique_ptr<control::Plane> plane_;
  std::uint64_t before_ = 0;
};

TEST_F(EditReport, AnEditIsToldOnceTheStoreHasItEvenIfTheNoticeIsLate) {
  store_->hold_notices();
  auto done = std::async(std::launch::async, [&] { return add_host(); });
  EXPECT_TRUE(control::eventually([&] {
    return !told().empty() || done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  EXPECT_EQ(told().size(), 1U) << "before the notice";
  store_->release_notices();
  EXPECT_TRUE(done.get());
  ASSERT_EQ(told().size(), 1U) << "once";
  EXPECT_EQ(told()[0].text, "host esx-07: added by uid 1000");
}

TEST_F(EditReport, AnEditWithoutItsNoticeFailsAndIsTold) {
  store_->hold_notices();
  const auto done = add_host();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, testing::HasSubstr("the change was made, but not confirmed"));
  EXPECT_EQ(told().size(), 1U);
}

TEST_F(EditReport, AnEditThatTheStoreDoesNotTakeIsNotTold) {
  store_->go_away("unplugged");
  EXPECT_FALSE(add_host());
  EXPECT_TRUE(told().empty());
}

}  // namespace
}  // namespace pvrdma::api
