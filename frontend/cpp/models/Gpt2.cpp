//===- Gpt2.cpp - GPT-2 as Hugging Face defines it ------------------------===//

#include "frontend/cpp/models/Gpt2.h"

#include "frontend/cpp/models/ConfigReader.h"
#include "frontend/cpp/models/HuggingFace.h"

#include <cmath>

using namespace llvm;

namespace mixle::frontend {

namespace {

// What Hugging Face writes into GPT-2's configurations and GPT2LMHeadModel does
// not compute with.
constexpr StringLiteral kMetadata[] = {"n_ctx",
                                       "pad_token_id",
                                       "summary_type",
                                       "summary_use_proj",
                                       "summary_activation",
                                       "summary_proj_to_labels",
                                       "summary_first_dropout"};

/// Dropout that is not 0 is refused; so is a key left out, which means 0.1.
void refuseDropout(ConfigReader &reader, StringRef key) {
  if (!reader.has(key))
    reader.failPlain("'" + key +
                     "' is missing, which means 0.1 (Hugging Face's default): "
                     "dropout is not executed yet; set it to 0");
  if (reader.nonNegative(key, 0) != 0)
    reader.fail(key, "is dropout, which is not executed yet; set it to 0");
}

} // namespace

Gpt2Config readGpt2Config(ConfigReader &reader) {
  // The names that all of Hugging Face's configurations share.
  reader.alias("hidden_size", "n_embd");
  reader.alias("max_position_embeddings", "n_positions");
  reader.alias("num_attention_heads", "n_head");
  reader.alias("num_hidden_layers", "n_layer");

  Gpt2Config config;
  config.vocabularySize =
      reader.positive("vocab_size", config.vocabularySize, kMaximumSize);
  config.positions =
      reader.positive("n_positions", config.positions, kMaximumSize);
  config.width = reader.positive("n_embd", config.width, kMaximumSize);
  config.blocks = reader.positive("n_layer", config.blocks, kMaximumBlocks);
  config.heads = reader.positive("n_head", config.heads, kMaximumSize);
  if (config.width % config.heads != 0)
    reader.failPlain("n_embd = " + Twine(config.width) +
                     " does not divide by n_head = " + Twine(config.heads) +
                     ": every head has n_embd / n_head columns");
  if (!reader.isNullOrAbsent("n_inner"))
    config.hidden = reader.positive("n_inner", std::nullopt, kMaximumSize);

  std::string activation = reader.string("activation_function", "gelu_new");
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh")
    config.tanhGelu = true;
  else if (activation == "gelu")
    config.tanhGelu = false;
  else
    reader.fail("activation_function", "is not executed; known are gelu_new, "
                                       "gelu_pytorch_tanh and gelu");
  for (StringRef key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    refuseDropout(reader, key);

  config.epsilon = reader.nonNegative("layer_norm_epsilon", config.epsilon);
  config.initializerRange =
      reader.nonNegative("initializer_range", config.initializerRange);
  config.scaleAttention = reader.boolean("scale_attn_weights", true);
  config.scaleByLayer =
      reader.boolean("scale_attn_by_inverse_layer_idx", false);
  config.tied = reader.boolean("tie_word_embeddings", true);

  if (reader.boolean("reorder_and_upcast_attn", false))
    reader.fail("reorder_and_upcast_attn", "is not executed; set it to false");
  refuseOtherModels(reader);
  ignoreMetadata(reader);
  reader.ignore(kMetadata);
  reader.finish();
  return config;
}

Decoder declareGpt2(Graph &graph, const Gpt2Config &config) {
  const int64_t d = config.width, h = config.heads, dh = d / h;
  const int64_t f = config.hiddenWidth();
  const Init normal = Init::normal(0, config.initializerRange);
  // Residual branches start smaller, by the number of them.
  const Init residual =
      Init::normal(0, config.initializerRange /
                          std::sqrt(2.0 * static_cast<double>(config.blocks)));
  const Init zero = Init::constant(0), one = Init::constant(1);

  Decoder model;
  model.layout = WeightLayout::InputFirst;
  model.epsilon = config.epsilon;
  model.tanhGelu = config.tanhGelu;
  model.tokenEmbedding =
      graph.parameter("transformer.wte.weight", {config.vocabularySize, d},
                      normal, withDecay({"vocabulary", ""}));
  model.positionEmbedding = graph.parameter(
      "transformer.wpe.weight", {config.positions, d}, normal, withDecay({}));
  for (int64_t i = 0; i < config.blocks; ++i) {
    DecoderBlock block;
    block.scope = "h." + std::to_string(i);
    const std::string prefix = "transformer." + block.scope + ".";
    auto parameter = [&](const char *name, Shape shape, Init init,
                         ParameterOptions options) {
      return graph.parameter(prefix + name, std::move(shape), init,
                             std::move(options));
    };
    block.norm1Gain = parameter("ln_1.weight", {d}, one, withoutDecay());
    block.norm1Bias = parameter("ln_1.bias", {d}, zero, withoutDecay());
    block.qkvWeight =
        parameter("attn.c_attn.weight", {d, 3, h, dh}, normal,
                  withDecay({"", "", "heads", ""}, Shape{d, 3 * d}));
    block.qkvBias = parameter("attn.c_attn.bias", {3, h, dh}, zero,
                              withoutDecay({"", "heads", ""}, Shape{3 * d}));
    block.projectionWeight =
        parameter("attn.c_proj.weight", {h, dh, d}, residual,
                  withDecay({"heads", "", ""}, Shape{d, d}));
    block.projectionBias =
        parameter("attn.c_proj.bias", {d}, zero, withoutDecay());
    block.norm2Gain = parameter("ln_2.weight", {d}, one, withoutDecay());
    block.norm2Bias = parameter("ln_2.bias", {d}, zero, withoutDecay());
    block.hiddenWeight =
        parameter("mlp.c_fc.weight", {d, f}, normal, withDecay({"", "ffn"}));
    block.hiddenBias =
        parameter("mlp.c_fc.bias", {f}, zero, withoutDecay({"ffn"}));
    block.outputWeight = parameter("mlp.c_proj.weight", {f, d}, residual,
                                   withDecay({"ffn", ""}));
    block.outputBias = parameter("mlp.c_proj.bias", {d}, zero, withoutDecay());
    double scale =
        config.scaleAttention ? 1 / std::sqrt(static_cast<double>(dh)) : 1;
    block.attentionScale =
        config.scaleByLayer ? scale / static_cast<double>(i + 1) : scale;
    model.blocks.push_back(block);
  }
  model.normGain =
      graph.parameter("transformer.ln_f.weight", {d}, one, withoutDecay());
  model.normBias =
      graph.parameter("transformer.ln_f.bias", {d}, zero, withoutDecay());
  model.head = config.tied ? model.tokenEmbedding
                           : graph.parameter("lm_head.weight",
                                             {config.vocabularySize, d}, normal,
                                             withDecay({"vocabulary", ""}));
  return model;
}

void buildGpt2(Graph &graph, const Gpt2Config &config,
               std::optional<int64_t> sequence) {
  int64_t length = checkedSequence(sequence, config.positions, "n_positions");
  graph.config("model_type", "gpt2");
  buildDecoderEntries(graph, declareGpt2(graph, config), length);
}

} // namespace mixle::frontend
