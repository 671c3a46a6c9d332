#include "sheaf/Gathered.h"
#include "gtest/gtest.h"
#include <numeric>
#include <vector>

using namespace sheaf;

namespace {
/// A parameter of 8 floats, and an arena in which it is gathered by two ranks.
struct Gathered : testing::Test {
  std::vector<float> parameter = std::vector<float>(8);
  std::vector<float> arena = std::vector<float>(64);
  GatheredWeights watch{range(arena), {range(parameter)}};
  int64_t handle = 0;

  static GatheredWeights::Range range(const std::vector<float> &values) {
    return {reinterpret_cast<const char *>(values.data()),
            static_cast<int64_t>(values.size() * sizeof(float))};
  }

  /// 16 floats to `at`, of what lies at `from`.
  void gather(int at, const float *from,
              SheafCollectiveKind kind = SHEAF_ALL_GATHER) {
    SheafCollective collective = {};
    collective.kind = kind;
    watch.start(collective, from, &arena[at], 64, ++handle);
    std::iota(&arena[at], &arena[at] + 16,
              1.0f + 100 * static_cast<float>(handle));
    watch.wait(handle);
  }
  void launch(std::vector<int> at) {
    std::vector<const void *> buffers;
    for (int i : at)
      buffers.push_back(&arena[i]);
    watch.ran(buffers.data(), static_cast<int64_t>(buffers.size()));
  }
};
} // namespace

TEST_F(Gathered, OneAfterTheOtherIsOne) {
  gather(0, parameter.data());
  launch({0, 32});
  gather(16, parameter.data());
  launch({16, 32});
  EXPECT_EQ(watch.most(false), 64);
}

TEST_F(Gathered, HoistedGathersAreHeldTogether) {
  gather(0, parameter.data());
  gather(16, parameter.data());
  launch({0, 32});
  launch({16, 32});
  EXPECT_EQ(watch.most(false), 128);
}

TEST_F(Gathered, WhatIsOnItsWayIsNotInUse) {
  gather(0, parameter.data());
  SheafCollective next = {};
  next.kind = SHEAF_ALL_GATHER;
  watch.start(next, parameter.data(), &arena[16], 64, 9);
  launch({0, 32});
  watch.wait(9);
  launch({16, 32});
  EXPECT_EQ(watch.most(false), 64);
  EXPECT_EQ(watch.most(true), 128);
}

TEST_F(Gathered, WhatIsReadAgainIsStillHeld) {
  gather(0, parameter.data());
  launch({0, 32});
  gather(16, parameter.data());
  launch({16, 32});
  launch({4, 32}); // a view of the first
  EXPECT_EQ(watch.most(false), 128);
}

TEST_F(Gathered, WhatIsOverwrittenIsFree) {
  gather(0, parameter.data());
  launch({0, 32});
  gather(16, parameter.data());
  arena[3] = -1; // an activation lies there now
  launch({0, 32});
  EXPECT_EQ(watch.most(false), 64);
}

TEST_F(Gathered, OtherTransfersHoldNoWeights) {
  gather(0, &arena[48]);
  gather(0, parameter.data(), SHEAF_BROADCAST);
  EXPECT_EQ(watch.most(false), 0);
}

TEST_F(Gathered, CopiesCountOnBothSides) {
  // A cast of the parameter is gathered; what is gathered is copied.
  const void *cast[] = {parameter.data(), &arena[48]};
  watch.ran(cast, 2);
  gather(0, &arena[48]);
  std::copy(&arena[0], &arena[8], &arena[16]);
  watch.copied(&arena[16], &arena[0], 32);
  launch({16, 40});
  EXPECT_EQ(watch.most(false), 96);
}
