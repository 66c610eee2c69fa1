//===- ShapesTest.cpp - Kernels that move elements ------------------------===//

#include "KernelLibrary.h"
#include "Reference.h"

using namespace mixle::test;

namespace {

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i + 1);
  return values;
}

TEST(Shapes, Transpose) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x5x19xf32>) -> tensor<?x19x5xf32> {\n"
      "  %r = mixle.transpose %x perm = [0, 2, 1] : tensor<?x5x19xf32> -> "
      "tensor<?x19x5xf32>\n  exec.yield %r : tensor<?x19x5xf32>\n}\n"
      "exec.kernel @w(%x: tensor<37x18xf32>) -> tensor<18x37xf32> {\n"
      "  %r = mixle.transpose %x perm = [1, 0] : tensor<37x18xf32> -> "
      "tensor<18x37xf32>\n  exec.yield %r : tensor<18x37xf32>\n}\n");
  ASSERT_TRUE(library);
  for (int64_t rows : {0, 1, 5}) {
    auto x = counting(rows * 95);
    std::vector<float> expected;
    for (int64_t r = 0; r < rows; ++r)
      for (int j = 0; j < 19; ++j)
        for (int i = 0; i < 5; ++i)
          expected.push_back(x[(r * 5 + i) * 19 + j]);
    Output<float> out(x.size());
    library->call("k", {x.data(), out.data()}, {rows});
    expectSame(out.values(), expected, "transpose of rows");
  }
  auto x = counting(37 * 18);
  std::vector<float> expected;
  for (int j = 0; j < 18; ++j)
    for (int i = 0; i < 37; ++i)
      expected.push_back(x[i * 18 + j]);
  Output<float> out(x.size());
  library->call("w", {x.data(), out.data()}, {0});
  expectSame(out.values(), expected, "transpose of a matrix");
}

/// Splits heads and brings them forward, as attention's inputs want them: the
/// reshape asks for a loop of its own per head.
TEST(Shapes, ReshapeAndTransposeSplitLoops) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x4x48xf32>) -> tensor<?x3x4x16xf32> {\n"
      "  %h = mixle.reshape %x : tensor<?x4x48xf32> -> tensor<?x4x3x16xf32>\n"
      "  %t = mixle.transpose %h perm = [0, 2, 1, 3] : tensor<?x4x3x16xf32> -> "
      "tensor<?x3x4x16xf32>\n"
      "  exec.yield %t : tensor<?x3x4x16xf32>\n}\n"
      "exec.kernel @back(%x: tensor<?x3x4x16xf32>) -> tensor<?x4x48xf32> {\n"
      "  %t = mixle.transpose %x perm = [0, 2, 1, 3] : tensor<?x3x4x16xf32> -> "
      "tensor<?x4x3x16xf32>\n"
      "  %h = mixle.reshape %t : tensor<?x4x3x16xf32> -> tensor<?x4x48xf32>\n"
      "  exec.yield %h : tensor<?x4x48xf32>\n}\n"
      // No product of loops: 6 x 10 as 4 x 15, read element by element.
      "exec.kernel @odd(%x: tensor<?x6x10xf32>) -> tensor<?x15x4xf32> {\n"
      "  %t = mixle.transpose %x perm = [0, 2, 1] : tensor<?x6x10xf32> -> "
      "tensor<?x10x6xf32>\n"
      "  %r = mixle.reshape %t : tensor<?x10x6xf32> -> tensor<?x15x4xf32>\n"
      "  exec.yield %r : tensor<?x15x4xf32>\n}\n");
  ASSERT_TRUE(library);
  const int64_t rows = 3;
  auto x = counting(rows * 192);
  std::vector<float> expected;
  for (int64_t r = 0; r < rows; ++r)
    for (int h = 0; h < 3; ++h)
      for (int t = 0; t < 4; ++t)
        for (int d = 0; d < 16; ++d)
          expected.push_back(x[(r * 4 + t) * 48 + h * 16 + d]);
  Output<float> out(x.size()), again(x.size());
  library->call("k", {x.data(), out.data()}, {rows});
  expectSame(out.values(), expected, "heads");
  library->call("back", {out.data(), again.data()}, {rows});
  expectSame(again.values(), x, "heads and back");

  x = counting(rows * 60);
  expected.clear();
  for (int64_t r = 0; r < rows; ++r)
    for (int i = 0; i < 60; ++i)
      expected.push_back(x[r * 60 + (i % 6) * 10 + i / 6]);
  Output<float> odd(x.size());
  library->call("odd", {x.data(), odd.data()}, {rows});
  expectSame(odd.values(), expected, "odd");
}

