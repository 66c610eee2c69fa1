//===- ModelErrorsTest.cpp - Bad configurations are named -----------------===//

#include "frontend/cpp/models/Load.h"

#include "gtest/gtest.h"

#include <fstream>
#include <vector>

using namespace mixle::frontend;

namespace {

std::string errorOf(const std::string &config,
                    std::optional<int64_t> sequence = std::nullopt) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  try {
    buildModel(config, Precision::F32, sequence, context);
  } catch (const FrontendError &error) {
    return error.what();
  }
  return "no error";
}

void expectParts(const std::string &message,
                 const std::vector<const char *> &parts) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const char *part : parts)
    EXPECT_NE(message.find(part), std::string::npos)
        << "no '" << part << "' in: " << message;
}

/// A small GPT-2 without dropout, with `keys` added or replaced.
std::string gpt2(const std::string &keys,
                 const std::string &dropout =
                     R"("resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0)") {
  return R"({"model_type": "gpt2", "vocab_size": 7, "n_positions": 8,
             "n_layer": 1, )" +
         dropout + (keys.empty() ? "" : ", ") + keys + "}";
}

std::string causalLm(const std::string &keys) {
  return R"({"model_type": "mixle_causal_lm")" +
         (keys.empty() ? keys : ", " + keys) + "}";
}

TEST(ModelErrors, Sources) {
  expectParts(errorOf("/nowhere/config.json"),
              {"/nowhere/config.json", "No such file"});
  expectParts(errorOf("{\"model_type\": \"gpt2\",\n oops}"),
              {"model configuration", "not valid JSON", "line 2"});
  expectParts(errorOf(R"({"model_type": "gpt2", "model_type": "gpt2"})"),
              {"'model_type'", "twice"});
  expectParts(errorOf("{}"),
              {"'model_type' is missing", "gpt2", "mixle_causal_lm"});
  expectParts(errorOf(R"({"model_type": "bert"})"),
              {"model_type = \"bert\"", "gpt2, mixle_causal_lm"});
  expectParts(errorOf(R"({"model_type": 3})"),
              {"model_type = 3", "must be a string"});
  std::string path = testing::TempDir() + "/mixle-frontend-bad.json";
  std::ofstream(path) << "[1, 2]\n";
  expectParts(errorOf(path), {path.c_str(), "JSON object", "array"});
  std::ofstream(path) << R"({"model_type": "mixle_causal_lm"})";
  expectParts(errorOf(path), {path.c_str(), "'vocab' is missing"});
  std::remove(path.c_str());
  expectParts(errorOf(""), {"cannot"});
}

TEST(ModelErrors, Gpt2Sizes) {
  const std::string heads = R"("n_embd": 12, "n_head": 3)";
  EXPECT_EQ(errorOf(gpt2(heads)), "no error");
  EXPECT_EQ(errorOf(gpt2(heads), 8), "no error");
  expectParts(errorOf(gpt2(heads), 9), {"sequence 9", "n_positions, 8"});
  expectParts(errorOf(gpt2(heads), 0), {"sequence 0", "from 1"});
  expectParts(errorOf(gpt2(heads), -3), {"sequence -3"});
  expectParts(errorOf(gpt2(R"("n_embd": 12, "n_head": 5)")),
              {"n_embd = 12", "n_head = 5"});
  for (const char *bad : {"0", "-12", "12.0", "\"12\"", "true", "null", "[12]",
                          "2147483648", "1e3", "99999999999999999999"})
    expectParts(errorOf(gpt2(std::string("\"n_embd\": ") + bad)),
                {"n_embd = ", "must be an integer from 1 to 2147483647"});
  expectParts(errorOf(gpt2(R"("n_inner": 0)")), {"n_inner = 0"});
  expectParts(errorOf(R"({"model_type": "gpt2", "n_layer": 10001})"),
              {"n_layer = 10001", "10000"});
  expectParts(errorOf(gpt2(R"("hidden_size": 12, "n_embd": 12)")),
              {"hidden_size = 12", "'n_embd'"});
  // Every size is legal by itself, the whole is not.
  expectParts(errorOf(gpt2(R"("n_embd": 2147483647, "n_head": 1)")),
              {"attn.c_attn.weight", "2^62"});
}

