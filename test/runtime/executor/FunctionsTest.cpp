//===- FunctionsTest.cpp - Every library function, by small examples ------===//
//
// The kernels have tests of their own; here is how calls reach them: the order
// of arguments, strides, halves of buffers, what is touched.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Functions.h"
#include "runtime/kernels/ExactSum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace mixle::runtime;

namespace {

constexpr int32_t unset = std::numeric_limits<int32_t>::min();

/// Calls a function on vectors; each must have exactly the elements touched.
class Call {
public:
  explicit Call(const std::string &name)
      : name(name), function(findFunction(name)) {
    rank.program = &program;
    EXPECT_NE(function, nullptr) << name;
  }

  template <typename T> Call &on(std::vector<T> &buffer) {
    buffers.push_back(buffer.data());
    elements.push_back(static_cast<int64_t>(buffer.size()));
    return *this;
  }
  Call &with(std::vector<int64_t> values) {
    scalars = std::move(values);
    return *this;
  }
  Call &floating(std::vector<double> values) {
    floats = std::move(values);
    return *this;
  }
  Call &text(const std::string &value) {
    words = value;
    return *this;
  }

  void run(bool exactSizes = true) {
    ASSERT_EQ(function->buffers.size(), buffers.size()) << name;
    ASSERT_EQ(function->scalars.size(), scalars.size()) << name;
    ASSERT_EQ(function->floats.size(), floats.size()) << name;
    std::vector<Extent> touched;
    CallArguments arguments{&program, scalars.data(), &floats, &words};
    Status status = checkCall(*function, arguments, touched);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; exactSizes && i < buffers.size(); ++i)
      EXPECT_EQ(touched[i].count(), elements[i])
          << name << " argument " << function->buffers[i].name;
    status = function->execute(FunctionCall{buffers.data(), elements.data(),
                                            scalars.data(), floats.data(),
                                            words, rank});
    ASSERT_TRUE(status.ok()) << status.message();
  }

  fb::ProgramT program;
  RankContext rank;

private:
  std::string name;
  const LibraryFunction *function;
  std::vector<void *> buffers;
  std::vector<int64_t> elements, scalars;
  std::vector<double> floats;
  std::string words;
};

TEST(Functions, theTableIsWhole) {
  std::vector<std::string> expected;
  for (const char *base :
       {"accumulate_dot", "accumulate_rows", "accumulate_scatter", "attention",
        "attention_grad", "combine_granules", "dot_tree", "embedding",
        "grouped_attention", "grouped_attention_grad", "exact_sum", "exact_sum_squares", "initialize_parameter", "resolve",
        "select_label"})
    for (const char *suffix : {"_f32", "_f64"})
      expected.push_back(std::string(base) + suffix);
  for (const char *name :
       {"advance", "clip_coefficient", "count_labels", "decide_units",
        "flag_finite", "flag_positive", "flag_zero", "initialize_units",
        "round_exact", "schedule"})
    expected.push_back(name);
  for (const std::string &name : expected)
    EXPECT_NE(findFunction(name), nullptr) << name;
  EXPECT_EQ(findFunction("dot_tree"), nullptr);
  EXPECT_EQ(findFunction(""), nullptr);
  for (const LibraryFunction *function : allFunctions()) {
    EXPECT_EQ(findFunction(function->name), function);
    bool writes = false;
    for (const auto &buffer : function->buffers)
      writes |= buffer.written;
    EXPECT_TRUE(writes) << function->name << " has no effect";
  }
}

