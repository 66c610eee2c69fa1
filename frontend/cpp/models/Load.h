//===- Load.h - From a configuration to a program ---------------*- C++ -*-===//

#ifndef MIXLE_FRONTEND_MODELS_LOAD_H
#define MIXLE_FRONTEND_MODELS_LOAD_H

#include "frontend/cpp/Graph.h"

namespace mixle::frontend {

/// Builds the model that a configuration describes. `config` is the path of a
/// JSON file or of a folder with a config.json, or the JSON text itself (its
/// first character other than white space is then a brace). Its `model_type` is
/// "gpt2" (a Hugging Face configuration; Gpt2.h), "llama", "mistral", "qwen2" or
/// "qwen3" (Llama.h), or "mixle_causal_lm" (CausalLm.h). `sequence` is the
/// number of tokens of a row; without one, the longest the model takes.
///
/// The module holds one mixle.program with entries @loss and @predict, whose
/// `config` says `model_type`, `sequence` and `vocabulary`, and for models
/// whose files hold more than parameters `file_constants`.
///
/// Errors are FrontendErrors, one message each: the file cannot be read; text
/// that is not JSON (with line and column) or repeats a key; a model_type that
/// is missing or unknown; whatever the model says of its keys; a sequence out
/// of range.
mlir::OwningOpRef<mlir::ModuleOp> buildModel(llvm::StringRef config,
                                             Precision precision,
                                             std::optional<int64_t> sequence,
                                             mlir::MLIRContext &context);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_LOAD_H