TEST(Shapes, SlicePadConcat) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x20xf32>, %y: tensor<?x3xf32>) -> "
      "(tensor<?x7xf32>, tensor<?x28xf32>, tensor<?x46xf32>) {\n"
      "  %s = mixle.slice %x[1 : 4, 11] : tensor<?x20xf32> -> tensor<?x7xf32>\n"
      "  %p = mixle.pad %x[1 : 3, 5] : tensor<?x20xf32> -> tensor<?x28xf32>\n"
      "  %c = mixle.concat %x, %y, %x, %y dim = 1 : tensor<?x20xf32>, "
      "tensor<?x3xf32>, tensor<?x20xf32>, tensor<?x3xf32> -> tensor<?x46xf32>\n"
      "  exec.yield %s, %p, %c : tensor<?x7xf32>, tensor<?x28xf32>, "
      "tensor<?x46xf32>\n}\n"
      // Along a dimension that is no lane; the pad of a pad.
      "exec.kernel @m(%x: tensor<4x18xf64>) -> tensor<9x21xf64> {\n"
      "  %p = mixle.pad %x[0 : 2, 3] : tensor<4x18xf64> -> tensor<9x18xf64>\n"
      "  %q = mixle.pad %p[1 : 1, 2] : tensor<9x18xf64> -> tensor<9x21xf64>\n"
      "  exec.yield %q : tensor<9x21xf64>\n}\n");
  ASSERT_TRUE(library);
  for (int64_t rows : {0, 1, 4}) {
    auto x = counting(rows * 20), y = counting(rows * 3);
    for (float &v : y)
      v = -v;
    std::vector<float> slice, pad, concat;
    for (int64_t r = 0; r < rows; ++r) {
      const float *xr = &x[r * 20], *yr = &y[r * 3];
      slice.insert(slice.end(), xr + 4, xr + 11);
      pad.insert(pad.end(), 3, 0.0f);
      pad.insert(pad.end(), xr, xr + 20);
      pad.insert(pad.end(), 5, 0.0f);
      for (int twice = 0; twice < 2; ++twice) {
        concat.insert(concat.end(), xr, xr + 20);
        concat.insert(concat.end(), yr, yr + 3);
      }
    }
    Output<float> s(slice.size()), p(pad.size()), c(concat.size());
    library->call("k", {x.data(), y.data(), s.data(), p.data(), c.data()},
                  {rows});
    expectSame(s.values(), slice, "slice");
    expectSame(p.values(), pad, "pad");
    expectSame(c.values(), concat, "concat");
  }
  std::vector<double> m(72), expected(189, 0.0);
  for (int i = 0; i < 72; ++i) {
    m[i] = i + 1;
    expected[(i / 18 + 2) * 21 + i % 18 + 1] = i + 1;
  }
  Output<double> out(189);
  library->call("m", {m.data(), out.data()}, {0});
  expectSame(out.values(), expected, "pad of a pad");
}