TEST(Functions, extentsSaturate) {
  Extent big(std::numeric_limits<int64_t>::max() / 2);
  EXPECT_FALSE(big.saturated());
  EXPECT_TRUE((big * 3).saturated());
  EXPECT_TRUE((big + big + big).saturated());
  EXPECT_EQ((Extent(6) * 7).count(), 42);
  EXPECT_EQ((big * 3 * 0).count(), 0);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// c = a b with small integers, so that every order gives the same.
template <typename T>
void dotTree(bool transposeB, int64_t segments, int64_t length,
             int64_t stride) {
  const int64_t M = 3, N = 2, inner = 2;
  const int64_t K = segments * stride * inner;
  std::vector<T> a(M * K), b(K * N), c(M * N), expected(M * N);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<T>(static_cast<int>(i * 7 % 5) - 2);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<T>(static_cast<int>(i * 5 % 7) - 3);
  for (int64_t s = 0; s < segments; ++s)
    for (int64_t h = 0; h < stride; ++h)
      for (int64_t j = 0; j < inner; ++j) {
        int64_t k = (s * stride + h) * inner + j;
        for (int64_t m = 0; m < M; ++m) {
          // What lies in the padding must not be read.
          if (h >= length)
            a[m * K + k] = std::numeric_limits<T>::quiet_NaN();
          for (int64_t n = 0; h < length && n < N; ++n)
            expected[m * N + n] +=
                a[m * K + k] * (transposeB ? b[n * K + k] : b[k * N + n]);
        }
      }
  Call(std::string("dot_tree") + (sizeof(T) == 4 ? "_f32" : "_f64"))
      .on(a)
      .on(b)
      .on(c)
      .with({M, N, segments, length, stride, inner, 4, 2, 0, 4, transposeB})
      .run();
  EXPECT_EQ(c, expected) << transposeB << " " << segments << " " << length;
}

TEST(Functions, dotTree) {
  for (bool transposeB : {false, true})
    for (int64_t segments : {1, 3})
      for (int64_t length : {8, 7, 3, 0}) {
        dotTree<float>(transposeB, segments, length, 8);
        dotTree<double>(transposeB, segments, length, 8);
      }
}

TEST(Functions, dotTreeWritesOnePartialForEachSubtree) {
  // 3 of 4 granules of one: subtrees 0-1 and 2.
  std::vector<float> a = {1, 10, 100}, b = {2, 3, 4}, c(2, -1);
  Call("dot_tree_f32")
      .on(a)
      .on(b)
      .on(c)
      .with({1, 1, 1, 3, 3, 1, 4, 1, 0, 3, 0})
      .run();
  EXPECT_EQ(c, (std::vector<float>{32, 400}));
}

TEST(Functions, combineGranules) {
  // Columns 0-2 of four granules in rows of 4, the last column being padding.
  std::vector<float> sums = {1, 2, 4, 99, 10, 20, 40, 99}, out(4);
  Call("combine_granules_f32").on(sums).on(out).with({2, 4, 4, 0, 3}).run();
  EXPECT_EQ(out, (std::vector<float>{3, 30, 4, 40}));
  // All of them: ((1e8 + 1) + (-1e8 + 1)) in the tree's order.
  std::vector<float> row = {1e8f, 1, -1e8f, 1}, sum(1);
  Call("combine_granules_f32").on(row).on(sum).with({1, 4, 4, 0, 4}).run();
  EXPECT_EQ(sum[0], (1e8f + 1) + (-1e8f + 1));
}

TEST(Functions, groupedAttentionGoesToItsKernel) {
  // One token, one group of two queries: both outputs are the value, whose
  // gradient is the sum of theirs.
  std::vector<float> qkv = {1, 2, 3, 4, 5, 6, 7, 8}, out(4), normalizer(2);
  std::vector<int32_t> reference(2);
  Call("grouped_attention_f32")
      .on(qkv)
      .on(out)
      .on(reference)
      .on(normalizer)
      .with({1, 1, 1, 2, 2, 1, 1})
      .floating({0.5})
      .run();
  EXPECT_EQ(out, (std::vector<float>{7, 8, 7, 8}));
  std::vector<float> dout = {1, 2, 10, 20}, dqkv(8, -1);
  Call("grouped_attention_grad_f32")
      .on(qkv)
      .on(out)
      .on(reference)
      .on(normalizer)
      .on(dout)
      .on(dqkv)
      .with({1, 1, 1, 2, 2, 1, 1})
      .floating({0.5})
      .run();
  EXPECT_EQ(dqkv, (std::vector<float>{0, 0, 0, 0, 0, 0, 11, 22}));
}

TEST(Functions, attentionGoesToItsKernel) {
  // One token sees itself: the output is v, and the weight is 1.
  std::vector<float> qkv = {1, 2, 3, 4, 5, 6}, out(2), normalizer(1);
  std::vector<int32_t> reference(1);
  Call("attention_f32")
      .on(qkv)
      .on(out)
      .on(reference)
      .on(normalizer)
      .with({1, 1, 1, 2, 1, 1})
      .floating({0.5})
      .run();
  EXPECT_EQ(out, (std::vector<float>{5, 6}));
  std::vector<float> dout = {7, 8}, dqkv(6, -1);
  Call("attention_grad_f32")
      .on(qkv)
      .on(out)
      .on(reference)
      .on(normalizer)
      .on(dout)
      .on(dqkv)
      .with({1, 1, 1, 2, 1, 1})
      .floating({0.5})
      .run();
  // A weight of 1 has no slope: only v gets a gradient.
  EXPECT_EQ(dqkv, (std::vector<float>{0, 0, 0, 0, 7, 8}));
  std::vector<float> none;
  std::vector<int32_t> noReference;
  Call("attention_f32")
      .on(none)
      .on(none)
      .on(noReference)
      .on(none)
      .with({0, 4, 2, 8, 1, 1})
      .floating({1})
      .run();
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

TEST(Functions, embeddingAndLabelsOfTheirOwner) {
  std::vector<float> table = {1, 2, 3, 4}, out(6, -1);
  std::vector<int32_t> ids = {5, 6, 9};
  Call("embedding_f32").on(table).on(ids).on(out).with({3, 2, 5, 2}).run();
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4, 0, 0}));

  // Columns 10 and 11 of the vocabulary are here, the third is padding.
  std::vector<double> logits = {1, 2, 99, 3, 4, 99, 5, 6, 99}, picked(3, -1);
  std::vector<int32_t> labels = {11, 12, -100};
  Call("select_label_f64")
      .on(logits)
      .on(labels)
      .on(picked)
      .with({3, 3, 10, 2})
      .run();
  EXPECT_EQ(picked, (std::vector<double>{2, 0, 0}));

  std::vector<int64_t> count = {5};
  Call("count_labels").on(count).on(labels).with({3, -100}).run();
  EXPECT_EQ(count[0], 7);
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

