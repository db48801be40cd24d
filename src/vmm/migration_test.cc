#include "vmm/migration.h"

#include <cerrno>
#include <cstdint>
#include <gtest/gtest.h>
#include <unistd.h>
#include <vector>

#include "vmm/fake_qemu.h"

namespace pvrdma::vmm {
namespace {

class Qemu {
 public:
  explicit Qemu(FakeQemu::Script script)
      : path_(testing::TempDir() + "migration_test_" + std::to_string(::getpid()) + "_" +
              std::to_string(made_++)),
        qemu_(path_, std::move(script)),
        monitor_(Monitor::connect(path_, Instant::now() + std::chrono::seconds(10)).value()) {}
  Monitor& monitor() { return *monitor_; }
  std::vector<std::string> commands() { return qemu_.commands(); }

 private:
  static inline int made_ = 0;

  const std::string path_;
  FakeQemu qemu_;
  const std::unique_ptr<Monitor> monitor_;
};

FakeQemu::Script always(Json value) {
  return [value](const std::string&, const Json&) { return FakeQemu::returning(value); };
}

TEST(MigrationTest, TheVersionHasThreeNumbers) {
  EXPECT_EQ(
      version_of(Qemu(always({{"qemu", {{"major", 11}, {"minor", 1}, {"micro", 3}}}})).monitor()).value(),
      "11.1.3");
  for (const Json& other : {Json(7), Json{{"qemu", 7}}, Json{{"qemu", {{"major", 11}, {"minor", -1}}}}}) {
    EXPECT_EQ(version_of(Qemu(always(other)).monitor()).error().code, EPROTO) << other;
  }
}

TEST(MigrationTest, TheStatusIsNoneWithoutOne) {
  const auto none = migration_status(Qemu(always(Json::object())).monitor());
  EXPECT_EQ(none.value().status, "none");
  const auto active = migration_status(
      Qemu(always({{"status", "active"}, {"ram", {{"total", 4096}, {"remaining", 1024}}}})).monitor());
  EXPECT_EQ(active.value().status, "active");
  EXPECT_EQ(active.value().ram_bytes, 4096);
  EXPECT_EQ(active.value().remaining_bytes, 1024);
  const auto failed =
      migration_status(Qemu(always({{"status", "failed"}, {"error-desc", "no room"}, {"ram", 7}})).monitor());
  EXPECT_EQ(failed.value().why, "no room");
  EXPECT_EQ(failed.value().ram_bytes, 0);
  EXPECT_EQ(migration_status(Qemu(always({{"status", 7}})).monitor()).error().code, EPROTO);
}

TEST(MigrationTest, AStreamThatHadLittleToSendIsNotSlow) {
  const auto speed = [](const Json& mbps, const Json& transferred, const Json& ms) {
    return migration_status(Qemu(always({{"status", "pre-switchover"},
                                         {"total-time", ms},
                                         {"ram", {{"mbps", mbps}, {"transferred", transferred}}}}))
                                .monitor())
        .value()
        .bytes_per_s;
  };
  EXPECT_EQ(speed(800.0, 40'000'000, 2000), 100'000'000) << "the last measurement";
  EXPECT_EQ(speed(0.5, 40'000'000, 2000), 20'000'000) << "the mean";
  EXPECT_EQ(speed(0, 40'000'000, 0), 0) << "nothing is measured yet";
  EXPECT_EQ(speed(-1, "many", "long"), 0);
  EXPECT_EQ(speed(1e300, ~std::uint64_t{0}, 1), (std::uint64_t{1} << 53) * 1000) << "bounded";
}

TEST(MigrationTest, ACancelledOneIsWaitedFor) {
  int asked = 0;
  Qemu qemu([&asked](const std::string& command, const Json&) {
    if (command != "query-migrate") return FakeQemu::returning();
    return FakeQemu::returning({{"status", ++asked < 3 ? "cancelling" : "cancelled"}});
  });
  EXPECT_TRUE(cancel_migration(qemu.monitor(), Instant::now() + std::chrono::seconds(10)));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(qemu.commands().front(), "migrate_cancel");
  Qemu stuck(always({{"status", "cancelling"}}));
  EXPECT_EQ(cancel_migration(stuck.monitor(), Instant::now()).error().code, ETIMEDOUT);
}

TEST(MigrationTest, ACapabilityIsNamed) {
  Json given;
  Qemu qemu([&given](const std::string&, const Json& arguments) {
    given = arguments;
    return FakeQemu::returning();
  });
  EXPECT_TRUE(set_migration_capability(qemu.monitor(), "mapped-ram", true));
  EXPECT_EQ(given, Json::parse(R"({"capabilities": [{"capability": "mapped-ram", "state": true}]})"));
  Qemu old([](const std::string&, const Json&) { return FakeQemu::refusing("unknown"); });
  EXPECT_EQ(set_migration_capability(old.monitor(), "mapped-ram", true).error().code, EREMOTEIO);
}

}  // namespace
}  // namespace pvrdma::vmm
