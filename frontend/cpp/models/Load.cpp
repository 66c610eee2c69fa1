//===- Load.cpp - From a configuration to a program -----------------------===//

#include "frontend/cpp/models/Load.h"

#include "frontend/cpp/models/CausalLm.h"
#include "frontend/cpp/models/ConfigReader.h"
#include "frontend/cpp/models/Gpt2.h"
#include "frontend/cpp/models/Llama.h"
#include "runtime/base/Files.h"

#include <filesystem>

using namespace llvm;

namespace mixle::frontend {

namespace {

/// A configuration of more bytes than this is some other file.
constexpr uint64_t kMaximumConfigBytes = 16 << 20;

struct Model {
  StringLiteral type;   ///< model_type
  StringLiteral symbol; ///< name of the program
  void (*build)(Graph &, ConfigReader &, const std::string &type,
                std::optional<int64_t>);
};

void buildLlamaOf(Graph &graph, ConfigReader &reader, const std::string &type,
                  std::optional<int64_t> sequence) {
  buildLlama(graph, readLlamaConfig(reader, type), sequence);
}

constexpr Model kModels[] = {
    {"gpt2", "gpt2",
     [](Graph &graph, ConfigReader &reader, const std::string &,
        std::optional<int64_t> sequence) {
       buildGpt2(graph, readGpt2Config(reader), sequence);
     }},
    {"mixle_causal_lm", "causal_lm",
     [](Graph &graph, ConfigReader &reader, const std::string &,
        std::optional<int64_t> sequence) {
       buildCausalLm(graph, readCausalLmConfig(reader), sequence);
     }},
    {"llama", "llama", buildLlamaOf},
    {"mistral", "mistral", buildLlamaOf},
    {"qwen2", "qwen2", buildLlamaOf},
    {"qwen3", "qwen3", buildLlamaOf},
};

template <typename T> T valueOrThrow(mixle::runtime::Expected<T> expected) {
  if (!expected.ok())
    throw FrontendError(expected.status().message());
  return expected.take();
}

ConfigReader openConfig(StringRef config) {
  std::string text = config.str(), what = "model configuration";
  if (!config.ltrim().starts_with("{")) {
    std::error_code unknown;
    if (std::filesystem::is_directory(text, unknown))
      text = (std::filesystem::path(text) / "config.json").string();
    what = text;
    text = valueOrThrow(mixle::runtime::readFile(what, kMaximumConfigBytes));
  }
  return ConfigReader(valueOrThrow(mixle::runtime::parseJson(text, what)),
                      what);
}

} // namespace

mlir::OwningOpRef<mlir::ModuleOp> buildModel(StringRef config,
                                             Precision precision,
                                             std::optional<int64_t> sequence,
                                             mlir::MLIRContext &context) {
  ConfigReader reader = openConfig(config);
  std::string known;
  for (const Model &model : kModels)
    known += (known.empty() ? "" : ", ") + model.type.str();
  if (!reader.has("model_type"))
    reader.failPlain("'model_type' is missing; known are " + known);
  std::string type = reader.string("model_type", std::nullopt);
  for (const Model &model : kModels) {
    if (type != model.type)
      continue;
    GraphOptions options;
    options.precision = precision;
    Graph graph(context, model.symbol, options);
    model.build(graph, reader, type, sequence);
    return graph.take();
  }
  reader.fail("model_type", "is not known; known are " + known);
}

} // namespace mixle::frontend
