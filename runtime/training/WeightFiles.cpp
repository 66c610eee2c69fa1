//===- WeightFiles.cpp - A model's tensors, in one file or several --------===//

#include "runtime/training/WeightFiles.h"
#include "runtime/base/Json.h"

#include <filesystem>
#include <map>

namespace mixle::runtime {

namespace {

/// An index of more bytes than this is some other file.
constexpr uint64_t maxIndexBytes = 256 << 20;

/// Names of tensors and the files that they are in.
using WeightMap = std::map<std::string, std::string>;

Expected<WeightMap> readIndex(const std::string &path) {
  MIXLE_ASSIGN_OR_RETURN(std::string text, readFile(path, maxIndexBytes));
  MIXLE_ASSIGN_OR_RETURN(Json index, parseJson(text, path));
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    return Status::error(path +
                         ": expected an object with a \"weight_map\" from "
                         "tensors to the files that they are in");
  WeightMap result;
  for (const auto &item : map->items()) {
    std::string file =
        item.value().is_string() ? item.value().get<std::string>() : "";
    // A file beside the index, wherever a stranger's index would like it to be.
    if (file.empty() || file.find('/') != std::string::npos || file[0] == '.')
      return Status::error(path + ": tensor '" + item.key() +
                           "' is said to be in " + item.value().dump() +
                           "; expected the name of a file beside the index");
    result[item.key()] = file;
  }
  return result;
}

} // namespace

Expected<WeightFiles> WeightFiles::open(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  std::string file = path;
  if (fs::is_directory(path, unknown)) {
    file = (fs::path(path) / "model.safetensors.index.json").string();
    if (!isRegularFile(file))
      file = (fs::path(path) / "model.safetensors").string();
  }
  WeightFiles result;
  WeightMap index;
  if (fs::path(file).extension() == ".json") {
    MIXLE_ASSIGN_OR_RETURN(index, readIndex(file));
    std::map<std::string, size_t> byName;
    for (const auto &entry : index)
      byName[entry.second] = 0;
    for (auto &[name, number] : byName) {
      number = result.files.size();
      MIXLE_ASSIGN_OR_RETURN(
          SafetensorsFile shard,
          SafetensorsFile::open(
              (fs::path(file).parent_path() / name).string()));
      result.files.push_back(std::move(shard));
    }
    for (const auto &[tensor, name] : index)
      if (!result.files[byName[name]].find(tensor))
        return Status::error(file + ": tensor '" + tensor + "' is not in '" +
                             name + "', where the index has it");
  } else {
    MIXLE_ASSIGN_OR_RETURN(SafetensorsFile only, SafetensorsFile::open(file));
    result.files.push_back(std::move(only));
  }
  std::map<std::string_view, const SafetensorsFile *> seen;
  for (const SafetensorsFile &shard : result.files)
    for (const TensorView &tensor : shard.tensors()) {
      auto [first, isNew] = seen.emplace(tensor.name, &shard);
      if (!isNew)
        return Status::error("tensor '" + tensor.name + "' is in both '" +
                             first->second->path() + "' and '" + shard.path() +
                             "'");
      if (!index.empty() && index.count(tensor.name) == 0)
        return Status::error("tensor '" + tensor.name + "' of '" +
                             shard.path() + "' is not in the index '" + file +
                             "'");
      result.views.push_back(&tensor);
    }
  return result;
}

const TensorView *WeightFiles::find(std::string_view name) const {
  for (const SafetensorsFile &file : files)
    if (const TensorView *tensor = file.find(name))
      return tensor;
  return nullptr;
}

} // namespace mixle::runtime
