//===- HuggingFace.cpp - What all of its configurations hold --------------===//

#include "frontend/cpp/models/HuggingFace.h"

#include "frontend/cpp/models/ConfigReader.h"

using namespace llvm;

namespace mixle::frontend {

namespace {

constexpr StringLiteral kMetadata[] = {
    "model_type",
    "architectures",
    "transformers_version",
    "_name_or_path",
    "name_or_path",
    "_commit_hash",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "torch_dtype",
    "dtype",
    "torchscript",
    "tokenizer_class",
    "prefix",
    "finetuning_task",
    "problem_type",
    "task_specific_params",
    "id2label",
    "label2id",
    "num_labels",
    "_num_labels",
    "use_cache",
    "output_past",
    "output_hidden_states",
    "output_attentions",
    "return_dict",
    "use_return_dict",
    "chunk_size_feed_forward",
    "loss_type",
    "bos_token_id",
    "eos_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "output_scores",
    "return_dict_in_generate",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
};

} // namespace

void ignoreMetadata(ConfigReader &reader) { reader.ignore(kMetadata); }

void refuseOtherModels(ConfigReader &reader) {
  for (StringRef key :
       {"add_cross_attention", "is_encoder_decoder", "is_decoder",
        "tie_encoder_decoder", "gradient_checkpointing"})
    if (reader.boolean(key, false))
      reader.fail(key, "is not executed; set it to false");
  for (StringRef key : {"cross_attention_hidden_size", "pruned_heads"}) {
    if (reader.isNullOrAbsent(key))
      continue;
    if (!reader.isEmptyObject(key))
      reader.fail(key, "is not executed; remove it");
  }
}

} // namespace mixle::frontend
