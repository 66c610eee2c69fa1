//===- Codegen.h - Kernels to machine code ----------------------*- C++ -*-===//
//
// Compiles exec.kernel ops, whose bodies are mixle ops on local tensors, to one
// position-independent ELF shared object that needs nothing but the C library's
// memory functions.
//
// What a kernel body may hold: the pointwise ops, constant, iota, broadcast,
// reshape, transpose, slice, pad, concat, reduce, layer_norm(_grad),
// rms_norm(_grad), row_max, row_granule_sums, softmax_cross_entropy_grad and
// softmax_scale. Anything else is an error that names the op. Only the leading
// dimension of a tensor may be dynamic: it is the number of rows.
//
// How it is compiled: every output is a nest of loops over its elements; what it
// depends on is computed where it is needed, as far out in the nest as its
// indices allow. Shape ops move indices and no data. The innermost loop works on
// 16 elements at a time; sums along the last dimension use 16 lanes (element i
// goes to lane i mod 16, lanes are halved pairwise), so that the bits do not
// depend on the machine's vectors. Multiply-adds are written out and nothing is
// contracted or reassociated. An f32 elementary function is the f64 function of
// the extended argument, rounded (see mixle/MathConstants.h).
//
// Buffers are dense and row-major. An i1 is a byte, 0 or 1.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_CODEGEN_H
#define MIXLE_COMPILER_CODEGEN_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace mlir::mixle {

struct CodegenOptions {
  /// "native" (the best level below that this machine runs), "x86-64-v3" (AVX2
  /// and FMA) or "x86-64-v4" (AVX-512).
  std::string cpu = "native";
  /// 0 to 3; 2 is what programs are compiled with.
  unsigned optimizationLevel = 2;
};

struct CompiledKernels {
  /// An ELF shared object; each symbol is a
  /// `void(void *const *buffers, const int64_t *scalars)`.
  std::vector<char> elf;
  /// The level that the code was compiled for, never "native".
  std::string cpu;
  /// What that level needs, by the names of /proc/cpuinfo and
  /// __builtin_cpu_supports: a machine without one of them cannot run the code.
  std::vector<std::string> features;
  /// The kernels' names, in the order given.
  std::vector<std::string> symbols;
};

/// Compiles kernels. Fails, having said why at the kernel's location, on ops that
/// no kernel can hold, an unknown cpu, or when the linker is missing or fails.
/// All kernels belong to one context, whose names are distinct.
FailureOr<CompiledKernels> compileKernels(ArrayRef<exec::KernelOp> kernels,
                                          const CodegenOptions &options = {});

/// A module of LLVM dialect functions, one per kernel; kernels equal but for
/// their names are aliases of the first.
FailureOr<OwningOpRef<ModuleOp>> lowerKernels(MLIRContext *context,
                                              ArrayRef<exec::KernelOp> kernels);

/// Loads the dialects that lowering creates and their translations.
void registerCodegenDialects(DialectRegistry &registry);

/// Registers `codegen-lower-kernels`.
void registerCodegenPasses();

} // namespace mlir::mixle

#endif // MIXLE_COMPILER_CODEGEN_H