TEST(ModelErrors, Gpt2Dropout) {
  for (const char *key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    std::string others;
    for (std::string other : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
      if (other != key)
        others += (others.empty() ? "\"" : ", \"") + other + "\": 0";
    expectParts(errorOf(gpt2("", others)),
                {key, "is missing", "0.1", "set it to 0"});
    std::string name = std::string(", \"") + key + "\": ";
    expectParts(errorOf(gpt2("", others + name + "0.1")),
                {key, "= 0.1", "dropout", "set it to 0"});
    expectParts(errorOf(gpt2("", others + name + "-1")), {key, "= -1"});
    expectParts(errorOf(gpt2("", others + name + "false")), {key, "= false"});
    EXPECT_EQ(errorOf(gpt2(R"("n_embd": 12)", others + name + "0.0")),
              "no error");
  }
}

TEST(ModelErrors, Gpt2Keys) {
  expectParts(errorOf(gpt2(R"("activation_function": "relu")")),
              {"activation_function = \"relu\"", "gelu_new", "gelu"});
  expectParts(errorOf(gpt2(R"("reorder_and_upcast_attn": true)")),
              {"reorder_and_upcast_attn = true", "set it to false"});
  expectParts(errorOf(gpt2(R"("add_cross_attention": true)")),
              {"add_cross_attention = true"});
  expectParts(errorOf(gpt2(R"("scale_attn_weights": 1)")),
              {"scale_attn_weights = 1", "true or false"});
  expectParts(errorOf(gpt2(R"("layer_norm_epsilon": -1e-5)")),
              {"layer_norm_epsilon = -1e-05", "at least 0"});
  expectParts(errorOf(gpt2(R"("initializer_range": "small")")),
              {"initializer_range = \"small\""});
  expectParts(errorOf(gpt2(R"("pruned_heads": {"0": [1]})")),
              {"pruned_heads", "remove it"});
  expectParts(errorOf(gpt2(R"("n_heads": 4)")),
              {"unknown key 'n_heads'", "'n_head' meant"});
  expectParts(errorOf(gpt2(R"("rope_scaling": null)")),
              {"unknown key 'rope_scaling'"});
  EXPECT_EQ(errorOf(gpt2(R"("use_cache": false, "dtype": "float32")")),
            "no error");
}

TEST(ModelErrors, CausalLm) {
  EXPECT_EQ(errorOf(causalLm(R"("vocab": 5)")), "no error");
  expectParts(errorOf(causalLm(R"("vocab": 5)"), 65),
              {"sequence 65", "block, 64"});
  expectParts(errorOf(causalLm("")), {"'vocab' is missing"});
  for (const char *key : {"vocab", "d_model", "n_layer", "n_head", "block"})
    expectParts(errorOf(causalLm(std::string(key) == "vocab"
                                     ? "\"vocab\": 0"
                                     : "\"vocab\": 5, \"" + std::string(key) +
                                           "\": 0")),
                {key, "= 0", "must be an integer from 1"});
  expectParts(errorOf(causalLm(R"("vocab": 5, "d_model": 30)")),
              {"d_model = 30", "n_head = 4"});
  expectParts(errorOf(causalLm(R"("vocab": 5, "embedding": "rotary")")),
              {"embedding = \"rotary\""});
  expectParts(
      errorOf(causalLm(R"("vocab": 5, "gradient_checkpointing": true)")),
      {"gradient_checkpointing = true", "set it to false"});
  expectParts(errorOf(causalLm(R"("vocab": 5, "dmodel": 8)")),
              {"unknown key 'dmodel'", "'d_model' meant"});
}

/// A small Llama, with `keys` added or replaced.
std::string llama(const std::string &keys, const char *type = "llama") {
  return std::string(R"({"model_type": ")") + type +
         R"(", "vocab_size": 7, "hidden_size": 24, "num_hidden_layers": 2,
            "intermediate_size": 5, "max_position_embeddings": 8)" +
         (keys.empty() ? "" : ", ") + keys + "}";
}

TEST(ModelErrors, LlamaSizes) {
  const std::string heads = R"("num_attention_heads": 4, "num_key_value_heads": 2)";
  EXPECT_EQ(errorOf(llama(heads)), "no error");
  expectParts(errorOf(llama(heads), 9), {"sequence 9", "max_position_embeddings, 8"});
  expectParts(errorOf(llama(R"("num_attention_heads": 4, "num_key_value_heads": 3)")),
              {"num_attention_heads = 4", "num_key_value_heads = 3"});
  expectParts(errorOf(llama(R"("num_attention_heads": 5)")),
              {"hidden_size = 24", "num_attention_heads = 5", "head_dim"});
  expectParts(errorOf(llama(R"("num_attention_heads": 8)")),
              {"head_dim = 3", "even"});
  expectParts(errorOf(llama(R"("num_attention_heads": 5, "head_dim": 7)")),
              {"head_dim = 7", "even"});
  EXPECT_EQ(errorOf(llama(R"("num_attention_heads": 5, "head_dim": 6)")), "no error");
}

