//===- CompileTest.cpp - What compiling kernels gives and refuses ---------===//

#include "KernelLibrary.h"
#include "Reference.h"

#include "llvm/Object/ELFObjectFile.h"
#include <algorithm>
#include <set>

using namespace mixle::test;

namespace {

const char *const kKernels =
    "exec.kernel @a(%x: tensor<?x37xf32>, %y: tensor<?x37xf32>) -> "
    "tensor<?x37xf32> {\n"
    "  %0 = mixle.erf %x : tensor<?x37xf32>\n"
    "  %1 = mixle.log %y : tensor<?x37xf32>\n"
    "  %2 = mixle.div %0, %1 : tensor<?x37xf32>\n"
    "  %3 = mixle.sin %2 : tensor<?x37xf32>\n"
    "  %4 = mixle.sqrt %3 : tensor<?x37xf32>\n"
    "  exec.yield %4 : tensor<?x37xf32>\n}\n"
    // The same under another name, and nearly the same.
    "exec.kernel @b(%x: tensor<?x37xf32>, %y: tensor<?x37xf32>) -> "
    "tensor<?x37xf32> {\n"
    "  %0 = mixle.erf %x : tensor<?x37xf32>\n"
    "  %1 = mixle.log %y : tensor<?x37xf32>\n"
    "  %2 = mixle.div %0, %1 : tensor<?x37xf32>\n"
    "  %3 = mixle.sin %2 : tensor<?x37xf32>\n"
    "  %4 = mixle.sqrt %3 : tensor<?x37xf32>\n"
    "  exec.yield %4 : tensor<?x37xf32>\n}\n"
    "exec.kernel @c(%x: tensor<?x37xf32>, %y: tensor<?x37xf32>) -> "
    "tensor<?x37xf32> {\n"
    "  %0 = mixle.erf %x : tensor<?x37xf32>\n"
    "  %1 = mixle.log %y : tensor<?x37xf32>\n"
    "  %2 = mixle.div %1, %0 : tensor<?x37xf32>\n"
    "  %3 = mixle.sin %2 : tensor<?x37xf32>\n"
    "  %4 = mixle.sqrt %3 : tensor<?x37xf32>\n"
    "  exec.yield %4 : tensor<?x37xf32>\n}\n"
    "exec.kernel @copy(%x: tensor<?x64xf64>) -> tensor<?x64xf64> {\n"
    "  exec.yield %x : tensor<?x64xf64>\n}\n"
    "exec.kernel @columns(%x: tensor<?x20x24xf32>) -> tensor<?x24xf32> {\n"
    "  %s = mixle.reduce \"sum\" %x dims = [1] : tensor<?x20x24xf32> -> "
    "tensor<?x24xf32>\n"
    "  exec.yield %s : tensor<?x24xf32>\n}\n"
    "exec.kernel @norm(%x: tensor<?x37xf32>, %g: tensor<37xf32>) -> "
    "tensor<?x37xf32> {\n"
    "  %y, %r = mixle.rms_norm %x, %g eps = 1.0e-6 : (tensor<?x37xf32>, "
    "tensor<37xf32>) -> (tensor<?x37xf32>, tensor<?xf32>)\n"
    "  exec.yield %y : tensor<?x37xf32>\n}\n"
    "exec.kernel @loss(%x: tensor<?x37xf32>, %l: tensor<?xi32>, %m: "
    "tensor<?xf32>, %s: tensor<?xf32>, %c: tensor<?xf32>) -> tensor<?x37xf32> {\n"
    "  %d = mixle.softmax_cross_entropy_grad %x, %l, %m, %s, %c : "
    "(tensor<?x37xf32>, tensor<?xi32>, tensor<?xf32>, tensor<?xf32>, "
    "tensor<?xf32>) -> tensor<?x37xf32>\n"
    "  exec.yield %d : tensor<?x37xf32>\n}\n";

struct Symbols {
  std::set<std::string> defined, undefined;
};

Symbols symbolsOf(const std::vector<char> &elf) {
  Symbols symbols;
  auto buffer = llvm::MemoryBuffer::getMemBuffer(
      llvm::StringRef(elf.data(), elf.size()), "kernels", false);
  auto object = llvm::object::ObjectFile::createELFObjectFile(*buffer);
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    return symbols;
  }
  auto *file = llvm::cast<llvm::object::ELFObjectFileBase>(object->get());
  for (auto symbol : file->getDynamicSymbolIterators()) {
    auto name = symbol.getName();
    auto flags = symbol.getFlags();
    EXPECT_TRUE(bool(name) && bool(flags));
    bool undefined = *flags & llvm::object::BasicSymbolRef::SF_Undefined;
    if (!name->empty())
      (undefined ? symbols.undefined : symbols.defined).insert(name->str());
  }
  return symbols;
}

