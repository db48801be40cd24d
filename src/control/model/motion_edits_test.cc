#include <cerrno>

#include "control/model/model_fixture.h"
#include "control/model/records.h"

namespace pvrdma::control {
namespace {

using test::after;
using test::EditFunction;
using test::expect_refused;
using test::expect_sentence;
using test::some_cluster;

const VmMotion kThere{"m1", "esx-02"};

// vm-a is on.
Inventory running() {
  Inventory inventory = some_cluster();
  inventory.powered_on["vm-a"] = "esx-01";
  return inventory;
}

EditFunction begin(const std::string& vm, const VmMotion& motion) {
  return [=](Inventory& i) { return edits::begin_motion(i, vm, motion); };
}
EditFunction commit(const VmMotion& motion) {
  return [=](Inventory& i) { return edits::commit_motion(i, "vm-a", motion); };
}
EditFunction end(const VmMotion& motion) {
  return [=](Inventory& i) { return edits::end_motion(i, "vm-a", motion); };
}

TEST(MotionEdits, AVmGoesToAnotherHostInTwoSteps) {
  const Inventory moving = after(running(), begin("vm-a", kThere));
  EXPECT_EQ(moving.vms.at("vm-a").host, "esx-01");
  EXPECT_EQ(moving.vms.at("vm-a").motion, kThere);
  const Inventory there = after(moving, commit(kThere));
  EXPECT_EQ(there.vms.at("vm-a").host, "esx-02");
  EXPECT_FALSE(there.vms.at("vm-a").motion);
  EXPECT_EQ(after(there, commit(kThere)), there) << "an answer that was lost";
  expect_refused(there, end(kThere), ErrorKind::kConflict, {"vm-a", "esx-02"}, EALREADY);
}

TEST(MotionEdits, AVmThatCameThereByItselfDidNotComeByTheMotion) {
  Inventory ended = after(after(running(), begin("vm-a", kThere)), end(kThere));
  ended.powered_on.clear();
  const auto place = [](const char* host) {
    return [host](Inventory& i) { return edits::change_vm(i, "vm-a", {.host = host}); };
  };
  const Inventory placed = after(ended, place("esx-02"));
  expect_refused(placed, commit(kThere), ErrorKind::kConflict, {"m1", "vm-a"}, ECANCELED);
  EXPECT_EQ(after(placed, end(kThere)), placed);
  Inventory there = after(after(running(), begin("vm-a", kThere)), commit(kThere));
  there.powered_on.clear();
  const Inventory back = after(after(there, place("esx-01")), place("esx-02"));
  expect_refused(back, commit(kThere), ErrorKind::kConflict, {"m1", "vm-a"}, ECANCELED);
}

TEST(MotionEdits, AMotionThatWasEndedIsNotCommitted) {
  const Inventory moving = after(running(), begin("vm-a", kThere));
  const Inventory ended = after(moving, end(kThere));
  EXPECT_EQ(ended, running());
  expect_refused(ended, commit(kThere), ErrorKind::kConflict, {"m1", "vm-a", "esx-02"}, ECANCELED);
  EXPECT_EQ(after(ended, end(kThere)), ended);
  const Inventory again = after(ended, begin("vm-a", {"m2", "esx-02"}));
  expect_refused(again, commit(kThere), ErrorKind::kConflict, {"m1"}, ECANCELED);
  EXPECT_EQ(after(again, end(kThere)), again) << "another one's";
}

TEST(MotionEdits, WhatForbidsAMotion) {
  expect_refused(running(), begin("vm-x", kThere), ErrorKind::kNotFound, {"vm-x"});
  expect_refused(running(), begin("vm-a", {"m1", "esx-09"}), ErrorKind::kNotFound, {"esx-09"});
  expect_refused(running(), begin("vm-a", {"m1", "esx-01"}), ErrorKind::kInvalid,
                 {"vm-a", "esx-01", "already"});
  expect_refused(running(), begin("vm-b", kThere), ErrorKind::kNotFound, {"vm-b", "no PVRDMA adapter"});
  expect_refused(some_cluster(), begin("vm-a", kThere), ErrorKind::kConflict,
                 {"vm-a is off", "vm set vm-a --host esx-02"});
  expect_refused(running(), begin("vm-a", {"m1", "esx-03"}), ErrorKind::kConflict, {"esx-03", "not alive"});
  Inventory closed = running();
  test::must(edits::set_ruleset(closed, "esx-02", edits::kRuleset, false, std::nullopt));
  expect_refused(closed, begin("vm-a", kThere), ErrorKind::kConflict, {"ruleset", "esx-02"});
  Inventory no_member = running();
  test::must(edits::remove_dvs_host(no_member, "dvs", "esx-02"));
  expect_refused(no_member, begin("vm-a", kThere), ErrorKind::kConflict, {"vm-a", "esx-02", "dvs"});
}

TEST(MotionEdits, WhileAVmIsOnItsWayItIsLeftAlone) {
  Inventory moving = after(running(), begin("vm-a", kThere));
  expect_refused(moving, begin("vm-a", {"m2", "esx-02"}), ErrorKind::kConflict,
                 {"vm-a", "esx-02", "--cancel"});
  const auto remove = [](Inventory& i) { return edits::remove_dvs_host(i, "dvs", "esx-02"); };
  expect_refused(moving, remove, ErrorKind::kConflict, {"vm-a", "esx-02", "dvs"});
  moving.powered_on.clear();  // its QEMU has died
  expect_refused(moving, [](Inventory& i) { return edits::delete_vm(i, "vm-a"); }, ErrorKind::kConflict,
                 {"vm-a", "esx-02"});
  expect_refused(moving, [](Inventory& i) { return edits::change_vm(i, "vm-a", {.host = "esx-02"}); },
                 ErrorKind::kConflict, {"vm-a"});
}

TEST(MotionEdits, ARecordKeepsTheMotion) {
  const Inventory moving = after(running(), begin("vm-a", kThere));
  Inventory read;
  for (const Change& record : difference({}, moving)) EXPECT_TRUE(apply(read, record));
  EXPECT_EQ(read.vms, moving.vms);
}

}  // namespace
}  // namespace pvrdma::control
