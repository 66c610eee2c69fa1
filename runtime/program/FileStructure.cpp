//===- FileStructure.cpp - Checks before a file is unpacked ---------------===//

#include "runtime/program/FileStructure.h"
#include "runtime/program/ProgramFile.h"

namespace mixle::runtime {

namespace {

/// Whether bytes are UTF-8, as the format's texts are.
bool isUtf8(const char *data, size_t size) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(data[i]); };
  for (size_t i = 0; i < size;) {
    unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || more >= size - i)
      return false;
    for (size_t k = 1; k <= more; ++k)
      if ((byte(i + k) & 0xc0) != 0x80)
        return false;
    // Overlong forms, surrogates and what lies beyond the last code point.
    if ((lead == 0xe0 && byte(i + 1) < 0xa0) ||
        (lead == 0xed && byte(i + 1) > 0x9f) ||
        (lead == 0xf0 && byte(i + 1) < 0x90) ||
        (lead == 0xf4 && byte(i + 1) > 0x8f))
      return false;
    i += more + 1;
  }
  return true;
}

/// Adds up what unpacking will copy. A table may be reached through several
/// offsets, so a small file can describe a large object.
class Walk {
public:
  explicit Walk(uint64_t limit) : limit(limit) {}

  bool aligned = true;
  bool readable = true;
  bool affordable() const { return total <= limit; }

  void program(const fb::Program &p) {
    text(p.name());
    text(p.kind());
    text(p.numerics());
    table(p.plan(), [](const fb::Plan &) {});
    attributes(p.granules());
    attributes(p.config());
    tables(p.parameters(), [this](const fb::Parameter &x) {
      text(x.logical_id());
      numbers(x.file_shape());
      numbers(x.shape());
      text(x.shared_group());
      texts(x.placements());
    });
    tables(p.updates(), [this](const fb::Update &x) {
      text(x.node_id());
      numbers(x.mesh_axes());
      texts(x.notes());
      text(x.error_bound());
      text(x.numerics_evidence_id());
    });
    tables(p.classes(), [this](const fb::RankClass &x) { rankClass(x); });
    texts(p.kernels());
    tables(p.code(), [this](const fb::Code &x) {
      text(x.target());
      text(x.cpu());
      texts(x.features());
      numbers(x.elf());
    });
    texts(p.locations());
    attributes(p.file_constants());
  }

private:
  template <typename T> using Vector = flatbuffers::Vector<T>;
  template <typename T>
  using Tables = flatbuffers::Vector<flatbuffers::Offset<T>>;

  void rankClass(const fb::RankClass &x) {
    tables(x.buffers(), [this](const fb::Buffer &b) {
      text(b.name());
      text(b.slot());
    });
    tables(x.entries(), [this](const fb::Entry &e) {
      text(e.name());
      bindings(e.inputs());
      bindings(e.outputs());
      commands(e.commands());
    });
  }
  void commands(const Tables<fb::Command> *list) {
    tables(list, [this](const fb::Command &c) {
      text(c.name());
      numbers(c.buffers());
      structs(c.scalars());
      numbers(c.floats());
      text(c.text());
      numbers(c.updates());
      numbers(c.axes());
      commands(c.body());
    });
  }
  void bindings(const Tables<fb::Binding> *list) {
    tables(list, [this](const fb::Binding &b) { text(b.role()); });
  }
  void attributes(const Tables<fb::Attribute> *list) {
    tables(list, [this](const fb::Attribute &a) {
      text(a.key());
      text(a.value());
    });
  }

  template <typename T, typename Visit>
  void table(const T *value, const Visit &visit) {
    total += 8;
    if (value && affordable())
      visit(*value);
  }
  template <typename T, typename Visit>
  void tables(const Tables<T> *list, const Visit &visit) {
    for (flatbuffers::uoffset_t i = 0; list && i < list->size() && affordable();
         ++i)
      table(list->Get(i), visit);
  }
  void text(const flatbuffers::String *value) {
    if (!value)
      return;
    total += value->size();
    readable = readable && isUtf8(value->c_str(), value->size());
  }
  void texts(const Tables<flatbuffers::String> *list) {
    for (flatbuffers::uoffset_t i = 0; list && i < list->size() && affordable();
         ++i) {
      total += 4;
      text(list->Get(i));
    }
  }
  template <typename T> void numbers(const Vector<T> *list) {
    if (!list)
      return;
    total += uint64_t(list->size()) * sizeof(T);
    aligned &= reinterpret_cast<uintptr_t>(list->Data()) % sizeof(T) == 0;
  }
  void structs(const Vector<const fb::Scalar *> *list) {
    if (!list)
      return;
    total += uint64_t(list->size()) * sizeof(fb::Scalar);
    aligned &=
        reinterpret_cast<uintptr_t>(list->Data()) % alignof(fb::Scalar) == 0;
  }

  uint64_t limit;
  uint64_t total = 0;
};

} // namespace

Status checkFileStructure(const fb::Program &program, uint64_t bytes) {
  // A writer may share strings; 16 uses of every byte are far more than that.
  Walk walk(16 * bytes + 4096);
  walk.program(program);
  if (!walk.affordable())
    return Status::error("its parts are used so often that it would unpack to "
                         "more than 16 times its size");
  if (!walk.aligned)
    return Status::error("its structure is damaged (numbers are not aligned)");
  if (!walk.readable)
    return Status::error("its structure is damaged (a text is not UTF-8)");
  return Status::success();
}

Status checkSchemaVersion(int32_t version) {
  if (version == programSchemaVersion)
    return Status::success();
  return Status::error("it has schema version " + std::to_string(version) +
                       ", but this runtime reads version " +
                       std::to_string(programSchemaVersion) +
                       (version < programSchemaVersion
                            ? "; compile it again with this version's compiler"
                            : "; use the runtime that came with the compiler"));
}

} // namespace mixle::runtime
