//===- PointwiseTest.cpp - Pointwise kernels against scalar code ----------===//

#include "KernelLibrary.h"
#include "Reference.h"
#include <functional>

using namespace mixle::test;
namespace math = mixle::math;

namespace {

std::string shape(int64_t columns, const char *type) {
  return "tensor<?x" + std::to_string(columns) + "x" + type + ">";
}

/// One op: its text on %a, %b, %c (`$t` stands for the tensor type) and meaning.
template <typename T> struct Case {
  std::string name, text;
  std::function<T(T, T, T)> meaning;
};

template <typename T> std::vector<Case<T>> cases() {
  return {
      {"neg", "mixle.neg %a : $t", [](T a, T, T) { return -a; }},
      {"abs", "mixle.abs %a : $t", [](T a, T, T) { return std::fabs(a); }},
      {"sqrt", "mixle.sqrt %a : $t", [](T a, T, T) { return std::sqrt(a); }},
      {"exp", "mixle.exp %a : $t", [](T a, T, T) { return math::exp(a); }},
      {"log", "mixle.log %a : $t", [](T a, T, T) { return math::log(a); }},
      {"tanh", "mixle.tanh %a : $t", [](T a, T, T) { return math::tanh(a); }},
      {"erf", "mixle.erf %a : $t", [](T a, T, T) { return math::erf(a); }},
      {"sin", "mixle.sin %a : $t", [](T a, T, T) { return math::sin(a); }},
      {"cos", "mixle.cos %a : $t", [](T a, T, T) { return math::cos(a); }},
      {"silu", "mixle.silu %a : $t", [](T a, T, T) { return silu(a); }},
      {"gelu", "mixle.gelu %a : $t", [](T a, T, T) { return gelu(a, false); }},
      {"gelu_tanh", "mixle.gelu %a {approximate = \"tanh\"} : $t",
       [](T a, T, T) { return gelu(a, true); }},
      {"gelu_grad", "mixle.gelu_grad %a, %b : $t",
       [](T a, T b, T) { return geluGrad(a, b, false); }},
      {"gelu_grad_tanh", "mixle.gelu_grad %a, %b {approximate = \"tanh\"} : $t",
       [](T a, T b, T) { return geluGrad(a, b, true); }},
      {"add", "mixle.add %a, %b : $t", [](T a, T b, T) { return a + b; }},
      {"sub", "mixle.sub %a, %b : $t", [](T a, T b, T) { return a - b; }},
      {"mul", "mixle.mul %a, %b : $t", [](T a, T b, T) { return a * b; }},
      {"div", "mixle.div %a, %b : $t", [](T a, T b, T) { return a / b; }},
      {"max", "mixle.max %a, %b : $t",
       [](T a, T b, T) { return maximum(a, b); }},
      {"min", "mixle.min %a, %b : $t",
       [](T a, T b, T) { return minimum(a, b); }},
      {"log_add", "mixle.log_add %a, %b : $t",
       [](T a, T b, T) {
         if (a == -std::numeric_limits<T>::infinity())
           return a;
         return static_cast<T>(double(a) + math::log(double(b)));
       }},
  };
}

std::string withType(std::string text, const std::string &type) {
  for (size_t at; (at = text.find("$t")) != std::string::npos;)
    text.replace(at, 2, type);
  return text;
}

template <typename T> class Pointwise : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Pointwise, Floats);

TYPED_TEST(Pointwise, EveryOpHasTheBitsOfScalarCode) {
  using T = TypeParam;
  std::string type = shape(17, typeName<T>()), text;
  for (auto &c : cases<T>())
    text += withType("exec.kernel @" + c.name +
                         "(%a: $t, %b: $t, %c: $t) -> $t {\n  %r = " + c.text +
                         "\n  exec.yield %r : $t\n}\n",
                     type);
  auto library = compileOrFail(text);
  ASSERT_TRUE(library);
  for (int64_t rows : {0, 1, 5, 61}) {
    size_t n = rows * 17;
    auto a = numbers<T>(n, 1), b = numbers<T>(n, 2), c = numbers<T>(n, 3);
    for (auto &op : cases<T>()) {
      Output<T> out(n);
      library->call(op.name, {a.data(), b.data(), c.data(), out.data()}, {rows});
      std::vector<T> expected;
      for (size_t i = 0; i < n; ++i)
        expected.push_back(op.meaning(a[i], b[i], c[i]));
      expectSame(out.values(), expected, op.name);
    }
  }
}

