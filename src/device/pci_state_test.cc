#include "device/pci_state.h"

#include <gtest/gtest.h>

namespace pvrdma::device {
namespace {

PciState with_vectors() {
  PciState state;
  state.has_msix_table = true;
  state.config[kPciMsix + 3] = 0x80;
  return state;
}

TEST(PciStateTest, CountsTheVectorsThatAreEnabledAndNotMasked) {
  PciState state = with_vectors();
  EXPECT_EQ(vectors_open(state), 3u);
  state.msix_table[kMsixEntryBytes + 12] = 1;
  EXPECT_EQ(vectors_open(state), 2u);
  state.msix_table[kMsixEntryBytes + 12] = 0xfe;
  EXPECT_EQ(vectors_open(state), 3u) << "the other bits mean nothing";
}

TEST(PciStateTest, CountsNoneThatTheGuestHasNotEnabled) {
  PciState state = with_vectors();
  state.config[kPciMsix + 3] = 0;
  EXPECT_EQ(vectors_open(state), 0u);
  state.config[kPciMsix + 3] = 0xc0;
  EXPECT_EQ(vectors_open(state), 0u) << "masked as a whole";
  state = with_vectors();
  state.has_msix_table = false;
  EXPECT_EQ(vectors_open(state), 0u);
}

TEST(PciStateTest, TheTableIsReachedWhileMemoryAndBusMasteringAreOn) {
  PciState state;
  state.config[kPciBar0 + 3] = 0xfe;
  for (const int off : {0x00, 0x02, 0x04}) {
    state.config[kPciCommand] = static_cast<std::uint8_t>(off);
    EXPECT_FALSE(msix_table_address(state)) << off;
  }
  state.config[kPciCommand] = 0x06;
  EXPECT_EQ(msix_table_address(state), 0xfe000000u + abi::kMsixTableOffset);
}

}  // namespace
}  // namespace pvrdma::device
