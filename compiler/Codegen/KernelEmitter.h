//===- KernelEmitter.h - One kernel as an LLVM dialect function -*- C++ -*-===//
//
// How it works. Outputs of one shape, and outputs whose shape is a prefix of it,
// share a nest of loops, one loop per dimension; the last one runs over 16 lanes
// at a time. `evaluate(tensor, indices)` emits what one element (or 16 lanes) of a
// tensor takes, on the level of the innermost loop that the indices depend on:
// so the statistics of a row are computed once per row, and constants once.
// Reductions are loops of their own inside that level.
//
// A kernel is emitted at least twice. The first time notes where indices were
// used; then dimensions are split where a reshape asks for it, neighbours that are
// always used together become one loop, and nests whose rows are reduced for each
// element give up lanes of their own to those of the reduction.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_CODEGEN_KERNELEMITTER_H
#define MIXLE_COMPILER_CODEGEN_KERNELEMITTER_H

#include "compiler/Codegen/Index.h"
#include "compiler/Codegen/Ops.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Mixle/Mixle.h"
#include <deque>
#include <map>
#include <optional>

namespace mlir::mixle::codegen {

/// Whether the op works on a dimension that may be split, and takes the number of
/// valid columns and the global index of the first as scalars.
bool takesColumnScalars(Operation *op);

/// Checks that codegen can compile the kernel; says why not.
LogicalResult checkKernel(exec::KernelOp kernel);

class KernelEmitter {
public:
  /// `kernel` has passed checkKernel.
  KernelEmitter(exec::KernelOp kernel, OpBuilder &builder);

  /// Emits an llvm.func at the builder's insertion point, and globals for
  /// literal tensors. Fails on unsafe `aliases` only.
  FailureOr<LLVM::LLVMFuncOp> emit();

private:
  //===--- Nests ---------------------------------------------------------===//

  /// Loops over the elements of some outputs.
  struct Nest {
    SmallVector<unsigned> outputs;
    ArrayRef<int64_t> shape;
    /// Each dimension is a product of loops' extents (outermost first).
    SmallVector<SmallVector<int64_t, 2>> factors;
    /// By loop: the next loop continues it.
    SmallVector<bool> fused;
    bool lanes = true;
  };

  /// A place between loops: code that depends on no inner loop goes here.
  struct Level {
    unsigned depth = 0;
    /// New code goes before this op, the end of the level's current block.
    Operation *anchor = nullptr;
    /// Lanes that exist; null: all.
    Value mask;
    std::map<std::tuple<void *, Indices, Conditions>, Value> values;
    std::map<Index, Value> positions;
  };

  /// What a loop term stands for in the body being emitted.
  struct LoopState {
    Level *level = nullptr;
    Value variable;
    bool lane = false;
    /// The next loop's variable counts this one's too.
    bool fusedAway = false;
  };

  struct Loop {
    unsigned term;
    int64_t extent; // dynamic: rows
  };
  struct Group {
    SmallVector<Loop, 2> loops;
    int64_t fixed = 1; // product of the static extents
    bool dynamic = false;
  };

  void makeNests();
  LLVM::LLVMFuncOp emitOnce();
  void emitNest(unsigned number);
  void emitGroups(Nest &nest, ArrayRef<Group> groups, unsigned number,
                  Level *level, ArrayRef<Index> domain);
  Value extentOf(const Group &group);
  void bind(const Group &group, Level *level, Value variable, bool lane);
  /// The lanes below the end, for the iteration that it cuts.
  Value tailMask(Level *level, Value variable, Value end);
  void storeOutputs(Nest &nest, Level *level, ArrayRef<Index> domain);
  /// Changes plans from what the emission noted; whether any changed.
  bool improvePlans();
  bool splitLoops();
  void fuseLoops(Nest &nest, ArrayRef<Loop> loops, ArrayRef<Index> uses);
  LogicalResult checkAliases();

  //===--- Levels and loops ----------------------------------------------===//

  Level *newLevel(unsigned depth);
  /// Blocks are split while code is emitted, so an insertion point is never kept:
  /// whoever emits says where, after the last call that may have made a loop.
  void at(Level *level) {
    writing = level;
    b.setInsertionPoint(level->anchor);
  }
  /// for (i = low; i < high; i += step) results = body(level, i, results).
  SmallVector<Value>
  loop(Level *parent, Value low, Value high, int64_t step, ValueRange initial,
       function_ref<SmallVector<Value>(Level *, Value, ValueRange)> body);
  Level *levelOf(ArrayRef<Index> indices, const Conditions &conditions = {});
  bool hasLane(const Index &index);
  bool hasLane(ArrayRef<Index> indices);
  /// Runs straight-line code on a level, then goes back.
  void on(Level *level, function_ref<void()> code);

  //===--- Indices (Memory.cpp) ------------------------------------------===//