/// Several ops in one loop, over every kind of remainder.
TYPED_TEST(Pointwise, FusedOverEverySize) {
  using T = TypeParam;
  std::string text;
  const int64_t sizes[] = {1, 3, 15, 16, 17, 33, 257};
  for (int64_t size : sizes)
    text += withType(
        "exec.kernel @k" + std::to_string(size) +
            "(%a: $t, %b: $t, %bias: tensor<" + std::to_string(size) + "x" +
            typeName<T>() + ">, %scale: tensor<" + typeName<T>() +
            ">) -> ($t, $t) {\n"
            "  %bias2 = mixle.broadcast %bias like %a dims = [1] : "
            "tensor<" +
            std::to_string(size) + "x" + typeName<T>() +
            ">, $t -> $t\n"
            "  %s = mixle.broadcast %scale like %a dims = [] : "
            "tensor<" +
            typeName<T>() +
            ">, $t -> $t\n"
            "  %0 = mixle.add %a, %bias2 : $t\n"
            "  %1 = mixle.mul %0, %s : $t\n"
            "  %2 = mixle.tanh %1 : $t\n"
            "  %3 = mixle.sub %2, %b : $t\n"
            "  exec.yield %3, %0 : $t, $t\n}\n",
        shape(size, typeName<T>()));
  auto library = compileOrFail(text);
  ASSERT_TRUE(library);
  for (int64_t size : sizes) {
    for (int64_t rows : {0, 1, 5}) {
      size_t n = rows * size;
      auto a = numbers<T>(n, 1), b = numbers<T>(n, 2);
      auto bias = numbers<T>(size, 3);
      T scale = static_cast<T>(1.25);
      Output<T> out(n), sum(n);
      library->call("k" + std::to_string(size),
                    {a.data(), b.data(), bias.data(), &scale, out.data(),
                     sum.data()},
                    {rows});
      std::vector<T> expected, sums;
      for (size_t i = 0; i < n; ++i) {
        sums.push_back(a[i] + bias[i % size]);
        expected.push_back(math::tanh(sums[i] * scale) - b[i]);
      }
      std::string what = std::to_string(size) + " columns";
      expectSame(out.values(), expected, what);
      expectSame(sum.values(), sums, what);
    }
  }
}

TYPED_TEST(Pointwise, OutputMayTakeTheStorageOfAnInput) {
  using T = TypeParam;
  auto library = compileOrFail(withType(
      "exec.kernel @k(%a: $t, %b: $t) -> ($t, $t) attributes {aliases = "
      "[array<i64: 0, 0>, array<i64: 1, 1>]} {\n"
      "  %0 = mixle.add %a, %b : $t\n"
      "  %1 = mixle.sub %a, %b : $t\n"
      "  exec.yield %0, %1 : $t, $t\n}\n",
      shape(33, typeName<T>())));
  ASSERT_TRUE(library);
  auto a = numbers<T>(99, 1), b = numbers<T>(99, 2);
  std::vector<T> sum, difference;
  for (size_t i = 0; i < a.size(); ++i) {
    sum.push_back(a[i] + b[i]);
    difference.push_back(a[i] - b[i]);
  }
  library->call("k", {a.data(), b.data(), a.data(), b.data()}, {3});
  expectSame(a, sum, "sum");
  expectSame(b, difference, "difference");
}

