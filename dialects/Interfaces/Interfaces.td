//===- Interfaces.td - What an op tells the passes ---------*- tablegen -*-===//
//
// An op of the mixle dialect is described in one place: its placement rule, its
// gradient and its cost. Passes ask these interfaces and never switch over op
// names.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_INTERFACES_TD
#define MIXLE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def PlacementOpInterface : OpInterface<"PlacementOpInterface"> {
  let cppNamespace = "::mlir::mixle";
  let description = [{
    Maps the dimensions of operands to the dimensions of results through
    *factors*, as an einsum does. A factor that appears in a result is free; one
    that appears only in operands is contracted, and the rule says how values
    computed from parts of it are merged.
  }];
  let methods = [
    InterfaceMethod<"The factors of this op.",
      "::mlir::mixle::PlacementRule", "getPlacementRule", (ins)>
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::mlir::mixle";
  let description = [{
    Builds the cotangents of the operands from the cotangents of the results,
    with ops of the mixle dialect. A null cotangent of a result is zero; a null
    cotangent of an operand says that the operand has none (integers).
  }];
  let methods = [
    InterfaceMethod<"Builds this op's vector-Jacobian product at `builder`.",
      "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandCotangents)>
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::mixle";
  let description = [{
    Floating-point operations and bytes moved by the op, per unit of its dynamic
    leading dimension (a row) where it has one.
  }];
  let methods = [
    InterfaceMethod<"Flops and bytes of this op.",
      "::mlir::mixle::Cost", "getCost", (ins), [{}], [{
        return ::mlir::mixle::defaultCost($_op.getOperation());
      }]>
  ];
}

def PointwiseOpInterface : OpInterface<"PointwiseOpInterface"> {
  let cppNamespace = "::mlir::mixle";
  let description = [{
    Marks an op whose every result element depends on the elements at the same
    index of its operands alone. Kernel formation fuses such ops freely.
  }];
}

#endif // MIXLE_INTERFACES_TD
