//===- VerifyCode.cpp - Kernels' names and code objects -------------------===//

#include "runtime/program/Verifier.h"

#include <cctype>
#include <cstring>
#include <elf.h>
#include <set>

namespace mixle::runtime {

/// A kernel's name becomes a symbol that is looked up.
static bool isSymbol(const std::string &name) {
  if (name.empty() || name.size() > 1024 ||
      std::isdigit(static_cast<unsigned char>(name[0])))
    return false;
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("_.$", c))
      return false;
  return true;
}

static Status verifyElf(const std::vector<uint8_t> &image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof(header))
    return Status::error("it is " + std::to_string(image.size()) +
                         " bytes long, too short for an ELF file");
  std::memcpy(&header, image.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return Status::error("it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
    return Status::error("it is an ELF file of another machine than x86-64 "
                         "with 64 bits");
  if (header.e_type != ET_DYN)
    return Status::error("it is an ELF file of type " +
                         std::to_string(header.e_type) +
                         "; expected a shared object");
  // The loader maps what these say: outside the image, touching it would end
  // the process.
  uint64_t size = image.size();
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phoff > size ||
      header.e_phnum > (size - header.e_phoff) / sizeof(Elf64_Phdr))
    return Status::error("its program headers lie outside it");
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment,
                image.data() + header.e_phoff + i * sizeof(Elf64_Phdr),
                sizeof(segment));
    if (segment.p_type == PT_LOAD &&
        (segment.p_offset > size || segment.p_filesz > size - segment.p_offset))
      return Status::error("its segment " + std::to_string(i) +
                           " lies outside it");
  }
  return Status::success();
}

Status verifyCode(const fb::ProgramT &program) {
  std::set<std::string> names;
  for (const std::string &kernel : program.kernels) {
    if (!isSymbol(kernel))
      return Status::error("kernel name '" + kernel + "' is no symbol");
    if (!names.insert(kernel).second)
      return Status::error("two kernels are named '" + kernel + "'");
  }
  if (!program.kernels.empty() && program.code.empty())
    return Status::error("it has kernels but no code object");
  for (size_t i = 0; i < program.code.size(); ++i) {
    const fb::CodeT &code = *program.code[i];
    std::string what = "code object " + std::to_string(i);
    if (code.target.compare(0, 6, "x86_64") != 0)
      return Status::error(what + " is for target '" + code.target +
                           "'; this runtime executes x86_64 code");
    MIXLE_RETURN_IF_ERROR(verifyElf(code.elf).withContext(what));
  }
  return Status::success();
}

} // namespace mixle::runtime