TYPED_TEST(Pointwise, CrossEntropy) {
  using T = TypeParam;
  auto library = compileOrFail(withType(
      "exec.kernel @k(%m: $t, %s: $t, %t: $t, %l: tensor<?x5xi32>) -> $t {\n"
      "  %0 = mixle.cross_entropy %m, %s, %t, %l : $t, tensor<?x5xi32>\n"
      "  exec.yield %0 : $t\n}\n",
      shape(5, typeName<T>())));
  ASSERT_TRUE(library);
  auto m = numbers<T>(35, 1), s = numbers<T>(35, 2), t = numbers<T>(35, 3);
  std::vector<int32_t> labels(35);
  std::vector<T> expected;
  for (int i = 0; i < 35; ++i) {
    labels[i] = i % 4 == 0 ? -100 : i;
    double loss = (double(m[i]) + math::log(double(s[i]))) - double(t[i]);
    expected.push_back(labels[i] == -100 ? T(0) : static_cast<T>(loss));
  }
  Output<T> out(35);
  library->call("k",
                {m.data(), s.data(), t.data(), labels.data(), out.data()}, {7});
  expectSame(out.values(), expected, "cross_entropy");
}

TYPED_TEST(Pointwise, OptimizerSteps) {
  using T = TypeParam;
  std::string adam =
      "  %p1, %m1, %v1 = \"mixle.adam_step\"(%p, %m, %v, %g, %r, %c1, %c2, %c) "
      "<{beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, "
      "weight_decay = 0.1 : f64, decoupled = $d}> : ($t, $t, $t, $t, "
      "tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> ($t, $t, $t)\n"
      "  exec.yield %p1, %m1, %v1 : $t, $t, $t\n}\n";
  std::string head =
      "(%p: $t, %m: $t, %v: $t, %g: $t, %r: tensor<f64>, %c1: tensor<f64>, %c2: "
      "tensor<f64>, %c: tensor<f64>) -> ($t, $t, $t) {\n";
  std::string text = "exec.kernel @adamw" + head + adam + "exec.kernel @adam" +
                     head + adam;
  text.replace(text.find("$d"), 2, "true");
  text.replace(text.find("$d"), 2, "false");
  text += "exec.kernel @sgd(%p: $t, %m: $t, %g: $t, %r: tensor<f64>, %c: "
          "tensor<f64>) -> ($t, $t) {\n"
          "  %p1, %m1 = \"mixle.sgd_step\"(%p, %m, %g, %r, %c) <{mu = 0.9 : f64, "
          "weight_decay = 0.01 : f64}> : ($t, $t, $t, tensor<f64>, tensor<f64>) "
          "-> ($t, $t)\n  exec.yield %p1, %m1 : $t, $t\n}\n";
  auto library = compileOrFail(
      withType(text, std::string("tensor<7x9x") + typeName<T>() + ">"));
  ASSERT_TRUE(library);

  double rate = 3e-3, c1 = 0.19, c2 = 0.002, clip = 0.7;
  const size_t n = 63;
  auto p = plainNumbers<T>(n, 1), m = plainNumbers<T>(n, 2),
       v = plainNumbers<T>(n, 3), g = plainNumbers<T>(n, 4);
  for (T &x : v)
    x = std::fabs(x);
  for (bool decoupled : {true, false}) {
    T b1 = static_cast<T>(0.9), rest1 = static_cast<T>(1 - 0.9);
    T b2 = static_cast<T>(0.999), rest2 = static_cast<T>(1 - 0.999);
    T decay = static_cast<T>(1 - rate * 0.1), wd = static_cast<T>(0.1);
    T alpha = static_cast<T>(rate / c1), root2 = static_cast<T>(std::sqrt(c2));
    T epsilon = static_cast<T>(1e-8), c = static_cast<T>(clip);
    std::vector<T> ep, em, ev;
    for (size_t i = 0; i < n; ++i) {
      T gi = c * g[i];
      if (!decoupled)
        gi = std::fma(wd, p[i], gi);
      em.push_back(std::fma(b1, m[i], rest1 * gi));
      ev.push_back(std::fma(b2, v[i], rest2 * (gi * gi)));
      T d = std::sqrt(ev[i]) / root2 + epsilon;
      ep.push_back(
          std::fma(-alpha, em[i] / d, decoupled ? p[i] * decay : p[i]));
    }
    // In place, as programs do it.
    auto p1 = p, m1 = m, v1 = v;
    library->call(decoupled ? "adamw" : "adam",
                  {p1.data(), m1.data(), v1.data(), g.data(), &rate, &c1, &c2,
                   &clip, p1.data(), m1.data(), v1.data()},
                  {0});
    expectSame(p1, ep, "parameter");
    expectSame(m1, em, "first");
    expectSame(v1, ev, "second");
  }
  std::vector<T> ep, em;
  for (size_t i = 0; i < n; ++i) {
    em.push_back(std::fma(static_cast<T>(0.9), m[i], static_cast<T>(clip) * g[i]));
    ep.push_back(std::fma(-static_cast<T>(rate), em[i],
                          p[i] * static_cast<T>(1 - rate * 0.01)));
  }
  auto p1 = p, m1 = m;
  library->call("sgd", {p1.data(), m1.data(), g.data(), &rate, &clip, p1.data(),
                        m1.data()},
                {0});
  expectSame(p1, ep, "parameter");
  expectSame(m1, em, "momentum");
}

