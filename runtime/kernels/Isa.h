//===- Isa.h - Instruction sets of the kernels ------------------*- C++ -*-===//
//
// Every kernel exists for each of these instruction sets and gives the same
// bits in all of them; tests compare them. Kernels take the set as a last
// argument, by default the best one of this machine.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_ISA_H
#define MIXLE_RUNTIME_KERNELS_ISA_H

namespace mixle::runtime {

enum class Isa {
  portable, ///< std::fma on scalars; slow where the compiler's target has no
            ///< FMA
  avx2,     ///< AVX2 and FMA
  avx512    ///< AVX-512 F, DQ, BW, VL
};

/// Whether this machine executes the instruction set.
bool isSupported(Isa isa);

/// The widest supported instruction set; asked once.
Isa bestIsa();

const char *isaName(Isa isa);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_ISA_H
