//===- Graph.h - Writing mixle programs in C++ ------------------*- C++ -*-===//
//
// The front end in which models and estimators are written: a Graph holds one
// mixle.program, a Tensor is a handle on one of its values, and the functions
// of Ops.h (included at the end) make new tensors of old ones.
//
//   Graph graph("classifier");
//   Tensor weight = graph.parameter("weight", {4, 3}, Init::normal(0, 0.1));
//   Tensor bias = graph.parameter("bias", {3}, Init::constant(0),
//                                 {.decay = false});            // C++20, or
//   graph.lossEntry({Data::rows({kRows, 4}), Data::labels({kRows})},
//                   [&](llvm::ArrayRef<Tensor> in) -> Loss {
//                     Tensor logits = matmul(in[0], weight) + bias;
//                     return {softmaxCrossEntropy(logits, in[1]), in[1]};
//                   });
//   graph.finish().print(llvm::outs());
//
// Shapes are those of the whole job: nothing here knows of ranks. The first
// dimension of what is data is kRows, the number of rows that a call brings;
// every other dimension is known.
//
// Errors: every call checks what it is given and throws FrontendError with one
// message that names the call, the entry and scope it stands in, the shapes,
// and what was expected. A graph whose entry threw is without that entry and
// otherwise as it was.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_GRAPH_H
#define MIXLE_FRONTEND_GRAPH_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace mixle::frontend {

/// A mistake in a graph, a configuration or a file: one message for a person.
class FrontendError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The floating-point type of a graph's parameters and arithmetic.
enum class Precision { F32, F64 };

using Shape = std::vector<int64_t>;

/// The run-time number of rows; only ever a leading dimension.
inline constexpr int64_t kRows = mlir::ShapedType::kDynamic;

class Graph;

/// A handle on a value of a graph: a parameter, a data argument, or the result
/// of an op. Cheap to copy; valid while its graph lives and, but for
/// parameters, inside the entry that made it.
class Tensor {
public:
  Tensor() = default;

  explicit operator bool() const { return owner != nullptr; }
  mlir::RankedTensorType type() const { return tensorType; }
  /// Sizes; kRows where the number of rows is meant.
  llvm::ArrayRef<int64_t> shape() const { return tensorType.getShape(); }
  int64_t rank() const { return tensorType.getRank(); }
  /// The size of dimension `d`; negative `d` counts from the end. Errors: out
  /// of range.
  int64_t dim(int64_t d) const;
  bool isFloat() const {
    return llvm::isa<mlir::FloatType>(tensorType.getElementType());
  }
  /// The graph of this tensor. Errors: an empty handle.
  Graph &graph() const;

private:
  friend class Graph;
  Tensor(Graph *owner, mlir::RankedTensorType type)
      : owner(owner), tensorType(type) {}

  Graph *owner = nullptr;
  mlir::RankedTensorType tensorType;
  mlir::Value value;      // null for a parameter
  int64_t parameter = -1; // index in declaration order
  uint64_t entry = 0;     // serial of the entry that `value` belongs to
};

/// How `initialize` makes a parameter.
struct Init {
  /// Every element is `value`.
  static Init constant(double value) { return {"constant", value, 0}; }
  /// Normal with this mean and standard deviation (>= 0).
  static Init normal(double mean, double std) { return {"normal", mean, std}; }
  /// Uniform on [low, high).
  static Init uniform(double low, double high) {
    return {"uniform", low, high};
  }

  const char *kind;
  double first, second;
};

struct ParameterOptions {
  /// One name per dimension: what a plan may split ("heads", "kv_heads",
  /// "ffn", "vocabulary", "components"), or "" for never. None given: all "".
  std::vector<std::string> factors = {};
  /// The shape in files, with as many elements. None given: the shape itself.
  std::optional<Shape> fileShape = std::nullopt;
  /// Whether decoupled weight decay applies by default.
  bool decay = true;
  /// False for what only estimation steps replace.
  bool trained = true;
};

/// A data argument of an entry. Its role tells the runtime what to feed.
struct Data {
  /// Token ids (i32), as [kRows, sequence].
  static Data tokens(Shape shape) {
    return {"tokens", "tokens", std::move(shape)};
  }
  /// Class labels (i32); -100 is ignored.
  static Data labels(Shape shape) {
    return {"labels", "labels", std::move(shape)};
  }
  /// Rows of numbers in the graph's precision, as [kRows, ...].
  static Data rows(Shape shape) { return {"rows", "rows", std::move(shape)}; }
  /// A weight per row in the graph's precision, as [kRows].
  static Data rowWeights(Shape shape) {
    return {"row_weights", "row_weights", std::move(shape)};
  }

  std::string name; ///< For messages and locations; unique in its entry.
  std::string role; ///< tokens, labels, rows or row_weights.
  Shape shape;      ///< kRows first.
};

/// A result of an entry and the role it plays ("logits", "log_density", ...).
struct Output {
  Tensor tensor;
  std::string role;
};

/// What a training entry sums: the loss of each token or row, and what counts.
struct Loss {
  /// One loss per token or row, any shape, in the graph's precision.
  Tensor losses;
  /// Integer labels: those other than -100 count. An empty handle: every
  /// element of `losses` counts.
  Tensor labels = {};
};