TEST(Shapes, ConstantIotaBroadcast) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x2x5xi32>) -> (tensor<?x2x5xi32>, "
      "tensor<2x5xi1>) {\n"
      "  %i = mixle.iota {dimension = 1 : i64} : tensor<2x5xi32>\n"
      "  %j = mixle.iota {dimension = 0 : i64} : tensor<2x5xi32>\n"
      "  %c = mixle.constant dense<[[5, 3, 1, 7, 9], [2, 4, 6, 8, 0]]> : "
      "tensor<2x5xi32>\n"
      "  %t = mixle.constant dense<10> : tensor<2x5xi32>\n"
      "  %0 = mixle.mul %j, %t : tensor<2x5xi32>\n"
      "  %1 = mixle.add %i, %0 : tensor<2x5xi32>\n"
      "  %2 = mixle.mul %1, %c : tensor<2x5xi32>\n"
      "  %b = mixle.broadcast %2 like %x dims = [1, 2] : tensor<2x5xi32>, "
      "tensor<?x2x5xi32> -> tensor<?x2x5xi32>\n"
      "  %r = mixle.add %b, %x : tensor<?x2x5xi32>\n"
      "  %m = mixle.constant dense<[[true, false, true, true, false], [false, "
      "false, true, false, true]]> : tensor<2x5xi1>\n"
      "  exec.yield %r, %m : tensor<?x2x5xi32>, tensor<2x5xi1>\n}\n");
  ASSERT_TRUE(library);
  const int32_t c[10] = {5, 3, 1, 7, 9, 2, 4, 6, 8, 0};
  const uint8_t bits[10] = {1, 0, 1, 1, 0, 0, 0, 1, 0, 1};
  std::vector<int32_t> x(40), expected(40);
  for (int i = 0; i < 40; ++i) {
    x[i] = i * i;
    int e = i % 10;
    expected[i] = x[i] + (e % 5 + e / 5 * 10) * c[e];
  }
  Output<int32_t> out(40);
  Output<uint8_t> mask(10);
  library->call("k", {x.data(), out.data(), mask.data()}, {4});
  expectSame(out.values(), expected, "iota and constants");
  expectSame(mask.values(), std::vector<uint8_t>(bits, bits + 10), "booleans");
}

