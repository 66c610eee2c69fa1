//===- CodegenBench.cpp - Throughput of generated kernels -----------------===//
//
// Prints nanoseconds per element and GB/s of a few kernels, and how long they
// took to compile, by the processor time of this thread: other programs matter
// little. Usage: codegen-bench [cpu]
//
//===----------------------------------------------------------------------===//

#include "KernelLibrary.h"
#include <cmath>
#include <cstdio>
#include <ctime>

using namespace mixle::test;

static double seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

static std::string replaced(std::string text, const std::string &from,
                            const std::string &to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;)
    text.replace(at, from.size(), to);
  return text;
}

static std::string unary(const std::string &name, const std::string &op) {
  return "exec.kernel @" + name +
         "(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {\n  %r = mixle." + op +
         " : tensor<?x256xf32>\n  exec.yield %r : tensor<?x256xf32>\n}\n";
}

static std::string norm(const std::string &width) {
  return replaced(
      "exec.kernel @norm$w(%x: tensor<?x$wxf32>, %g: tensor<$wxf32>, %b: "
      "tensor<$wxf32>) -> (tensor<?x$wxf32>, tensor<?xf32>, tensor<?xf32>) {\n"
      "  %y, %m, %s = mixle.layer_norm %x, %g, %b eps = 1.0e-5 : "
      "(tensor<?x$wxf32>, tensor<$wxf32>, tensor<$wxf32>) -> "
      "(tensor<?x$wxf32>, tensor<?xf32>, tensor<?xf32>)\n"
      "  exec.yield %y, %m, %s : tensor<?x$wxf32>, tensor<?xf32>, "
      "tensor<?xf32>\n}\n"
      "exec.kernel @grad$w(%x: tensor<?x$wxf32>, %g: tensor<$wxf32>, %m: "
      "tensor<?xf32>, %s: tensor<?xf32>, %dy: tensor<?x$wxf32>) -> "
      "(tensor<?x$wxf32>, tensor<?x$wxf32>) {\n"
      "  %dx, %t = mixle.layer_norm_grad %x, %g, %m, %s, %dy : "
      "(tensor<?x$wxf32>, tensor<$wxf32>, tensor<?xf32>, tensor<?xf32>, "
      "tensor<?x$wxf32>) -> (tensor<?x$wxf32>, tensor<?x$wxf32>)\n"
      "  exec.yield %dx, %t : tensor<?x$wxf32>, tensor<?x$wxf32>\n}\n",
      "$w", width);
}