struct GraphOptions {
  Precision precision = Precision::F32;
  std::string kind = "training";         ///< or "estimation"
  std::string numerics = "reproducible"; ///< or "fast"
};

/// One mixle program under construction. Not thread-safe.
class Graph {
public:
  /// A program in a module of its own, in a context of its own.
  explicit Graph(llvm::StringRef name, GraphOptions options = {});
  /// A program in a module of its own, in the caller's context.
  Graph(mlir::MLIRContext &context, llvm::StringRef name,
        GraphOptions options = {});
  /// A program at the end of the caller's module, which stays the caller's.
  Graph(mlir::ModuleOp module, llvm::StringRef name, GraphOptions options = {});
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  /// Declares a parameter: `name` is its logical id, under which it stands in
  /// files; `shape` is what the program computes with. Errors: a name that is
  /// empty or taken (entries share the names), a size that is not positive, a
  /// number of elements over 2^62, factors that do not fit or that no plan
  /// knows, a file shape with another number of elements, an initialisation
  /// that is not finite.
  Tensor parameter(llvm::StringRef name, Shape shape, Init init,
                   ParameterOptions options = {});

  /// Builds entry point `name`: `body` gets the data arguments in the order
  /// given and returns the results. Parameters that it uses become arguments
  /// after the data, in the order of their declaration. Errors: a name that is
  /// taken, data whose leading dimension is not kRows or whose role is
  /// unknown, an entry inside an entry, and whatever `body` throws.
  void
  entry(llvm::StringRef name, llvm::ArrayRef<Data> data,
        llvm::function_ref<std::vector<Output>(llvm::ArrayRef<Tensor>)> body);

  /// Builds entry @loss of a training program: after the data come two
  /// accumulators, and the results are the exact sum of the losses and the
  /// count added to them. The division by the count comes once, in the step.
  void lossEntry(llvm::ArrayRef<Data> data,
                 llvm::function_ref<Loss(llvm::ArrayRef<Tensor>)> body);

  /// Puts an entry into the program's `config` dictionary, which the compiler
  /// hands to the runtime.
  void config(llvm::StringRef key, mlir::Attribute value);
  void config(llvm::StringRef key, int64_t value);
  void config(llvm::StringRef key, llvm::StringRef value);

  /// Declares a scalar that stands in this model's files and is no parameter:
  /// saving writes this value, loading accepts no other. It goes into
  /// `config.file_constants` as an elements attribute of the graph's precision.
  void fileConstant(llvm::StringRef name, double value);

  /// Fixes a number of granules ("heads", ...) or the block length ("tokens").
  void granules(llvm::StringRef factor, int64_t count);

  /// While the result lives, ops carry `name` in their locations and messages
  /// (nested scopes are joined by dots).
  class Scope {
  public:
    Scope(Graph &graph, llvm::StringRef name) : graph(graph) {
      graph.scopes.push_back(name.str());
    }
    ~Scope() { graph.scopes.pop_back(); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    Graph &graph;
  };

  /// Verifies the program and returns its module. Errors: the first thing that
  /// the verifier finds, or a program without entries.
  mlir::ModuleOp finish();
  /// finish(), and hands the module over. Errors: also a graph whose context
  /// or module is not the caller's to keep apart from the graph.
  mlir::OwningOpRef<mlir::ModuleOp> take();

  mlir::MLIRContext &context() { return *builder.getContext(); }
  Precision precision() const { return options.precision; }
  /// f32 or f64.
  mlir::FloatType floatType();

  /// \name For code that makes ops (Ops.cpp, estimators).
  /// @{
  /// The SSA value of `tensor` in the current entry. Errors, naming `call`: an
  /// empty handle, another graph's, a finished entry's, no entry open.
  mlir::Value resolve(const Tensor &tensor, llvm::StringRef call);
  /// A handle on `value`, which stands in the current entry.
  Tensor wrap(mlir::Value value);
  mlir::OpBuilder &opBuilder() { return builder; }
  mlir::Location location();
  /// Throws a FrontendError: "call (in @entry, scope): message".
  [[noreturn]] void fail(llvm::StringRef call, const llvm::Twine &message);
  /// @}

private:
  struct Parameter {
    std::string name;
    mlir::Operation *op;
    mlir::Value argument; // in the current entry, null until used
  };

  void start(llvm::StringRef name);
  void checkName(llvm::StringRef call, llvm::StringRef name);
  void buildEntry(
      llvm::StringRef name, llvm::ArrayRef<Data> data, bool accumulators,
      llvm::function_ref<std::vector<Output>(llvm::ArrayRef<Tensor>)> body);
  void closeEntry(mlir::Operation *op, llvm::ArrayRef<std::string> roles,
                  llvm::ArrayRef<Output> outputs);
  mlir::Type dataType(const Data &data);

  GraphOptions options;
  std::unique_ptr<mlir::MLIRContext> ownContext;
  mlir::OwningOpRef<mlir::ModuleOp> ownModule;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Operation *program = nullptr;
  std::vector<Parameter> parameters;
  std::vector<std::string> scopes;
  mlir::Block *current = nullptr; // body of the open entry
  std::string currentName;
  uint64_t serial = 0; // of the open entry
};

} // namespace mixle::frontend

#include "frontend/cpp/Ops.h"

#endif // MIXLE_FRONTEND_GRAPH_H
