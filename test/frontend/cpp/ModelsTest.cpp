//===- ModelsTest.cpp - Programs of the model library ---------------------===//
//
// Names, shapes in files, factors and initialisation are the interface to
// other people's files; they are compared with what those people have.
//
//===----------------------------------------------------------------------===//

#include "frontend/cpp/models/ConfigReader.h"
#include "frontend/cpp/models/Load.h"
#include "frontend/cpp/models/Rope.h"

#include "dialects/Mixle/Mixle.h"
#include "mlir/IR/Verifier.h"
#include "runtime/base/Safetensors.h"
#include "gtest/gtest.h"

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace mixle::frontend;
namespace ir = mlir::mixle;
using llvm::ArrayRef;

namespace {

const char *const kGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 257, "n_positions": 64,
        "n_embd": 96, "n_layer": 4, "n_head": 6, "resid_pdrop": 0,
        "embd_pdrop": 0.0, "attn_pdrop": 0})";
const char *const kCausalLm =
    R"({"model_type": "mixle_causal_lm", "vocab": 31, "d_model": 32,
        "n_layer": 2, "n_head": 4, "block": 16})";

/// Replaces the closing brace by more keys.
std::string with(const char *config, const std::string &more) {
  std::string text = config;
  return text.substr(0, text.rfind('}')) + ", " + more + "}";
}

struct Model {
  explicit Model(const std::string &config,
                 Precision precision = Precision::F32,
                 std::optional<int64_t> sequence = std::nullopt)
      : context(mlir::MLIRContext::Threading::DISABLED),
        module(buildModel(config, precision, sequence, context)),
        program(*module->getOps<ir::ProgramOp>().begin()) {}

