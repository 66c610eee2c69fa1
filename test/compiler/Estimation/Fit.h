//===- Fit.h - Fits for tests -----------------------------------*- C++ -*-===//

#ifndef MIXLE_TEST_COMPILER_ESTIMATION_FIT_H
#define MIXLE_TEST_COMPILER_ESTIMATION_FIT_H

#include "runtime/executor/ThreadRanks.h"
#include "runtime/training/Estimation.h"
#include "test/compiler/Estimation/CompileEstimator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>

namespace mixle::test {

using namespace mixle::runtime;

using Program = std::shared_ptr<const LoadedProgram>;

/// The program of a specification under a plan, compiled once in a process.
inline Program programOf(const std::string &spec,
                         const CompileSettings &settings = {}) {
  static std::map<std::string, Program> programs;
  std::string key = spec + "|" + settings.plan + "|" +
                    std::to_string(settings.batch) + "|" +
                    std::to_string(settings.blockRows) + "|" +
                    std::to_string(settings.components);
  Program &program = programs[key];
  if (program)
    return program;
  Expected<Program> compiled = compileEstimator(spec, settings);
  if (!compiled.ok()) {
    ADD_FAILURE() << settings.plan << ": " << compiled.status().message();
    return nullptr;
  }
  return program = compiled.take();
}

struct Data {
  int64_t rows = 0, columns = 1;
  std::vector<double> values;
  std::vector<double> weights; // empty: all 1

  std::shared_ptr<const RowSource> source() const {
    return rowsInMemory(rows, columns, values);
  }
  std::shared_ptr<const std::vector<double>> rowWeights() const {
    return weights.empty()
               ? nullptr
               : std::make_shared<const std::vector<double>>(weights);
  }
};

inline Data column(std::vector<double> values) {
  Data data;
  data.rows = static_cast<int64_t>(values.size());
  data.values = std::move(values);
  return data;
}

/// What a fit leaves on rank 0, and what all ranks agree on.
struct FitResult {
  Status status;
  bool shared = false;
  std::vector<double> trace;          ///< log-likelihoods
  std::vector<std::string> digests;   ///< after every iteration
  std::vector<MixtureValues> models;  ///< after every iteration
  std::vector<double> statistics;     ///< of the last iteration
  std::vector<double> anchor, scale;
  double totalWeight = 0;
  std::vector<double> density;        ///< of the probes
  std::vector<int64_t> rowsOfRanks;
};

struct FitSettings {
  std::optional<MixtureValues> start; ///< without one: initialize()
  int64_t iterations = 1;
  int64_t chunkRows = 0;
  uint64_t seed = 0;
  std::vector<double> probes;
};

inline Status fitOnRank(const Program &program, const Data &data,
                        const FitSettings &settings, Communicator &communicator,
                        FitResult &result) {
  EstimationSessionOptions options;
  options.seed = settings.seed;
  options.chunkRows = settings.chunkRows;
  MIXLE_ASSIGN_OR_RETURN(
      auto session, EstimationSession::create(program, communicator, options));
  const bool first = communicator.rank() == 0;
  auto note = [&](const Status &status) {
    if (first)
      result.shared = session->lastErrorIsShared();
    return status;
  };
  MIXLE_RETURN_IF_ERROR(note(session->setData(data.source(), data.rowWeights())));
  if (settings.start)
    MIXLE_RETURN_IF_ERROR(note(session->setParameters(*settings.start)));
  else
    MIXLE_RETURN_IF_ERROR(note(session->initialize()));
  result.rowsOfRanks[communicator.rank()] = session->ownRows();
  for (int64_t i = 0; i < settings.iterations; ++i) {
    Expected<EstimationReceipt> receipt = session->iterate();
    MIXLE_RETURN_IF_ERROR(note(receipt.status()));
    MIXLE_ASSIGN_OR_RETURN(MixtureValues model, session->parameters());
    if (!first)
      continue;
    result.trace.push_back(receipt->logLikelihood);
    result.digests.push_back(receipt->digest.hex());
    result.models.push_back(std::move(model));
  }
  MIXLE_ASSIGN_OR_RETURN(std::vector<double> statistics, session->statistics());
  MIXLE_ASSIGN_OR_RETURN(
      std::vector<double> density,
      session->logDensity(settings.probes.data(),
                          static_cast<int64_t>(settings.probes.size()) /
                              data.columns));
  if (first) {
    result.statistics = std::move(statistics);
    result.density = std::move(density);
    result.anchor = session->anchor();
    result.scale = session->scale();
    result.totalWeight = session->totalWeight();
  }
  return Status::success();
}

inline FitResult fit(const Program &program, const Data &data,
                     const FitSettings &settings) {
  FitResult result;
  if (!program) {
    result.status = Status::error("no program");
    return result;
  }
  const int64_t world = program->plan.worldSize();
  result.rowsOfRanks.assign(world, 0);
  // The message of a rank without the others' echoes.
  std::vector<Status> statuses(world);
  Status status = runOnThreads(
      static_cast<int>(world), [&](int rank, Communicator &communicator) {
        return statuses[rank] =
                   fitOnRank(program, data, settings, communicator, result);
      });
  result.status = status.ok() ? status : statuses[0];
  return result;
}

inline void expectNear(const std::vector<double> &expected,
                       const std::vector<double> &got, double relative,
                       const std::string &what) {
  ASSERT_EQ(expected.size(), got.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(expected[i], got[i],
                relative * std::max(1e-300, std::fabs(expected[i])))
        << what << " [" << i << "]";
}

} // namespace mixle::test

#endif // MIXLE_TEST_COMPILER_ESTIMATION_FIT_H
