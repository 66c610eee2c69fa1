//===- MixleOps.td - Ops of the mixle dialect --------------*- tablegen -*-===//

#ifndef MIXLE_OPS_TD
#define MIXLE_OPS_TD

include "dialects/Mixle/MixleBase.td"

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def Mixle_ProgramOp : Mixle_Op<"program", [IsolatedFromAbove, SymbolTable, Symbol,
    NoTerminator, SingleBlock]> {
  let summary = "One logical program: parameters and entry points.";
  let description = [{
    `numerics` is `reproducible` (the same bits under any plan) or `fast`.
    `granules` maps factor names to numbers of granules and `tokens` to the
    block length; `mixle-assign-granules` completes it with defaults from the
    graph alone. `kind` is `training` or `estimation`.

    Constraints:
    * (P1) `numerics` is `reproducible` or `fast`; `kind` is `training` or
      `estimation`.
    * (P2) every granule entry is a positive integer.

    Made by front ends; gone after `exec-lower`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind,
      DefaultValuedStrAttr<StrAttr, "reproducible">:$numerics,
      DefaultValuedAttr<DictionaryAttr, "{}">:$granules,
      DefaultValuedAttr<DictionaryAttr, "{}">:$config);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Mixle_ParameterOp : Mixle_Op<"parameter", [Symbol]> {
  let summary = "A trained or estimated tensor with a stable logical id.";
  let description = [{
    The symbol name is the logical id, the name under which the tensor stands in
    files. `type` is the shape the program computes with; `file_shape` is the
    shape in files, a reshape of it (both row-major, so element indices agree).
    `factors` names each dimension: a plan places named factors on mesh axes and
    granules belong to them; an empty name is never split. `init` says how
    `initialize` makes the tensor: `{kind = "constant", value}`,
    `{kind = "normal", mean, std}` or `{kind = "uniform", low, high}`. `decay`
    says whether decoupled weight decay applies by default. `trained` is false
    for what only estimation steps replace.

    Constraints:
    * (R1) `factors` has one name per dimension.
    * (R2) `file_shape` has as many elements as `type`.
    * (R3) `init.kind` is one of the three above.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
      TypeAttrOf<Mixle_FloatTensor>:$type,
      ArrayAttr:$factors, DenseI64ArrayAttr:$file_shape,
      DictionaryAttr:$init, DefaultValuedAttr<BoolAttr, "true">:$decay,
      DefaultValuedAttr<BoolAttr, "true">:$trained);
  let assemblyFormat = [{
    $sym_name `:` $type `factors` `=` $factors `file_shape` `=` $file_shape
    `init` `=` $init attr-dict
  }];
  let hasVerifier = 1;
}

def Mixle_EntryOp : Mixle_Op<"entry", [FunctionOpInterface, IsolatedFromAbove,
    AffineScope, Symbol]> {
  let summary = "An entry point of the program, a pure function of tensors.";
  let description = [{
    Arguments say what they are by a `mixle.role` attribute: `tokens`, `labels`,
    `rows`, `row_weights` (data; their first dimension is the run-time number of
    rows), `parameter` (with `mixle.of = @name`), `accumulator`, `state` (with
    `mixle.of` and `mixle.slot`), `counter`. Results carry `mixle.role` too; a
    result of a state role replaces the argument of the same role.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
      TypeAttrOf<FunctionType>:$function_type,
      OptionalAttr<DictArrayAttr>:$arg_attrs,
      OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MinSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Mixle_ReturnOp : Mixle_Op<"return", [Pure, Terminator, HasParent<"EntryOp">]> {
  let summary = "Ends an entry point with its results.";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

class Mixle_PointwiseOp<string mnemonic, list<Trait> traits = []>
    : Mixle_TensorOp<mnemonic, !listconcat(traits, [PointwiseOpInterface])>;

class Mixle_UnaryOp<string mnemonic, string text>
    : Mixle_PointwiseOp<mnemonic, [SameOperandsAndResultType, Mixle_HasGradient]> {
  let summary = text;
  let arguments = (ins Mixle_FloatTensor:$input);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Mixle_NegOp : Mixle_UnaryOp<"neg", "Elementwise negation.">;
def Mixle_ExpOp : Mixle_UnaryOp<"exp", "Elementwise e^x, by the project's own expansion.">;
def Mixle_LogOp : Mixle_UnaryOp<"log", "Elementwise natural logarithm; log 0 = -inf.">;
def Mixle_TanhOp : Mixle_UnaryOp<"tanh", "Elementwise hyperbolic tangent.">;
def Mixle_ErfOp : Mixle_UnaryOp<"erf", "Elementwise error function.">;
def Mixle_SinOp : Mixle_UnaryOp<"sin", "Elementwise sine (radians).">;
def Mixle_CosOp : Mixle_UnaryOp<"cos", "Elementwise cosine (radians).">;
def Mixle_SqrtOp : Mixle_UnaryOp<"sqrt", "Elementwise square root, correctly rounded.">;
def Mixle_AbsOp : Mixle_UnaryOp<"abs", "Elementwise absolute value.">;
def Mixle_SiluOp : Mixle_UnaryOp<"silu", "x / (1 + e^-x), in f64 and rounded once.">;

def Mixle_GeluOp : Mixle_PointwiseOp<"gelu", [SameOperandsAndResultType, Mixle_HasGradient]> {
  let summary = "Gaussian error linear unit, exact (erf) or with the tanh approximation.";
  let description = [{
    `approximate = "none"`: 0.5 x (1 + erf(x / sqrt 2)).
    `approximate = "tanh"`: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))),
    Hugging Face's `gelu_new`.
    Computed in f64 and rounded once. `none`: fma(h, erf(x sqrt(1/2)), h) with
    h = 0.5 x. `tanh`: x / d, d = 1 + exp(x fma(-2ck, x^2, -2c)), c = sqrt(2/pi),
    k = 0.044715, which is the same function.
    Constraint (G1): `approximate` is one of the two.
  }];
  let arguments = (ins Mixle_FloatTensor:$input,
      DefaultValuedStrAttr<StrAttr, "none">:$approximate);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mixle_GeluGradOp : Mixle_PointwiseOp<"gelu_grad", [SameOperandsAndResultType]> {
  let summary = "Cotangent of gelu's input: d(gelu)/dx at `input` times `cotangent`.";
  let description = [{
    Computed in f64 and rounded once, after the product of slope and cotangent.
    `none`: fma(x / sqrt(2 pi), exp(-0.5 x^2), fma(0.5, erf(x sqrt(1/2)), 0.5)).
    `tanh`: fma((x s) (1 - s), fma(6ck, x^2, 2c), s) with s = 1/d as in gelu.
    Constraint (G1): `approximate` is `none` or `tanh`.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$cotangent,
      DefaultValuedStrAttr<StrAttr, "none">:$approximate);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input `,` $cotangent attr-dict `:` type($result)";
  let hasVerifier = 1;
}

class Mixle_BinaryOp<string mnemonic, string text>
    : Mixle_PointwiseOp<mnemonic, [SameOperandsAndResultType, Mixle_HasGradient]> {
  let summary = text;
  let arguments = (ins Mixle_Tensor:$lhs, Mixle_Tensor:$rhs);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Mixle_AddOp : Mixle_BinaryOp<"add", "Elementwise sum.">;
def Mixle_SubOp : Mixle_BinaryOp<"sub", "Elementwise difference.">;
def Mixle_MulOp : Mixle_BinaryOp<"mul", "Elementwise product.">;
def Mixle_DivOp : Mixle_BinaryOp<"div", "Elementwise quotient, correctly rounded (integers: towards zero, x / 0 = 0).">;
def Mixle_MaxOp : Mixle_BinaryOp<"max", "Elementwise maximum; a NaN operand gives NaN; -0 is below +0.">;
def Mixle_MinOp : Mixle_BinaryOp<"min", "Elementwise minimum; a NaN operand gives NaN; -0 is below +0.">;

def Mixle_CompareOp : Mixle_PointwiseOp<"compare", [SameTypeOperands,
    Mixle_InfersTypes]> {
  let summary = "Elementwise comparison: eq, ne, lt, le, gt or ge (false with NaN, but for ne).";
  let description = [{
    Constraint (C1): `predicate` is one of the six.
  }];
  let arguments = (ins Mixle_Tensor:$lhs, Mixle_Tensor:$rhs, StrAttr:$predicate);
  let results = (outs RankedTensorOf<[I1]>:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

def Mixle_SelectOp : Mixle_PointwiseOp<"select", [AllTypesMatch<["on_true", "on_false", "result"]>,
    Mixle_HasGradient]> {
  let summary = "Elementwise choice by a condition of the same shape.";
  let description = [{
    Constraint (C2): `condition` has the shape of the result.
  }];
  let arguments = (ins RankedTensorOf<[I1]>:$condition, Mixle_Tensor:$on_true, Mixle_Tensor:$on_false);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)";
  let hasVerifier = 1;
}

def Mixle_ConvertOp : Mixle_PointwiseOp<"convert", [Mixle_HasGradient]> {
  let summary = "Elementwise conversion to another element type (to nearest even; float to int truncates).";
  let description = [{
    A float beyond an integer's range gives the nearest integer, NaN gives 0; as a
    boolean, whatever is not zero is true.
    Constraint (C3): the shape is unchanged.
  }];
  let arguments = (ins Mixle_Tensor:$input);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Constants and shapes
//===----------------------------------------------------------------------===//

def Mixle_ConstantOp : Mixle_TensorOp<"constant", [AllTypesMatch<["value", "result"]>]> {
  let summary = "A literal tensor of static shape.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
}

def Mixle_IotaOp : Mixle_TensorOp<"iota"> {
  let summary = "The global index along `dimension`, as an integer tensor of static shape.";
  let description = [{
    Constraint (C4): the shape is static and has that dimension.
  }];
  let arguments = (ins I64Attr:$dimension);
  let results = (outs Mixle_IntTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mixle_BroadcastOp : Mixle_InferredOp<"broadcast", [Mixle_HasGradient]> {
  let summary = "Repeats `input` to the shape of `like`.";
  let description = [{
    Dimension i of `input` becomes dimension `dimensions[i]` of the result.
    `like` gives the shape (and so the run-time number of rows); its values are
    not read.
    Constraint (B1): `dimensions` is increasing, one entry per dimension of
    `input`, each of equal size in `like`.
  }];
  let arguments = (ins Mixle_Tensor:$input, Mixle_Tensor:$like, DenseI64ArrayAttr:$dimensions);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = [{
    $input `like` $like `dims` `=` $dimensions attr-dict `:` type($input) `,` type($like) `->` type($result)
  }];
}

def Mixle_ReshapeOp : Mixle_TensorOp<"reshape", [Mixle_HasGradient]> {
  let summary = "The same elements in row-major order with another shape.";
  let description = [{
    Constraint (S1): the number of elements per row is unchanged, and a dynamic
    leading dimension stays the leading dimension.
  }];
  let arguments = (ins Mixle_Tensor:$input);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Mixle_TransposeOp : Mixle_InferredOp<"transpose", [Mixle_HasGradient]> {
  let summary = "Permutes dimensions: result dimension i is input dimension permutation[i].";
  let description = [{
    Constraint (S2): `permutation` names every dimension once.
  }];
  let arguments = (ins Mixle_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "$input `perm` `=` $permutation attr-dict `:` type($input) `->` type($result)";
}

def Mixle_SliceOp : Mixle_InferredOp<"slice", [Mixle_HasGradient]> {
  let summary = "Elements [start, limit) along one static dimension.";
  let description = [{
    Constraint (S3): 0 <= start <= limit <= the size of the dimension.
  }];
  let arguments = (ins Mixle_Tensor:$input, I64Attr:$dimension, I64Attr:$start, I64Attr:$limit);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = [{
    $input `[` $dimension `:` $start `,` $limit `]` attr-dict `:` type($input) `->` type($result)
  }];
}

def Mixle_PadOp : Mixle_InferredOp<"pad", [Mixle_HasGradient]> {
  let summary = "Adds `low` zeros before and `high` after along one static dimension.";
  let description = [{
    Constraint (S4): `low` and `high` are not negative.
  }];
  let arguments = (ins Mixle_Tensor:$input, I64Attr:$dimension, I64Attr:$low, I64Attr:$high);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = [{
    $input `[` $dimension `:` $low `,` $high `]` attr-dict `:` type($input) `->` type($result)
  }];
}

def Mixle_ConcatOp : Mixle_InferredOp<"concat", [Mixle_HasGradient]> {
  let summary = "Joins tensors along one static dimension.";
  let description = [{
    Constraint (S5): at least one input; all agree but for that dimension.
  }];
  let arguments = (ins Variadic<Mixle_Tensor>:$inputs, I64Attr:$dimension);
  let results = (outs Mixle_Tensor:$result);
  let assemblyFormat = "$inputs `dim` `=` $dimension attr-dict `:` type($inputs) `->` type($result)";
}

//===----------------------------------------------------------------------===//
// Reductions and contractions
//===----------------------------------------------------------------------===//

def Mixle_ReduceOp : Mixle_InferredOp<"reduce", [Mixle_HasGradient]> {
  let summary = "Sum or maximum over dimensions.";
  let description = [{
    A sum over unsplit dimensions uses 16 virtual lanes (element i goes to lane
    i mod 16, in index order; lanes are then halved pairwise), whatever the
    vector width. A sum over rows is only legal where it becomes an accumulator.
    Constraint (D1): `kind` is `sum` or `max`; `dimensions` increasing and in range.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, StrAttr:$kind, DenseI64ArrayAttr:$dimensions);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = [{
    $kind $input `dims` `=` $dimensions attr-dict `:` type($input) `->` type($result)
  }];
}

def Mixle_DotGeneralOp : Mixle_InferredOp<"dot_general", [Mixle_HasGradient], Mixle_OwnCost> {
  let summary = "Contraction of two tensors: batch, free and contracted dimensions.";
  let description = [{
    The result has the batch dimensions, then the free dimensions of `lhs`, then
    those of `rhs`. Each element is one FMA chain over the contracted dimensions
    in row-major order, starting from +0; if `granule_dim` is given (the position
    among the contracted dimensions), there is one chain per granule of that
    dimension (`granule_size` consecutive indices, `granules` of them) and the
    granules are added in the binary tree that splits at the largest power of two
    below n. `mixle-assign-granules` sets these three.

    Constraints:
    * (D2) batch and contracted dimensions come in pairs of equal size, each
      dimension of an operand at most once; the element types are one.
    * (D3) the granule attributes come together, and the granules cover the
      dimension.
  }];
  let arguments = (ins Mixle_FloatTensor:$lhs, Mixle_FloatTensor:$rhs,
      DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$lhs_batch,
      DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$rhs_batch,
      DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract,
      OptionalAttr<I64Attr>:$granule_dim, OptionalAttr<I64Attr>:$granules,
      OptionalAttr<I64Attr>:$granule_size);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `contract` `=` $lhs_contract `x` $rhs_contract attr-dict
    `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs,
      "::llvm::ArrayRef<int64_t>":$lhsContract, "::llvm::ArrayRef<int64_t>":$rhsContract)>];
}

def Mixle_EmbeddingOp : Mixle_InferredOp<"embedding", [Mixle_HasGradient]> {
  let summary = "Rows of `table` (V x D...) selected by integer ids.";
  let description = [{
    An id outside the table selects a row of zero bits: where a plan splits the
    table, one owner holds the row and all others zeros. The row of id `padding`
    is read as any other, and nothing flows back into it.
    Constraint (E1): the table has at least one dimension.
  }];
  let arguments = (ins Mixle_FloatTensor:$table, Mixle_IntTensor:$ids,
      OptionalAttr<I64Attr>:$padding);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$table `,` $ids attr-dict `:` type($table) `,` type($ids) `->` type($result)";
}

def Mixle_ScatterAddOp : Mixle_InferredOp<"scatter_add", [Mixle_HasGradient]> {
  let summary = "Sums rows of `updates` into a zero table of `rows` rows, by integer ids.";
  let description = [{
    The gradient of `mixle.embedding`; rows whose id is outside the table are
    dropped. Legal only where it becomes an accumulator.
    Constraint (E2): `updates` begins with the dimensions of `ids`, and `rows` is
    positive.
  }];
  let arguments = (ins Mixle_IntTensor:$ids, Mixle_FloatTensor:$updates, I64Attr:$rows);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$ids `,` $updates `rows` `=` $rows attr-dict `:` type($ids) `,` type($updates) `->` type($result)";
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

def Mixle_LayerNormOp : Mixle_InferredOp<"layer_norm", [Mixle_HasGradient]> {
  let summary = "Normalises the last dimension: (x - mean) / sqrt(var + eps) * gain + bias.";
  let description = [{
    Biased variance, two passes (mean, then centred squares). `mean` and `rstd`
    are results for the backward pass. Source: Ba, Kiros, Hinton 2016.
    Order, in the type of the tensors: mean = sum(x) / D; d = x - mean; rstd =
    1 / sqrt(sum(d^2) / D + eps); fma(d rstd, gain, bias). Sums have the 16 lanes of
    `mixle.reduce`; sums of products are FMAs in their lane.
    Constraint (N1): `gain` and `bias` have the last dimension of `input`.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$gain, Mixle_FloatTensor:$bias,
      F64Attr:$epsilon);
  let results = (outs Mixle_FloatTensor:$result, Mixle_FloatTensor:$mean, Mixle_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `,` $gain `,` $bias `eps` `=` $epsilon attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_LayerNormGradOp : Mixle_InferredOp<"layer_norm_grad"> {
  let summary = "Cotangents of layer_norm: dx, and the per-row terms of dgain.";
  let description = [{
    With xhat = (x - mean) rstd and g = dy * gain:
    dx = rstd (g - sum(g)/D - xhat sum(g xhat)/D); gain_terms = dy xhat
    (their sum over rows is the gain's gradient, that of dy the bias').
    Order: xhat = (x - mean) rstd; a = sum(g) / D; b = sum(g xhat) / D;
    dx = rstd fma(-xhat, b, g - a). Sums as in layer_norm.
    Constraints (N1) as layer_norm; (N2): `mean` and `rstd` have the shape of the
    rows of `input`, `cotangent` that of `input`.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$gain, Mixle_FloatTensor:$mean,
      Mixle_FloatTensor:$rstd, Mixle_FloatTensor:$cotangent);
  let results = (outs Mixle_FloatTensor:$input_cotangent, Mixle_FloatTensor:$gain_terms);
  let assemblyFormat = [{
    $input `,` $gain `,` $mean `,` $rstd `,` $cotangent attr-dict `:`
    functional-type(operands, results)
  }];
}

def Mixle_RmsNormOp : Mixle_InferredOp<"rms_norm", [Mixle_HasGradient]> {
  let summary = "x / sqrt(mean(x^2) + eps) * gain over the last dimension.";
  let description = [{
    Order: rstd = 1 / sqrt(sum(x^2) / D + eps); (x rstd) gain. Sums as in layer_norm.
    Constraint (N1): `gain` has the last dimension of `input`.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$gain, F64Attr:$epsilon);
  let results = (outs Mixle_FloatTensor:$result, Mixle_FloatTensor:$rstd);
  let assemblyFormat = "$input `,` $gain `eps` `=` $epsilon attr-dict `:` functional-type(operands, results)";
}

def Mixle_RmsNormGradOp : Mixle_InferredOp<"rms_norm_grad"> {
  let summary = "Cotangents of rms_norm: dx, and the per-row terms of dgain.";
  let description = [{
    With xhat = x rstd and g = dy * gain: dx = rstd (g - xhat sum(g xhat)/D);
    gain_terms = dy xhat. Order: b = sum(g xhat) / D; dx = rstd fma(-xhat, b, g).
    Constraints (N1), (N2) as layer_norm_grad.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$gain, Mixle_FloatTensor:$rstd,
      Mixle_FloatTensor:$cotangent);
  let results = (outs Mixle_FloatTensor:$input_cotangent, Mixle_FloatTensor:$gain_terms);
  let assemblyFormat = [{
    $input `,` $gain `,` $rstd `,` $cotangent attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_RotaryOp : Mixle_InferredOp<"rotary", [Mixle_HasGradient]> {
  let summary = "Turns pairs of columns by the angles of the token's position.";
  let description = [{
    `input` is [rows, tokens, ..., D]; `cos` and `sin`, both [tokens, D / 2], are
    the tables of the angles. Column d of the first half and column d + D / 2 are
    a pair (Hugging Face's layout). With c and s of the token and of the pair:

        result[d]         = fma(x[d],         c, x[d + D / 2] (-s))
        result[d + D / 2] = fma(x[d + D / 2], c, x[d] s)

    With `inverse`, s has the other sign; the gradient is the op with the other
    `inverse`. `rotated` says how many entries of the last dimension but one are
    turned, from the first; the others are copied (values that stand behind
    queries and keys). All is elementwise in the token, whose row of the tables is
    its global position: the tables are made from `mixle.iota`, and nothing flows
    back through them.

    Constraints:
    * (O1) `input` has at least three dimensions and an even last one; `cos` and
      `sin` are [tokens, D / 2].
    * (O2) `rotated` is from 0 to the size of the last dimension but one, which is
      not the tokens.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$cos,
      Mixle_FloatTensor:$sin, UnitAttr:$inverse, OptionalAttr<I64Attr>:$rotated);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input `,` $cos `,` $sin attr-dict `:` functional-type(operands, results)";
}

def Mixle_AttentionOp : Mixle_InferredOp<"attention", [Mixle_HasGradient], Mixle_OwnCost> {
  let summary = "Multi-head self-attention on packed q, k, v.";
  let description = [{
    `qkv` is [rows, tokens, 3, heads, head_dim]; the result is [rows, tokens,
    heads, head_dim]. softmax(scale q k^T) v, over keys not after the query when
    `causal`. `reference` (integer power-of-two references) and `normalizer` are
    results for the backward pass. No tokens x tokens matrix is stored.
    `key_granules` granules of the sequence are merged in the binary tree.

    With s2 = scale log2(e) q k^T: `reference` = ceil(max s2) over the visible
    keys and `normalizer` = sum 2^(s2 - reference), both [rows, heads, tokens].

    `grouped` is grouped-query attention: `qkv` is [rows, tokens, groups, g + 2,
    head_dim], in each group g queries and then the key and the value that they
    share. The result is [rows, tokens, groups, g, head_dim], the statistics
    [rows, groups, g, tokens]. A plan splits groups.

    Constraints:
    * (Q1) `qkv` has five dimensions, the third of size 3; with `grouped` the
      fourth of size 3 at least.
    * (Q2) `key_granules` is positive.
  }];
  let arguments = (ins Mixle_FloatTensor:$qkv, F64Attr:$scale, BoolAttr:$causal,
      DefaultValuedAttr<I64Attr, "1">:$key_granules, UnitAttr:$grouped);
  let results = (outs Mixle_FloatTensor:$result, RankedTensorOf<[I32]>:$reference,
      Mixle_FloatTensor:$normalizer);
  let assemblyFormat = "$qkv `scale` `=` $scale `causal` `=` $causal attr-dict `:` functional-type(operands, results)";
}

def Mixle_AttentionGradOp : Mixle_InferredOp<"attention_grad", [], Mixle_OwnCost> {
  let summary = "Cotangent of attention's packed q, k, v.";
  let description = [{
    The gradients of a shared key and value are sums over the queries of the
    group, in the binary tree.

    Constraints (Q1), (Q2) as attention; (Q3): the results of attention and the
    cotangent have the shapes that attention gives them.
  }];
  let arguments = (ins Mixle_FloatTensor:$qkv, Mixle_FloatTensor:$output,
      RankedTensorOf<[I32]>:$reference, Mixle_FloatTensor:$normalizer,
      Mixle_FloatTensor:$cotangent, F64Attr:$scale, BoolAttr:$causal,
      DefaultValuedAttr<I64Attr, "1">:$key_granules, UnitAttr:$grouped);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = [{
    $qkv `,` $output `,` $reference `,` $normalizer `,` $cotangent `scale` `=` $scale `causal` `=` $causal
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_SoftmaxCrossEntropyOp : Mixle_InferredOp<"softmax_cross_entropy", [Mixle_HasGradient]> {
  let summary = "Per-token -log softmax(logits)[label]; 0 where the label is `ignore`.";
  let description = [{
    logits [..., V], labels [...] (i32), result [...]. `mixle-decompose` turns it
    into row_max, row_sum_exp, select_label and cross_entropy, each of which a
    plan can split over the vocabulary; nothing takes the logarithm of a
    probability that may have underflowed.
    Constraint (L1): `labels` has the shape of the rows of `logits`.
  }];
  let arguments = (ins Mixle_FloatTensor:$logits, Mixle_IntTensor:$labels,
      DefaultValuedAttr<I64Attr, "-100">:$ignore);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` functional-type(operands, results)";
}

def Mixle_LogSumExpOp : Mixle_InferredOp<"logsumexp", [Mixle_HasGradient]> {
  let summary = "log(sum(exp(x))) over the last dimension; -inf when all are.";
  let arguments = (ins Mixle_FloatTensor:$input);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Mixle_RowMaxOp : Mixle_InferredOp<"row_max"> {
  let summary = "Maximum over the last dimension: exact in any order.";
  let arguments = (ins Mixle_FloatTensor:$input);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Mixle_RowSumExpOp : Mixle_InferredOp<"row_sum_exp"> {
  let summary = "sum(exp(x - maximum)) over the last dimension, by granules in the tree.";
  let description = [{
    A granule is `granule_size` consecutive columns, `granules` of them (one
    granule of everything when not given); inside a granule 16 virtual lanes
    (column j of the granule goes to lane j mod 16). A maximum of -inf gives 0.

    Constraints:
    * (L2) `maximum` has the shape of the rows of `input`.
    * (L3) the granule attributes come together and cover the columns.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$maximum,
      OptionalAttr<I64Attr>:$granules, OptionalAttr<I64Attr>:$granule_size);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input `,` $maximum attr-dict `:` functional-type(operands, results)";
}

def Mixle_RowGranuleSumsOp : Mixle_InferredOp<"row_granule_sums"> {
  let summary = "The sums of row_sum_exp's granules, one column each, not yet added.";
  let description = [{
    input [..., V], result [..., granules]; column g is sum(exp(x - maximum)) over
    the valid columns of granule g, 0 if there are none. Made when row_sum_exp is
    lowered: the tree over granules may cross ranks.
    Constraints (L2), (L3) as row_sum_exp.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$maximum,
      I64Attr:$granules, I64Attr:$granule_size);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input `,` $maximum attr-dict `:` functional-type(operands, results)";
}

def Mixle_SelectLabelOp : Mixle_InferredOp<"select_label"> {
  let summary = "logits[..., label]: one owner holds it, all others zero bits.";
  let description = [{
    A label outside the columns (as `ignore` is) gives zero bits.
    Constraint (L1): `labels` has the shape of the rows of `logits`.
  }];
  let arguments = (ins Mixle_FloatTensor:$logits, Mixle_IntTensor:$labels);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` functional-type(operands, results)";
}

def Mixle_CrossEntropyOp : Mixle_PointwiseOp<"cross_entropy", [
    AllTypesMatch<["maximum", "sum", "target", "result"]>]> {
  let summary = "maximum + log(sum) - target, or 0 where the label is `ignore`.";
  let description = [{
    (maximum + log(sum)) - target in f64, rounded once.
    Constraint (L1): `labels` has the shape of the others.
  }];
  let arguments = (ins Mixle_FloatTensor:$maximum, Mixle_FloatTensor:$sum, Mixle_FloatTensor:$target,
      Mixle_IntTensor:$labels, DefaultValuedAttr<I64Attr, "-100">:$ignore);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$maximum `,` $sum `,` $target `,` $labels attr-dict `:` type($result) `,` type($labels)";
  let hasVerifier = 1;
}

def Mixle_LogAddOp : Mixle_PointwiseOp<"log_add", [SameOperandsAndResultType]> {
  let summary = "maximum + log(sum) in f64, rounded once: the end of a logsumexp; -inf when the maximum is.";
  let arguments = (ins Mixle_FloatTensor:$maximum, Mixle_FloatTensor:$sum);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$maximum `,` $sum attr-dict `:` type($result)";
}

def Mixle_SoftmaxCrossEntropyGradOp : Mixle_InferredOp<"softmax_cross_entropy_grad"> {
  let summary = "(softmax(logits) - onehot(label)) * cotangent; 0 rows where ignored.";
  let description = [{
    Order: p = exp(x - maximum) / sum; p - 1 in the label's column; times cotangent.
    A label outside the columns, other than `ignore`, has its one in another part
    of the vocabulary: nothing is subtracted.
    Constraints (L1) as softmax_cross_entropy; (L2): `maximum`, `sum` and
    `cotangent` have the shape of the rows of `logits`.
  }];
  let arguments = (ins Mixle_FloatTensor:$logits, Mixle_IntTensor:$labels, Mixle_FloatTensor:$maximum,
      Mixle_FloatTensor:$sum, Mixle_FloatTensor:$cotangent, DefaultValuedAttr<I64Attr, "-100">:$ignore);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = [{
    $logits `,` $labels `,` $maximum `,` $sum `,` $cotangent attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_SoftmaxScaleOp : Mixle_InferredOp<"softmax_scale"> {
  let summary = "exp(x - maximum) / sum * scale over the last dimension, per row.";
  let description = [{
    Responsibilities of a mixture (scale = row weight) and the gradient of
    logsumexp (scale = cotangent). A maximum of -inf gives zeros.
    Constraint (L2): `maximum`, `sum` and `scale` have the shape of the rows of
    `input`.
  }];
  let arguments = (ins Mixle_FloatTensor:$input, Mixle_FloatTensor:$maximum, Mixle_FloatTensor:$sum,
      Mixle_FloatTensor:$scale);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$input `,` $maximum `,` $sum `,` $scale attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Sums over data
//===----------------------------------------------------------------------===//

def Mixle_AccumulateDotOp : Mixle_TensorOp<"accumulate_dot", [AllTypesMatch<["accumulator", "result"]>], Mixle_OwnCost> {
  let summary = "Adds, block by block, the contraction of two tensors over the data.";
  let description = [{
    lhs [data..., K...], rhs [data..., N...], accumulator [K..., N...]; the first
    `data_dims` dimensions are contracted. Tokens (the last data dimension) are
    cut into blocks of `block` within a sequence; with one data dimension rows
    are cut by the global row index. Inside a block one FMA chain; each block's
    result goes into the integer accumulator `of`.

    Constraints:
    * (A1) the accumulator has the shape and element type of the contribution.
    * (A2) `data_dims` (1 or 2) dimensions lead both operands, of equal size.
    * (A3) `block` is positive.
  }];
  let arguments = (ins Mixle_AccTensor:$accumulator, Mixle_FloatTensor:$lhs, Mixle_FloatTensor:$rhs,
      I64Attr:$data_dims, I64Attr:$block, FlatSymbolRefAttr:$of);
  let results = (outs Mixle_AccTensor:$result);
  let assemblyFormat = [{
    $of $accumulator `,` $lhs `,` $rhs `data_dims` `=` $data_dims `block` `=` $block attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mixle_AccumulateRowsOp : Mixle_TensorOp<"accumulate_rows", [AllTypesMatch<["accumulator", "result"]>]> {
  let summary = "Adds every row of the data (blocks of one) into an accumulator.";
  let description = [{
    input [data..., N...], accumulator [N...].
    Constraints (A1), (A2) as accumulate_dot; here data_dims may be 0.
  }];
  let arguments = (ins Mixle_AccTensor:$accumulator, Mixle_FloatTensor:$input, I64Attr:$data_dims,
      FlatSymbolRefAttr:$of);
  let results = (outs Mixle_AccTensor:$result);
  let assemblyFormat = [{
    $of $accumulator `,` $input `data_dims` `=` $data_dims attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mixle_AccumulateScatterOp : Mixle_TensorOp<"accumulate_scatter", [AllTypesMatch<["accumulator", "result"]>]> {
  let summary = "Adds rows of `updates` (blocks of one) into accumulator rows chosen by ids.";
  let description = [{
    Rows whose id is outside the accumulator are dropped: another part has them.
    Constraints (A1) as accumulate_dot; (A2): `updates` begins with the dimensions
    of `ids`.
  }];
  let arguments = (ins Mixle_AccTensor:$accumulator, Mixle_IntTensor:$ids, Mixle_FloatTensor:$updates,
      FlatSymbolRefAttr:$of);
  let results = (outs Mixle_AccTensor:$result);
  let assemblyFormat = "$of $accumulator `,` $ids `,` $updates attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mixle_ExactSumOp : Mixle_TensorOp<"exact_sum", [AllTypesMatch<["accumulator", "result"]>, Mixle_HasGradient]> {
  let summary = "Adds every element (or its square) to an exact scalar.";
  let description = [{
    Constraint (A1): `accumulator` has rank 0 and the input's element type.
  }];
  let arguments = (ins Mixle_ExactTensor:$accumulator, Mixle_FloatTensor:$input,
      DefaultValuedAttr<BoolAttr, "false">:$square);
  let results = (outs Mixle_ExactTensor:$result);
  let assemblyFormat = "$accumulator `,` $input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mixle_CountLabelsOp : Mixle_TensorOp<"count_labels", [AllTypesMatch<["accumulator", "result"]>]> {
  let summary = "Adds the number of labels that are not `ignore` to a count.";
  let description = [{
    Constraint (A4): `accumulator` has rank 0.
  }];
  let arguments = (ins RankedTensorOf<[I64]>:$accumulator, Mixle_IntTensor:$labels,
      DefaultValuedAttr<I64Attr, "-100">:$ignore);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$accumulator `,` $labels attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mixle_ResolveOp : Mixle_InferredOp<"resolve"> {
  let summary = "accumulator * unit / count: the mean gradient, rounded once and divided once.";
  let description = [{
    Constraint (A4): `count` has rank 0.
  }];
  let arguments = (ins Mixle_AccTensor:$accumulator, RankedTensorOf<[I64]>:$count, FlatSymbolRefAttr:$of);
  let results = (outs Mixle_FloatTensor:$result);
  let assemblyFormat = "$of $accumulator `,` $count attr-dict `:` functional-type(operands, results)";
}

def Mixle_RoundExactOp : Mixle_InferredOp<"round_exact"> {
  let summary = "An exact scalar, rounded to f64 once.";
  let arguments = (ins Mixle_ExactTensor:$input);
  let results = (outs RankedTensorOf<[F64]>:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def Mixle_ScheduleOp : Mixle_TensorOp<"schedule"> {
  let summary = "Learning rate and bias corrections of the step that follows `step`.";
  let description = [{
    step counts committed steps; results (f64 scalars): lr of step + 1 by the
    `schedule` text (as `--lr-schedule` has it), 1 - beta1^(step+1) and
    1 - beta2^(step+1). Constraint (O1): all are scalars of rank 0.
  }];
  let arguments = (ins RankedTensorOf<[I64]>:$step, F64Attr:$lr, StrAttr:$schedule,
      F64Attr:$beta1, F64Attr:$beta2);
  let results = (outs RankedTensorOf<[F64]>:$rate, RankedTensorOf<[F64]>:$correction1,
      RankedTensorOf<[F64]>:$correction2);
  let assemblyFormat = "$step attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mixle_ClipCoefficientOp : Mixle_InferredOp<"clip_coefficient"> {
  let summary = "min(1, max_norm / (sqrt(sum of squares) + 1e-6)), and the norm (f64 scalars).";
  let description = [{
    Constraint (O1): `sum_of_squares` is a scalar of rank 0.
  }];
  let arguments = (ins Mixle_ExactTensor:$sum_of_squares, F64Attr:$max_norm);
  let results = (outs RankedTensorOf<[F64]>:$coefficient, RankedTensorOf<[F64]>:$norm);
  let assemblyFormat = "$sum_of_squares attr-dict `:` functional-type(operands, results)";
}

def Mixle_SgdStepOp : Mixle_PointwiseOp<"sgd_step", [
    AllTypesMatch<["parameter", "momentum", "gradient", "new_parameter", "new_momentum"]>]> {
  let summary = "SGD with momentum: m' = mu m + c g; p' = p (1 - lr wd) - lr m'.";
  let description = [{
    c is the clipping coefficient. Scalars are f64 tensors of rank 0; each
    coefficient is formed in f64 and rounded once to the parameter's type:
    decay = 1 - lr wd. Order: m' = fma(mu, m, c g); p' = fma(-lr, m', p decay).
    Constraint (O1): `rate` and `coefficient` are scalars of rank 0.
  }];
  let arguments = (ins Mixle_FloatTensor:$parameter, Mixle_FloatTensor:$momentum, Mixle_FloatTensor:$gradient,
      RankedTensorOf<[F64]>:$rate, RankedTensorOf<[F64]>:$coefficient,
      F64Attr:$mu, F64Attr:$weight_decay);
  let results = (outs Mixle_FloatTensor:$new_parameter, Mixle_FloatTensor:$new_momentum);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mixle_AdamStepOp : Mixle_PointwiseOp<"adam_step", [
    AllTypesMatch<["parameter", "first", "second", "gradient", "new_parameter", "new_first", "new_second"]>]> {
  let summary = "Adam or AdamW: decoupled decay, bias-corrected moments.";
  let description = [{
    g = c gradient; if not decoupled, g += wd p. m' = b1 m + (1-b1) g;
    v' = b2 v + (1-b2) g^2; p' = p (1 - lr wd) - (lr / c1) m' / (sqrt(v') / sqrt(c2) + eps),
    the decay factor only when decoupled.
    c1, c2 are the corrections of `mixle.schedule`.
    Coefficients are formed in f64 and rounded once to the parameter's type: b1,
    r1 = 1 - b1, b2, r2 = 1 - b2, decay = 1 - lr wd, alpha = lr / c1, q = sqrt(c2), c,
    wd, eps. Order: g = c gradient; g = fma(wd, p, g) if not decoupled;
    m' = fma(b1, m, r1 g); v' = fma(b2, v, r2 (g g)); d = sqrt(v') / q + eps;
    p' = fma(-alpha, m' / d, p decay), or p in place of p decay if not decoupled.
    Constraint (O1): `rate`, `coefficient` and the corrections are scalars of rank 0.
    Source: Kingma and Ba 2015; Loshchilov and Hutter 2019.
  }];
  let arguments = (ins Mixle_FloatTensor:$parameter, Mixle_FloatTensor:$first, Mixle_FloatTensor:$second,
      Mixle_FloatTensor:$gradient, RankedTensorOf<[F64]>:$rate, RankedTensorOf<[F64]>:$correction1,
      RankedTensorOf<[F64]>:$correction2, RankedTensorOf<[F64]>:$coefficient,
      F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon, F64Attr:$weight_decay, BoolAttr:$decoupled);
  let results = (outs Mixle_FloatTensor:$new_parameter, Mixle_FloatTensor:$new_first,
      Mixle_FloatTensor:$new_second);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

include "dialects/Mixle/MixleEstimation.td"

#endif // MIXLE_OPS_TD