  ir::ParameterOp parameter(llvm::StringRef name) {
    return program.lookupSymbol<ir::ParameterOp>(name);
  }
  ir::EntryOp entry(llvm::StringRef name) {
    return program.lookupSymbol<ir::EntryOp>(name);
  }
  int64_t configInteger(llvm::StringRef key) {
    return program.getConfig().getAs<mlir::IntegerAttr>(key).getInt();
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::ProgramOp program;
};

/// One parameter in one line: file shape, program shape, factors, init, decay.
std::string describe(ir::ParameterOp op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto list = [&](ArrayRef<int64_t> values) {
    stream << "[";
    llvm::interleave(values, stream, ",");
    stream << "]";
  };
  list(op.getFileShape());
  stream << " ";
  list(mlir::cast<mlir::RankedTensorType>(op.getType()).getShape());
  stream << " ";
  llvm::interleave(
      op.getFactors().getAsRange<mlir::StringAttr>(), stream,
      [&](mlir::StringAttr name) {
        stream << (name.empty() ? "-" : name.getValue());
      },
      "|");
  stream << " " << op.getInit().getAs<mlir::StringAttr>("kind").getValue();
  for (const char *key : {"value", "mean", "std", "low", "high"})
    if (auto number = op.getInit().getAs<mlir::FloatAttr>(key)) {
      char buffer[32];
      std::snprintf(buffer, sizeof(buffer), " %.6g", number.getValueAsDouble());
      stream << buffer;
    }
  stream << (op.getDecay() ? " decay" : " no-decay");
  return text;
}

TEST(Gpt2, ParametersAreHuggingFaces) {
  Model model(kGpt2);
  const std::pair<const char *, const char *> expected[] = {
      {"transformer.wte.weight",
       "[257,96] [257,96] vocabulary|- normal 0 0.02 decay"},
      {"transformer.wpe.weight", "[64,96] [64,96] -|- normal 0 0.02 decay"},
      {"transformer.h.3.ln_1.weight", "[96] [96] - constant 1 no-decay"},
      {"transformer.h.3.ln_1.bias", "[96] [96] - constant 0 no-decay"},
      {"transformer.h.3.attn.c_attn.weight",
       "[96,288] [96,3,6,16] -|-|heads|- normal 0 0.02 decay"},
      {"transformer.h.3.attn.c_attn.bias",
       "[288] [3,6,16] -|heads|- constant 0 no-decay"},
      // 0.02 / sqrt(2 * 4)
      {"transformer.h.3.attn.c_proj.weight",
       "[96,96] [6,16,96] heads|-|- normal 0 0.00707107 decay"},
      {"transformer.h.3.attn.c_proj.bias", "[96] [96] - constant 0 no-decay"},
      {"transformer.h.3.ln_2.weight", "[96] [96] - constant 1 no-decay"},
      {"transformer.h.3.ln_2.bias", "[96] [96] - constant 0 no-decay"},
      {"transformer.h.3.mlp.c_fc.weight",
       "[96,384] [96,384] -|ffn normal 0 0.02 decay"},
      {"transformer.h.3.mlp.c_fc.bias", "[384] [384] ffn constant 0 no-decay"},
      {"transformer.h.3.mlp.c_proj.weight",
       "[384,96] [384,96] ffn|- normal 0 0.00707107 decay"},
      {"transformer.h.3.mlp.c_proj.bias", "[96] [96] - constant 0 no-decay"},
      {"transformer.ln_f.weight", "[96] [96] - constant 1 no-decay"},
      {"transformer.ln_f.bias", "[96] [96] - constant 0 no-decay"}};
  for (auto [name, text] : expected) {
    ASSERT_TRUE(model.parameter(name)) << name;
    EXPECT_EQ(describe(model.parameter(name)), text) << name;
  }
  // 2 embeddings, 4 blocks of 12, the last norm; the head is the embedding.
  auto parameters = model.program.getBody().getOps<ir::ParameterOp>();
  EXPECT_EQ(std::distance(parameters.begin(), parameters.end()),
            2 + 4 * 12 + 2);
  EXPECT_FALSE(model.parameter("lm_head.weight"));
}

TEST(Gpt2, ProgramHasBothEntriesAndItsConfig) {
  Model model(kGpt2, Precision::F32, 48);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*model.module)));
  EXPECT_EQ(model.program.getSymName(), "gpt2");
  EXPECT_EQ(model.program.getKind(), "training");
  EXPECT_EQ(model.program.getNumerics(), "reproducible");
  EXPECT_EQ(model.configInteger("sequence"), 48);
  EXPECT_EQ(model.configInteger("vocabulary"), 257);
  EXPECT_EQ(model.program.getConfig().getAs<mlir::StringAttr>("model_type"),
            "gpt2");
  EXPECT_FALSE(model.program.getConfig().contains("file_constants"));
  // tokens, labels, loss, count, and every parameter once.
  EXPECT_EQ(model.entry("loss").getNumArguments(), 4u + 52u);
  EXPECT_EQ(model.entry("predict").getNumArguments(), 1u + 52u);
  auto logits = mlir::cast<mlir::RankedTensorType>(
      model.entry("predict").getResultTypes()[0]);
  EXPECT_EQ(logits.getShape(), ArrayRef<int64_t>({kRows, 48, 257}));
  auto embeddings =
      llvm::to_vector(model.entry("loss").getBody().getOps<ir::EmbeddingOp>());
  EXPECT_EQ(embeddings.size(), 2u) << "tokens and positions";
}

