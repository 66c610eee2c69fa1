//===- Llama.cpp - Llama and its relatives --------------------------------===//

#include "frontend/cpp/models/Llama.h"

#include "frontend/cpp/models/ConfigReader.h"
#include "frontend/cpp/models/Decoder.h"
#include "frontend/cpp/models/HuggingFace.h"

#include <cmath>

using namespace llvm;

namespace mixle::frontend {

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

namespace {

/// What the classes of transformers set where a file says nothing.
LlamaConfig defaultsOf(const std::string &type) {
  LlamaConfig config;
  config.type = type;
  if (type == "mistral") {
    config.hidden = 14336;
    config.kvHeads = 8;
    config.positions = 4096 * 32;
  } else if (type == "qwen2" || type == "qwen3") {
    config.vocabularySize = 151936;
    config.hidden = 22016;
    config.positions = 32768;
    config.headNorms = type == "qwen3";
    config.qkvBias = type == "qwen2";
  }
  return config;
}

/// An integer, or the fallback where the key is null or absent.
int64_t sizeOf(ConfigReader &reader, StringRef key, int64_t fallback,
               int64_t maximum = kMaximumSize) {
  return reader.isNullOrAbsent(key)
             ? fallback
             : reader.positive(key, std::nullopt, maximum);
}

void readHeads(ConfigReader &reader, LlamaConfig &config) {
  config.heads =
      reader.positive("num_attention_heads", config.heads, kMaximumSize);
  bool given = reader.has("num_key_value_heads");
  bool byHeads = config.type == "llama" || given;
  config.kvHeads = sizeOf(reader, "num_key_value_heads",
                          byHeads ? config.heads : config.kvHeads);
  if (config.heads % config.kvHeads != 0)
    reader.failPlain(
        "num_attention_heads = " + Twine(config.heads) +
        " does not divide by num_key_value_heads = " + Twine(config.kvHeads) +
        ": every key/value head serves as many query heads");
  if (config.type == "qwen3" && !reader.has("head_dim"))
    config.headDim = 128;
  else if (reader.isNullOrAbsent("head_dim")) {
    if (config.width % config.heads != 0)
      reader.failPlain(
          "hidden_size = " + Twine(config.width) +
          " does not divide by num_attention_heads = " + Twine(config.heads) +
          ": give head_dim, the columns of a head");
    config.headDim = config.width / config.heads;
  } else {
    config.headDim = reader.positive("head_dim", std::nullopt, kMaximumSize);
  }
  if (config.headDim % 2 != 0 || config.headDim > 256)
    reader.failPlain("head_dim = " + Twine(config.headDim) +
                     " must be even, since rotary positions turn pairs of "
                     "columns, and at most 256");
}

/// The sliding window of the layers that have one.
void readWindow(ConfigReader &reader, LlamaConfig &config) {
  if (config.type == "llama")
    return;
  if (config.type == "mistral") {
    if (!reader.has("sliding_window"))
      config.window = 4096;
    else if (!reader.isNullOrAbsent("sliding_window"))
      config.window =
          reader.positive("sliding_window", std::nullopt, kMaximumSize);
    return;
  }
  bool used = reader.boolean("use_sliding_window", false);
  int64_t window = sizeOf(reader, "sliding_window", used ? 4096 : 1);
  bool off =
      reader.has("sliding_window") && reader.isNullOrAbsent("sliding_window");
  int64_t full = 28;
  if (!reader.isNullOrAbsent("max_window_layers"))
    full = reader.integer("max_window_layers", 0, kMaximumSize);
  bool sliding = config.blocks > full;
  if (!reader.isNullOrAbsent("layer_types")) {
    sliding = false;
    std::vector<std::string> types = reader.strings("layer_types");
    if (static_cast<int64_t>(types.size()) != config.blocks)
      reader.fail("layer_types", "must name " + Twine(config.blocks) +
                                     " layers (num_hidden_layers)");
    for (const std::string &type : types) {
      if (type != "full_attention" && type != "sliding_attention")
        reader.fail("layer_types", "has '" + type +
                                       "', which is not executed; known are "
                                       "full_attention and sliding_attention");
      sliding |= type == "sliding_attention";
    }
    if (sliding && (!used || off))
      reader.fail("layer_types",
                  "has sliding_attention, but there is no window "
                  "(use_sliding_window, sliding_window)");
  }
  if (used && !off && sliding)
    config.window = window;
}

} // namespace

LlamaConfig readLlamaConfig(ConfigReader &reader, const std::string &type) {
  LlamaConfig config = defaultsOf(type);
  config.vocabularySize =
      reader.positive("vocab_size", config.vocabularySize, kMaximumSize);
  config.width = reader.positive("hidden_size", config.width, kMaximumSize);
  config.hidden =
      reader.positive("intermediate_size", config.hidden, kMaximumSize);
  config.blocks =
      reader.positive("num_hidden_layers", config.blocks, kMaximumBlocks);
  readHeads(reader, config);
  config.positions = reader.positive("max_position_embeddings",
                                     config.positions, kMaximumSize);
  readWindow(reader, config);
  config.activation = reader.string("hidden_act", config.activation);
  if (config.activation != "silu" && config.activation != "gelu" &&
      config.activation != "gelu_new" &&
      config.activation != "gelu_pytorch_tanh")
    reader.fail("hidden_act", "is not executed; known are silu, gelu, gelu_new "
                              "and gelu_pytorch_tanh");
  config.epsilon = reader.nonNegative("rms_norm_eps", config.epsilon);
  config.initializerRange =
      reader.nonNegative("initializer_range", config.initializerRange);
  config.tied = reader.boolean("tie_word_embeddings", config.tied);
  if (type == "llama" || type == "qwen3") {
    config.qkvBias = reader.boolean("attention_bias", false);
    config.outputBias = config.qkvBias;
  }
  if (type == "llama") {
    config.mlpBias = reader.boolean("mlp_bias", false);
    if (!reader.isNullOrAbsent("pretraining_tp") &&
        reader.positive("pretraining_tp", 1, kMaximumSize) != 1)
      reader.fail("pretraining_tp", "is not executed; set it to 1 (it only "
                                    "changes the order of sums)");
  }
  if (!reader.isNullOrAbsent("attention_dropout") &&
      reader.nonNegative("attention_dropout", 0) != 0)
    reader.fail("attention_dropout",
                "is dropout, which is not executed yet; set it to 0");
  if (!reader.isNullOrAbsent("pad_token_id")) {
    // Negative ids count from the end, as in torch.
    int64_t padding = reader.integer("pad_token_id", -config.vocabularySize,
                                     config.vocabularySize - 1);
    config.padding = padding < 0 ? padding + config.vocabularySize : padding;
  }
  config.rope = readRope(reader, config.positions);
  refuseOtherModels(reader);
  ignoreMetadata(reader);
  reader.finish();
  return config;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

namespace {

/// The parameters of one block, in views. With D the width, G groups of g query
/// heads of Dh columns, F the hidden width; biases and head norms may be
/// absent.
struct Block {
  std::string scope;
  Tensor inputNorm, outputNorm;         ///< [D]
  Tensor query, key, value;             ///< [G,g,Dh,D], twice [G,1,Dh,D]
  Tensor queryBias, keyBias, valueBias; ///< [G,g,Dh], twice [G,1,Dh]
  Tensor queryNorm, keyNorm;            ///< [Dh]
  Tensor output, outputBias;            ///< [D,G,g,Dh], [D]
  Tensor gate, up, down;                ///< twice [1,F,D], [D,F]
  Tensor gateBias, upBias, downBias;    ///< twice [1,F], [D]
};

struct Model {
  Tensor embedding; ///< [V, D]
  std::vector<Block> blocks;
  Tensor norm; ///< [D]
  Tensor head; ///< [V, D]
};

/// Declares parameters by the names that they have in files.
struct Declarer {
  Graph &graph;
  const LlamaConfig &config;
  Init normal = Init::normal(0, config.initializerRange);

  Tensor weight(const std::string &name, Shape shape,
                std::vector<std::string> factors, Shape file) {
    return graph.parameter(name + ".weight", std::move(shape), normal,
                           withDecay(std::move(factors), std::move(file)));
  }
  Tensor bias(bool wanted, const std::string &name, Shape shape,
              std::vector<std::string> factors, int64_t size) {
    if (!wanted)
      return Tensor();
    return graph.parameter(name + ".bias", std::move(shape), Init::constant(0),
                           withoutDecay(std::move(factors), Shape{size}));
  }
  Tensor norm(const std::string &name, int64_t size) {
    return graph.parameter(name + ".weight", {size}, Init::constant(1),
                           withoutDecay());
  }

  Block block(int64_t index);
  Model model();
};

Block Declarer::block(int64_t index) {
  const int64_t d = config.width, groups = config.kvHeads, dh = config.headDim;
  const int64_t f = config.hidden, g = config.heads / groups;
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  Block block;
  block.scope = "layers." + std::to_string(index);
  block.inputNorm = norm(prefix + "input_layernorm", d);
  auto project = [&](const char *name, int64_t heads, Tensor &w, Tensor &b) {
    const std::string full = attention + name;
    const int64_t rows = groups * heads * dh;
    w = weight(full, {groups, heads, dh, d}, {"kv_heads", "", "", ""},
               {rows, d});
    b = bias(config.qkvBias, full, {groups, heads, dh}, {"kv_heads", "", ""},
             rows);
  };
  project("q_proj", g, block.query, block.queryBias);
  project("k_proj", 1, block.key, block.keyBias);
  project("v_proj", 1, block.value, block.valueBias);
  block.output = weight(attention + "o_proj", {d, groups, g, dh},
                        {"", "kv_heads", "", ""}, {d, groups * g * dh});
  block.outputBias = bias(config.outputBias, attention + "o_proj", {d}, {}, d);
  if (config.headNorms) {
    block.queryNorm = norm(attention + "q_norm", dh);
    block.keyNorm = norm(attention + "k_norm", dh);
  }
  block.outputNorm = norm(prefix + "post_attention_layernorm", d);
  block.gate = weight(mlp + "gate_proj", {1, f, d}, {"", "ffn", ""}, {f, d});
  block.gateBias =
      bias(config.mlpBias, mlp + "gate_proj", {1, f}, {"", "ffn"}, f);
  block.up = weight(mlp + "up_proj", {1, f, d}, {"", "ffn", ""}, {f, d});
  block.upBias = bias(config.mlpBias, mlp + "up_proj", {1, f}, {"", "ffn"}, f);
  block.down = weight(mlp + "down_proj", {d, f}, {"", "ffn"}, {d, f});
  block.downBias = bias(config.mlpBias, mlp + "down_proj", {d}, {}, d);
  return block;
}

Model Declarer::model() {
  const Shape table = {config.vocabularySize, config.width};
  Model model;
  model.embedding =
      weight("model.embed_tokens", table, {"vocabulary", ""}, table);
  for (int64_t i = 0; i < config.blocks; ++i)
    model.blocks.push_back(block(i));
  model.norm = norm("model.norm", config.width);
  model.head = config.tied
                   ? model.embedding
                   : weight("lm_head", table, {"vocabulary", ""}, table);
  return model;
}

//===----------------------------------------------------------------------===//
// Mathematics
//===----------------------------------------------------------------------===//

/// Builds the logits of one entry.
struct Forward {
  const LlamaConfig &config;
  RotaryTables tables;

  Tensor norm(Tensor input, Tensor gain) {
    return rmsNorm(input, gain, config.epsilon);
  }
  static Tensor withBias(Tensor value, Tensor bias) {
    return bias ? value + bias : value;
  }
  Tensor attention(const Block &block, Tensor input);
  Tensor mlp(const Block &block, Tensor input);
  Tensor activate(Tensor gate);
};

Tensor Forward::attention(const Block &block, Tensor input) {
  const int64_t g = config.heads / config.kvHeads;
  // [rows, T, D] -> [rows, T, G, g + 2, Dh]
  Tensor qkv =
      matmulTransposed(input, concat({block.query, block.key, block.value}, 1));
  if (block.queryBias)
    qkv = qkv + concat({block.queryBias, block.keyBias, block.valueBias}, 1);
  if (block.queryNorm)
    qkv = concat({norm(slice(qkv, 3, 0, g), block.queryNorm),
                  norm(slice(qkv, 3, g, g + 1), block.keyNorm),
                  slice(qkv, 3, g + 1, g + 2)},
                 3);
  qkv = rotary(qkv, tables, g + 1);
  Tensor context = groupedAttention(
      qkv, 1 / std::sqrt(static_cast<double>(config.headDim)), /*causal=*/true);
  return withBias(dotGeneral(context, block.output, {2, 3, 4}, {1, 2, 3}),
                  block.outputBias);
}

Tensor Forward::activate(Tensor gate) {
  if (config.activation == "silu")
    return silu(gate);
  return gelu(gate, config.activation != "gelu");
}

Tensor Forward::mlp(const Block &block, Tensor input) {
  // [rows, T, D] -> [rows, T, 2, F]
  Tensor hidden = matmulTransposed(input, concat({block.gate, block.up}, 0));
  if (block.gateBias)
    hidden = hidden + concat({block.gateBias, block.upBias}, 0);
  Tensor product = activate(slice(hidden, 2, 0, 1)) * slice(hidden, 2, 1, 2);
  product = reshape(product, {kRows, input.dim(1), config.hidden});
  return withBias(matmulTransposed(product, block.down), block.downBias);
}

Tensor logitsOf(const LlamaConfig &config, const Model &model, Tensor tokens) {
  Graph &graph = tokens.graph();
  Tensor hidden = embedding(model.embedding, tokens, config.padding);
  Forward forward{config,
                  rotaryTables(graph, tokens.dim(1),
                               ropeFrequencies(config.rope, config.headDim),
                               config.rope.attentionFactor)};
  for (const Block &block : model.blocks) {
    Graph::Scope scope(graph, block.scope);
    {
      Graph::Scope inner(graph, "self_attn");
      hidden = hidden +
               forward.attention(block, forward.norm(hidden, block.inputNorm));
    }
    Graph::Scope inner(graph, "mlp");
    hidden =
        hidden + forward.mlp(block, forward.norm(hidden, block.outputNorm));
  }
  Graph::Scope scope(graph, "lm_head");
  return matmulTransposed(forward.norm(hidden, model.norm), model.head);
}

} // namespace

void buildLlama(Graph &graph, const LlamaConfig &config,
                std::optional<int64_t> sequence) {
  int64_t length =
      checkedSequence(sequence, config.positions, "max_position_embeddings");
  if (config.window && length > *config.window)
    throw FrontendError(
        ("sequence " + Twine(length) +
         " is longer than sliding_window = " + Twine(*config.window) +
         ", which would hide keys: sliding windows are not executed yet; use "
         "sequences of at most " +
         Twine(*config.window))
            .str());
  graph.config("model_type", config.type);
  Model model = Declarer{graph, config}.model();
  buildLanguageEntries(
      graph, length, config.vocabularySize,
      [&](Tensor tokens) { return logitsOf(config, model, tokens); });
}

} // namespace mixle::frontend