/// Ops with booleans, on integers and between types.
std::string binaryKernel(const std::string &name, const std::string &op,
                         const std::string &type, const std::string &result) {
  return "exec.kernel @" + name + "(%a: " + type + ", %b: " + type + ") -> " +
         result + " {\n  %r = " + op + "\n  exec.yield %r : " + result + "\n}\n";
}

template <typename T, typename R>
void checkBinary(const KernelLibrary &library, const std::string &name,
                 const std::vector<T> &a, const std::vector<T> &b,
                 std::function<R(T, T)> meaning) {
  std::vector<T> x = a, y = b;
  Output<R> out(a.size());
  library.call(name, {x.data(), y.data(), out.data()},
               {static_cast<int64_t>(a.size())});
  std::vector<R> expected;
  for (size_t i = 0; i < a.size(); ++i)
    expected.push_back(meaning(a[i], b[i]));
  expectSame(out.values(), expected, name);
}

template <typename T> void checkCompare() {
  std::string type = std::string("tensor<?x") + typeName<T>() + ">", text;
  const char *predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (const char *predicate : predicates)
    text += binaryKernel(predicate,
                         std::string("mixle.compare \"") + predicate +
                             "\" %a, %b : " + type + " -> tensor<?xi1>",
                         type, "tensor<?xi1>");
  auto library = compileOrFail(text);
  ASSERT_TRUE(library);
  auto a = numbers<T>(101, 5), b = numbers<T>(101, 6);
  for (size_t i = 0; i < a.size(); i += 3)
    b[i] = a[i];
  using B = uint8_t;
  checkBinary<T, B>(*library, "eq", a, b, [](T x, T y) { return x == y; });
  checkBinary<T, B>(*library, "ne", a, b, [](T x, T y) { return x != y; });
  checkBinary<T, B>(*library, "lt", a, b, [](T x, T y) { return x < y; });
  checkBinary<T, B>(*library, "le", a, b, [](T x, T y) { return x <= y; });
  checkBinary<T, B>(*library, "gt", a, b, [](T x, T y) { return x > y; });
  checkBinary<T, B>(*library, "ge", a, b, [](T x, T y) { return x >= y; });
}

TEST(PointwiseTypes, Compare) {
  checkCompare<float>();
  checkCompare<double>();
}

template <typename T> void checkIntegers() {
  std::string type = std::string("tensor<?x") + typeName<T>() + ">", text;
  for (const char *op : {"add", "sub", "mul", "div", "max", "min"})
    text += binaryKernel(op, std::string("mixle.") + op + " %a, %b : " + type,
                         type, type);
  auto library = compileOrFail(text);
  ASSERT_TRUE(library);
  using U = std::make_unsigned_t<T>;
  constexpr T lowest = std::numeric_limits<T>::min();
  std::vector<T> a, b;
  for (T x : {T(0), T(1), T(-1), T(7), T(-7), lowest, T(lowest + 1),
              std::numeric_limits<T>::max(), T(1000)})
    for (T y : {T(0), T(1), T(-1), T(3), T(-3), lowest}) {
      a.push_back(x);
      b.push_back(y);
    }
  checkBinary<T, T>(*library, "add", a, b, [](T x, T y) { return T(U(x) + U(y)); });
  checkBinary<T, T>(*library, "sub", a, b, [](T x, T y) { return T(U(x) - U(y)); });
  checkBinary<T, T>(*library, "mul", a, b, [](T x, T y) { return T(U(x) * U(y)); });
  checkBinary<T, T>(*library, "max", a, b, [](T x, T y) { return x > y ? x : y; });
  checkBinary<T, T>(*library, "min", a, b, [](T x, T y) { return x < y ? x : y; });
  checkBinary<T, T>(*library, "div", a, b, [](T x, T y) {
    return y == 0 ? T(0) : y == -1 ? T(U(0) - U(x)) : T(x / y);
  });
}

