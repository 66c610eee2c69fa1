//===- WriteTinyProgram.cpp - The tiny program as a file ------------------===//

#include "test/runtime/program/TinyPrograms.h"

#include <cstdio>

using namespace mixle::runtime;

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s OUTPUT\n", argv[0]);
    return 2;
  }
  ParallelPlan plan =
      *ParallelPlan::parseText("dp_replicate=2,dp_shard=2,tp=2,microbatches=2");
  Status status = writeProgram(test::tinyTrainingProgram(plan), argv[1]);
  if (!status.ok())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
