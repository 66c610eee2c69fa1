//===- WeightFiles.h - A model's tensors, in one file or several -*- C++
//-*-===//
//
// Large models come in several safetensors files, with a
// `model.safetensors.index.json` that says which tensor is in which. Read so,
// they are as one file.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_WEIGHTFILES_H
#define MIXLE_RUNTIME_TRAINING_WEIGHTFILES_H

#include "mixle/Status.h"
#include "runtime/base/Safetensors.h"

#include <string>
#include <string_view>
#include <vector>

namespace mixle::runtime {

class WeightFiles {
public:
  /// Opens `path`: a .safetensors file; an index (a name that ends in .json),
  /// whose files stand beside it; or a folder with
  /// `model.safetensors.index.json` or else `model.safetensors`. Errors: what
  /// SafetensorsFile says; an index that is no JSON object with a `weight_map`
  /// from names to file names without a folder; a tensor that is not in the
  /// file that the index names, stands in a file without being in the index, or
  /// stands in two files.
  static Expected<WeightFiles> open(const std::string &path);

  /// Null when there is none of that name.
  const TensorView *find(std::string_view name) const;
  /// In the order of the files (by name) and of their headers.
  const std::vector<const TensorView *> &tensors() const { return views; }

private:
  std::vector<SafetensorsFile> files;
  std::vector<const TensorView *> views;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_WEIGHTFILES_H
