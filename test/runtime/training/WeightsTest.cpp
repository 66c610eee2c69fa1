//===- WeightsTest.cpp - Files of tensors, in and out ---------------------===//

#include "test/runtime/training/SessionTesting.h"

#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;
using mixle::test::Folder;

namespace {

/// A tensor with its values.
struct Tensor {
  std::string name;
  TensorType type;
  std::vector<int64_t> shape;
  std::string bytes;
};

template <typename T>
Tensor tensor(const std::string &name, TensorType type,
              std::vector<int64_t> shape, const std::vector<T> &values) {
  return {name,
          type,
          std::move(shape),
          {reinterpret_cast<const char *>(values.data()),
           values.size() * sizeof(T)}};
}

Tensor matrix(const std::string &name, float first) {
  std::vector<float> values(49);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = first + static_cast<float>(i);
  return tensor(name, TensorType::F32, {7, 7}, values);
}

std::string write(const Folder &folder, const std::vector<Tensor> &tensors) {
  std::vector<TensorView> views;
  for (const Tensor &t : tensors)
    views.push_back({t.name, t.type, t.shape,
                     reinterpret_cast<const uint8_t *>(t.bytes.data()),
                     t.bytes.size()});
  std::string path = folder / "in.safetensors";
  Status status = writeSafetensors(path, views);
  EXPECT_TRUE(status.ok()) << status.message();
  return path;
}

/// Loads on two ranks; the error, after which nothing may have changed.
std::string refusal(const std::vector<Tensor> &tensors) {
  Folder folder;
  std::string path = write(folder, tensors);
  std::string message;
  Status status = runSessions("tp=2", [&](TrainingSession &session) -> Status {
    MIXLE_ASSIGN_OR_RETURN(StateDigest before, session.stateDigest());
    Status loaded = session.loadWeights(path);
    MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
    if (!loaded.ok()) {
      EXPECT_EQ(before, after);
    }
    if (session.rank().communicator().rank() == 0)
      message = loaded.message();
    return session.close();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  const std::string start = "weights '" + path + "': ";
  if (message.compare(0, start.size(), start) == 0)
    message = message.substr(start.size());
  return message;
}

const std::string wte = "transformer.wte.weight";

} // namespace

TEST(Weights, SavedUnderOnePlanLoadedUnderAnother) {
  Folder folder;
  std::string digest, file;
  for (const char *plan :
       {"dp_replicate=1", "dp_replicate=2", "dp_shard=3", "tp=2", "tp=4",
        "dp_replicate=2,dp_shard=2,tp=2", "dp_replicate=3,tp=2"}) {
    std::string path = folder / "out.safetensors";
    Status status = runSessions(plan, [&](TrainingSession &session) -> Status {
      // The first one makes its parameters, the others read what it wrote.
      if (!file.empty())
        MIXLE_RETURN_IF_ERROR(session.loadWeights(folder / "first"));
      MIXLE_ASSIGN_OR_RETURN(StateDigest state, session.stateDigest());
      MIXLE_RETURN_IF_ERROR(session.saveWeights(path));
      if (session.rank().communicator().rank() == 0) {
        if (digest.empty())
          digest = state.hex();
        EXPECT_EQ(state.hex(), digest) << plan;
      }
      return session.close();
    });
    ASSERT_TRUE(status.ok()) << plan << ": " << status.message();
    if (file.empty()) {
      file = folder.get("out.safetensors");
      folder.put("first", file);
    }
    EXPECT_EQ(folder.get("out.safetensors"), file) << plan;
  }
  Expected<SafetensorsFile> read =
      SafetensorsFile::open(folder / "out.safetensors");
  ASSERT_TRUE(read.ok());
  std::vector<std::string> names;
  for (const TensorView &view : read->tensors())
    names.push_back(view.name + " " + shapeText(view.shape));
  EXPECT_EQ(names, (std::vector<std::string>{wte + " [7, 7]", "head [7, 7]",
                                             "scale []"}));
  float scale = 0;
  ASSERT_TRUE(toFloat(*read->find("scale"), &scale).ok());
  EXPECT_EQ(scale, 1.5f);
  EXPECT_EQ(read->metadata().at("format"), "pt");
}

TEST(Weights, LoadingStartsTheStateAnew) {
  Folder folder;
  std::string path = writeWeights(folder, "w.safetensors");
  Rows rows = someRows(8, 0);
  Status status =
      runSessions("dp_shard=2", [&](TrainingSession &session) -> Status {
        MIXLE_RETURN_IF_ERROR(session.loadWeights(path));
        MIXLE_ASSIGN_OR_RETURN(StateDigest fresh, session.stateDigest());
        MIXLE_RETURN_IF_ERROR(stepOn(session, rows).status());
        MIXLE_ASSIGN_OR_RETURN(StateDigest trained, session.stateDigest());
        EXPECT_NE(trained, fresh);
        MIXLE_RETURN_IF_ERROR(session.loadWeights(path));
        MIXLE_ASSIGN_OR_RETURN(StateDigest again, session.stateDigest());
        EXPECT_EQ(again, fresh);
        EXPECT_EQ(session.step(), 0);
        return session.close();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Weights, WhatIsAccepted) {
  const Tensor head = matrix("head", 0);
  EXPECT_EQ(refusal({matrix(wte, 1), head}), "");
  // Other names of Hugging Face's files, masks, and a tied tensor once more.
  EXPECT_EQ(refusal({matrix("wte.weight", 1), head}), "");
  EXPECT_EQ(refusal({matrix(wte, 1), head, matrix("lm_head.weight", 1)}), "");
  const std::vector<uint8_t> mask(4, 1);
  EXPECT_EQ(refusal({matrix(wte, 1), head,
                     tensor("transformer.h.0.attn.bias", TensorType::Bool,
                            {1, 1, 2, 2}, mask),
                     tensor("h.11.attn.masked_bias", TensorType::F32, {},
                            std::vector<float>{-1e4f})}),
            "");
  // Any floating-point type.
  EXPECT_EQ(refusal({matrix(wte, 1), tensor("head", TensorType::F64, {7, 7},
                                            std::vector<double>(49, 0.1))}),
            "");
  EXPECT_EQ(
      refusal({matrix(wte, 1), tensor("head", TensorType::BF16, {7, 7},
                                      std::vector<uint16_t>(49, 0x3f80))}),
      "");
  EXPECT_EQ(
      refusal({matrix(wte, 1), head,
               tensor("scale", TensorType::F64, {}, std::vector<double>{1.5})}),
      "");
}

TEST(Weights, WhatIsRefused) {
  const Tensor head = matrix("head", 0);
  EXPECT_EQ(refusal({head}),
            "it has no tensor 'transformer.wte.weight', which the program "
            "needs ([7, 7])");
  EXPECT_EQ(refusal({matrix(wte, 1), head, matrix("more", 1)}),
            "tensor 'more' ([7, 7]) is no part of the program's model");
  EXPECT_EQ(refusal({matrix(wte, 1), matrix("wte.weight", 1), head}),
            "tensor 'wte.weight' ([7, 7]) is no part of the program's model");
  EXPECT_EQ(refusal({matrix(wte, 1), head,
                     tensor("h.x.attn.bias", TensorType::F32, {},
                            std::vector<float>{1})}),
            "tensor 'h.x.attn.bias' ([]) is no part of the program's model");
  EXPECT_EQ(refusal({matrix(wte, 1), tensor("head", TensorType::F32, {49},
                                            std::vector<float>(49))}),
            "tensor 'head' has shape [49]; the program expects [7, 7]");
  EXPECT_EQ(refusal({matrix(wte, 1), tensor("head", TensorType::I32, {7, 7},
                                            std::vector<int32_t>(49))}),
            "tensor 'head' is of type I32; expected F64, F32, F16 or BF16");
  std::vector<double> values(49, 1);
  values[9] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal({matrix(wte, 1),
                     tensor("head", TensorType::F64, {7, 7}, values)}),
            "tensor 'head': element 9 is nan; weights must be finite");
  values[9] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal({matrix(wte, 1),
                     tensor("head", TensorType::F64, {7, 7}, values)}),
            "tensor 'head': element 9 is -inf; weights must be finite");
  values[9] = 1e39;
  EXPECT_NE(
      refusal({matrix(wte, 1), tensor("head", TensorType::F64, {7, 7}, values)})
          .find("too large for the program's fp32"),
      std::string::npos);
  EXPECT_EQ(refusal({matrix(wte, 1), head, matrix("lm_head.weight", 2)}),
            "tensor 'lm_head.weight' differs from 'transformer.wte.weight'; "
            "the program ties the two, so they must be equal bit by bit");
  EXPECT_NE(
      refusal({matrix(wte, 1), head,
               tensor("scale", TensorType::F32, {}, std::vector<float>{2})})
          .find("the program has 1.5 built in"),
      std::string::npos);
  EXPECT_NE(
      refusal({matrix(wte, 1), head,
               tensor("scale", TensorType::F32, {1}, std::vector<float>{1.5})})
          .find("expected one floating-point number"),
      std::string::npos);
}

TEST(Weights, AFileThatIsNoneIsRefusedOnAllRanks) {
  Folder folder;
  std::string junk = folder.put("junk", "0123456789");
  for (const std::string &path : {junk, folder / "missing"}) {
    Status status = runSessions(
        "dp_replicate=2,tp=2", [&](TrainingSession &session) -> Status {
          Status loaded = session.loadWeights(path);
          EXPECT_NE(loaded.message().find(path), std::string::npos);
          EXPECT_TRUE(session.lastErrorIsShared());
          // All ranks go on together.
          return session.stateDigest().status();
        });
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Weights, AFailedSaveLeavesNothing) {
  Folder folder;
  Status status = runSessions(
      "dp_replicate=2,tp=2", [&](TrainingSession &session) -> Status {
        for (const std::string &path :
             {folder / "no/such/folder", std::string("/dev/full")}) {
          Status saved = session.saveWeights(path);
          EXPECT_FALSE(saved.ok()) << path;
          EXPECT_NE(saved.message().find(path), std::string::npos)
              << saved.message();
          EXPECT_TRUE(session.lastErrorIsShared());
        }
        return session.saveWeights(folder / "good.safetensors");
      });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(folder.count(), 1u);
}