TEST(Functions, accumulateAndResolveInOneLimb) {
  // The unit is 2^-10; one window of two blocks of x^T y.
  std::vector<int64_t> acc(4), count = {2};
  std::vector<float> x = {1, 2, 3, 4}, y = {1, 0, 0, 1}, out(4);
  std::vector<int32_t> units = {unset, -10};
  std::vector<uint64_t> amax(2);
  Call("accumulate_dot_f32")
      .on(acc)
      .on(x)
      .on(y)
      .on(units)
      .on(amax)
      .with({1, 2, 1, 2, 2, 1})
      .run();
  EXPECT_EQ(acc, (std::vector<int64_t>{1024, 3072, 2048, 4096}));
  EXPECT_EQ(amax[0], 0u);
  float largest = 4;
  uint32_t bits;
  std::memcpy(&bits, &largest, sizeof(bits));
  EXPECT_EQ(amax[1], bits);
  Call("resolve_f32").on(acc).on(units).on(count).on(out).with({4, 1}).run();
  EXPECT_EQ(out, (std::vector<float>{0.5, 1.5, 1, 2}));
  count[0] = 0;
  Call("resolve_f32").on(acc).on(units).on(count).on(out).with({4, 1}).run();
  EXPECT_EQ(out, std::vector<float>(4)) << "0 when nothing counts";
}

TEST(Functions, twoLimbsAreTheHalvesOfTheBuffer) {
  // 1 + 2^-20 in units of 2^-10: 1024 whole, 2^-10 units of 2^-32 left over.
  std::vector<int64_t> acc(8), count = {1};
  std::vector<double> x = {1 + 0x1p-20, 2}, out(2);
  std::vector<int32_t> units = {-10};
  std::vector<uint64_t> amax(1);
  // A buffer larger than is touched: the low limbs stay in its second half.
  Call("accumulate_rows_f64")
      .on(acc)
      .on(x)
      .on(units)
      .on(amax)
      .with({1, 2, 0})
      .run(false);
  EXPECT_EQ(
      acc, (std::vector<int64_t>{1024, 2048, 0, 0, int64_t(1) << 22, 0, 0, 0}));
  Call("resolve_f64")
      .on(acc)
      .on(units)
      .on(count)
      .on(out)
      .with({2, 0})
      .run(false);
  EXPECT_EQ(out, x);
}

TEST(Functions, accumulateScatter) {
  std::vector<int64_t> acc(4);
  std::vector<int32_t> ids = {4, 3, 4, 9}, units = {0};
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint64_t> amax(1);
  Call("accumulate_scatter_f32")
      .on(acc)
      .on(ids)
      .on(x)
      .on(units)
      .on(amax)
      .with({4, 2, 3, 2, 0})
      .run();
  EXPECT_EQ(acc, (std::vector<int64_t>{3, 4, 6, 8}));
}

