//===- Progress.cpp - How far a run is ------------------------------------===//

#include "tools/mixle-run/Progress.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <unistd.h>

namespace mixle::tools {

static constexpr int barWidth = 24;
/// Seconds between two drawings of the bar.
static constexpr double drawInterval = 0.1;

Progress::Progress(bool shown, int64_t steps)
    : shown(shown), terminal(shown && isatty(STDERR_FILENO)), steps(steps) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Progress::tokensPerSecond() const {
  return elapsed > 0 ? static_cast<double>(tokens) / elapsed : 0;
}

static std::string timeText(double seconds) {
  auto whole = static_cast<int64_t>(seconds + 0.5);
  char text[32];
  if (whole >= 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld",
                  static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60),
                  static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld",
                  static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  return text;
}

void Progress::step(int64_t step, double loss, int64_t stepTokens) {
  tokens += stepTokens;
  elapsed = seconds();
  const bool last = step == steps;
  const int64_t interval = std::max<int64_t>(1, steps / 10);
  if (!shown || (!terminal && !last && step % interval != 0))
    return;
  if (terminal && !last && elapsed - lastDrawn < drawInterval)
    return;
  lastDrawn = elapsed;
  double left =
      elapsed / static_cast<double>(step) * static_cast<double>(steps - step);
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers),
                "step %lld/%lld  loss %.4f  %.0f tokens/s  %s left",
                static_cast<long long>(step), static_cast<long long>(steps),
                loss, tokensPerSecond(), timeText(left).c_str());
  if (!terminal) {
    std::fprintf(stderr, "%s\n", numbers);
    return;
  }
  auto filled = static_cast<size_t>(barWidth * step / steps);
  std::string bar(filled, '#');
  bar.resize(barWidth, '.');
  std::fprintf(stderr, "\r[%s] %s\x1b[K", bar.c_str(), numbers);
  std::fflush(stderr);
  drawn = true;
}

void Progress::finish() {
  if (drawn)
    std::fputc('\n', stderr);
  drawn = false;
}

} // namespace mixle::tools