TEST(Compile, NeedsNothingButMemoryFunctions) {
  for (const char *cpu : {"x86-64-v3", "x86-64-v4"}) {
    std::string errors;
    auto library = KernelLibrary::compile(kKernels, cpu, errors);
    ASSERT_TRUE(library) << errors; // loading resolves every symbol
    EXPECT_EQ(library->compiled.cpu, cpu);
    Symbols symbols = symbolsOf(library->compiled.elf);
    for (const std::string &name : symbols.undefined)
      EXPECT_TRUE(name == "memcpy" || name == "memset" || name == "memmove")
          << name << " on " << cpu;
    std::vector<std::string> names = {"a",       "b",    "c",   "copy",
                                      "columns", "norm", "loss"};
    EXPECT_EQ(library->compiled.symbols, names);
    for (const std::string &name : names)
      EXPECT_TRUE(symbols.defined.count(name)) << name;
  }
}

TEST(Compile, EqualKernelsAreCompiledOnce) {
  auto library = compileOrFail(kKernels);
  ASSERT_TRUE(library);
  EXPECT_EQ(library->find("a"), library->find("b"));
  EXPECT_NE(library->find("a"), library->find("c"));
}

TEST(Compile, FeaturesSayWhatTheCodeNeeds) {
  std::string errors;
  auto count = [&](const char *cpu, const std::string &feature) {
    auto library = KernelLibrary::compile(kKernels, cpu, errors);
    EXPECT_TRUE(library) << errors;
    auto &features = library->compiled.features;
    return std::count(features.begin(), features.end(), feature);
  };
  EXPECT_EQ(count("x86-64-v3", "fma"), 1);
  EXPECT_EQ(count("x86-64-v3", "avx512f"), 0);
  EXPECT_EQ(count("x86-64-v4", "fma"), 1);
  EXPECT_EQ(count("x86-64-v4", "avx512vl"), 1);
  EXPECT_NE(compileOrFail(kKernels)->compiled.cpu, "native");
}

bool hostRunsV4() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/// Levels give the same bits.
TEST(Compile, SameBitsOnEveryLevel) {
  if (!hostRunsV4())
    GTEST_SKIP() << "this machine has no AVX-512: x86-64-v4 code was compiled "
                    "but cannot run";
  auto v3 = compileOrFail(kKernels, "x86-64-v3");
  auto v4 = compileOrFail(kKernels, "x86-64-v4");
  ASSERT_TRUE(v3 && v4);
  const int64_t rows = 29;
  auto x = numbers<float>(rows * 480, 1), y = numbers<float>(rows * 37, 2);
  auto m = plainNumbers<float>(rows, 3), s = plainNumbers<float>(rows, 4);
  std::vector<int32_t> labels(rows, 5);
  for (const char *name : {"a", "c", "columns", "norm", "loss"}) {
    std::vector<void *> buffers = {x.data(), y.data()};
    if (std::string(name) == "loss")
      buffers = {x.data(), labels.data(), m.data(), s.data(), y.data()};
    if (std::string(name) == "columns")
      buffers.pop_back();
    Output<float> first(rows * 37), second(rows * 37);
    buffers.push_back(first.data());
    v3->call(name, buffers, {rows, 37, 0});
    buffers.back() = second.data();
    v4->call(name, buffers, {rows, 37, 0});
    expectSame(second.values(), first.values(), name);
  }
}