  /// Which loops may be fused depends on how indices are used together.
  void noteUse(const Index &index);
  /// An index as i64: one value, or one per lane if it depends on the lane.
  Value indexValue(const Index &index);
  /// The value in the first lane, computed on the index's own level.
  Value position(const Index &index);
  Value lanePositions(const Index &index);
  /// What the next lane adds; none if lanes are no arithmetic sequence.
  std::optional<int64_t> laneStep(const Index &index);
  /// All of them hold (scalar or lanes); null for none.
  Value conditionValue(const Conditions &conditions);
  /// The lanes that exist, null for all.
  Value laneMask(const Index &index);
  void collectLanes(const Index &index, SmallVectorImpl<unsigned> &lanes);
  Value load(Level *level, Value base, Type element, const Index &where,
             const Conditions &conditions);
  void store(Level *level, Value base, Type element, const Index &where,
             Value value);

  //===--- Evaluation (Evaluate.cpp, RowOps.cpp) --------------------------===//

  Value evaluate(Value tensor, ArrayRef<Index> indices,
                 const Conditions &conditions);
  Value compute(Level *level, Value tensor, ArrayRef<Index> indices,
                const Conditions &conditions);
  SmallVector<Value> computePointwise(Level *level, Operation *op,
                                      ArrayRef<Index> indices,
                                      const Conditions &conditions);
  Value computeConcat(Level *level, ConcatOp op, ArrayRef<Index> indices,
                      const Conditions &conditions);
  Value computePad(Level *level, PadOp op, ArrayRef<Index> indices,
                   const Conditions &conditions);
  Value computeRotary(Level *level, RotaryOp op, ArrayRef<Index> indices,
                      const Conditions &conditions);
  Value computeConstant(Level *level, ConstantOp op, ArrayRef<Index> indices,
                        const Conditions &conditions);
  Value globalOf(ConstantOp op);

  /// What a reduction adds: accumulators to accumulators of the next element.
  using Step =
      function_ref<SmallVector<Value>(Level *, const Index &, ValueRange)>;
  enum class Combine { Sum, Max };
  /// Reduces over `extent` elements, or the first `count` of them if given, at
  /// elements of `outer`: the 16 lanes of a reduction, halved.
  SmallVector<Value> reduce(Level *level, bool outerLanes, int64_t extent,
                            Value count, Type element,
                            ArrayRef<Combine> combine, Step step);
  SmallVector<Value> reduceLanes(Level *level, int64_t extent, Value count,
                                 ArrayRef<Combine> combine,
                                 ArrayRef<Value> initial, Step step);
  SmallVector<Value> reduceColumns(Level *level, int64_t extent, Value count,
                                   ArrayRef<Combine> combine,
                                   ArrayRef<Value> initial, Step step);
  Value combineTwo(Combine combine, Value x, Value y);

  Value computeReduce(Level *level, ReduceOp op, ArrayRef<Index> indices,
                      const Conditions &conditions);
  Value computeLayerNorm(Level *level, LayerNormOp op, unsigned result,
                         ArrayRef<Index> indices, const Conditions &);
  Value computeRmsNorm(Level *level, RmsNormOp op, unsigned result,
                       ArrayRef<Index> indices, const Conditions &);
  Value computeLayerNormGrad(Level *level, LayerNormGradOp op, unsigned result,
                             ArrayRef<Index> indices, const Conditions &);
  Value computeRmsNormGrad(Level *level, RmsNormGradOp op, unsigned result,
                           ArrayRef<Index> indices, const Conditions &);
  Value computeRowMax(Level *level, RowMaxOp op, ArrayRef<Index> indices,
                      const Conditions &);
  Value computeGranuleSums(Level *level, RowGranuleSumsOp op,
                           ArrayRef<Index> indices, const Conditions &);
  Value computeCrossEntropyGrad(Level *level, SoftmaxCrossEntropyGradOp op,
                                ArrayRef<Index> indices, const Conditions &);
  Value computeSoftmaxScale(Level *level, SoftmaxScaleOp op,
                            ArrayRef<Index> indices, const Conditions &);
  /// exp(x - maximum), each step rounded to the element type.
  Value expShifted(Value x, Value maximum);
  /// j < valid columns, for scalars or lanes.
  Value isValidColumn(Operation *op, const Index &column);
  Value validColumns(Operation *op) { return columnScalars[op].first; }
  Value firstColumn(Operation *op) { return columnScalars[op].second; }

  exec::KernelOp kernel;
  OpBuilder &b;
  Ops ops;
  std::vector<Nest> nests;

  // One emission.
  LLVM::LLVMFuncOp function;
  IndexSpace space;
  std::vector<LoopState> loopStates;
  std::deque<Level> levels;
  Level *root = nullptr, *writing = nullptr;
  Value rows;
  SmallVector<Value> inputs, outputs;
  DenseMap<Operation *, std::pair<Value, Value>> columnScalars;

  // What it noted.
  unsigned current = 0; // nest
  std::vector<SmallVector<Loop>> nestLoops;
  std::vector<std::vector<Index>> nestUses;
  std::vector<bool> nestWantsRowLoops;
  struct Access {
    unsigned nest, input;
    Indices indices;
  };
  std::vector<Access> accesses;
  std::vector<std::pair<unsigned, Indices>> outputDomains; // nest, indices

  DenseMap<Operation *, LLVM::GlobalOp> globals;
};

} // namespace mlir::mixle::codegen

#endif // MIXLE_COMPILER_CODEGEN_KERNELEMITTER_H
