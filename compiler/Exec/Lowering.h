//===- Lowering.h - From one entry's ops to commands ------------*- C++ -*-===//
//
// Private to the exec-lower pass.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_EXEC_LOWERING_H
#define MIXLE_COMPILER_EXEC_LOWERING_H

#include "compiler/Dist/Passes.h"
#include "compiler/Exec/Passes.h"
#include "compiler/Mixle/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/IR/Builders.h"

namespace mlir::exec {
namespace mx = ::mlir::mixle;

/// A parameter's index in the units and amax buffers, and its unit's rule.
struct UnitInfo {
  int64_t index = -1;
  int64_t maxBlocks = 0;
  bool oneTokenBlocks = true;
};

/// Builds an exec.program; what all entries share.
class ProgramLowering {
public:
  ProgramLowering(mx::ProgramOp source, ProgramOp target, dist::MeshOp mesh);

  /// A buffer of the program, made once by name.
  FlatSymbolRefAttr buffer(StringRef name, StringRef kind, Type element,
                           int64_t fixed, int64_t perRow,
                           StringRef parameter = {}, StringRef slot = {});
  /// Every accumulator's unit, int32, and the largest magnitude seen of what is
  /// to be summed in it, int64.
  FlatSymbolRefAttr unitsBuffer();
  FlatSymbolRefAttr amaxBuffer();
  /// The kernel with this body, compiled once for all who launch it. Takes
  /// `kernel` over; returns its name.
  FlatSymbolRefAttr uniqueKernel(KernelOp kernel);
  FlatSymbolRefAttr update(dist::UpdateOp op);

  ScalarAttr constant(int64_t value);
  ScalarAttr rows(int64_t factor);
  ScalarAttr scalar(StringRef kind, StringRef axis, int64_t a, int64_t b = 0);

  mx::ProgramOp source;
  ProgramOp target;
  dist::MeshOp mesh;
  OpBuilder builder;
  SymbolTable symbols;
  llvm::StringMap<UnitInfo> units;
  Type floatType; ///< f32 or f64
  int64_t numUnits = 0;
  int64_t limbCount;

private:
  llvm::StringMap<FlatSymbolRefAttr> kernels; ///< by printed body
};

/// Lowers the ops of one entry.
class EntryLowering {
public:
  EntryLowering(ProgramLowering &program, mx::EntryOp entry, EntryOp target);
  LogicalResult lower();

private:
  // Values and buffers.
  FlatSymbolRefAttr bufferOf(Value value);
  FlatSymbolRefAttr scratch(Type tensorType, int64_t slots = 1);
  void bind(Value value, FlatSymbolRefAttr buffer) { buffers[value] = buffer; }
  LogicalResult bindArguments();
  FlatSymbolRefAttr persistentFor(StringRef role, FlatSymbolRefAttr of,
                                  StringRef slot, Type type);

  // Kernels (Kernels.cpp).
  bool isCheap(Operation *op);
  bool isPointwise(Operation *op);
  LogicalResult addToGroup(Operation *op);
  LogicalResult flushGroup();
  LogicalResult launch(ArrayRef<Operation *> ops);
  FlatSymbolRefAttr materialize(Value value);

  // Ops (LowerOps.cpp).
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerDot(mx::DotGeneralOp op);
  LogicalResult lowerUpdate(dist::UpdateOp op);
  LogicalResult lowerReturn(mx::ReturnOp op);
  LogicalResult lowerRowSumExp(mx::RowSumExpOp op);
  Value transposed(Operation *where, Value value, ArrayRef<int64_t> permutation);
  void guardCommit();
  // Mixtures (LowerEstimation.cpp).
  LogicalResult lowerEstimation(Operation *op);
  void guardEstimate(mx::ReturnOp op);

  // Commands.
  void call(Twine function, ArrayRef<FlatSymbolRefAttr> buffers,
            ArrayRef<ScalarAttr> scalars, ArrayRef<double> floats = {},
            StringRef text = {});
  void fill(FlatSymbolRefAttr buffer, int64_t bytes);

  /// rows * factor or a constant: the elements of a tensor type.
  ScalarAttr count(Type type);
  /// The same for its first `leading` dimensions.
  ScalarAttr countLeading(Type type, int64_t leading);
  int64_t perRow(Type type);
  bool hasRows(Type type);
  /// What this rank owns of dimension `d`: [valid, offset] scalars.
  std::pair<ScalarAttr, ScalarAttr> owned(Value value, int64_t d);
  RankedTensorType globalType(Value value);
  UnitInfo &unitOf(FlatSymbolRefAttr parameter);

  ProgramLowering &program;
  mx::EntryOp entry;
  EntryOp target;
  OpBuilder builder; ///< where the next command goes
  DenseMap<Value, FlatSymbolRefAttr> buffers;
  /// Values that the entry returns as new persistent state.
  DenseMap<Value, FlatSymbolRefAttr> destinations;
  SmallVector<Operation *> group;
  std::string suffix;
  /// Partial values in granule trees: granules of all and per rank.
  DenseMap<Value, std::pair<int64_t, int64_t>> trees;
  bool commitGuarded = false;
  int64_t nextScratch = 0;
  Operation *afterLoop = nullptr;
};

} // namespace mlir::exec

#endif // MIXLE_COMPILER_EXEC_LOWERING_H
