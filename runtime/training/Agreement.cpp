//===- Agreement.cpp - One error for all ranks ----------------------------===//

#include "runtime/training/Agreement.h"

namespace mixle::runtime {

Expected<std::unique_ptr<Group>> makeWorldGroup(Communicator &communicator) {
  std::vector<int> ranks(static_cast<size_t>(communicator.worldSize()));
  for (size_t i = 0; i < ranks.size(); ++i)
    ranks[i] = static_cast<int>(i);
  return communicator.createGroup(std::move(ranks));
}

Status agree(Communicator &communicator, Group &group,
             const CommandContext &context, const Status &own, bool *shared) {
  int64_t speaker = own.ok() ? group.size() : group.index();
  MIXLE_RETURN_IF_ERROR(communicator.allReduce(group, context, &speaker, 1,
                                               DataType::i64, ReduceOp::min));
  if (speaker == group.size())
    return Status::success();
  std::string message = own.message();
  auto length = static_cast<int64_t>(message.size());
  const int root = static_cast<int>(speaker);
  MIXLE_RETURN_IF_ERROR(
      communicator.broadcast(group, context, &length, sizeof(length), root));
  message.resize(static_cast<size_t>(length));
  MIXLE_RETURN_IF_ERROR(
      communicator.broadcast(group, context, message.data(), length, root));
  if (shared)
    *shared = true;
  return Status::error(std::move(message));
}

} // namespace mixle::runtime
