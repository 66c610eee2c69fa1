//===- GaussianMixture.cpp - Estimators of Gaussian mixtures --------------===//

#include "frontend/cpp/estimators/GaussianMixture.h"

#include "dialects/Mixle/Mixle.h"
#include "mlir/IR/Verifier.h"
#include "runtime/base/Files.h"

#include <algorithm>

using namespace llvm;

namespace mixle::frontend {

namespace ir = mlir::mixle;
using mixle::runtime::MixtureSpec;

namespace {

/// A specification of more bytes than this is some other file.
constexpr uint64_t kMaximumSpecBytes = 16 << 20;

/// Arguments and results of one entry as it is built.
struct EntryBuilder {
  EntryBuilder(mlir::Block *body, mlir::Location loc, StringRef name)
      : loc(loc), builder(mlir::OpBuilder::atBlockEnd(body)) {
    entry = ir::EntryOp::create(builder, loc, name,
                                builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(&entry.getBody().front());
  }

  mlir::DictionaryAttr attributes(StringRef role, StringRef of) {
    mlir::NamedAttrList list;
    list.set(ir::kRoleAttr, builder.getStringAttr(role));
    if (!of.empty())
      list.set(ir::kOfAttr,
               mlir::FlatSymbolRefAttr::get(builder.getContext(), of));
    return list.getDictionary(builder.getContext());
  }
  mlir::Value argument(StringRef role, mlir::Type type, StringRef of = {}) {
    unsigned index = entry.getNumArguments();
    (void)entry.insertArgument(index, type, attributes(role, of), loc);
    return entry.getArgument(index);
  }
  void result(mlir::Value value, StringRef role, StringRef of = {}) {
    results.push_back(value);
    resultAttributes.push_back(attributes(role, of));
  }
  void finish() {
    ir::ReturnOp::create(builder, loc, results);
    SmallVector<mlir::Type> types;
    for (mlir::Value value : results)
      types.push_back(value.getType());
    entry.setFunctionType(
        builder.getFunctionType(entry.getArgumentTypes(), types));
    entry.setAllResultAttrs(resultAttributes);
  }

  mlir::Location loc;
  mlir::OpBuilder builder;
  ir::EntryOp entry;
  SmallVector<mlir::Value> results;
  SmallVector<mlir::DictionaryAttr> resultAttributes;
};

class MixtureBuilder {
public:
  MixtureBuilder(const MixtureSpec &spec, mlir::MLIRContext &context)
      : spec(spec), builder(&context),
        loc(mlir::NameLoc::get(builder.getStringAttr("gaussian_mixture"))),
        f64(builder.getF64Type()), k(spec.components), d(spec.shape.dim),
        f(spec.shape.features()), full(builder.getBoolAttr(spec.shape.full)) {
    context.loadDialect<ir::MixleDialect>();
  }

  mlir::OwningOpRef<mlir::ModuleOp> build() {
    mlir::OwningOpRef<mlir::ModuleOp> module(mlir::ModuleOp::create(loc));
    builder.setInsertionPointToEnd(module->getBody());
    auto integer = [&](int64_t v) { return builder.getI64IntegerAttr(v); };
    mlir::NamedAttrList config;
    config.set("batch", integer(kEstimatorTileRows));
    config.set("sequence", integer(1));
    config.set("estimator", builder.getStringAttr(spec.asText()));
    auto program = ir::ProgramOp::create(
        builder, loc, builder.getStringAttr("gaussian_mixture"),
        builder.getStringAttr("estimation"),
        builder.getStringAttr("reproducible"), builder.getDictionaryAttr({}),
        config.getDictionary(builder.getContext()));
    body = &program.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(body);
    SmallVector<int64_t> covariance = {k, d};
    if (spec.shape.full)
      covariance.push_back(d);
    declare("weights", {k}, true, 1.0 / static_cast<double>(k));
    declare("means", {k, d}, true, 0);
    declare("covariances", covariance, true, 1);
    declare("_anchor", {d}, false, 0);
    declare("_scale", {d}, false, 1);
    declare("_statistics", {k, f}, true, 0);
    buildAccumulate();
    buildEstimate();
    buildLogDensity();
    if (mlir::failed(mlir::verify(*module)))
      throw FrontendError("the estimator's program does not verify");
    return module;
  }

private:
  mlir::RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(shape, f64);
  }
  mlir::RankedTensorType typeOf(StringRef parameter) {
    auto op = cast<ir::ProgramOp>(body->getParentOp())
                  .lookupSymbol<ir::ParameterOp>(parameter);
    return cast<mlir::RankedTensorType>(op.getType());
  }
  mlir::RankedTensorType statisticsType() {
    return mlir::RankedTensorType::get(
        {k, f}, ir::AccType::get(builder.getContext(), f64));
  }
  mlir::RankedTensorType exactType() {
    return mlir::RankedTensorType::get(
        {}, ir::ExactType::get(builder.getContext(), f64));
  }

