//===- MpiCommunicator.h - The communicator over MPI ------------*- C++ -*-===//
//
// Everything is non-blocking underneath: a wait tests its request, spins for
// some microseconds, then sleeps between tests. So ranks that outnumber cores
// do not burn them, and a wait can time out.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
#define MIXLE_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/MpiLoader.h"
#include <chrono>
#include <functional>
#include <list>
#include <mpi.h>

namespace mixle::runtime {

class MpiGroup : public Group {
public:
  MpiGroup(const Communicator *owner, std::vector<int> ranks, int index,
           MPI_Comm comm)
      : Group(owner, std::move(ranks), index), comm(comm) {}
  ~MpiGroup() override;

  MPI_Comm comm; ///< MPI_COMM_NULL for a group of one
  uint64_t sequence = 0;
};

class MpiCommunicator : public Communicator {
public:
  /// MPI is initialised; `ownsMpi` says whether this object ends it.
  static std::unique_ptr<MpiCommunicator>
  create(const MpiOptions &options, bool ownsMpi, std::string &error);
  ~MpiCommunicator() override;

  void abort(const std::string &message) override;

protected:
  Expected<std::unique_ptr<Group>> makeGroup(std::vector<int> worldRanks,
                                             int index) override;
  Status runCollective(Group &group, const CollectiveCall &call,
                       const CommandContext &context) override;
  Status sendBytes(const CommandContext &context, const void *data,
                   int64_t bytes, int peer, int tag) override;
  Status recvBytes(const CommandContext &context, void *data, int64_t bytes,
                   int peer, int tag) override;
  Status health() const override { return failure; }

private:
  using Clock = std::chrono::steady_clock;

  /// A wait under way, for the messages and for peers that ask.
  struct Wait {
    std::function<std::string()> describe;
    std::vector<int> peers; ///< world ranks on which it depends
    const char *missing;    ///< "has not arrived": what a peer failed to do
    uint64_t group = 0;     ///< digest of the group's ranks; 0 for messages
    uint64_t sequence = 0;
    bool moving = false; ///< everyone is there: data is on its way
    Clock::time_point begin = Clock::now();
  };

  /// A message on its way, with the copy of its bytes.
  struct PendingSend {
    std::vector<char> data;
    std::vector<MPI_Request> requests;
  };

  MpiCommunicator(int rank, int size, const MpiOptions &options, bool ownsMpi)
      : Communicator(rank, size), options(options), ownsMpi(ownsMpi) {}

  // Setup (MpiCommunicator.cpp).
  int setUp();
  Status agreeOnGroup(const std::vector<int> &ranks, int index,
                      const Wait &wait);

  // Collectives (MpiCollectives.cpp).
  Status compareCalls(MpiGroup &group, const CollectiveCall &call,
                      const CommandContext &context, const Wait &wait,
                      int64_t &extent);
  Status move(MpiGroup &group, const CollectiveCall &call, const Wait &wait,
              int64_t extent);
  Status reduceScatter(MpiGroup &group, const CollectiveCall &call,
                       const Wait &wait);
  Status exchange(MpiGroup &group, const CollectiveCall &call,
                  const Wait &wait);
  Status exchangePieces(MpiGroup &group, const CollectiveCall &call,
                        const Wait &wait);
  MPI_Op operation(DataType type, ReduceOp op) const;

  // Waiting (MpiProgress.cpp).
  Status finish(int code, MPI_Request &request, const Wait &wait);
  Status poll(const std::function<int(int *done)> &test, const Wait &wait);
  [[noreturn]] void expire(const Wait &wait);
  void answerQueries(const Wait &wait);
  Status post(MPI_Comm comm, const void *data, int64_t bytes, int peer,
              int tag);
  Status receive(MPI_Comm comm, int peer, int tag, int64_t expected, void *data,
                 const Wait &wait);
  void reapSends();
  /// Bytes that one message carries at most.
  int64_t pieceLimit(MPI_Comm comm) const {
    return comm == control ? int64_t(1) << 30 : options.maxElementsPerCall;
  }
  Status fail(const std::string &message);
  Status fail(int code, const Wait &wait);

  const MpiOptions options;
  const bool ownsMpi;
  Status failure;
  MPI_Comm messages = MPI_COMM_NULL; ///< send and recv
  MPI_Comm control = MPI_COMM_NULL;  ///< making groups, asking who waits where
  int tagLimit = 32767;
  MPI_Datatype digestType = MPI_DATATYPE_NULL;
  MPI_Op digestOp = MPI_OP_NULL;
  MPI_Op floatMax = MPI_OP_NULL;
  MPI_Op floatMin = MPI_OP_NULL;
  std::list<PendingSend> pending;
  std::vector<char> staging;
};

/// Tags on `control`.
enum ControlTag : int { tagHello = 1, tagVerdict, tagQuery, tagReply };

/// "MPI_ERR_TRUNCATE: message truncated".
std::string mpiErrorText(int code);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
