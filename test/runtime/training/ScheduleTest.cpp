//===- ScheduleTest.cpp
//-----------------------------------------------------===//

#include "runtime/training/Schedule.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mixle::runtime;

static Schedule scheduleOf(const char *text) {
  auto schedule = Schedule::parse(text);
  EXPECT_TRUE(schedule) << schedule.status().message();
  return schedule ? *schedule : Schedule();
}

TEST(Schedule, Constant) {
  Schedule schedule = scheduleOf("constant");
  EXPECT_EQ(schedule.factor(1), 1.0);
  EXPECT_EQ(schedule.factor(1000000), 1.0);
}

TEST(Schedule, B066TheFirstWarmUpStepIsNotZero) {
  Schedule schedule = scheduleOf("linear,warmup=4,total=10");
  double expected[] = {0.25,    0.5,     0.75,    1,       6.0 / 7,
                       5.0 / 7, 4.0 / 7, 3.0 / 7, 2.0 / 7, 1.0 / 7};
  for (int step = 1; step <= 10; ++step)
    EXPECT_EQ(schedule.factor(step), expected[step - 1]) << step;
  EXPECT_EQ(schedule.factor(11), 0.0);
  EXPECT_EQ(schedule.factor(1000), 0.0);
}

TEST(Schedule, CosineFollowsItsFormula) {
  Schedule schedule = scheduleOf("cosine,warmup=3,total=20,min_ratio=0.1");
  for (int step = 1; step <= 3; ++step)
    EXPECT_EQ(schedule.factor(step), step / 3.0);
  double before = 1;
  for (int step = 4; step <= 20; ++step) {
    double progress = (step - 3) / 17.0;
    double expected = 0.1 + 0.9 * 0.5 * (1 + std::cos(M_PI * progress));
    EXPECT_NEAR(schedule.factor(step), expected, 4e-16) << step;
    EXPECT_LT(schedule.factor(step), before);
    before = schedule.factor(step);
  }
  EXPECT_EQ(schedule.factor(20), 0.1);
  EXPECT_EQ(schedule.factor(50), 0.1);
}

TEST(Schedule, CosineHalfWayIsExact) {
  // cos(pi / 2) is not zero in doubles, but half a sum with one is one half.
  Schedule schedule = scheduleOf("cosine,warmup=2,total=10");
  EXPECT_EQ(schedule.factor(6), 0.5);
  EXPECT_EQ(schedule.factor(10), 0.0);
}

TEST(Schedule, Edges) {
  EXPECT_EQ(scheduleOf("linear,warmup=0,total=1").factor(1), 0.5);
  Schedule all = scheduleOf("cosine,warmup=5,total=5,min_ratio=0.25");
  EXPECT_EQ(all.factor(5), 1.0);
  EXPECT_EQ(all.factor(6), 0.25);
  EXPECT_EQ(scheduleOf("linear,warmup=5,total=5").factor(5), 1.0);
  EXPECT_EQ(scheduleOf("cosine,warmup=0,total=4,min_ratio=1").factor(3), 1.0);
}

TEST(Schedule, TextsReadBack) {
  for (const char *text :
       {"constant", "linear,warmup=4,total=10", "cosine,warmup=0,total=7",
        "cosine,warmup=1,total=7,min_ratio=0.1"})
    EXPECT_EQ(scheduleOf(text).asText(), text);
  EXPECT_EQ(scheduleOf(" cosine , total=7, min_ratio=1e-1, warmup=1").asText(),
            "cosine,warmup=1,total=7,min_ratio=0.1");
}

TEST(Schedule, Errors) {
  auto errorOf = [](const char *text) {
    auto schedule = Schedule::parse(text);
    return schedule ? std::string("parsed") : schedule.status().message();
  };
  EXPECT_EQ(errorOf("step,total=3"),
            "--lr-schedule: unknown schedule 'step'; expected constant, "
            "linear,warmup=W,total=T or cosine,warmup=W,total=T[,min_ratio=R]");
  EXPECT_NE(errorOf("warmup=3,total=4").find("no schedule is named"),
            std::string::npos);
  EXPECT_NE(errorOf("").find("empty"), std::string::npos);
  EXPECT_EQ(errorOf("linear,warmup=4"),
            "--lr-schedule: linear needs total=STEPS");
  EXPECT_EQ(errorOf("cosine,total=4"),
            "--lr-schedule: cosine needs warmup=STEPS");
  EXPECT_EQ(errorOf("linear,warmup=1,total=4,min_ratio=0.1"),
            "--lr-schedule linear: unknown key 'min_ratio'; known keys: "
            "warmup, total");
  EXPECT_EQ(errorOf("constant,total=4"),
            "--lr-schedule constant: unknown key 'total'; known keys: none");
  EXPECT_EQ(errorOf("linear,warmup=1,total=4,total=5"),
            "--lr-schedule: key 'total' is given twice in "
            "'linear,warmup=1,total=4,total=5'");
  EXPECT_EQ(errorOf("linear,warmup=11,total=10"),
            "--lr-schedule: warmup=11 is longer than total=10");
  EXPECT_EQ(errorOf("linear,warmup=-1,total=10"),
            "--lr-schedule: warmup=-1, expected at least 0 and at most 2^52");
  EXPECT_EQ(errorOf("linear,warmup=0,total=0"),
            "--lr-schedule: total=0, expected at least 1 and at most 2^52");
  EXPECT_EQ(errorOf("linear,warmup=0,total=1e3"),
            "--lr-schedule: total: '1e3' is not an integer");
  for (const char *ratio : {"-0.1", "1.5", "nan", "inf", "x"})
    EXPECT_NE(
        errorOf(
            ("cosine,warmup=0,total=9,min_ratio=" + std::string(ratio)).c_str())
            .find("min_ratio"),
        std::string::npos)
        << ratio;
}
