//===- RowOpsTest.cpp - Kernels over the last dimension -------------------===//

#include "KernelLibrary.h"
#include "Reference.h"

using namespace mixle::test;
namespace math = mixle::math;

namespace {

const int64_t kSizes[] = {1, 3, 15, 16, 17, 33, 257};

template <typename T> class RowOps : public testing::Test {
protected:
  static std::string tensor(std::initializer_list<int64_t> shape) {
    std::string text = "tensor<?x";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + typeName<T>() + ">";
  }
  static std::string vector(int64_t size) {
    return "tensor<" + std::to_string(size) + "x" + typeName<T>() + ">";
  }
  /// Replaces $x (rows x columns), $r (rows), $g (columns).
  static std::string kernel(std::string text, int64_t size) {
    auto replace = [&](const std::string &from, const std::string &to) {
      for (size_t at; (at = text.find(from)) != std::string::npos;)
        text.replace(at, from.size(), to);
    };
    replace("$x", tensor({size}));
    replace("$r", std::string("tensor<?x") + typeName<T>() + ">");
    replace("$g", vector(size));
    replace("$n", std::to_string(size));
    return text;
  }
  static std::string everySize(const std::string &text) {
    std::string all;
    for (int64_t size : kSizes)
      all += kernel(text, size);
    return all;
  }
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(RowOps, Floats);

TYPED_TEST(RowOps, LayerNormAndItsGradient) {
  using T = TypeParam;
  auto library = compileOrFail(this->everySize(
      "exec.kernel @norm$n(%x: $x, %gain: $g, %bias: $g) -> ($x, $r, $r) {\n"
      "  %y, %m, %s = mixle.layer_norm %x, %gain, %bias eps = 1.0e-5 : ($x, $g, "
      "$g) -> ($x, $r, $r)\n  exec.yield %y, %m, %s : $x, $r, $r\n}\n"
      "exec.kernel @grad$n(%x: $x, %gain: $g, %m: $r, %s: $r, %dy: $x) -> ($x, "
      "$x) {\n  %dx, %t = mixle.layer_norm_grad %x, %gain, %m, %s, %dy : ($x, "
      "$g, $r, $r, $x) -> ($x, $x)\n  exec.yield %dx, %t : $x, $x\n}\n"));
  ASSERT_TRUE(library);
  for (int64_t size : kSizes)
    for (int64_t rows : {0, 1, 5}) {
      size_t n = rows * size;
      auto x = plainNumbers<T>(n, 1), dy = plainNumbers<T>(n, 2);
      auto gain = plainNumbers<T>(size, 3), bias = plainNumbers<T>(size, 4);
      std::vector<T> y, mean, rstd, dx, terms;
      T d = static_cast<T>(size);
      for (int64_t row = 0; row < rows; ++row) {
        const T *xr = &x[row * size], *dyr = &dy[row * size];
        LaneSum<T> sum, squares, first, second;
        for (int64_t j = 0; j < size; ++j)
          sum.add(xr[j]);
        T m = sum.total() / d;
        for (int64_t j = 0; j < size; ++j)
          squares.addProduct(xr[j] - m, xr[j] - m);
        T s = T(1) / std::sqrt(squares.total() / d + static_cast<T>(1e-5));
        mean.push_back(m);
        rstd.push_back(s);
        for (int64_t j = 0; j < size; ++j) {
          y.push_back(std::fma((xr[j] - m) * s, gain[j], bias[j]));
          first.add(dyr[j] * gain[j]);
          second.addProduct(dyr[j] * gain[j], (xr[j] - m) * s);
        }
        T a = first.total() / d, b = second.total() / d;
        for (int64_t j = 0; j < size; ++j) {
          T hat = (xr[j] - m) * s;
          dx.push_back(s * std::fma(-hat, b, dyr[j] * gain[j] - a));
          terms.push_back(dyr[j] * hat);
        }
      }
      std::string what = std::to_string(size) + " columns";
      Output<T> out(n), outMean(rows), outRstd(rows), outDx(n), outTerms(n);
      library->call("norm" + std::to_string(size),
                    {x.data(), gain.data(), bias.data(), out.data(),
                     outMean.data(), outRstd.data()},
                    {rows});
      expectSame(outMean.values(), mean, "mean of " + what);
      expectSame(outRstd.values(), rstd, "rstd of " + what);
      expectSame(out.values(), y, what);
      library->call("grad" + std::to_string(size),
                    {x.data(), gain.data(), mean.data(), rstd.data(), dy.data(),
                     outDx.data(), outTerms.data()},
                    {rows});
      expectSame(outDx.values(), dx, "dx of " + what);
      expectSame(outTerms.values(), terms, "terms of " + what);
    }
}

TYPED_TEST(RowOps, RmsNormAndItsGradient) {
  using T = TypeParam;
  auto library = compileOrFail(this->everySize(
      "exec.kernel @norm$n(%x: $x, %gain: $g) -> ($x, $r) {\n"
      "  %y, %s = mixle.rms_norm %x, %gain eps = 1.0e-6 : ($x, $g) -> ($x, $r)\n"
      "  exec.yield %y, %s : $x, $r\n}\n"
      "exec.kernel @grad$n(%x: $x, %gain: $g, %s: $r, %dy: $x) -> ($x, $x) {\n"
      "  %dx, %t = mixle.rms_norm_grad %x, %gain, %s, %dy : ($x, $g, $r, $x) -> "
      "($x, $x)\n  exec.yield %dx, %t : $x, $x\n}\n"));
  ASSERT_TRUE(library);
  for (int64_t size : kSizes)
    for (int64_t rows : {0, 1, 5}) {
      size_t n = rows * size;
      auto x = plainNumbers<T>(n, 1), dy = plainNumbers<T>(n, 2);
      auto gain = plainNumbers<T>(size, 3);
      std::vector<T> y, rstd, dx, terms;
      T d = static_cast<T>(size);
      for (int64_t row = 0; row < rows; ++row) {
        const T *xr = &x[row * size], *dyr = &dy[row * size];
        LaneSum<T> squares, sum;
        for (int64_t j = 0; j < size; ++j)
          squares.addProduct(xr[j], xr[j]);
        T s = T(1) / std::sqrt(squares.total() / d + static_cast<T>(1e-6));
        rstd.push_back(s);
        for (int64_t j = 0; j < size; ++j) {
          y.push_back((xr[j] * s) * gain[j]);
          sum.addProduct(dyr[j] * gain[j], xr[j] * s);
        }
        T b = sum.total() / d;
        for (int64_t j = 0; j < size; ++j) {
          dx.push_back(s * std::fma(-(xr[j] * s), b, dyr[j] * gain[j]));
          terms.push_back(dyr[j] * (xr[j] * s));
        }
      }
      std::string what = std::to_string(size) + " columns";
      Output<T> out(n), outRstd(rows), outDx(n), outTerms(n);
      library->call(
          "norm" + std::to_string(size),
          {x.data(), gain.data(), out.data(), outRstd.data()}, {rows});
      expectSame(outRstd.values(), rstd, "rstd of " + what);
      expectSame(out.values(), y, what);
      library->call("grad" + std::to_string(size),
                    {x.data(), gain.data(), rstd.data(), dy.data(),
                     outDx.data(), outTerms.data()},
                    {rows});
      expectSame(outDx.values(), dx, "dx of " + what);
      expectSame(outTerms.values(), terms, "terms of " + what);
    }
}

TYPED_TEST(RowOps, ReduceLastDimension) {
  using T = TypeParam;
  auto library = compileOrFail(this->everySize(
      "exec.kernel @k$n(%x: $x) -> ($r, $r, $x) {\n"
      "  %s = mixle.reduce \"sum\" %x dims = [1] : $x -> $r\n"
      "  %m = mixle.reduce \"max\" %x dims = [1] : $x -> $r\n"
      "  %b = mixle.broadcast %m like %x dims = [0] : $r, $x -> $x\n"
      "  %d = mixle.sub %x, %b : $x\n"
      "  exec.yield %s, %m, %d : $r, $r, $x\n}\n"));
  ASSERT_TRUE(library);
  for (int64_t size : kSizes)
    for (int64_t rows : {0, 1, 5}) {
      size_t n = rows * size;
      auto x = plainNumbers<T>(n, 1);
      for (size_t i = 0; i < n; i += 7) // lanes may hold -0 alone
        x[i] = T(-0.0);
      std::vector<T> sum, highest, difference;
      for (int64_t row = 0; row < rows; ++row) {
        LaneSum<T> total;
        T m = -std::numeric_limits<T>::infinity();
        for (int64_t j = 0; j < size; ++j) {
          total.add(x[row * size + j]);
          m = maximum(m, x[row * size + j]);
        }
        sum.push_back(total.total());
        highest.push_back(m);
        for (int64_t j = 0; j < size; ++j)
          difference.push_back(x[row * size + j] - m);
      }
      std::string what = std::to_string(size) + " columns";
      Output<T> outSum(rows), outMax(rows), out(n);
      library->call("k" + std::to_string(size),
                    {x.data(), outSum.data(), outMax.data(), out.data()},
                    {rows});
      expectSame(outSum.values(), sum, "sum of " + what);
      expectSame(outMax.values(), highest, "max of " + what);
      expectSame(out.values(), difference, what);
    }
}

TYPED_TEST(RowOps, MaximumOfNaNIsNaN) {
  using T = TypeParam;
  auto library = compileOrFail(this->kernel(
      "exec.kernel @k(%x: $x) -> $r {\n"
      "  %m = mixle.row_max %x : ($x) -> $r\n  exec.yield %m : $r\n}\n",
      37));
  ASSERT_TRUE(library);
  for (int at = 0; at < 37; ++at) {
    auto x = plainNumbers<T>(37, at);
    x[at] = std::numeric_limits<T>::quiet_NaN();
    Output<T> out(1);
    library->call("k", {x.data(), out.data()}, {1, 37, 0});
    EXPECT_TRUE(std::isnan(out.values()[0])) << at;
    // A NaN in a column that is padding does not count.
    library->call("k", {x.data(), out.data()}, {1, at, 0});
    EXPECT_FALSE(std::isnan(out.values()[0])) << at;
  }
}

/// A dimension that is split: n of `size` columns are valid, and the first is
/// column `first` of all.
TYPED_TEST(RowOps, SoftmaxOverPartOfTheColumns) {
  using T = TypeParam;
  std::string text;
  const int64_t granule = 20;
  for (int64_t size : kSizes) {
    int64_t granules = (size + granule - 1) / granule;
    std::string sums = this->tensor({granules});
    text += this->kernel(
        "exec.kernel @max$n(%x: $x) -> $r {\n"
        "  %m = mixle.row_max %x : ($x) -> $r\n  exec.yield %m : $r\n}\n"
        "exec.kernel @sums$n(%x: $x, %m: $r) -> " + sums + " {\n"
        "  %s = \"mixle.row_granule_sums\"(%x, %m) <{granules = " +
            std::to_string(granules) + " : i64, granule_size = 20 : i64}> : ($x, "
            "$r) -> " + sums + "\n  exec.yield %s : " + sums + "\n}\n"
        // Two of these ops: the second takes its own pair of scalars.
        "exec.kernel @grads$n(%x: $x, %l: tensor<?xi32>, %m: $r, %s: $r, %c: $r) "
        "-> ($x, $x) {\n"
        "  %d = mixle.softmax_cross_entropy_grad %x, %l, %m, %s, %c : ($x, "
        "tensor<?xi32>, $r, $r, $r) -> $x\n"
        "  %p = mixle.softmax_scale %x, %m, %s, %c : ($x, $r, $r, $r) -> $x\n"
        "  exec.yield %d, %p : $x, $x\n}\n",
        size);
  }
  auto library = compileOrFail(text);
  ASSERT_TRUE(library);
  for (int64_t size : kSizes)
    for (int64_t rows : {0, 1, 5})
      for (int64_t valid : {int64_t(0), size / 2, size}) {
        const int64_t first = 40;
        std::string name = std::to_string(size), what = name + " columns, " +
                                                        std::to_string(valid) +
                                                        " valid";
        size_t n = rows * size;
        int64_t granules = (size + granule - 1) / granule;
        auto x = plainNumbers<T>(n, 1, 3);
        auto c = plainNumbers<T>(rows, 2);
        std::vector<int32_t> labels;
        std::vector<T> m, s, sums, d, p;
        for (int64_t row = 0; row < rows; ++row) {
          labels.push_back(row == 2 ? -100 : row == 1 ? 3 : 40 + row);
          const T *xr = &x[row * size];
          T highest = -std::numeric_limits<T>::infinity();
          for (int64_t j = 0; j < valid; ++j)
            highest = maximum(highest, xr[j]);
          m.push_back(highest);
          T total = 0;
          for (int64_t g = 0; g < granules; ++g) {
            LaneSum<T> sum;
            for (int64_t j = g * granule;
                 j < std::min(valid, (g + 1) * granule); ++j)
              sum.add(math::exp(xr[j] - highest));
            sums.push_back(sum.total());
            total += sums.back();
          }
          s.push_back(total);
          for (int64_t j = 0; j < size; ++j) {
            T q = math::exp(xr[j] - highest) / total;
            T one = j + first == labels[row] ? q - T(1) : q;
            d.push_back(j >= valid || labels[row] == -100 ? T(0) : one * c[row]);
            bool none = highest == -std::numeric_limits<T>::infinity();
            p.push_back(j >= valid || none ? T(0) : q * c[row]);
          }
        }
        Output<T> outMax(rows), outSums(rows * granules), outD(n), outP(n);
        library->call("max" + name, {x.data(), outMax.data()},
                      {rows, valid, first});
        expectSame(outMax.values(), m, "max of " + what);
        library->call("sums" + name, {x.data(), m.data(), outSums.data()},
                      {rows, valid, first});
        expectSame(outSums.values(), sums, "sums of " + what);
        library->call("grads" + name,
                      {x.data(), labels.data(), m.data(), s.data(), c.data(),
                       outD.data(), outP.data()},
                      {rows, valid, first, valid, first});
        expectSame(outD.values(), d, "gradient of " + what);
        expectSame(outP.values(), p, "scaled softmax of " + what);
      }
}

/// Rows of -inf have no softmax; no NaN comes of them.
TYPED_TEST(RowOps, RowsOfMinusInfinity) {
  using T = TypeParam;
  std::string one = this->tensor({1});
  auto library = compileOrFail(this->kernel(
      "exec.kernel @k(%x: $x, %s: $r, %c: $r) -> ($r, " + one + ", $x) {\n"
      "  %m = mixle.row_max %x : ($x) -> $r\n"
      "  %g = \"mixle.row_granule_sums\"(%x, %m) <{granules = 1 : i64, "
      "granule_size = 5 : i64}> : ($x, $r) -> " + one + "\n"
      "  %p = mixle.softmax_scale %x, %m, %s, %c : ($x, $r, $r, $r) -> $x\n"
      "  exec.yield %m, %g, %p : $r, " + one + ", $x\n}\n",
      5));
  ASSERT_TRUE(library);
  const T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> x(10, -infinity), s(2, T(0)), c(2, T(1));
  Output<T> m(2), g(2), p(10);
  library->call("k",
                {x.data(), s.data(), c.data(), m.data(), g.data(), p.data()},
                {2, 5, 0, 5, 0, 5, 0});
  expectSame(m.values(), std::vector<T>(2, -infinity), "maximum");
  expectSame(g.values(), std::vector<T>(2, T(0)), "sums");
  expectSame(p.values(), std::vector<T>(10, T(0)), "softmax");
}

/// Rows with more than one dimension, an input that is computed, and an output in
/// the place of the input.
TYPED_TEST(RowOps, NormOfASumInPlace) {
  using T = TypeParam;
  std::string x = this->tensor({3, 34}), r = this->tensor({3}),
              g = this->vector(34);
  auto library = compileOrFail(
      "exec.kernel @k(%a: " + x + ", %b: " + x + ", %g: " + g + ") -> (" + x +
      ", " + r + ") attributes {aliases = [array<i64: 0, 0>]} {\n  %s = "
      "mixle.add %a, %b : " + x + "\n  %y, %d = mixle.rms_norm %s, %g eps = "
      "1.0e-6 : (" + x + ", " + g + ") -> (" + x + ", " + r +
      ")\n  exec.yield %y, %d : " + x + ", " + r + "\n}\n");
  ASSERT_TRUE(library);
  auto a = plainNumbers<T>(204, 1), b = plainNumbers<T>(204, 2);
  auto gain = plainNumbers<T>(34, 3);
  std::vector<T> y, rstd;
  for (int row = 0; row < 6; ++row) {
    LaneSum<T> squares;
    for (int j = 0; j < 34; ++j) {
      T v = a[row * 34 + j] + b[row * 34 + j];
      squares.addProduct(v, v);
    }
    T s = T(1) / std::sqrt(squares.total() / T(34) + static_cast<T>(1e-6));
    rstd.push_back(s);
    for (int j = 0; j < 34; ++j)
      y.push_back(((a[row * 34 + j] + b[row * 34 + j]) * s) * gain[j]);
  }
  Output<T> outRstd(6);
  library->call("k", {a.data(), b.data(), gain.data(), a.data(), outRstd.data()},
                {2});
  expectSame(a, y, "norm");
  expectSame(outRstd.values(), rstd, "rstd");
}

} // namespace