TEST(Gpt2, OptionsOfTheConfiguration) {
  auto attentions = [](Model &model) {
    std::vector<double> scales;
    for (auto op : model.entry("predict").getBody().getOps<ir::AttentionOp>()) {
      EXPECT_TRUE(op.getCausal());
      scales.push_back(op.getScale().convertToDouble());
    }
    return scales;
  };
  auto activation = [](Model &model) {
    auto ops = model.entry("predict").getBody().getOps<ir::GeluOp>();
    return (*ops.begin()).getApproximate().str();
  };
  Model plain(kGpt2);
  EXPECT_EQ(attentions(plain), std::vector<double>(4, 0.25));
  EXPECT_EQ(activation(plain), "tanh");

  Model changed(with(kGpt2, R"("n_inner": 80, "activation_function": "gelu",
      "layer_norm_epsilon": 0.001, "initializer_range": 0.1,
      "scale_attn_weights": false, "scale_attn_by_inverse_layer_idx": true,
      "tie_word_embeddings": false)"));
  EXPECT_EQ(attentions(changed), (std::vector<double>{1, 0.5, 1.0 / 3, 0.25}));
  EXPECT_EQ(activation(changed), "none");
  EXPECT_EQ(describe(changed.parameter("transformer.h.0.mlp.c_fc.weight")),
            "[96,80] [96,80] -|ffn normal 0 0.1 decay");
  EXPECT_EQ(describe(changed.parameter("lm_head.weight")),
            "[257,96] [257,96] vocabulary|- normal 0 0.1 decay");
  for (auto op : changed.entry("predict").getBody().getOps<ir::LayerNormOp>())
    EXPECT_EQ(op.getEpsilon().convertToDouble(), 0.001);

  Model null(with(kGpt2, R"("n_inner": null)"));
  EXPECT_EQ(describe(null.parameter("transformer.h.0.mlp.c_fc.bias")),
            "[384] [384] ffn constant 0 no-decay");
}

TEST(Gpt2, DefaultsAndMetadataAreHuggingFaces) {
  // The configuration of the smallest published GPT-2, without its dropout.
  const char *published = R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0, "bos_token_id": 50256, "embd_pdrop": 0,
    "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024,
    "resid_pdrop": 0, "summary_activation": null,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
    "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {"text-generation": {"do_sample": true,
      "max_length": 50}}, "torch_dtype": "float32", "use_cache": true,
    "transformers_version": "4.57.0", "pruned_heads": {}})";
  Model model(published, Precision::F32, 8);
  int64_t parameters = 0;
  for (auto op : model.program.getBody().getOps<ir::ParameterOp>())
    parameters +=
        mlir::cast<mlir::RankedTensorType>(op.getType()).getNumElements();
  EXPECT_EQ(parameters, 124439808) << "GPT-2 small";

  Model aliases(R"({"model_type": "gpt2", "hidden_size": 96,
      "num_hidden_layers": 1, "num_attention_heads": 3,
      "max_position_embeddings": 32, "vocab_size": 5, "resid_pdrop": 0,
      "embd_pdrop": 0, "attn_pdrop": 0})");
  EXPECT_EQ(aliases.configInteger("sequence"), 32);
  EXPECT_EQ(describe(aliases.parameter("transformer.h.0.attn.c_attn.bias")),
            "[288] [3,3,32] -|heads|- constant 0 no-decay");
}

