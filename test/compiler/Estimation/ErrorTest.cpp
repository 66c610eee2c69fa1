//===- ErrorTest.cpp - What a fit refuses, by its message -----------------===//

#include "runtime/base/Npy.h"
#include "runtime/base/Safetensors.h"
#include "test/compiler/Estimation/Fit.h"

#include <cstdlib>
#include <fstream>
#include <unistd.h>

using namespace mixle::test;

namespace {

const char *const oneGaussian =
    R"({"family": "gaussian_mixture", "dim": 1, "components": 1})";
const char *const twoByTwo = R"({"family": "gaussian_mixture", "dim": 2,
    "components": 2, "covariance": "diag"})";

void expectError(const Status &status, const std::string &message) {
  ASSERT_FALSE(status.ok()) << "expected: " << message;
  EXPECT_NE(std::string::npos, status.message().find(message))
      << status.message() << "\nexpected: " << message;
}

Data with(std::vector<double> values, std::vector<double> weights) {
  Data data = column(std::move(values));
  data.weights = std::move(weights);
  return data;
}

TEST(EstimationError, DataIsChecked) {
  Program program = programOf(oneGaussian);
  expectError(fit(program, Data(), {}).status, "no rows");
  Data wide;
  wide.rows = 1;
  wide.columns = 2;
  wide.values = {1, 2};
  expectError(fit(program, wide, {}).status, "2 column(s); the estimator's dim is 1");
  expectError(fit(program, column({1, NAN, 2}), {}).status,
              "row 1, column 0 (from 0) is nan");
  expectError(fit(program, column({1, INFINITY}), {}).status, "is inf");
  expectError(fit(program, with({1, 2}, {1}), {}).status, "1 weights for 2 rows");
  expectError(fit(program, with({1, 2}, {1, -1}), {}).status,
              "the weight of row 1 (from 0) is -1");
  expectError(fit(program, with({1, 2}, {1, NAN}), {}).status, "is nan");
  expectError(fit(program, with({1, 2}, {0, 0}), {}).status,
              "no row has a positive weight");
  expectError(fit(program, column({-1e300, 1e300}), {}).status,
              "squares are too large");
  expectError(fit(program, with({1, 2}, {1e300, 1}), {}).status,
              "row weights up to");
}

// A file whose parts contradict each other must not be read beyond an end.
TEST(EstimationError, TheProgramFitsItsSpecification) {
  auto with = [](const std::function<void(fb::ProgramT &)> &change) {
    Expected<Program> program = compileEstimator(twoByTwo);
    if (!program.ok())
      return program.status();
    auto changed = std::const_pointer_cast<LoadedProgram>(*program);
    change(changed->program);
    Data data;
    data.rows = 2;
    data.columns = 2;
    data.values = {1, 2, 3, 4};
    return fit(changed, data, {}).status;
  };
  auto spec = [](const std::string &text) {
    return [text](fb::ProgramT &program) {
      for (auto &attribute : program.config)
        if (attribute->key == "estimator")
          attribute->value = text;
    };
  };
  EXPECT_TRUE(with([](fb::ProgramT &) {}).ok());
  expectError(with(spec(oneGaussian)),
              "entry 'accumulate' takes 0 + 2 x rows f64 of 'rows'; 1 x rows f64 "
              "are given");
  expectError(with(spec(R"({"family": "gaussian_mixture", "dim": 2,
                            "components": 3, "covariance": "diag"})")),
              "parameter 'weights' has not the elements or type");
  expectError(with(spec(R"({"family": "gaussian_mixture", "dim": 2,
                            "components": 2, "covariance": "full"})")),
              "parameter 'covariances' has not the elements or type");
  expectError(with([](fb::ProgramT &program) {
                for (auto &entry : program.classes[0]->entries)
                  for (auto &input : entry->inputs)
                    if (input->role == "row_weights")
                      input->role = "column_weights";
              }),
              "of 'column_weights'; nothing of the kind is given");
}

TEST(EstimationError, OneErrorOnAllRanks) {
  CompileSettings settings;
  settings.plan = "dp_replicate=2";
  settings.blockRows = 1;
  // Only the second rank sees it.
  FitResult result =
      fit(programOf(oneGaussian, settings), column({1, NAN}), {});
  expectError(result.status, "row 1, column 0");
  EXPECT_TRUE(result.shared);
}

TEST(EstimationError, RowsOfWeightZeroAreNotThere) {
  FitSettings settings;
  settings.iterations = 2;
  FitResult plain = fit(programOf(oneGaussian), column({1, 2, 4}), settings);
  FitResult padded =
      fit(programOf(oneGaussian), with({1e300, 1, 2, -1e300, 4}, {0, 1, 1, 0, 1}),
          settings);
  ASSERT_TRUE(padded.status.ok()) << padded.status.message();
  EXPECT_EQ(plain.trace[1], padded.trace[1]);
  EXPECT_EQ(plain.models[1].means, padded.models[1].means);
  EXPECT_EQ(plain.models[1].covariances, padded.models[1].covariances);
}

TEST(EstimationError, AStartNeedsAsManyRowsAsComponents) {
  Data data;
  data.rows = 1;
  data.columns = 2;
  data.values = {1, 2};
  expectError(fit(programOf(twoByTwo), data, {}).status,
              "2 components need at least as many rows");
}