/// Sums over dimensions other than the last keep their 16 lanes.
TEST(Shapes, ReduceOtherDimensions) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x37x18xf32>) -> (tensor<?x18xf32>, "
      "tensor<?xf32>, tensor<?x18xf32>) {\n"
      "  %a = mixle.reduce \"sum\" %x dims = [1] : tensor<?x37x18xf32> -> "
      "tensor<?x18xf32>\n"
      "  %b = mixle.reduce \"sum\" %x dims = [1, 2] : tensor<?x37x18xf32> -> "
      "tensor<?xf32>\n"
      "  %c = mixle.reduce \"max\" %x dims = [1] : tensor<?x37x18xf32> -> "
      "tensor<?x18xf32>\n"
      "  exec.yield %a, %b, %c : tensor<?x18xf32>, tensor<?xf32>, "
      "tensor<?x18xf32>\n}\n"
      // A sum for each column of a row's elements: rows are reduced, and the
      // result has lanes.
      "exec.kernel @t(%x: tensor<?x18x37xf32>) -> tensor<?x18x37xf32> {\n"
      "  %s = mixle.reduce \"sum\" %x dims = [2] : tensor<?x18x37xf32> -> "
      "tensor<?x18xf32>\n"
      "  %b = mixle.broadcast %s like %x dims = [0, 1] : tensor<?x18xf32>, "
      "tensor<?x18x37xf32> -> tensor<?x18x37xf32>\n"
      "  %r = mixle.div %x, %b : tensor<?x18x37xf32>\n"
      "  exec.yield %r : tensor<?x18x37xf32>\n}\n"
      "exec.kernel @all(%x: tensor<7x9xf32>) -> tensor<f32> {\n"
      "  %s = mixle.reduce \"sum\" %x dims = [0, 1] : tensor<7x9xf32> -> "
      "tensor<f32>\n  exec.yield %s : tensor<f32>\n}\n"
      // The reduction of a reduction.
      "exec.kernel @two(%x: tensor<?x18x37xf32>) -> tensor<?xf32> {\n"
      "  %m = mixle.reduce \"max\" %x dims = [2] : tensor<?x18x37xf32> -> "
      "tensor<?x18xf32>\n"
      "  %s = mixle.reduce \"sum\" %m dims = [1] : tensor<?x18xf32> -> "
      "tensor<?xf32>\n  exec.yield %s : tensor<?xf32>\n}\n");
  ASSERT_TRUE(library);
  for (int64_t rows : {0, 1, 3}) {
    auto x = plainNumbers<float>(rows * 37 * 18, 1);
    std::vector<float> a, b, c, t, two;
    for (int64_t r = 0; r < rows; ++r) {
      const float *xr = &x[r * 37 * 18];
      LaneSum<float> all, maxima;
      for (int i = 0; i < 37 * 18; ++i)
        all.add(xr[i]);
      b.push_back(all.total());
      for (int j = 0; j < 18; ++j) {
        LaneSum<float> sum, across;
        float highest = -INFINITY, highestAcross = -INFINITY;
        for (int i = 0; i < 37; ++i) {
          sum.add(xr[i * 18 + j]);
          highest = maximum(highest, xr[i * 18 + j]);
          across.add(xr[j * 37 + i]);
          highestAcross = maximum(highestAcross, xr[j * 37 + i]);
        }
        a.push_back(sum.total());
        c.push_back(highest);
        for (int i = 0; i < 37; ++i)
          t.push_back(xr[j * 37 + i] / across.total());
        maxima.add(highestAcross);
      }
      two.push_back(maxima.total());
    }
    Output<float> outA(a.size()), outB(rows), outC(c.size()), outT(t.size()),
        outTwo(rows);
    library->call("k", {x.data(), outA.data(), outB.data(), outC.data()},
                  {rows});
    expectSame(outA.values(), a, "sum over the middle");
    expectSame(outB.values(), b, "sum over two");
    expectSame(outC.values(), c, "max over the middle");
    library->call("t", {x.data(), outT.data()}, {rows});
    expectSame(outT.values(), t, "quotients");
    library->call("two", {x.data(), outTwo.data()}, {rows});
    expectSame(outTwo.values(), two, "sum of maxima");
  }
  auto x = plainNumbers<float>(63, 1);
  LaneSum<float> sum;
  for (float v : x)
    sum.add(v);
  Output<float> out(1);
  library->call("all", {x.data(), out.data()}, {0});
  expectSame(out.values(), {sum.total()}, "sum of everything");
}

/// A granule's sums as elements of a further reduction: the granules are lanes.
TEST(Shapes, GranuleSumsAsLanes) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x50xf32>, %m: tensor<?xf32>) -> tensor<?xf32> "
      "{\n  %g = \"mixle.row_granule_sums\"(%x, %m) <{granules = 8 : i64, "
      "granule_size = 7 : i64}> : (tensor<?x50xf32>, tensor<?xf32>) -> "
      "tensor<?x8xf32>\n"
      "  %s = mixle.reduce \"sum\" %g dims = [1] : tensor<?x8xf32> -> "
      "tensor<?xf32>\n  exec.yield %s : tensor<?xf32>\n}\n");
  ASSERT_TRUE(library);
  auto x = plainNumbers<float>(150, 1);
  std::vector<float> m(3, 1.5f), expected;
  const int64_t valid = 45;
  for (int r = 0; r < 3; ++r) {
    LaneSum<float> total;
    for (int64_t g = 0; g < 8; ++g) {
      LaneSum<float> sum;
      for (int64_t j = g * 7; j < std::min<int64_t>(valid, (g + 1) * 7); ++j)
        sum.add(mixle::math::exp(x[r * 50 + j] - m[r]));
      total.add(sum.total());
    }
    expected.push_back(total.total());
  }
  Output<float> out(3);
  library->call("k", {x.data(), m.data(), out.data()}, {3, valid, 0});
  expectSame(out.values(), expected, "sum of granules");
}