TEST(CausalLm, ParametersAreThoseOfItsFiles) {
  auto file = mixle::runtime::SafetensorsFile::open(
      MIXLE_GOLDEN_DIRECTORY "/forward_f64.weights.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  Model model(kCausalLm, Precision::F64);
  auto constants =
      model.program.getConfig().getAs<mlir::DictionaryAttr>("file_constants");
  ASSERT_TRUE(constants);
  size_t found = 0;
  for (const auto &tensor : file->tensors()) {
    if (auto op = model.parameter(tensor.name)) {
      EXPECT_EQ(op.getFileShape(), ArrayRef<int64_t>(tensor.shape))
          << tensor.name;
      ++found;
      continue;
    }
    auto constant = constants.getAs<mlir::DenseElementsAttr>(tensor.name);
    ASSERT_TRUE(constant) << tensor.name;
    EXPECT_EQ(constant.getType().getShape(), ArrayRef<int64_t>(tensor.shape));
    double value = 0;
    ASSERT_TRUE(mixle::runtime::toDouble(tensor, &value).ok());
    EXPECT_EQ(constant.getSplatValue<llvm::APFloat>().convertToDouble(), value);
  }
  auto parameters = model.program.getBody().getOps<ir::ParameterOp>();
  EXPECT_EQ(
      static_cast<size_t>(std::distance(parameters.begin(), parameters.end())),
      found);
  EXPECT_EQ(constants.size(), 1u);
}

TEST(CausalLm, ParametersInDetail) {
  Model model(kCausalLm);
  // 1 / sqrt(32) and 1 / sqrt(128).
  const std::pair<const char *, const char *> expected[] = {
      {"tok.weight", "[31,32] [31,32] vocabulary|- normal 0 1 decay"},
      {"pos.weight", "[16,32] [16,32] -|- normal 0 1 decay"},
      {"blocks.1.ln1.weight", "[32] [32] - constant 1 no-decay"},
      {"blocks.1.ln2.bias", "[32] [32] - constant 0 no-decay"},
      {"blocks.1.attn.qkv.weight",
       "[96,32] [3,4,8,32] -|heads|-|- uniform -0.176777 0.176777 decay"},
      {"blocks.1.attn.qkv.bias",
       "[96] [3,4,8] -|heads|- uniform -0.176777 0.176777 no-decay"},
      {"blocks.1.attn.proj.weight",
       "[32,32] [32,4,8] -|heads|- uniform -0.176777 0.176777 decay"},
      {"blocks.1.attn.proj.bias",
       "[32] [32] - uniform -0.176777 0.176777 no-decay"},
      {"blocks.1.mlp.0.weight",
       "[128,32] [128,32] ffn|- uniform -0.176777 0.176777 decay"},
      {"blocks.1.mlp.0.bias",
       "[128] [128] ffn uniform -0.176777 0.176777 no-decay"},
      {"blocks.1.mlp.2.weight",
       "[32,128] [32,128] -|ffn uniform -0.0883883 0.0883883 decay"},
      {"blocks.1.mlp.2.bias",
       "[32] [32] - uniform -0.0883883 0.0883883 no-decay"},
      {"ln.weight", "[32] [32] - constant 1 no-decay"},
      {"ln.bias", "[32] [32] - constant 0 no-decay"}};
  for (auto [name, text] : expected) {
    ASSERT_TRUE(model.parameter(name)) << name;
    EXPECT_EQ(describe(model.parameter(name)), text) << name;
  }
  EXPECT_EQ(model.configInteger("sequence"), 16);
  EXPECT_EQ(model.configInteger("vocabulary"), 31);
  for (auto op : model.entry("predict").getBody().getOps<ir::GeluOp>())
    EXPECT_EQ(op.getApproximate(), "none");

  Model defaults(R"({"model_type": "mixle_causal_lm", "vocab": 256,
      "embedding": null, "gradient_checkpointing": false})");
  EXPECT_EQ(describe(defaults.parameter("blocks.2.attn.qkv.bias")),
            "[384] [3,4,32] -|heads|- uniform -0.0883883 0.0883883 no-decay");
  EXPECT_FALSE(defaults.parameter("blocks.3.ln1.weight"));
  EXPECT_EQ(defaults.configInteger("sequence"), 64);
}

const char *const kLlama =
    R"({"model_type": "llama", "vocab_size": 259, "hidden_size": 64,
        "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 4, "max_position_embeddings": 64)";

TEST(Llama, ParametersAreHuggingFaces) {
  Model model(std::string(kLlama) + R"(, "attention_bias": true})");
  const std::pair<const char *, const char *> expected[] = {
      {"model.embed_tokens.weight",
       "[259,64] [259,64] vocabulary|- normal 0 0.02 decay"},
      {"model.layers.1.input_layernorm.weight", "[64] [64] - constant 1 no-decay"},
      {"model.layers.1.self_attn.q_proj.weight",
       "[64,64] [4,2,8,64] kv_heads|-|-|- normal 0 0.02 decay"},
      {"model.layers.1.self_attn.q_proj.bias",
       "[64] [4,2,8] kv_heads|-|- constant 0 no-decay"},
      {"model.layers.1.self_attn.k_proj.weight",
       "[32,64] [4,1,8,64] kv_heads|-|-|- normal 0 0.02 decay"},
      {"model.layers.1.self_attn.v_proj.bias",
       "[32] [4,1,8] kv_heads|-|- constant 0 no-decay"},
      {"model.layers.1.self_attn.o_proj.weight",
       "[64,64] [64,4,2,8] -|kv_heads|-|- normal 0 0.02 decay"},
      {"model.layers.1.self_attn.o_proj.bias", "[64] [64] - constant 0 no-decay"},
      {"model.layers.1.post_attention_layernorm.weight",
       "[64] [64] - constant 1 no-decay"},
      {"model.layers.1.mlp.gate_proj.weight",
       "[176,64] [1,176,64] -|ffn|- normal 0 0.02 decay"},
      {"model.layers.1.mlp.up_proj.weight",
       "[176,64] [1,176,64] -|ffn|- normal 0 0.02 decay"},
      {"model.layers.1.mlp.down_proj.weight",
       "[64,176] [64,176] -|ffn normal 0 0.02 decay"},
      {"model.norm.weight", "[64] [64] - constant 1 no-decay"},
      {"lm_head.weight", "[259,64] [259,64] vocabulary|- normal 0 0.02 decay"}};
  for (auto [name, text] : expected) {
    ASSERT_TRUE(model.parameter(name)) << name;
    EXPECT_EQ(describe(model.parameter(name)), text) << name;
  }
  auto parameters = model.program.getBody().getOps<ir::ParameterOp>();
  EXPECT_EQ(std::distance(parameters.begin(), parameters.end()), 2 * 13 + 3);
  EXPECT_EQ(model.configInteger("vocabulary"), 259);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*model.module)));
}

