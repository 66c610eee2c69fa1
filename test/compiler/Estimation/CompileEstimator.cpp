//===- CompileEstimator.cpp - Programs of estimators, in process ----------===//

#include "test/compiler/Estimation/CompileEstimator.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Pipeline.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Mixle/Mixle.h"
#include "frontend/cpp/estimators/GaussianMixture.h"
#include "mlir/IR/MLIRContext.h"

using namespace mlir;
namespace rt = ::mixle::runtime;

static void apply(ModuleOp module, const ::mixle::test::CompileSettings &settings) {
  for (auto program : module.getOps<mlir::mixle::ProgramOp>()) {
    Builder builder(program.getContext());
    NamedAttrList config(program.getConfig()), granules(program.getGranules());
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

rt::Expected<std::shared_ptr<const rt::LoadedProgram>>
mixle::test::compileEstimator(const std::string &spec,
                              const CompileSettings &settings) {
  DialectRegistry registry;
  registry.insert<mlir::mixle::MixleDialect, dist::DistDialect,
                  exec::ExecDialect>();
  mlir::mixle::registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string message;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  rt::fb::ProgramT program;
  try {
    OwningOpRef<ModuleOp> module =
        ::mixle::frontend::buildEstimator(spec, context);
    apply(*module, settings);
    mlir::mixle::PipelineOptions options;
    options.plan = settings.plan;
    options.precision = "fp64";
    if (failed(mlir::mixle::runPhases(*module, options)) ||
        failed(mlir::mixle::emitModule(*module, options, program)))
      return rt::Status::error(message);
  } catch (const ::mixle::frontend::FrontendError &error) {
    return rt::Status::error(error.what());
  }
  std::string bytes = rt::serializeProgram(program);
  return rt::parseProgram(reinterpret_cast<const uint8_t *>(bytes.data()),
                          bytes.size(), "estimator.fbs");
}
