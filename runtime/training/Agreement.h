//===- Agreement.h - One error for all ranks --------------------*- C++ -*-===//
//
// Reading a file may fail on one rank and not on another. Ranks that stop at
// different places wait for each other; so where an error is foreseen, all
// ranks meet and share the outcome.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_AGREEMENT_H
#define MIXLE_RUNTIME_TRAINING_AGREEMENT_H

#include "mixle/Status.h"
#include "runtime/comm/Communicator.h"

namespace mixle::runtime {

/// The group of all ranks.
Expected<std::unique_ptr<Group>> makeWorldGroup(Communicator &communicator);

/// All members call it with their own outcome. Success when all of them are
/// well; else every member gets the error of the first one that is not, word
/// for word, and `shared` (where given) becomes true: they may go on together.
/// When the exchange itself fails, `shared` is left as it is. `context` says
/// what is agreed on, for those who wait.
Status agree(Communicator &communicator, Group &group,
             const CommandContext &context, const Status &own,
             bool *shared = nullptr);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_AGREEMENT_H
