//===- CausalLm.cpp - mixle's CausalLM ------------------------------------===//

#include "frontend/cpp/models/CausalLm.h"

#include "frontend/cpp/models/ConfigReader.h"

#include <cmath>

using namespace llvm;

namespace mixle::frontend {

CausalLmConfig readCausalLmConfig(ConfigReader &reader) {
  reader.ignore({"model_type"});
  CausalLmConfig config;
  config.vocabulary = reader.positive("vocab", std::nullopt, kMaximumSize);
  config.width = reader.positive("d_model", config.width, kMaximumSize / 4);
  config.blocks = reader.positive("n_layer", config.blocks, kMaximumBlocks);
  config.heads = reader.positive("n_head", config.heads, kMaximumSize);
  config.block = reader.positive("block", config.block, kMaximumSize);
  if (config.width % config.heads != 0)
    reader.failPlain("d_model = " + Twine(config.width) +
                     " does not divide by n_head = " + Twine(config.heads) +
                     ": every head has d_model / n_head columns");
  if (!reader.isNullOrAbsent("embedding"))
    reader.fail("embedding", "is not executed; remove it or set it to null");
  if (reader.boolean("gradient_checkpointing", false))
    reader.fail("gradient_checkpointing", "is not executed; set it to false");
  reader.finish();
  return config;
}

Decoder declareCausalLm(Graph &graph, const CausalLmConfig &config) {
  const int64_t d = config.width, h = config.heads, dh = d / h, f = 4 * d;
  const Init zero = Init::constant(0), one = Init::constant(1);
  auto linear = [](int64_t inputs) {
    double bound = 1 / std::sqrt(static_cast<double>(inputs));
    return Init::uniform(-bound, bound);
  };

  Decoder model;
  model.layout = WeightLayout::OutputFirst;
  model.epsilon = 1e-5;
  model.tanhGelu = false;
  model.tokenEmbedding =
      graph.parameter("tok.weight", {config.vocabulary, d}, Init::normal(0, 1),
                      withDecay({"vocabulary", ""}));
  model.positionEmbedding = graph.parameter("pos.weight", {config.block, d},
                                            Init::normal(0, 1), withDecay({}));
  for (int64_t i = 0; i < config.blocks; ++i) {
    DecoderBlock block;
    block.scope = "blocks." + std::to_string(i);
    const std::string prefix = block.scope + ".";
    auto parameter = [&](const char *name, Shape shape, Init init,
                         ParameterOptions options) {
      return graph.parameter(prefix + name, std::move(shape), init,
                             std::move(options));
    };
    block.norm1Gain = parameter("ln1.weight", {d}, one, withoutDecay());
    block.norm1Bias = parameter("ln1.bias", {d}, zero, withoutDecay());
    block.norm2Gain = parameter("ln2.weight", {d}, one, withoutDecay());
    block.norm2Bias = parameter("ln2.bias", {d}, zero, withoutDecay());
    block.qkvWeight =
        parameter("attn.qkv.weight", {3, h, dh, d}, linear(d),
                  withDecay({"", "heads", "", ""}, Shape{3 * d, d}));
    block.qkvBias = parameter("attn.qkv.bias", {3, h, dh}, linear(d),
                              withoutDecay({"", "heads", ""}, Shape{3 * d}));
    block.projectionWeight =
        parameter("attn.proj.weight", {d, h, dh}, linear(d),
                  withDecay({"", "heads", ""}, Shape{d, d}));
    block.projectionBias =
        parameter("attn.proj.bias", {d}, linear(d), withoutDecay());
    block.hiddenWeight =
        parameter("mlp.0.weight", {f, d}, linear(d), withDecay({"ffn", ""}));
    block.hiddenBias =
        parameter("mlp.0.bias", {f}, linear(d), withoutDecay({"ffn"}));
    block.outputWeight =
        parameter("mlp.2.weight", {d, f}, linear(f), withDecay({"", "ffn"}));
    block.outputBias = parameter("mlp.2.bias", {d}, linear(f), withoutDecay());
    block.attentionScale = 1 / std::sqrt(static_cast<double>(dh));
    model.blocks.push_back(block);
  }
  model.normGain = graph.parameter("ln.weight", {d}, one, withoutDecay());
  model.normBias = graph.parameter("ln.bias", {d}, zero, withoutDecay());
  model.head = model.tokenEmbedding;
  return model;
}

void buildCausalLm(Graph &graph, const CausalLmConfig &config,
                   std::optional<int64_t> sequence) {
  int64_t length = checkedSequence(sequence, config.block, "block");
  graph.config("model_type", "mixle_causal_lm");
  graph.fileConstant("mup_output_multiplier", 1.0);
  buildDecoderEntries(graph, declareCausalLm(graph, config), length);
}

} // namespace mixle::frontend