TEST(Llama, RelativesDifferInNormsAndBiases) {
  auto named = [](const char *type, const char *more = "") {
    std::string text = kLlama;
    text.replace(text.find("llama"), 5, type);
    return text + more + "}";
  };
  Model qwen3(named("qwen3", R"(, "tie_word_embeddings": true)"));
  EXPECT_EQ(describe(qwen3.parameter("model.layers.0.self_attn.q_norm.weight")),
            "[128] [128] - constant 1 no-decay");
  EXPECT_TRUE(qwen3.parameter("model.layers.0.self_attn.k_norm.weight"));
  EXPECT_FALSE(qwen3.parameter("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_FALSE(qwen3.parameter("lm_head.weight"));
  Model qwen2(named("qwen2"));
  EXPECT_TRUE(qwen2.parameter("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_FALSE(qwen2.parameter("model.layers.0.self_attn.o_proj.bias"));
  EXPECT_FALSE(qwen2.parameter("model.layers.0.self_attn.q_norm.weight"));
  Model mistral(named("mistral"));
  EXPECT_FALSE(mistral.parameter("model.layers.0.self_attn.q_proj.bias"));
}

TEST(Rope, FrequenciesAreThoseOfTheirFormulas) {
  auto of = [](const char *keys, int64_t headDim) {
    ConfigReader reader(mixle::runtime::parseJson(keys, "rope").take(), "rope");
    return ropeFrequencies(readRope(reader, 64), headDim);
  };
  auto plain = of(R"({"rope_theta": 10000.0})", 8);
  ASSERT_EQ(plain.size(), 4u);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(plain[i] * std::pow(10000.0, i / 4.0), 1, 1e-14);
  EXPECT_EQ(of("{}", 8), plain);
  auto linear = of(R"({"rope_scaling": {"type": "linear", "factor": 4.0}})", 8);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(linear[i], plain[i] / 4);
  EXPECT_EQ(of(R"({"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}})", 8),
            plain);
  // Wave lengths 2 pi, 63, 628 and 6283 of 1024: the first two are shorter than
  // 1024 / 4, the last is longer than 1024, the third is in between.
  auto llama3 = of(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 1024}})", 8);
  EXPECT_EQ(llama3[0], plain[0]);
  EXPECT_EQ(llama3[1], plain[1]);
  EXPECT_EQ(llama3[3], plain[3] / 8);
  double smooth = (1024 * plain[2] / 6.283185307179586 - 1) / 3;
  EXPECT_NEAR(llama3[2], plain[2] * ((1 - smooth) / 8 + smooth), 1e-16);
}

TEST(Models, AFolderStandsForItsConfiguration) {
  std::string folder = testing::TempDir() + "/mixle-frontend-model";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/config.json") << kCausalLm << "\n";
  Model model(folder);
  EXPECT_EQ(model.configInteger("sequence"), 16);
  std::filesystem::remove_all(folder);
}

TEST(Models, BothPrecisionsAndBothSources) {
  std::string path = testing::TempDir() + "/mixle-frontend-config.json";
  std::ofstream(path) << kCausalLm << "\n";
  Model fromFile(path, Precision::F64, 9);
  EXPECT_EQ(fromFile.configInteger("sequence"), 9);
  EXPECT_TRUE(mlir::cast<mlir::RankedTensorType>(
                  fromFile.parameter("pos.weight").getType())
                  .getElementType()
                  .isF64());
  // A short sequence takes nothing from the position table.
  EXPECT_EQ(describe(fromFile.parameter("pos.weight")),
            "[16,32] [16,32] -|- normal 0 1 decay");
  std::remove(path.c_str());
}

} // namespace
