//===- Common.cpp - What graph passes share -------------------------------===//

#include "compiler/Mixle/Passes.h"

using namespace mlir;
using namespace mlir::mixle;

EntryOp mlir::mixle::lookupEntry(ProgramOp program, StringRef name) {
  return program.lookupSymbol<EntryOp>(name);
}

static StringRef roleOf(Attribute attribute) {
  auto text = dyn_cast_if_present<StringAttr>(attribute);
  return text ? text.getValue() : StringRef();
}

StringRef mlir::mixle::argumentRole(EntryOp entry, unsigned index) {
  return roleOf(entry.getArgAttr(index, kRoleAttr));
}
StringRef mlir::mixle::resultRole(EntryOp entry, unsigned index) {
  return roleOf(entry.getResultAttr(index, kRoleAttr));
}
FlatSymbolRefAttr mlir::mixle::argumentOf(EntryOp entry, unsigned index) {
  return entry.getArgAttrOfType<FlatSymbolRefAttr>(index, kOfAttr);
}

std::string mlir::mixle::configText(ProgramOp program, StringRef key,
                                    StringRef fallback) {
  auto value = program.getConfig().getAs<StringAttr>(key);
  return value ? value.getValue().str() : fallback.str();
}

double mlir::mixle::configNumber(ProgramOp program, StringRef key,
                                 double fallback) {
  Attribute value = program.getConfig().get(key);
  if (auto number = dyn_cast_if_present<FloatAttr>(value))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_if_present<IntegerAttr>(value))
    return static_cast<double>(number.getInt());
  return fallback;
}

void mlir::mixle::copyPhase(Operation *from, Operation *to) {
  for (StringRef name : {StringRef(kPhaseAttr), StringRef(kPrimalAttr)})
    if (Attribute value = from->getAttr(name))
      to->setAttr(name, value);
}