/// Pairs of columns turned by tables, forward and back, all of them or the first
/// entries; head widths in whole vectors and not, and an odd half.
template <typename T> void testRotary(int64_t width, bool inverse, int64_t rotated) {
  const int64_t rows = 2, tokens = 5, groups = 2, entries = 3, half = width / 2;
  std::string type = typeName<T>(), w = std::to_string(width);
  std::string x = "tensor<?x5x2x3x" + w + "x" + type + ">";
  std::string table = "tensor<5x" + std::to_string(half) + "x" + type + ">";
  std::string attributes = std::string("{") + (inverse ? "inverse, " : "") +
                           "rotated = " + std::to_string(rotated) + " : i64}";
  auto library = compileOrFail(
      "exec.kernel @k(%x: " + x + ", %c: " + table + ", %s: " + table + ") -> " + x +
      " {\n  %r = mixle.rotary %x, %c, %s " + attributes + " : (" + x + ", " +
      table + ", " + table + ") -> " + x + "\n  exec.yield %r : " + x + "\n}\n");
  ASSERT_TRUE(library);
  auto input = numbers<T>(rows * tokens * groups * entries * width, 3);
  auto cosine = numbers<T>(tokens * half, 4), sine = numbers<T>(tokens * half, 5);
  std::vector<T> expected = input;
  for (size_t v = 0; v < input.size() / width; ++v) {
    if (static_cast<int64_t>(v) % entries >= rotated)
      continue;
    size_t token = v / (groups * entries) % tokens;
    for (int64_t d = 0; d < half; ++d) {
      T c = cosine[token * half + d], s = sine[token * half + d];
      T a = input[v * width + d], b = input[v * width + d + half];
      s = inverse ? -s : s;
      expected[v * width + d] = std::fma(a, c, b * -s);
      expected[v * width + d + half] = std::fma(b, c, a * s);
    }
  }
  Output<T> out(input.size());
  library->call("k", {input.data(), cosine.data(), sine.data(), out.data()}, {rows});
  expectSame(out.values(), expected,
             "rotary of " + w + (inverse ? " back, " : ", ") + type);
}

TEST(Shapes, Rotary) {
  for (int64_t width : {2, 6, 24, 32, 64, 128})
    for (bool inverse : {false, true})
      for (int64_t rotated : {2, 3}) {
        testRotary<float>(width, inverse, rotated);
        testRotary<double>(width, inverse, rotated);
      }
}

/// Dimensions of size 0 and 1.
TEST(Shapes, EmptyAndUnitDimensions) {
  auto library = compileOrFail(
      "exec.kernel @k(%x: tensor<?x1x1xf32>, %e: tensor<?x0xf32>) -> "
      "(tensor<?x1x1xf32>, tensor<?x0xf32>, tensor<?x2xf32>, tensor<?xf32>) {\n"
      "  %n = mixle.neg %x : tensor<?x1x1xf32>\n"
      "  %e2 = mixle.neg %e : tensor<?x0xf32>\n"
      "  %p = mixle.pad %e[1 : 1, 1] : tensor<?x0xf32> -> tensor<?x2xf32>\n"
      "  %s = mixle.reduce \"sum\" %e dims = [1] : tensor<?x0xf32> -> "
      "tensor<?xf32>\n"
      "  exec.yield %n, %e2, %p, %s : tensor<?x1x1xf32>, tensor<?x0xf32>, "
      "tensor<?x2xf32>, tensor<?xf32>\n}\n");
  ASSERT_TRUE(library);
  auto x = counting(5);
  std::vector<float> expected;
  for (float v : x)
    expected.push_back(-v);
  Output<float> n(5), e(0), p(10), s(5);
  library->call("k", {x.data(), nullptr, n.data(), e.data(), p.data(), s.data()},
                {5});
  expectSame(n.values(), expected, "neg");
  e.values();
  expectSame(p.values(), std::vector<float>(10, 0.0f), "pad of nothing");
  expectSame(s.values(), std::vector<float>(5, 0.0f), "sum of nothing");
}

} // namespace
