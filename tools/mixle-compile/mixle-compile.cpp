//===- mixle-compile.cpp - From a model and a plan to a program -----------===//
//
// Exit status: 0, 1 for bad input, 2 for a bad command line.
//
//===----------------------------------------------------------------------===//

#include "compiler/Codegen/Codegen.h"
#include "compiler/Mixle/Passes.h"
#include "compiler/Pipeline.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Mixle/Mixle.h"
#include "frontend/cpp/Graph.h"
#include "frontend/cpp/models/Load.h"
#if __has_include("frontend/cpp/estimators/GaussianMixture.h")
#include "frontend/cpp/estimators/GaussianMixture.h"
#define MIXLE_HAS_ESTIMATORS
#endif
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/program/ProgramFile.h"
#include "tools/CommandLine.h"
#include "tools/mixle-compile/Options.h"

#include <algorithm>
#include <cstdio>
#include <exception>

using namespace mlir;
using ::mixle::tools::CompileOptions;
namespace rt = ::mixle::runtime;

/// Returns the exit status: 2 for a bad command line.
static int fail(const std::string &message, int status = 1) {
  std::fprintf(stderr, "mixle-compile: error: %s\n", message.c_str());
  return status;
}

/// What options may stand for in this program.
static ::mixle::tools::InputFacts factsOf(mlir::mixle::ProgramOp program) {
  ::mixle::tools::InputFacts facts;
  facts.training = program.getKind() == "training";
  auto add = [&](StringRef name) {
    if (!name.empty() && !llvm::is_contained(facts.factors, name))
      facts.factors.push_back(name.str());
  };
  if (facts.training)
    add("tokens");
  for (auto parameter : program.getOps<mlir::mixle::ParameterOp>()) {
    facts.fp64 = cast<RankedTensorType>(parameter.getType()).getElementType().isF64();
    for (Attribute factor : parameter.getFactors())
      add(cast<StringAttr>(factor).getValue());
  }
  program.walk([&](mlir::mixle::AttentionOp) { add("sequence"); });
  return facts;
}

/// The options become attributes of the program: every pass reads them there.
/// What a file says stays where no option was given.
static void applyOptions(mlir::mixle::ProgramOp program,
                         const CompileOptions &options) {
  Builder builder(program.getContext());
  NamedAttrList config(program.getConfig());
  if (options.has("--optimizer"))
    for (const char *key : {"optimizer", "lr", "weight_decay", "decay", "momentum",
                            "beta1", "beta2", "eps"})
      config.erase(key);
  if (options.has("--lr-schedule"))
    config.erase("lr_schedule");
  if (program.getKind() == "training")
    for (const auto &[key, value] : options.configTexts)
      if (!config.get(key))
        config.set(key, builder.getStringAttr(value));
  for (const auto &[key, value] : options.configNumbers)
    config.set(key, builder.getF64FloatAttr(value));
  if (options.batch)
    config.set("batch", builder.getI64IntegerAttr(*options.batch));
  program.setConfigAttr(config.getDictionary(program.getContext()));
  if (options.has("--numerics"))
    program.setNumerics(options.numerics);
  NamedAttrList granules(program.getGranules());
  // Fast mode makes no promise across plans, so its granules follow the plan.
  if (program.getNumerics() == "fast")
    for (const char *factor : {"heads", "kv_heads", "ffn", "vocabulary", "components"})
      if (options.has("--numerics") || !granules.get(factor))
        granules.set(factor, builder.getI64IntegerAttr(options.parsedPlan.tp));
  for (const auto &[key, value] : options.parsedGranules)
    granules.set(key, builder.getI64IntegerAttr(value));
  program.setGranulesAttr(granules.getDictionary(program.getContext()));
}

static OwningOpRef<ModuleOp> loadInput(const CompileOptions &options,
                                       MLIRContext &context) {
  if (!options.input.empty())
    return parseSourceFile<ModuleOp>(options.input, &context);
#ifdef MIXLE_HAS_ESTIMATORS
  if (!options.estimator.empty())
    return ::mixle::frontend::buildEstimator(options.estimator, context);
#endif
  auto precision = options.precision == "fp64" ? ::mixle::frontend::Precision::F64
                                               : ::mixle::frontend::Precision::F32;
  return ::mixle::frontend::buildModel(options.model, precision,
                                       options.sequence, context);
}

