//===- CompileEstimator.cpp - Programs of estimators, in process ----------===//

#include "test/compiler/Estimation/CompileEstimator.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Pipeline.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Mixle/Mixle.h"
#include "frontend/cpp/estimators/GaussianMixture.h"
#include "mlir/IR/MLIRContext.h"

namespace mixle::test {

namespace ir = ::mlir::mixle;

static void apply(mlir::ModuleOp module, const CompileSettings &settings) {
  for (auto program : module.getOps<ir::ProgramOp>()) {
    mlir::Builder builder(program.getContext());
    mlir::NamedAttrList config(program.getConfig());
    mlir::NamedAttrList granules(program.getGranules());
    if (settings.batch)
      config.set("batch", builder.getI64IntegerAttr(settings.batch));
    if (settings.blockRows)
      granules.set("rows", builder.getI64IntegerAttr(settings.blockRows));
    if (settings.components)
      granules.set("components", builder.getI64IntegerAttr(settings.components));
    program.setConfigAttr(config.getDictionary(program.getContext()));
    program.setGranulesAttr(granules.getDictionary(program.getContext()));
  }
}

runtime::Expected<std::shared_ptr<const runtime::LoadedProgram>>
compileEstimator(const std::string &spec, const CompileSettings &settings) {
  mlir::DialectRegistry registry;
  registry.insert<ir::MixleDialect, mlir::dist::DistDialect,
                  mlir::exec::ExecDialect>();
  ir::registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string message;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return mlir::success();
  });
  runtime::fb::ProgramT program;
  try {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        frontend::buildEstimator(spec, context);
    apply(*module, settings);
    ir::PipelineOptions options;
    options.plan = settings.plan;
    options.precision = "fp64";
    if (mlir::failed(ir::runPhases(*module, options)) ||
        mlir::failed(ir::emitModule(*module, options, program)))
      return runtime::Status::error(message);
  } catch (const frontend::FrontendError &error) {
    return runtime::Status::error(error.what());
  }
  std::string bytes = runtime::serializeProgram(program);
  return runtime::parseProgram(reinterpret_cast<const uint8_t *>(bytes.data()),
                               bytes.size(), "estimator.fbs");
}

} // namespace mixle::test
