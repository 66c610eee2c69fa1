//===- HuggingFace.h - What all of its configurations hold ------*- C++ -*-===//

#ifndef MIXLE_FRONTEND_MODELS_HUGGINGFACE_H
#define MIXLE_FRONTEND_MODELS_HUGGINGFACE_H

namespace mixle::frontend {

class ConfigReader;

/// Passes over the keys that say nothing about a causal model's mathematics:
/// provenance, token ids of generation, heads of other tasks, how outputs are
/// packed.
void ignoreMetadata(ConfigReader &reader);

/// Refuses the keys that make a model something other than a causal decoder, or
/// that compute in another way, where they are on.
void refuseOtherModels(ConfigReader &reader);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_HUGGINGFACE_H
