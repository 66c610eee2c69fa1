//===- Schedule.cpp - Pipeline schedules ----------------------------------===//

#include "compiler/Dist/Schedule.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

namespace mlir::dist {

bool isPipelineSchedule(std::string_view name) {
  return name == "gpipe" || name == "1f1b" || name == "interleaved" ||
         name == "zb-h1";
}

bool splitsBackward(std::string_view name) { return name == "zb-h1"; }

namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

class Simulator {
public:
  Simulator(std::string_view name, int64_t ranks, int64_t chunks,
            int64_t microbatches)
      : name(name), ranks(ranks), chunks(chunks), microbatches(microbatches),
        strict(name == "interleaved"),
        forward(ranks * chunks, std::vector<int64_t>(microbatches, never)),
        backward(forward), state(ranks) {
    for (int64_t r = 0; r < ranks; ++r) {
      state[r].next.assign(chunks, {0, 0, 0});
      state[r].limit = limitOf(r);
      // In groups of as many microbatches as there are ranks, each group through
      // all chunks, and back.
      for (int64_t first = 0; first < microbatches; first += ranks)
        for (int64_t c = 0; c < chunks; ++c)
          for (int64_t m = first; m < std::min(microbatches, first + ranks); ++m) {
            state[r].order.push_back({c, m});
            state[r].backOrder.push_back({chunks - 1 - c, m});
          }
      if (name != "gpipe")
        continue;
      auto byChunk = [](auto a, auto b) { return a.first < b.first; };
      auto byChunkBack = [](auto a, auto b) { return a.first > b.first; };
      std::stable_sort(state[r].order.begin(), state[r].order.end(), byChunk);
      std::stable_sort(state[r].backOrder.begin(), state[r].backOrder.end(),
                       byChunkBack);
    }
  }

  PipelineSchedule run() {
    bool split = splitsBackward(name);
    int64_t left = ranks * chunks * microbatches * (split ? 3 : 2);
    int64_t busy = 0, end = 0;
    result.ranks.resize(ranks);
    while (left > 0) {
      // The rank that can start something first; ties go to the lowest.
      int64_t best = -1, bestTime = never;
      PipelineRun bestRun{};
      for (int64_t r = 0; r < ranks; ++r) {
        PipelineRun run{};
        int64_t time = choose(r, run);
        if (time < bestTime) {
          best = r;
          bestTime = time;
          bestRun = run;
        }
      }
      if (best < 0) {
        // Turns or limits hold everyone back (a last group of fewer microbatches
        // than ranks can): anything goes, or more microbatches have to live.
        if (!strict)
          for (Rank &rank : state)
            ++rank.limit;
        strict = false;
        continue;
      }
      int64_t length = bestRun.phase == PipelinePhase::Backward && !split ? 2 : 1;
      finish(best, bestRun, bestTime + length);
      busy += length;
      end = std::max(end, bestTime + length);
      --left;
    }
    result.bubble =
        end > 0 ? 1 - static_cast<double>(busy) / static_cast<double>(end * ranks)
                : 0;
    assignSlots(split);
    return std::move(result);
  }

private:
  struct Rank {
    int64_t time = 0, limit = 0;
    /// Per chunk: next microbatch of each phase.
    std::vector<std::array<int64_t, 3>> next;
    /// Of forwards and of backwards: chunk and microbatch.
    std::vector<std::pair<int64_t, int64_t>> order, backOrder;
    size_t forwards = 0;
    int64_t backwards = 0, weights = 0;
  };

  int64_t limitOf(int64_t r) const {
    if (name == "gpipe")
      return never;
    return chunks == 1 ? ranks - r
                       : 2 * (ranks - r - 1) + (chunks - 1) * ranks + 1;
  }

  int64_t stage(int64_t r, int64_t c) const { return c * ranks + r; }

