//===- Progress.h - How far a run is ----------------------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_RUN_PROGRESS_H
#define MIXLE_TOOLS_RUN_PROGRESS_H

#include <chrono>
#include <cstdint>

namespace mixle::tools {

/// Step, loss, tokens a second and time left on stderr: a bar that is drawn
/// again and again on a terminal, else a line every tenth of the way.
class Progress {
public:
  /// Nothing is shown unless `shown`.
  Progress(bool shown, int64_t steps);
  ~Progress() { finish(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// A step ended, with the mean loss and the number of its tokens.
  void step(int64_t step, double loss, int64_t tokens);
  /// Leaves the bar's line.
  void finish();

  /// Over all steps so far; 0 before the first.
  double tokensPerSecond() const;

private:
  using Clock = std::chrono::steady_clock;
  double seconds() const;

  bool shown;
  bool terminal;
  bool drawn = false;
  int64_t steps;
  int64_t tokens = 0;
  double elapsed = 0; // at the end of the last step
  double lastDrawn = -1;
  Clock::time_point begin = Clock::now();
};

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_PROGRESS_H