TEST(Functions, decideUnits) {
  Call call("decide_units");
  for (int i = 0; i < 3; ++i) {
    auto parameter = std::make_unique<fb::ParameterT>();
    parameter->logical_id = std::string(1, static_cast<char>('a' + i));
    parameter->unit_index = 2 - i; // another order than the parameters'
    parameter->max_blocks = 4;
    parameter->one_token_blocks = true;
    call.program.parameters.push_back(std::move(parameter));
  }
  // "c" has unit 0: unset; "b" unit 1: fits; "a" unit 2: nothing was added.
  float one = 1;
  uint32_t bits;
  std::memcpy(&bits, &one, sizeof(bits));
  std::vector<int32_t> units = {unset, -40, unset}, rerun(1), finite(1);
  std::vector<uint64_t> amax = {bits, bits, 0};
  call.on(units).on(amax).on(rerun).on(finite).with({3}).run();
  EXPECT_EQ(rerun[0], 1);
  EXPECT_EQ(finite[0], 1);
  // 4 blocks of at most 1 with a margin of 2^8 in 2^62 units: 2^(2 + 8 - 62).
  EXPECT_EQ(units, (std::vector<int32_t>{-52, -40, unset}));

  // A parameter that is not finite keeps all units and is named.
  units = {unset, -40, -3};
  amax = {bits, 0x7f800000, 0x7fc00000};
  Call second("decide_units");
  second.program = fb::ProgramT(call.program);
  second.on(units).on(amax).on(rerun).on(finite).with({3}).run();
  EXPECT_EQ(rerun[0], 0);
  EXPECT_EQ(finite[0], 0);
  EXPECT_EQ(units, (std::vector<int32_t>{unset, -40, -3}));
  EXPECT_EQ(second.rank.detail, "the gradient of parameter 'a' is not finite");
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

TEST(Functions, exactSums) {
  std::vector<int64_t> limbs(ExactSum::limbCount);
  std::vector<float> x = {1e30f, 1, -1e30f};
  std::vector<double> out(1);
  Call("exact_sum_f32").on(limbs).on(x).with({3}).run();
  Call("round_exact").on(limbs).on(out).run();
  EXPECT_EQ(out[0], 1);
  std::vector<double> y = {0.5};
  Call("exact_sum_f64").on(limbs).on(y).with({1}).run();
  Call("round_exact").on(limbs).on(out).run();
  EXPECT_EQ(out[0], 1.5);
}

// B016: squares that single precision cannot hold.
TEST(Functions, clipCoefficient) {
  std::vector<int64_t> limbs(ExactSum::limbCount);
  std::vector<float> x(128, 1e19f);
  std::vector<double> coefficient(1), norm(1);
  Call("exact_sum_squares_f32").on(limbs).on(x).with({128}).run();
  auto clip = [&](double maxNorm) {
    Call("clip_coefficient")
        .on(limbs)
        .on(coefficient)
        .on(norm)
        .floating({maxNorm})
        .run();
    return coefficient[0];
  };
  EXPECT_NEAR(clip(2) * 1e19, 0.1767767, 1e-6);
  EXPECT_NEAR(norm[0], 1.131371e20, 1e15);
  EXPECT_EQ(clip(0), 1) << "no clipping";
  EXPECT_EQ(clip(1e30), 1);
}

TEST(Functions, scheduleIsOfTheStepThatFollows) {
  std::vector<int64_t> step = {1};
  std::vector<double> rate(1), c1(1), c2(1);
  Call("schedule")
      .on(step)
      .on(rate)
      .on(c1)
      .on(c2)
      .floating({0.1, 0.9, 0.5})
      .text("linear,warmup=4,total=8")
      .run();
  EXPECT_EQ(rate[0], 0.1 * 0.5);
  EXPECT_NEAR(c1[0], 1 - 0.81, 1e-15);
  EXPECT_EQ(c2[0], 0.75);
  Call("advance").on(step).run();
  EXPECT_EQ(step[0], 2);
}

/// The message of a call's own check, "" where it passes.
static std::string refusal(const std::string &name, std::vector<int64_t> scalars,
                           const std::string &text = "") {
  fb::ProgramT program;
  std::vector<double> floats;
  std::vector<Extent> touched;
  CallArguments arguments{&program, scalars.data(), &floats, &text};
  return checkCall(*findFunction(name), arguments, touched).message();
}

// Lists of a specification are of the whole mixture; `first` says where a rank's
// components begin.
TEST(Functions, mixtureStepOfSomeComponents) {
  const std::string rules =
      R"({"family": "gaussian_mixture", "dim": 1, "components": 3,
          "covariance": "diag", "regularization": {"kind": "absolute", "value": 0},)";
  const std::string fixed = rules + R"("fixed_weights": [0.5, 0.2, 0.3]})";
  const std::string priors =
      rules + R"("pseudo_count": {"weights": 10},
                 "prior_statistics": {"weights": [0.5, 0.2, 0.3]}})";
  // Two components of this rank, from the second on: 2 rows at -1 and 1 each, of
  // 6 in all.
  std::vector<double> statistics = {2, 0, 2, 2, 0, 2}, total = {6}, anchor = {0},
                      scale = {1}, weights(2), means(2), covariances(2),
                      newWeights(2), newMeans(2), newCovariances(2);
  auto step = [&](const std::string &text, int64_t owned, int64_t first) {
    Call("mixture_step_f64")
        .on(statistics)
        .on(total)
        .on(anchor)
        .on(scale)
        .on(weights)
        .on(means)
        .on(covariances)
        .on(newWeights)
        .on(newMeans)
        .on(newCovariances)
        .with({2, owned, first})
        .text(text)
        .run();
    return newWeights;
  };
  EXPECT_EQ(step(fixed, 2, 1), (std::vector<double>{0.2, 0.3}));
  EXPECT_EQ(step(priors, 2, 1),
            (std::vector<double>{(2 + 10 * 0.2) / 16, (2 + 10 * 0.3) / 16}));
  EXPECT_EQ(newCovariances, (std::vector<double>{1, 1}));
  // The last rank has one and padding, one beyond it none; padding stays.
  weights = {7, 7};
  EXPECT_EQ(step(fixed, 1, 2), (std::vector<double>{0.3, 7}));
  EXPECT_EQ(step(fixed, 0, 4), (std::vector<double>{7, 7}));
  EXPECT_EQ(refusal("mixture_step_f64", {2, 2, 2}, fixed),
            "components 2 to 4 of a mixture of 3");
  EXPECT_EQ(refusal("mixture_step_f64", {4, 4, 0}, fixed),
            "components 0 to 4 of a mixture of 3");
  EXPECT_EQ(refusal("mixture_step_f64", {1, 2, 0}, fixed),
            "2 owned components of 1");
  EXPECT_NE(refusal("mixture_step_f64", {2, 2, 1}, "{"), "");
}