TEST(PointwiseTypes, Integers) {
  checkIntegers<int32_t>();
  checkIntegers<int64_t>();
}

template <typename From, typename To>
void checkConvert(const std::vector<From> &from,
                  std::function<To(From)> meaning) {
  std::string f = std::string("tensor<?x") + typeName<From>() + ">";
  std::string t = std::string("tensor<?x") + typeName<To>() + ">";
  auto library = compileOrFail("exec.kernel @k(%a: " + f + ") -> " + t +
                               " {\n  %r = mixle.convert %a : " + f + " -> " +
                               t + "\n  exec.yield %r : " + t + "\n}\n");
  ASSERT_TRUE(library);
  std::vector<From> x = from;
  Output<To> out(x.size());
  library->call("k", {x.data(), out.data()}, {int64_t(x.size())});
  std::vector<To> expected;
  for (From value : from)
    expected.push_back(meaning(value));
  expectSame(out.values(), expected, f + " to " + t);
}

template <typename To> To truncated(double x) {
  if (std::isnan(x))
    return 0;
  if (x >= std::ldexp(1.0, sizeof(To) * 8 - 1))
    return std::numeric_limits<To>::max();
  if (x < -std::ldexp(1.0, sizeof(To) * 8 - 1))
    return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

TEST(PointwiseTypes, Convert) {
  std::vector<double> d = numbers<double>(60, 1);
  d.insert(d.end(), {2147483647.5, 2147483648.0, -2147483648.9, -2147483649.0,
                     9.3e18, -9.3e18, 1.5, -1.5});
  std::vector<float> f(d.begin(), d.end());
  checkConvert<double, float>(d, [](double x) { return static_cast<float>(x); });
  checkConvert<float, double>(f, [](float x) { return static_cast<double>(x); });
  checkConvert<double, int32_t>(d, truncated<int32_t>);
  checkConvert<double, int64_t>(d, truncated<int64_t>);
  checkConvert<float, int32_t>(f, truncated<int32_t>);
  checkConvert<float, uint8_t>(f, [](float x) { return x != 0; });
  std::vector<int64_t> i = {0, 1, -1, 1ll << 40, -(1ll << 40), (1ll << 53) + 1,
                            2147483648ll, 5};
  checkConvert<int64_t, double>(i, [](int64_t x) { return double(x); });
  checkConvert<int64_t, float>(i, [](int64_t x) { return float(x); });
  checkConvert<int64_t, int32_t>(i, [](int64_t x) { return int32_t(x); });
  std::vector<uint8_t> b = {0, 1, 1, 0, 1};
  checkConvert<uint8_t, float>(b, [](uint8_t x) { return float(x); });
  checkConvert<uint8_t, int64_t>(b, [](uint8_t x) { return int64_t(x); });
}

TEST(PointwiseTypes, SelectReadsBooleansAsBytes) {
  auto library = compileOrFail(
      "exec.kernel @k(%c: tensor<?x3xi1>, %a: tensor<?x3xf32>, %b: "
      "tensor<?x3xf32>) -> tensor<?x3xf32> {\n"
      "  %r = mixle.select %c, %a, %b : tensor<?x3xi1>, tensor<?x3xf32>\n"
      "  exec.yield %r : tensor<?x3xf32>\n}\n");
  ASSERT_TRUE(library);
  auto a = numbers<float>(39, 1), b = numbers<float>(39, 2);
  std::vector<uint8_t> c(39);
  std::vector<float> expected;
  for (int i = 0; i < 39; ++i) {
    c[i] = i % 3 == 1;
    expected.push_back(c[i] ? a[i] : b[i]);
  }
  Output<float> out(39);
  library->call("k", {c.data(), a.data(), b.data(), out.data()}, {13});
  expectSame(out.values(), expected, "select");
}

} // namespace