  void declare(StringRef name, ArrayRef<int64_t> shape, bool components,
               double value) {
    SmallVector<StringRef> factors(shape.size());
    if (components)
      factors[0] = "components";
    mlir::NamedAttrList init;
    init.set("kind", builder.getStringAttr("constant"));
    init.set("value", builder.getF64FloatAttr(value));
    ir::ParameterOp::create(
        builder, loc, builder.getStringAttr(name),
        mlir::TypeAttr::get(tensor(shape)), builder.getStrArrayAttr(factors),
        builder.getDenseI64ArrayAttr(shape),
        init.getDictionary(builder.getContext()), builder.getBoolAttr(false),
        builder.getBoolAttr(false));
  }

  struct Parameters {
    mlir::Value weights, means, covariances, anchor, scale;
  };
  Parameters parameters(EntryBuilder &e) {
    auto get = [&](StringRef name) {
      return e.argument("parameter", typeOf(name), name);
    };
    return {get("weights"), get("means"), get("covariances"), get("_anchor"),
            get("_scale")};
  }

  struct Scores {
    mlir::Value features, scores, maximum, sum, logDensity;
  };
  /// Scores of rows and their logsumexp.
  Scores score(EntryBuilder &e, mlir::Value rows, const Parameters &p,
               bool centreAll) {
    mlir::OpBuilder &b = e.builder;
    Scores s;
    s.features = ir::MixtureFeaturesOp::create(b, loc, rows, p.anchor, p.scale,
                                               full);
    auto forms = ir::MixtureFormsOp::create(
        b, loc, p.weights, p.means, p.covariances, p.anchor, p.scale, full,
        builder.getBoolAttr(centreAll));
    mlir::Value product = ir::DotGeneralOp::create(
        b, loc, s.features, forms.getNatural(), ArrayRef<int64_t>{1},
        ArrayRef<int64_t>{1});
    s.scores = ir::CentredScoresOp::create(
        b, loc, product, rows, p.means, forms.getFactors(),
        forms.getConstants(), forms.getCentred(), full);
    s.maximum = ir::RowMaxOp::create(b, loc, s.scores);
    s.sum = ir::RowSumExpOp::create(b, loc, s.scores, s.maximum,
                                    mlir::IntegerAttr(), mlir::IntegerAttr());
    s.logDensity = ir::LogAddOp::create(b, loc, s.maximum.getType(), s.maximum,
                                        s.sum);
    return s;
  }