int main(int argc, char **argv) {
  std::string cpu = argc > 1 ? argv[1] : "native";
  std::string text =
      "exec.kernel @add(%x: tensor<?x256xf32>, %y: tensor<?x256xf32>) -> "
      "tensor<?x256xf32> {\n  %r = mixle.add %x, %y : tensor<?x256xf32>\n"
      "  exec.yield %r : tensor<?x256xf32>\n}\n"
      "exec.kernel @bias(%x: tensor<?x256xf32>, %b: tensor<256xf32>) -> "
      "tensor<?x256xf32> {\n  %s = mixle.broadcast %b like %x dims = [1] : "
      "tensor<256xf32>, tensor<?x256xf32> -> tensor<?x256xf32>\n"
      "  %r = mixle.add %x, %s : tensor<?x256xf32>\n"
      "  exec.yield %r : tensor<?x256xf32>\n}\n" +
      unary("exp", "exp %x") + unary("tanh", "tanh %x") +
      unary("gelu_erf", "gelu %x") +
      unary("gelu_tanh", "gelu %x {approximate = \"tanh\"}") +
      "exec.kernel @gelu_grad_tanh(%x: tensor<?x256xf32>, %y: "
      "tensor<?x256xf32>) -> tensor<?x256xf32> {\n  %r = mixle.gelu_grad %x, %y "
      "{approximate = \"tanh\"} : tensor<?x256xf32>\n"
      "  exec.yield %r : tensor<?x256xf32>\n}\n" +
      norm("128") + norm("384") +
      "exec.kernel @sums(%x: tensor<?x256xf32>, %m: tensor<?xf32>) -> "
      "tensor<?x4xf32> {\n  %s = \"mixle.row_granule_sums\"(%x, %m) <{granules "
      "= 4 : i64, granule_size = 64 : i64}> : (tensor<?x256xf32>, "
      "tensor<?xf32>) -> tensor<?x4xf32>\n"
      "  exec.yield %s : tensor<?x4xf32>\n}\n"
      "exec.kernel @row_max(%x: tensor<?x256xf32>) -> tensor<?xf32> {\n"
      "  %s = mixle.row_max %x : (tensor<?x256xf32>) -> tensor<?xf32>\n"
      "  exec.yield %s : tensor<?xf32>\n}\n"
      "exec.kernel @loss_grad(%x: tensor<?x256xf32>, %l: tensor<?xi32>, %m: "
      "tensor<?xf32>, %s: tensor<?xf32>, %c: tensor<?xf32>) -> "
      "tensor<?x256xf32> {\n  %d = mixle.softmax_cross_entropy_grad %x, %l, %m, "
      "%s, %c : (tensor<?x256xf32>, tensor<?xi32>, tensor<?xf32>, "
      "tensor<?xf32>, tensor<?xf32>) -> tensor<?x256xf32>\n"
      "  exec.yield %d : tensor<?x256xf32>\n}\n"
      "exec.kernel @transpose(%x: tensor<2048x2048xf32>) -> "
      "tensor<2048x2048xf32> {\n  %r = mixle.transpose %x perm = [1, 0] : "
      "tensor<2048x2048xf32> -> tensor<2048x2048xf32>\n"
      "  exec.yield %r : tensor<2048x2048xf32>\n}\n" +
      replaced("exec.kernel @adam(%p: $t, %m: $t, %v: $t, %g: $t, %r: "
               "tensor<f64>, %c1: tensor<f64>, %c2: tensor<f64>, %c: "
               "tensor<f64>) -> ($t, $t, $t) {\n"
               "  %p1, %m1, %v1 = \"mixle.adam_step\"(%p, %m, %v, %g, %r, %c1, "
               "%c2, %c) <{beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = "
               "1.0e-8 : f64, weight_decay = 0.1 : f64, decoupled = true}> : "
               "($t, $t, $t, $t, tensor<f64>, tensor<f64>, tensor<f64>, "
               "tensor<f64>) -> ($t, $t, $t)\n"
               "  exec.yield %p1, %m1, %v1 : $t, $t, $t\n}\n",
               "$t", "tensor<2097152xf32>");
  std::string errors;
  double start = seconds();
  auto library = KernelLibrary::compile(text, cpu, errors);
  if (!library) {
    std::fprintf(stderr, "%s", errors.c_str());
    return 1;
  }
  std::printf("%zu kernels for %s compiled in %.0f ms, %zu bytes\n",
              library->compiled.symbols.size(), library->compiled.cpu.c_str(),
              (seconds() - start) * 1e3, library->compiled.elf.size());

  const int64_t count = 4 << 20;
  std::vector<float> a(count), b(count), c(count), d(count);
  for (int64_t i = 0; i < count; ++i) {
    a[i] = std::sin(static_cast<float>(i) * 0.37f) * 3;
    b[i] = std::cos(static_cast<float>(i) * 0.11f);
    d[i] = 0.5f;
  }
  std::vector<int32_t> labels(count / 128, 7);
  double rate = 1e-3, one = 1, half = 0.5;
  auto run = [&](const char *name, int64_t elements, int64_t rows,
                 double bytesPerElement, std::vector<void *> buffers) {
    std::vector<int64_t> scalars = {rows, 256, 0};
    auto function = library->find(name);
    double best = 1e9;
    for (int repeat = 0; repeat < 12; ++repeat) {
      double begin = seconds();
      function(buffers.data(), scalars.data());
      best = std::min(best, seconds() - begin);
    }
    std::printf("%-16s %9ld elements %8.3f ms %7.3f ns/element %7.2f GB/s\n",
                name, long(elements), best * 1e3, best * 1e9 / elements,
                bytesPerElement * elements / best * 1e-9);
  };
  const int64_t two = count / 2;
  run("add", two, two / 256, 12, {a.data(), b.data(), c.data()});
  run("bias", two, two / 256, 8, {a.data(), b.data(), c.data()});
  run("add", 1 << 14, 64, 12, {a.data(), b.data(), c.data()});
  for (const char *name : {"exp", "tanh", "gelu_erf", "gelu_tanh"})
    run(name, count, count / 256, 8, {a.data(), c.data()});
  run("gelu_grad_tanh", count, count / 256, 12, {a.data(), b.data(), c.data()});
  for (int64_t width : {128, 384}) {
    int64_t rows = count / width;
    std::string name = std::to_string(width);
    run(("norm" + name).c_str(), rows * width, rows, 8,
        {a.data(), b.data(), b.data() + 512, c.data(), d.data(),
         d.data() + count / 2});
    run(("grad" + name).c_str(), rows * width, rows, 16,
        {a.data(), b.data(), d.data(), d.data() + count / 2, a.data(), c.data(),
         b.data()});
  }
  for (int64_t i = 0; i < count; ++i)
    d[i] = 1.5f;
  run("sums", count, count / 256, 4, {a.data(), d.data(), c.data()});
  run("row_max", count, count / 256, 4, {a.data(), c.data()});
  run("loss_grad", count, count / 256, 8,
      {a.data(), labels.data(), d.data(), d.data(), d.data(), c.data()});
  run("transpose", count, 0, 8, {a.data(), c.data()});
  for (int64_t i = 0; i < two; ++i)
    d[i] = 0.25f;
  run("adam", two, 0, 28,
      {a.data(), b.data(), d.data(), c.data(), &rate, &half, &one, &one,
       a.data(), b.data(), d.data()});
  return 0;
}