  /// The next phase of a rank and when it starts; never if it has to wait for
  /// something that is not yet planned.
  int64_t choose(int64_t r, PipelineRun &run) const {
    const Rank &rank = state[r];
    bool gpipe = name == "gpipe";
    int64_t bestTime = never;
    auto offer = [&](PipelinePhase phase, int64_t c, int64_t m, int64_t ready) {
      if (ready == never)
        return;
      int64_t time = std::max(ready, rank.time);
      // Offered in the order of preference.
      if (time >= bestTime)
        return;
      bestTime = time;
      run = {phase, c, m, 0};
    };
    // After its first forwards a rank of an interleaved schedule takes turns, a
    // forward before a backward: others wait for its forwards.
    bool forwardDue = strict && rank.forwards < rank.order.size() &&
                      static_cast<int64_t>(rank.forwards) - rank.backwards < rank.limit;
    if (rank.backwards < static_cast<int64_t>(rank.backOrder.size()) &&
        !forwardDue && (!gpipe || rank.forwards == rank.order.size())) {
      auto [c, m] = rank.backOrder[static_cast<size_t>(rank.backwards)];
      int64_t s = stage(r, c);
      if (forward[s][m] != never)
        offer(PipelinePhase::Backward, c, m,
              s + 1 == ranks * chunks ? forward[s][m] : backward[s + 1][m]);
    }
    if (rank.forwards < rank.order.size()) {
      auto [c, m] = rank.order[rank.forwards];
      int64_t s = stage(r, c);
      int64_t alive = static_cast<int64_t>(rank.forwards) - rank.backwards;
      int64_t kept = static_cast<int64_t>(rank.forwards) - rank.weights;
      bool room = alive < rank.limit;
      if (splitsBackward(name))
        room = room && kept < std::max(rank.limit, ranks * chunks);
      if (room)
        offer(PipelinePhase::Forward, c, m, s == 0 ? 0 : forward[s - 1][m]);
    }
    if (splitsBackward(name))
      for (int64_t c = chunks - 1; c >= 0; --c) {
        int64_t m = rank.next[c][2];
        if (m < rank.next[c][1])
          offer(PipelinePhase::Weight, c, m, backward[stage(r, c)][m]);
      }
    return bestTime;
  }

  void finish(int64_t r, const PipelineRun &run, int64_t end) {
    Rank &rank = state[r];
    rank.time = end;
    ++rank.next[run.chunk][static_cast<size_t>(run.phase)];
    int64_t s = stage(r, run.chunk);
    switch (run.phase) {
    case PipelinePhase::Forward:
      forward[s][run.microbatch] = end;
      ++rank.forwards;
      break;
    case PipelinePhase::Backward:
      backward[s][run.microbatch] = end;
      ++rank.backwards;
      break;
    case PipelinePhase::Weight:
      ++rank.weights;
      break;
    }
    result.ranks[r].push_back(run);
  }

  /// A microbatch takes the lowest free copy of its chunk from its forward on.
  void assignSlots(bool split) {
    PipelinePhase last = split ? PipelinePhase::Weight : PipelinePhase::Backward;
    for (auto &runs : result.ranks) {
      std::vector<std::vector<int64_t>> holds(chunks);
      for (PipelineRun &run : runs) {
        std::vector<int64_t> &slots = holds[run.chunk];
        int64_t wanted = run.phase == PipelinePhase::Forward ? -1 : run.microbatch;
        auto at = std::find(slots.begin(), slots.end(), wanted);
        if (at == slots.end()) {
          assert(wanted < 0 && "a microbatch goes forward first");
          at = slots.insert(slots.end(), -1);
        }
        *at = run.phase == last ? -1 : run.microbatch;
        run.slot = at - slots.begin();
      }
      std::vector<int64_t> counts;
      for (const auto &slots : holds)
        counts.push_back(static_cast<int64_t>(slots.size()));
      result.slots.push_back(std::move(counts));
    }
  }

  std::string_view name;
  int64_t ranks, chunks, microbatches;
  bool strict; ///< forwards and backwards take turns
  /// When a stage has finished a microbatch.
  std::vector<std::vector<int64_t>> forward, backward;
  std::vector<Rank> state;
  PipelineSchedule result;
};

} // namespace

PipelineSchedule makeSchedule(std::string_view name, int64_t ranks,
                              int64_t chunks, int64_t microbatches) {
  return Simulator(name, ranks, chunks, microbatches).run();
}

} // namespace mlir::dist
