#include "motion/messages.h"

#include <cerrno>
#include <chrono>
#include <gtest/gtest.h>
#include <string>

namespace pvrdma::motion {
namespace {

TEST(PciImageTest, TravelsAsItIs) {
  vmm::PciImage image;
  for (std::size_t i = 0; i < image.config.size(); ++i) image.config[i] = static_cast<std::uint8_t>(i);
  auto back = pci_image_of(to_json(image));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->config, image.config);
  EXPECT_FALSE(back->has_msix_table);
  image.has_msix_table = true;
  image.msix_table[47] = 9;
  back = pci_image_of(to_json(image));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->msix_table, image.msix_table);
  for (const calls::Json& bad : {calls::Json::array(), calls::Json{{"config", "00"}},
                                 calls::Json{{"config", 5}}, calls::Json{{"config", std::string(512, 'g')}},
                                 calls::Json{{"config", std::string(512, '0')}, {"msix_table", ""}}})
    EXPECT_FALSE(pci_image_of(bad)) << bad.dump().substr(0, 60);
}

calls::Json offer_text() {
  return {{"say", "offer"},   {"format", kMotionFormat}, {"motion", "m1"},    {"vm", "VM-01"},
          {"from", "esx-01"}, {"to", "esx-02"},          {"patience_s", 600u}};
}

TEST(OfferTest, IsReadAsItWasWritten) {
  const auto offer = read_offer({offer_text(), {}});
  ASSERT_TRUE(offer) << offer.error().message;
  EXPECT_EQ(offer->motion.vm, "VM-01");
  EXPECT_EQ(offer->patience, std::chrono::seconds(600));
  EXPECT_FALSE(offer->is_question || offer->is_paused);
  EXPECT_EQ(offer->leader, Leader::kDaemons);
  calls::Json endless = offer_text();
  endless["patience_s"] = ~std::uint64_t{0};
  EXPECT_LE(read_offer({endless, {}})->patience, std::chrono::hours(24));
}

TEST(OfferTest, OfALedOrPausedVmIsNotForOlderDaemons) {
  calls::Json text = offer_text();
  text["leader"] = "libvirt";
  text["paused"] = true;
  EXPECT_EQ(read_offer({text, {}})->leader, Leader::kLibvirt);
  EXPECT_TRUE(read_offer({text, {}})->is_paused);
  text["leader"] = 7;
  EXPECT_EQ(read_offer({text, {}}).error().code, EPERM);
  text["format"] = kPlainMotionFormat;
  EXPECT_EQ(read_offer({text, {}})->leader, Leader::kDaemons) << "they know no such member";
}

TEST(OfferTest, WhatIsNoneIsRefused) {
  for (const char* member : {"format", "motion", "vm", "from", "to", "patience_s"}) {
    calls::Json text = offer_text();
    text.erase(member);
    EXPECT_FALSE(read_offer({text, {}})) << member;
    text[member] = calls::Json::array();
    EXPECT_FALSE(read_offer({text, {}})) << member;
  }
  calls::Json newer = offer_text();
  newer["format"] = 4;
  const auto refused = read_offer({newer, {}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("formats 2 and 3, the other one's in format 4"), std::string::npos);
}

}  // namespace
}  // namespace pvrdma::motion
