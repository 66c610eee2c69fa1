//===- DistOps.td - The dist dialect -----------------------*- tablegen -*-===//
//
// Where values live and who talks.
//
//===----------------------------------------------------------------------===//

#ifndef DIST_OPS_TD
#define DIST_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Interfaces/Interfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::mlir::dist";
  let summary = "Where values live and who talks.";
  let description = [{
    A mesh of named axes, placements of values on it, and the updates that make
    partial values whole. Ops carry the placements of their results in
    `dist.placements`, entry arguments theirs in `dist.placement`.
  }];
  let usePropertiesForAttributes = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
}

def Dist_PlacementAttr : AttrDef<Dist_Dialect, "Placement"> {
  let mnemonic = "placement";
  let summary = "Per dimension the axes that shard it, and the axes over which it is partial.";
  let description = [{
    `#dist.placement<[["dp_replicate"], [], ["tp"]], [], "">` shards dimension 0 over
    dp_replicate and dimension 2 over tp. With partial axes, `merge` says what makes
    the value whole: tree, integer, exact, max or select.

    Constraints:
    * (L1) an axis shards at most one dimension, and is not partial as well.
    * (L2) partial axes are given with a merge, and a merge with partial axes.
    * (L3) on a value there is one list of axes per dimension.
  }];
  let parameters = (ins "::mlir::ArrayAttr":$dims, "::mlir::ArrayAttr":$partial, "::mlir::StringAttr":$merge);
  let assemblyFormat = "`<` $dims `,` $partial `,` $merge `>`";
  let genVerifyDecl = 1;
}

def Dist_MeshOp : Op<Dist_Dialect, "mesh", [Symbol]> {
  let summary = "The named axes of a plan and their sizes, slowest first.";
  let description = [{
    Coordinates are row-major in the order dp_replicate, dp_shard, tp, pp, cp.
    `factors` maps factor names of parameters to the axis that shards them.
    Constraint (M1): one positive size per axis; axes are distinct and known.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes, DenseI64ArrayAttr:$sizes,
      DictionaryAttr:$plan);
  let assemblyFormat = "$sym_name $axes `sizes` `=` $sizes `plan` `=` $plan attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The size of an axis; 1 when the mesh does not have it.
    int64_t sizeOf(::llvm::StringRef axis);
    /// A field of the plan (e.g. "microbatches").
    int64_t planField(::llvm::StringRef field);
  }];
}

def Dist_UpdateOp : Op<Dist_Dialect, "update", [Pure,
    DeclareOpInterfaceMethods<PlacementOpInterface>]> {
  let summary = "An exchange between ranks: what it carries, over which axes, how exact it is.";
  let description = [{
    Makes a partial value whole (all_reduce, reduce_scatter), or a sharded one
    (all_gather).

    Constraints:
    * (U1) `exact` only with collective `none`: an exchange of floating-point
      numbers never claims it.
    * (U2) evidence is all or nothing: id, sample count > 0, determinism and both
      errors, finite and >= 0.
    * (U3) payload, collective, state_layout and reduction_order are known names;
      axes are known, and distinct.
    * (U4) node_id is not blank.
  }];
  let arguments = (ins AnyType:$input, StrAttr:$node_id, StrAttr:$payload, StrAttr:$collective,
      ArrayAttr:$mesh_axes, StrAttr:$state_layout,
      DefaultValuedAttr<BoolAttr, "false">:$exact,
      DefaultValuedAttr<BoolAttr, "true">:$contract_exact,
      StrAttr:$reduction_order, StrAttr:$error_bound, StrAttr:$merge,
      DefaultValuedAttr<ArrayAttr, "{}">:$notes,
      OptionalAttr<BoolAttr>:$determinism_observed,
      OptionalAttr<F64Attr>:$maximum_absolute_error,
      OptionalAttr<F64Attr>:$maximum_relative_error,
      OptionalAttr<StrAttr>:$numerics_evidence_id,
      OptionalAttr<I64Attr>:$numerics_sample_count);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $node_id $payload $collective `over` $mesh_axes $input attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // DIST_OPS_TD
