//===- MixleBase.td - The mixle dialect and its types ------*- tablegen -*-===//

#ifndef MIXLE_BASE_TD
#define MIXLE_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Interfaces/Interfaces.td"

def Mixle_Dialect : Dialect {
  let name = "mixle";
  let cppNamespace = "::mlir::mixle";
  let summary = "What is computed: one logical program, no devices.";
  let description = [{
    A program is a set of parameters and entry points over tensors of global
    shape. A neural model and a statistical estimator are written with the same
    ops: both end in sums over data, held in integer accumulators.
  }];
  let useDefaultTypePrinterParser = 1;
  let usePropertiesForAttributes = 1;
  let hasConstantMaterializer = 0;
  let dependentDialects = [];
}

class Mixle_Type<string name, string typeMnemonic> : TypeDef<Mixle_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Mixle_AccType : Mixle_Type<"Acc", "acc"> {
  let summary = "An integer accumulator of block results, with its unit.";
  let description = [{
    An element of a sum over data: block results of type `value`, each times a
    power of two and rounded to nearest, added as integers (one 64-bit limb for
    f32, two for f64). Addition is associative, so contributions come in any
    order and number. It is no float: only accumulate ops add to it and only
    `mixle.resolve` reads it.
  }];
  let parameters = (ins "::mlir::FloatType":$value);
  let assemblyFormat = "`<` $value `>`";
}

def Mixle_ExactType : Mixle_Type<"Exact", "exact"> {
  let summary = "An exact sum of floating-point terms (a superaccumulator).";
  let parameters = (ins "::mlir::FloatType":$value);
  let assemblyFormat = "`<` $value `>`";
}

def Mixle_Float : AnyTypeOf<[F32, F64]>;
def Mixle_Int : AnyTypeOf<[I1, I32, I64]>;
def Mixle_Tensor : RankedTensorOf<[F32, F64, I1, I32, I64]>;
def Mixle_FloatTensor : RankedTensorOf<[F32, F64]>;
def Mixle_IntTensor : RankedTensorOf<[I32, I64]>;
def Mixle_AccTensor : RankedTensorOf<[Mixle_AccType]>;
def Mixle_ExactTensor : RankedTensorOf<[Mixle_ExactType]>;

class Mixle_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mixle_Dialect, mnemonic, traits>;

/// A tensor op without side effects that states its placement and cost.
class Mixle_TensorOp<string mnemonic, list<Trait> traits = [],
                     Trait cost = DeclareOpInterfaceMethods<CostOpInterface>>
    : Mixle_Op<mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<PlacementOpInterface>, cost])>;

/// Inference; the op's own verifier checks written types by it. Upstream's check,
/// which would report every error twice, is switched off by refineReturnTypes.
def Mixle_InfersTypes
    : DeclareOpInterfaceMethods<InferTypeOpInterface, ["refineReturnTypes"]>;

/// A tensor op whose result types follow from its operands and attributes.
/// The same function infers them for builders and checks them in the verifier.
class Mixle_InferredOp<string mnemonic, list<Trait> traits = [],
                       Trait cost = DeclareOpInterfaceMethods<CostOpInterface>>
    : Mixle_TensorOp<mnemonic, !listconcat(traits, [Mixle_InfersTypes]), cost> {
  let hasVerifier = 1;
}

/// For ops whose flops are not one per result element.
def Mixle_OwnCost : DeclareOpInterfaceMethods<CostOpInterface, ["getCost"]>;

def Mixle_HasGradient : DeclareOpInterfaceMethods<GradientOpInterface>;

#endif // MIXLE_BASE_TD
