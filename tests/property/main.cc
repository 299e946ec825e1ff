// Runs every property 500 times, thoroughly 5,000 times, unless RC_PARAMS says otherwise, as in
//   RC_PARAMS="seed=42 max_success=100000" stowage_property_tests
// A failure prints its seed and a chain shrunk as far as it still fails.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/effort.h"

int main(int argc, char** argv) {
  setenv("RC_PARAMS",
         stowage::IsThorough() ? "max_success=5000 max_discard_ratio=50"
                               : "max_success=500 max_discard_ratio=50",
         /*overwrite=*/0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
