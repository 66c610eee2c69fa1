//===- Isa.cpp - Instruction sets of the kernels --------------------------===//

#include "runtime/kernels/Isa.h"

namespace mixle::runtime {

bool isSupported(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
  case Isa::portable:
    return true;
  case Isa::avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case Isa::avx512:
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  }
  return false;
#else
  return isa == Isa::portable;
#endif
}

Isa bestIsa() {
  static const Isa best = isSupported(Isa::avx512) ? Isa::avx512
                          : isSupported(Isa::avx2) ? Isa::avx2
                                                   : Isa::portable;
  return best;
}

const char *isaName(Isa isa) {
  switch (isa) {
  case Isa::portable:
    return "portable";
  case Isa::avx2:
    return "avx2";
  case Isa::avx512:
    return "avx512";
  }
  return "unknown";
}

} // namespace mixle::runtime
