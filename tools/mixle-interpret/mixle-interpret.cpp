//===- mixle-interpret.cpp - Runs an entry of a program in float64 --------===//
//
// The reference interpreter as a tool:
//
//   mixle-interpret file.mlir --entry loss --args args.json [-o out.json]
//
// Arguments and results are lists of {"shape": [..], "data": [..]}. Exit status
// 1 and one message on any error.
//
//===----------------------------------------------------------------------===//

#include "compiler/Reference/Interpreter.h"
#include "compiler/Reference/TensorJson.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::mixle;
namespace cl = llvm::cl;

static cl::OptionCategory category("mixle-interpret options");
static cl::opt<std::string> inputFile(cl::Positional, cl::Required,
                                      cl::desc("<program.mlir>"),
                                      cl::cat(category));
static cl::opt<std::string>
    entryName("entry", cl::Required,
              cl::desc("Entry to run: name, or program::name"),
              cl::cat(category));
static cl::opt<std::string>
    argumentFile("args", cl::desc("JSON file of the arguments (- for stdin)"),
                 cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string> outputFile("o", cl::init("-"),
                                       cl::desc("Where results go"),
                                       cl::value_desc("file"),
                                       cl::cat(category));
static cl::opt<bool>
    roundToType("round-to-type",
                cl::desc("Round every f32 value to float after its op"),
                cl::cat(category));

static LogicalResult fail(const Twine &message) {
  llvm::errs() << "mixle-interpret: " << message << "\n";
  return failure();
}

/// Finds the entry that --entry names, in any program of the module.
static FailureOr<EntryOp> findEntry(ModuleOp module) {
  SmallVector<EntryOp> found;
  std::string known;
  module.walk([&](EntryOp entry) {
    auto program = cast<ProgramOp>(entry->getParentOp());
    std::string full =
        (program.getSymName() + "::" + entry.getSymName()).str();
    known += (known.empty() ? "" : ", ") + full;
    if (entryName == entry.getSymName() || entryName == full)
      found.push_back(entry);
  });
  if (found.size() == 1)
    return found.front();
  return fail(Twine(found.empty() ? "no entry" : "more than one entry") +
              " '" + entryName + "' in " + inputFile + "; it has: " +
              (known.empty() ? "none" : known));
}

static LogicalResult run() {
  MLIRContext context;
  context.loadDialect<MixleDialect>();
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(inputFile, &message);
  if (!file)
    return fail(message);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  FailureOr<EntryOp> entry = findEntry(*module);
  if (failed(entry))
    return failure();

  std::string text = "[]";
  if (!argumentFile.empty()) {
    std::unique_ptr<llvm::MemoryBuffer> buffer =
        openInputFile(argumentFile, &message);
    if (!buffer)
      return fail(message);
    text = buffer->getBuffer().str();
  } else if (entry->getNumArguments() > 0) {
    return fail("entry '" + entryName + "' takes " +
                Twine(entry->getNumArguments()) +
                " arguments: give them with --args file.json");
  }
  auto arguments =
      reference::tensorsFromJson(text, entry->getArgumentTypes());
  if (!arguments)
    return fail(argumentFile + ": " + llvm::toString(arguments.takeError()));

  SmallVector<reference::Tensor> results;
  reference::InterpreterOptions options;
  options.roundToType = roundToType;
  if (failed(reference::interpret(*entry, *arguments, results, options)))
    return failure();

  std::unique_ptr<llvm::ToolOutputFile> output =
      openOutputFile(outputFile, &message);
  if (!output)
    return fail(message);
  output->os() << reference::tensorsToJson(results);
  output->os().flush();
  if (output->os().has_error()) {
    message = output->os().error().message();
    output->os().clear_error();
    return fail("cannot write " + outputFile + ": " + message);
  }
  output->keep();
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Runs an entry of a mixle program in float64.\n");
  return failed(run());
}