TEST(Functions, mixtureStatusCountsFromTheEndOfAll) {
  std::vector<double> covariances = {1, -1, -1};
  std::vector<int64_t> status(1);
  auto of = [&](int64_t owned, int64_t first) {
    Call("mixture_status_f64")
        .on(covariances)
        .on(status)
        .with({3, owned, first, 5, 1, 0})
        .run();
    return status[0];
  };
  EXPECT_EQ(of(3, 0), 4);
  EXPECT_EQ(of(2, 3), 1); // the last of all
  EXPECT_EQ(of(1, 0), 0); // padding is not judged
  EXPECT_EQ(of(0, 6), 0);
  // A bad covariance beyond the end would read as a good one.
  EXPECT_EQ(refusal("mixture_status_f64", {3, 3, 4, 5, 1, 0}),
            "components 4 to 7 of a mixture of 5");
}

TEST(Functions, flagsForACommit) {
  std::vector<int32_t> flag(1);
  for (int64_t count : {0, 1, 7}) {
    std::vector<int64_t> value = {count};
    flag[0] = -1;
    Call("flag_positive").on(value).on(flag).run();
    EXPECT_EQ(flag[0], count > 0);
  }
  for (double norm : {0.0, 2.0, HUGE_VAL, -HUGE_VAL, double(NAN)}) {
    std::vector<double> value = {norm};
    flag[0] = -1;
    Call("flag_finite").on(value).on(flag).run();
    EXPECT_EQ(flag[0], std::isfinite(norm));
  }
}

TEST(Functions, parametersStartFromTheirInitialisation) {
  Call call("initialize_parameter_f32");
  call.program.parameters.push_back(std::make_unique<fb::ParameterT>());
  fb::ParameterT &p = *call.program.parameters[0];
  p.logical_id = "w";
  p.shape = p.file_shape = {3, 2};
  p.shard_dim = 0;
  p.shard_axis = fb::Axis::Tp;
  p.shard_size = 2;
  p.init = fb::InitKind::Constant;
  p.init_a = 1.5;
  call.rank.plan.tp = 2;
  call.rank.coordinate =
      *attestWorkerCoordinate(call.rank.plan, 2, 1); // owns the third row
  std::vector<float> held(4, NAN);
  call.on(held).with({0}).run();
  EXPECT_EQ(held, (std::vector<float>{1.5, 1.5, 0, 0})) << "padding is zero";
  p.init = fb::InitKind::Uniform;
  p.init_a = 2;
  p.init_b = 3;
  call.run();
  EXPECT_GE(held[0], 2);
  EXPECT_LT(held[0], 3);
  EXPECT_NE(held[0], held[1]);
  EXPECT_EQ(held[2], 0);

  std::vector<int32_t> units(2);
  Call("initialize_units").on(units).with({2}).run();
  EXPECT_EQ(units, (std::vector<int32_t>{unset, unset}));
}

} // namespace