static int compile(CompileOptions &options) {
  if (rt::Status status = ::mixle::tools::checkOptions(options); !status)
    return fail(status.message(), 2);
  if (rt::Status status = ::mixle::tools::loadPlan(options); !status)
    return fail(status.message());
  DialectRegistry registry;
  registry.insert<mlir::mixle::MixleDialect, dist::DistDialect, exec::ExecDialect>();
  mlir::mixle::registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  // One line per error, as every tool of the project prints it.
  std::string message;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    std::string where;
    if (auto file = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      where = (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" +
               Twine(file.getColumn()) + ": ")
                  .str();
    std::fprintf(stderr, "mixle-compile: error: %s%s\n", where.c_str(),
                 diagnostic.str().c_str());
    return success();
  });
  OwningOpRef<ModuleOp> module;
  try {
    module = loadInput(options, context);
  } catch (const std::exception &error) {
    return fail(error.what());
  }
  if (!module)
    return 1;
  auto programs = module->getOps<mlir::mixle::ProgramOp>();
  if (std::distance(programs.begin(), programs.end()) != 1)
    return fail("the input must hold exactly one mixle.program");
  mlir::mixle::ProgramOp logical = *programs.begin();
  const ::mixle::tools::InputFacts facts = factsOf(logical);
  if (rt::Status status = ::mixle::tools::checkAgainstInput(options, facts); !status)
    return fail(status.message(), 2);
  applyOptions(logical, options);
  if (facts.training && !options.batch && !logical.getConfig().get("batch"))
    return fail("give --batch, the global number of sequences per optimizer step", 2);

  mlir::mixle::PipelineOptions pipeline;
  pipeline.plan = options.parsedPlan.asText();
  pipeline.precision = options.precision;
  pipeline.stopAfter = options.stopAfter;
  pipeline.dumpTo = options.dumpTo;
  pipeline.cpu = options.target;
  if (failed(mlir::mixle::runPhases(*module, pipeline)))
    return 1;
  if (!options.stopAfter.empty()) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    // Not through llvm::outs(): a full disk would end it by abort().
    bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (std::fflush(stdout) != 0 || !whole)
      return fail("cannot write to the standard output");
    return 0;
  }
  rt::fb::ProgramT program;
  if (failed(mlir::mixle::emitModule(*module, pipeline, program)))
    return 1;
  if (rt::Status status = rt::writeProgram(program, options.output); !status)
    return fail(status.message());
  return 0;
}

static int usage(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  return fail(message + " (see mixle-compile --help)", 2);
}

int main(int argc, char **argv) {
  using namespace ::mixle::tools;
  CompileOptions options;
  CLI::App app("Compiles a model, an estimator or a .mlir program for a parallel plan.\n"
               "Exit status: 0, 1 for bad input, 2 for a bad command line.",
               "mixle-compile");
  addFile(app, "--model", options.model, "Hugging Face or mixle configuration: its JSON file, or "
          "the folder with config.json");
  addFile(app, "--estimator", options.estimator, "Estimator spec (JSON)");
  addFile(app, "input", options.input, "A program in the mixle dialect (.mlir)");
  app.add_option("--plan", options.plan,
                 "dp_replicate=2,tp=2,... or a JSON file (default: dp_replicate=1)");
  addInteger(app, "--batch", options.batch, 1,
             "Global sequences per optimizer step; of an estimator: rows at once "
             "(default of an estimator: 1024)", mostSize);
  addInteger(app, "--sequence", options.sequence, 1,
             "Tokens of a sequence (default: the most that the model takes)", mostSize);
  app.add_option("--optimizer", options.optimizer,
                 "sgd|adam|adamw[,key=value,...]; keys: lr, weight_decay, "
                 "decay=default|all, momentum (of sgd), beta1, beta2 and eps (of adam "
                 "and adamw) (default: adamw)");
  addReal(app, "--max-grad-norm", options.maxGradNorm,
          "Clip the global gradient norm (default: no clipping)");
  app.add_option("--lr-schedule", options.schedule,
                 "constant | linear,warmup=W,total=T | "
                 "cosine,warmup=W,total=T[,min_ratio=R] (default: constant)");
  app.add_option("--numerics", options.numerics,
                 "reproducible | fast (default: reproducible)");
  app.add_option("--granules", options.granules, "tokens=64,tensor=8,...");
  app.add_option("--pipeline-schedule", options.pipelineSchedule,
                 "gpipe | 1f1b | interleaved | zb-h1: the order in which stages work "
                 "(default: 1f1b)");
  addInteger(app, "--pipeline-chunks", options.pipelineChunks, 1,
             "Stages of a rank (default: 1; of interleaved: 2)", mostSize);
  app.add_option("--pipeline-split", options.pipelineSplit,
                 "Scopes at which stages begin, e.g. h.2,h.5 (default: stages of "
                 "balanced cost)");
  app.add_option("--precision", options.precision,
                 "fp32 | fp64 (default: fp32; estimators compute in fp64)");
  const CLI::Option *output =
      addFile(app, "-o,--output", options.output, "The program file to write");
  app.add_option("--stop-after", options.stopAfter,
                 "Print the IR after graph, plan, dist or exec instead");
  app.add_option("--dump-to", options.dumpTo, "Folder for the IR after every phase");
  app.add_option("--target", options.target,
                 "native | x86-64-v3 | x86-64-v4 (default: native)");
  if (rt::Status status = refuseEmptyValues(app, argc, argv); !status)
    return usage(status.message());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &help) {
    return app.exit(help);
  } catch (const CLI::ParseError &error) {
    return usage(error.what());
  }
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0)
      options.given.push_back(option == output ? "-o" : option->get_name());
  return compile(options);
}