  void buildAccumulate() {
    EntryBuilder e(body, loc, "accumulate");
    mlir::OpBuilder &b = e.builder;
    mlir::Value rows = e.argument("rows", tensor({kRows, d}));
    mlir::Value weights = e.argument("row_weights", tensor({kRows}));
    mlir::Value statistics =
        e.argument("accumulator", statisticsType(), "_statistics");
    mlir::Value loss = e.argument("loss", exactType());
    Parameters p = parameters(e);
    Scores s = score(e, rows, p, false);
    // A row of weight 0 counts for nothing, even where no component explains it.
    mlir::Value none = ir::ConstantOp::create(
        b, loc, tensor({}),
        mlir::DenseElementsAttr::get(tensor({}), b.getF64FloatAttr(0)));
    mlir::Value zeros = ir::BroadcastOp::create(b, loc, none, weights,
                                                ArrayRef<int64_t>{});
    mlir::Value counts = ir::CompareOp::create(b, loc, weights, zeros, "gt");
    mlir::Value weighted = ir::MulOp::create(b, loc, weights.getType(), weights,
                                             s.logDensity);
    mlir::Value terms = ir::SelectOp::create(b, loc, weights.getType(), counts,
                                             weighted, zeros);
    loss = ir::ExactSumOp::create(b, loc, exactType(), loss, terms,
                                  b.getBoolAttr(false));
    mlir::Value responsibilities = ir::SoftmaxScaleOp::create(
        b, loc, s.scores, s.maximum, s.sum, weights);
    // mixle-assign-granules sets the block.
    statistics = ir::AccumulateDotOp::create(
        b, loc, statisticsType(), statistics, responsibilities, s.features,
        b.getI64IntegerAttr(1), b.getI64IntegerAttr(128),
        mlir::FlatSymbolRefAttr::get(b.getContext(), "_statistics"));
    e.result(statistics, "accumulator", "_statistics");
    e.result(loss, "loss");
    e.finish();
  }

  void buildEstimate() {
    EntryBuilder e(body, loc, "estimate");
    mlir::OpBuilder &b = e.builder;
    mlir::Value accumulator =
        e.argument("accumulator", statisticsType(), "_statistics");
    mlir::Value loss = e.argument("loss", exactType());
    mlir::Value total = e.argument("total", exactType());
    Parameters p = parameters(e);
    mlir::Value statistics =
        ir::ResolveSumOp::create(b, loc, accumulator, "_statistics");
    mlir::Value column = ir::SliceOp::create(b, loc, statistics, 1, 0, 1);
    mlir::Value counts = ir::ReshapeOp::create(b, loc, tensor({k}), column);
    total = ir::ExactSumOp::create(b, loc, exactType(), total, counts,
                                   b.getBoolAttr(false));
    mlir::Value all = ir::RoundExactOp::create(b, loc, total);
    auto step = ir::MixtureStepOp::create(
        b, loc, statistics, all, p.anchor, p.scale, p.weights, p.means,
        p.covariances, b.getStringAttr(spec.asText()));
    mlir::Value status = ir::MixtureStatusOp::create(
        b, loc, step.getNewCovariances(), full);
    e.result(loss, "loss");
    e.result(status, "status");
    e.result(step.getNewWeights(), "parameter", "weights");
    e.result(step.getNewMeans(), "parameter", "means");
    e.result(step.getNewCovariances(), "parameter", "covariances");
    e.result(statistics, "parameter", "_statistics");
    e.finish();
  }

  void buildLogDensity() {
    EntryBuilder e(body, loc, "log_density");
    mlir::Value rows = e.argument("rows", tensor({kRows, d}));
    Parameters p = parameters(e);
    // Rows may be anything, far from the data that the frame was made for.
    e.result(score(e, rows, p, true).logDensity, "log_density");
    e.finish();
  }

  const MixtureSpec &spec;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::FloatType f64;
  int64_t k, d, f;
  mlir::BoolAttr full;
  mlir::Block *body = nullptr;
};

template <typename T> T valueOrThrow(mixle::runtime::Expected<T> expected) {
  if (!expected.ok())
    throw FrontendError(expected.status().message());
  return expected.take();
}

} // namespace

mlir::OwningOpRef<mlir::ModuleOp>
buildGaussianMixture(const MixtureSpec &spec, mlir::MLIRContext &context) {
  return MixtureBuilder(spec, context).build();
}

mlir::OwningOpRef<mlir::ModuleOp> buildEstimator(StringRef spec,
                                                 mlir::MLIRContext &context) {
  std::string text = spec.str(), what = "estimator specification";
  if (!spec.ltrim().starts_with("{")) {
    what = text;
    text = valueOrThrow(mixle::runtime::readFile(what, kMaximumSpecBytes));
  }
  return buildGaussianMixture(valueOrThrow(MixtureSpec::parseText(text, what)),
                              context);
}

} // namespace mixle::frontend