TEST(ModelErrors, LlamaKeysThatWouldChangeTheModel) {
  const std::pair<const char *, std::vector<const char *>> cases[] = {
      {R"("hidden_act": "relu2")", {"hidden_act = \"relu2\"", "silu"}},
      {R"("attention_dropout": 0.1)", {"attention_dropout = 0.1", "dropout"}},
      {R"("pretraining_tp": 2)", {"pretraining_tp = 2", "1"}},
      {R"("pad_token_id": 7)", {"pad_token_id = 7", "-7 to 6"}},
      {R"("rms_norm_eps": -1)", {"rms_norm_eps = -1"}},
      {R"("quantization_config": {})", {"quantization_config"}},
      {R"("sliding_window": 4)", {"sliding_window"}},
      {R"("gradient_checkpointing": true)", {"gradient_checkpointing = true"}},
      {R"("rope_scaling": 3)", {"rope_scaling = 3", "object"}},
      {R"("rope_scaling": {"type": "longrope"})",
       {"rope_scaling: type = \"longrope\"", "llama3"}},
      {R"("rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2})",
       {"type = \"yarn\"", "linear"}},
      {R"("rope_scaling": {"rope_type": "linear"})", {"'factor' is missing"}},
      {R"("rope_scaling": {"rope_type": "linear", "factor": 0})", {"factor = 0"}},
      {R"("rope_scaling": {"rope_type": "linear", "factor": 2, "beta_fast": 3})",
       {"unknown key 'beta_fast'"}},
      {R"("rope_scaling": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 4,
          "high_freq_factor": 1})",
       {"high_freq_factor = 1", "low_freq_factor"}},
      {R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})",
       {"partial_rotary_factor = 0.5"}},
      {R"("partial_rotary_factor": 0.5)", {"partial_rotary_factor = 0.5"}},
      {R"("rope_theta": 0)", {"rope_theta = 0"}},
      {R"("rope_theta": 10, "rope_parameters": {"rope_theta": 20})",
       {"rope_theta = 20", "10"}},
      {R"("rope_parameters": {"full_attention": {"rope_type": "default"}})",
       {"unknown key 'full_attention'"}},
      {R"("rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"factor": 2})",
       {"rope_scaling", "rope_parameters"}},
  };
  const std::string heads = R"("num_attention_heads": 4, )";
  for (const auto &[keys, parts] : cases)
    expectParts(errorOf(llama(heads + keys)), parts);
  for (const char *keys :
       {R"("rope_scaling": null, "rope_parameters": null, "pretraining_tp": 1)",
        R"("rope_theta": 10, "rope_parameters": {"rope_theta": 10})",
        R"("rope_scaling": {"type": "dynamic", "factor": 2})",
        R"("rope_scaling": {"type": "default"}, "partial_rotary_factor": 1.0)",
        R"("pad_token_id": -1, "attention_dropout": 0.0, "head_dim": null)",
        R"("rope_parameters": {"rope_type": "yarn", "factor": 2, "mscale": 1,
           "mscale_all_dim": 0.5, "truncate": false, "attention_factor": null})"})
    EXPECT_EQ(errorOf(llama(heads + keys)), "no error") << keys;
}

TEST(ModelErrors, SlidingWindows) {
  const std::string heads = R"("num_attention_heads": 4, "num_key_value_heads": 2, )";
  EXPECT_EQ(errorOf(llama(heads + R"("sliding_window": 8)", "mistral")), "no error");
  EXPECT_EQ(errorOf(llama(heads + R"("sliding_window": null)", "mistral")), "no error");
  expectParts(errorOf(llama(heads + R"("sliding_window": 7)", "mistral")),
              {"sequence 8", "sliding_window = 7"});
  EXPECT_EQ(errorOf(llama(heads + R"("sliding_window": 7)", "mistral"), 7), "no error");
  const std::string used = R"("use_sliding_window": true, "sliding_window": 4)";
  // By default the window begins with layer 28.
  EXPECT_EQ(errorOf(llama(heads + used, "qwen3")), "no error");
  expectParts(errorOf(llama(heads + used + R"(, "max_window_layers": 1)", "qwen3")),
              {"sliding_window = 4"});
  expectParts(errorOf(llama(heads + used + R"(, "layer_types": ["full_attention",
                            "sliding_attention"])", "qwen2")),
              {"sliding_window = 4"});
  EXPECT_EQ(errorOf(llama(heads + used + R"(, "layer_types": ["full_attention",
                          "full_attention"], "max_window_layers": 0)", "qwen3")),
            "no error");
  expectParts(errorOf(llama(heads + R"("layer_types": ["full_attention",
                            "sliding_attention"])", "qwen3")),
              {"layer_types", "no window"});
  expectParts(errorOf(llama(heads + R"("layer_types": ["linear_attention",
                            "full_attention"])", "qwen3")),
              {"layer_types", "'linear_attention'"});
  expectParts(errorOf(llama(heads + R"("layer_types": ["full_attention"])", "qwen3")),
              {"layer_types", "2 layers"});
}

} // namespace