TEST(EstimationError, ParametersAreChecked) {
  Data data;
  data.rows = 2;
  data.columns = 2;
  data.values = {1, 2, 3, 4};
  auto start = [&](MixtureValues values) {
    FitSettings settings;
    settings.start = std::move(values);
    return fit(programOf(twoByTwo), data, settings).status;
  };
  const std::vector<double> w = {0.5, 0.5}, m = {1, 2, 3, 4}, c = {1, 1, 1, 1};
  EXPECT_TRUE(start({w, m, c}).ok());
  expectError(start({{1}, m, c}), "weights: 1 numbers; expected the shape [2]");
  expectError(start({{0.5, 0.6}, m, c}), "sum to 1.1");
  expectError(start({{-0.5, 1.5}, m, c}), "component 0 is -0.5");
  expectError(start({w, {1, 2, 3, NAN}, c}), "means: element 3 is nan");
  expectError(start({w, m, {1, 1, 0, 1}}),
              "covariances: component 1: a variance is not");
}

class Files : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/mixle-estimation-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(name));
    folder = name;
  }
  void TearDown() override {
    for (const std::string &file : made)
      unlink(file.c_str());
    rmdir(folder.c_str());
  }
  std::string path(const std::string &name) {
    made.push_back(folder + "/" + name);
    return made.back();
  }
  std::string text(const std::string &name, const std::string &content) {
    std::string file = path(name);
    std::ofstream(file) << content;
    return file;
  }
  std::string folder;
  std::vector<std::string> made;
};

TEST_F(Files, RowsAreReadAndChecked) {
  auto good = openRows(text("good.csv", "a,b\n1,2\n3,4\n"), 2, 1);
  ASSERT_TRUE(good.ok()) << good.status().message();
  double row[2];
  (*good)->read(1, 1, row);
  EXPECT_EQ(3.0, row[0]);
  EXPECT_EQ(2, (*good)->rows());
  expectError(openRows(text("nan.csv", "1,2\n3,nan\n"), 2, 1).status(),
              "row 1, column 1 (from 0) is nan");
  expectError(openRows(text("wide.csv", "1,2,3\n"), 2, 1).status(),
              "3 column(s); the estimator's dim is 2");
  expectError(openRows(text("empty.csv", ""), 2, 1).status(), "empty.csv");
  expectError(openRows(folder + "/absent.npy", 2, 1).status(), "absent.npy");

  std::string npy = path("rows.npy");
  const float values[] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(writeNpy(npy, NpyType::F4, {3, 2}, values).ok());
  auto mapped = openRows(npy, 2, 2);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  (*mapped)->read(2, 1, row);
  EXPECT_EQ(6.0, row[1]);
  std::string none = path("none.npy");
  ASSERT_TRUE(writeNpy(none, NpyType::F4, {0, 2}, values).ok());
  EXPECT_FALSE(openRows(none, 2, 2).ok());
}

TEST_F(Files, WeightsOfRowsAreReadAndChecked) {
  std::string good = path("w.npy"), bad = path("bad.npy");
  const double values[] = {1, 0, 2.5}, negative[] = {1, -1, 1};
  ASSERT_TRUE(writeNpy(good, NpyType::F8, {3}, values).ok());
  ASSERT_TRUE(writeNpy(bad, NpyType::F8, {3, 1}, negative).ok());
  auto weights = readRowWeights(good, 3);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(2.5, (*weights)[2]);
  expectError(readRowWeights(good, 4).status(), "3 weights for 4 rows");
  expectError(readRowWeights(bad, 3).status(), "row 1 (from 0) is -1");
}

/// Loads a file into a session of one rank.
Status load(const std::string &file, MixtureValues *values = nullptr,
            const std::string &save = {}) {
  Program program = programOf(twoByTwo);
  return runOnThreads(1, [&](int, Communicator &communicator) {
    MIXLE_ASSIGN_OR_RETURN(auto session,
                           EstimationSession::create(program, communicator));
    MIXLE_RETURN_IF_ERROR(session->loadWeights(file));
    if (values) {
      MIXLE_ASSIGN_OR_RETURN(*values, session->parameters());
    }
    return save.empty() ? Status::success() : session->saveWeights(save);
  });
}

TEST_F(Files, ParametersGoOutAndComeBack) {
  const std::vector<double> w = {0.25, 0.75}, m = {1, 2, 3, 4}, c = {1, 2, 3, 4};
  auto view = [](const char *name, std::vector<int64_t> shape,
                 const std::vector<double> &data) {
    return TensorView{name, TensorType::F64, std::move(shape),
                      reinterpret_cast<const uint8_t *>(data.data()),
                      data.size() * sizeof(double)};
  };
  auto write = [&](const std::string &name, std::vector<TensorView> views) {
    std::string file = path(name);
    EXPECT_TRUE(writeSafetensors(file, views).ok());
    return file;
  };
  const TensorView weights = view("weights", {2}, w), means = view("means", {2, 2}, m),
                   covariances = view("covariances", {2, 2}, c);
  std::string good = write("good.safetensors", {weights, means, covariances});
  std::string copy = path("copy.safetensors");
  MixtureValues values;
  Status status = load(good, &values, copy);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(w, values.weights);
  EXPECT_EQ(m, values.means);
  EXPECT_EQ(c, values.covariances);
  MixtureValues again;
  ASSERT_TRUE(load(copy, &again).ok());
  EXPECT_EQ(c, again.covariances);

  expectError(load(write("a", {weights, means})), "no tensor 'covariances'");
  expectError(load(write("b", {weights, means, covariances, view("bias", {2}, w)})),
              "tensor 'bias' is no part of a mixture");
  expectError(load(write("c", {weights, view("means", {4}, m), covariances})),
              "has the shape [4]; the estimator's is [2, 2]");
  const std::vector<double> infinite = {1, 2, 3, INFINITY};
  expectError(load(write("d", {weights, view("means", {2, 2}, infinite), covariances})),
              "means: element 3 is inf");
  std::vector<TensorView> integers = {weights, means, covariances};
  integers[1].type = TensorType::I64;
  expectError(load(write("e", integers)), "means");
  expectError(load(folder + "/absent"), "absent");
}

} // namespace