void expectError(const std::string &kernel, const std::string &expected,
                 const std::string &cpu = "native") {
  std::string errors;
  EXPECT_FALSE(KernelLibrary::compile(kernel, cpu, errors));
  EXPECT_NE(errors.find(expected), std::string::npos) << errors;
}

TEST(Compile, RefusesWhatItCannotDo) {
  expectError(kKernels, "unknown cpu 'x86-64'; expected native, x86-64-v3 or "
                        "x86-64-v4",
              "x86-64");
  expectError("exec.kernel @k(%t: tensor<5x3xf32>, %i: tensor<?xi32>) -> "
              "tensor<?x3xf32> {\n"
              "  %r = mixle.embedding %t, %i : tensor<5x3xf32>, tensor<?xi32> -> "
              "tensor<?x3xf32>\n  exec.yield %r : tensor<?x3xf32>\n}\n",
              "'mixle.embedding' op cannot be compiled into a kernel");
  expectError("exec.kernel @k(%x: tensor<?x3xf32>) -> tensor<3xf32> {\n"
              "  %r = mixle.reduce \"sum\" %x dims = [0] : tensor<?x3xf32> -> "
              "tensor<3xf32>\n  exec.yield %r : tensor<3xf32>\n}\n",
              "reduces rows, dimension 0");
  expectError("exec.kernel @k(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {\n"
              "  exec.yield %x : tensor<3x?xf32>\n}\n",
              "with a dynamic dimension 1");
  expectError("exec.kernel @k(%x: tensor<3xf32>) -> tensor<4xf32> {\n"
              "  exec.yield %x : tensor<3xf32>\n}\n",
              "yields types that do not match");
  expectError("exec.kernel @k(%x: tensor<3xf16>) -> tensor<3xf16> {\n"
              "  exec.yield %x : tensor<3xf16>\n}\n",
              "elements of type 'f16'");
}

TEST(Compile, RefusesUnsafeAliases) {
  std::string transpose =
      "exec.kernel @k(%x: tensor<5x5xf32>) -> tensor<5x5xf32> attributes {aliases "
      "= [array<i64: 0, 0>]} {\n"
      "  %r = mixle.transpose %x perm = [1, 0] : tensor<5x5xf32> -> "
      "tensor<5x5xf32>\n  exec.yield %r : tensor<5x5xf32>\n}\n";
  expectError(transpose, "input 0 and output 0 cannot share storage: elements "
                         "would be overwritten before they are read");
  // A later nest reads what an earlier one wrote over.
  expectError("exec.kernel @k(%x: tensor<5x5xf32>) -> (tensor<5x5xf32>, "
              "tensor<4xf32>) attributes {aliases = [array<i64: 0, 0>]} {\n"
              "  %n = mixle.neg %x : tensor<5x5xf32>\n"
              "  %s = mixle.slice %x[0 : 0, 4] : tensor<5x5xf32> -> "
              "tensor<4x5xf32>\n"
              "  %m = mixle.reduce \"sum\" %s dims = [1] : tensor<4x5xf32> -> "
              "tensor<4xf32>\n"
              "  exec.yield %n, %m : tensor<5x5xf32>, tensor<4xf32>\n}\n",
              "cannot share storage");
  expectError("exec.kernel @k(%x: tensor<5xf32>) -> tensor<5xi32> attributes "
              "{aliases = [array<i64: 0, 0>]} {\n"
              "  %r = mixle.convert %x : tensor<5xf32> -> tensor<5xi32>\n"
              "  exec.yield %r : tensor<5xi32>\n}\n",
              "their types differ");
  expectError("exec.kernel @k(%x: tensor<5xf32>) -> tensor<5xf32> attributes "
              "{aliases = [array<i64: 0, 1>]} {\n"
              "  exec.yield %x : tensor<5xf32>\n}\n",
              "'aliases' must hold pairs");
}

} // namespace
