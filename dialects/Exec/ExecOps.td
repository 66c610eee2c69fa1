//===- ExecOps.td - The exec dialect -----------------------*- tablegen -*-===//
//
// When, on one rank: a flat list of commands on buffers. One op per table of
// runtime/schema/program.fbs, so that the emitter decides nothing.
//
//===----------------------------------------------------------------------===//

#ifndef EXEC_OPS_TD
#define EXEC_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::mlir::exec";
  let summary = "When, on one rank: a flat list of commands on buffers.";
  let description = [{
    Everything is decided here: buffers with arena offsets, commands in order,
    collectives with their groups. Ops map one to one onto the program file.
  }];
  let usePropertiesForAttributes = 1;
  let useDefaultAttributePrinterParser = 1;
}

def Exec_ScalarAttr : AttrDef<Exec_Dialect, "Scalar"> {
  let mnemonic = "scalar";
  let summary = "A number that a command needs and how it comes about on a rank.";
  let description = [{
    `kind` is one of `constant` (a), `rows` (a * rows of the iteration),
    `offset` (coordinate(axis) * a), `owned` (clamp(b - coordinate(axis) * a, 0, a)),
    `row_start` (a * first row of the iteration), `coordinate`
    (coordinate(axis) * a + b).
  }];
  let parameters = (ins "::mlir::StringAttr":$kind, "::mlir::StringAttr":$axis,
      "int64_t":$a, "int64_t":$b);
  let assemblyFormat = "`<` $kind `,` $axis `,` $a `,` $b `>`";
  let genVerifyDecl = 1;
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

def Exec_ProgramOp : Exec_Op<"program", [IsolatedFromAbove, SymbolTable, Symbol, NoTerminator, SingleBlock]> {
  let summary = "One rank class's program: buffers, updates, kernels, entries.";
  let description = [{
    `config` holds what the file says of the whole program (kind, numerics,
    precision, plan, granules, parameters, ...), and `stage`, the class's
    coordinate along pp where there is more than one. Made by `exec-lower`, one for
    each class; read by the emitter.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$config);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Exec_BufferOp : Exec_Op<"buffer", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "Storage of `fixed + per_row * rows` elements.";
  let description = [{
    Kinds: scratch, parameter, state, accumulator, input, output. `offset` (bytes
    in the arena of its kind) is set by `exec-plan-memory`. `parameter` and `slot`
    say what a parameter or state buffer holds. A scratch buffer that lives from
    one phase of a schedule to another has `slots` copies, one for each microbatch
    in flight.
    Constraint (X1): the kind is one of these.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind, TypeAttr:$element,
      I64Attr:$fixed, I64Attr:$per_row, OptionalAttr<I64Attr>:$offset,
      OptionalAttr<FlatSymbolRefAttr>:$parameter, OptionalAttr<StrAttr>:$slot,
      DefaultValuedAttr<I64Attr, "1">:$slots);
  let assemblyFormat = [{
    $sym_name $kind $element `[` $fixed `+` $per_row `x` `rows` `]`
    (`at` $offset^)? (`of` $parameter^)? (`slot` $slot^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_ParameterOp : Exec_Op<"parameter", [HasParent<"ProgramOp">, Symbol]> {
  let summary = "A parameter and how this plan lays it out; `layout` mirrors the file's table.";
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$layout);
  let assemblyFormat = "$sym_name $layout attr-dict";
}

def Exec_UpdateOp : Exec_Op<"update", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "A distributed update, as the file lists it; `fields` are those of dist.update.";
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$fields);
  let assemblyFormat = "$sym_name $fields attr-dict";
}

def Exec_KernelOp : Exec_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, Symbol, HasParent<"ProgramOp">]> {
  let summary = "A kernel to compile: mixle ops on local tensors.";
  let description = [{
    Arguments are inputs, results are outputs (`exec.yield`). Compiled to
    `void name(void *const *buffers, const int64_t *scalars)`: buffers are the
    inputs then the outputs, dense and row-major; scalars[0] is the number of rows
    (the dynamic leading dimension), then two for every op of the body, in order,
    that works on a dimension which may be split: the number of valid columns and
    the global index of the first one. An output may be the same storage as an
    input of the same shape when `aliases` says so (pairs input, output).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
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

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel with its outputs.";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

def Exec_EntryOp : Exec_Op<"entry", [Symbol, HasParent<"ProgramOp">, NoTerminator, SingleBlock]> {
  let summary = "An entry point: bindings of data, and commands.";
  let description = [{
    `inputs` and `outputs` are arrays of {role, buffer = @b}.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$inputs, ArrayAttr:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `inputs` $inputs `outputs` $outputs attr-dict-with-keyword $body";
}

class Exec_Command<string mnemonic, list<Trait> traits = []> : Exec_Op<mnemonic, traits>;

def Exec_LaunchOp : Exec_Command<"launch"> {
  let summary = "Runs a compiled kernel.";
  let arguments = (ins FlatSymbolRefAttr:$kernel, ArrayAttr:$buffers, ArrayAttr:$scalars);
  let assemblyFormat = "$kernel $buffers $scalars attr-dict";
}

def Exec_CallOp : Exec_Command<"call"> {
  let summary = "Runs a library function of the runtime.";
  let description = [{
    The functions, their buffers, scalars and floats are listed in
    runtime/executor/Functions.h.
  }];
  let arguments = (ins StrAttr:$function, ArrayAttr:$buffers, ArrayAttr:$scalars,
      DefaultValuedAttr<DenseF64ArrayAttr, "{}">:$floats, OptionalAttr<StrAttr>:$text);
  let assemblyFormat = "$function $buffers $scalars attr-dict";
}

def Exec_CollectiveOp : Exec_Command<"collective"> {
  let summary = "An exchange between the ranks that differ along `axes`.";
  let description = [{
    `all_reduce` [buffer], `reduce_scatter` and `all_gather` [from, to] with
    scalars [elements] (of the buffer; per rank for the other two), or
    `tree_all_reduce` [partials, result] with scalars [elements, granules of all,
    granules per rank]: see runtime/comm/TreeAllReduce.h. `axes` empty with kind
    all_reduce over the world is written with every active axis. `stages` lists the
    coordinates along pp that take part, where not all do.
    Constraint (X2): the kind is one of these; at least one update is named.
  }];
  let arguments = (ins StrAttr:$collective, ArrayAttr:$buffers, ArrayAttr:$scalars,
      TypeAttr:$element, StrAttr:$combine, ArrayAttr:$axes, ArrayAttr:$updates,
      DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$stages);
  let assemblyFormat = [{
    $collective $combine $element $buffers $scalars `over` $axes `for` $updates attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_CopyOp : Exec_Command<"copy"> {
  let summary = "Copies `bytes` bytes.";
  let arguments = (ins FlatSymbolRefAttr:$from, FlatSymbolRefAttr:$to, Exec_ScalarAttr:$bytes);
  let assemblyFormat = "$from `to` $to $bytes attr-dict";
}

def Exec_FillOp : Exec_Command<"fill"> {
  let summary = "Sets `bytes` bytes to zero.";
  let arguments = (ins FlatSymbolRefAttr:$to, Exec_ScalarAttr:$bytes);
  let assemblyFormat = "$to $bytes attr-dict";
}

def Exec_LoopOp : Exec_Command<"loop", [NoTerminator, SingleBlock]> {
  let summary = "Cuts the call's rows into `iterations` ceil-sized chunks and runs the body on each.";
  let description = [{
    Later chunks may have fewer rows or none; the body runs all the same, since
    other ranks may have rows there.
  }];
  let arguments = (ins I64Attr:$iterations);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$iterations attr-dict-with-keyword $body";
}

class Exec_TransferOp<string mnemonic, string text> : Exec_Command<mnemonic> {
  let summary = text;
  let description = [{
    Messages of one update arrive in the order of sending. A send never waits for
    its receiver.
  }];
  let arguments = (ins FlatSymbolRefAttr:$buffer, Exec_ScalarAttr:$elements, I64Attr:$stage,
      TypeAttr:$element, FlatSymbolRefAttr:$update);
  let assemblyFormat = "$buffer $elements $element `stage` $stage `for` $update attr-dict";
}
def Exec_SendOp : Exec_TransferOp<"send", "Sends a buffer to the rank that differs along pp only.">;
def Exec_RecvOp : Exec_TransferOp<"recv", "Receives a buffer from the rank that differs along pp only.">;

def Exec_ScheduleOp : Exec_Command<"schedule", [NoTerminator, SingleBlock]> {
  let summary = "Runs phases on the microbatches of a call in a given order.";
  let description = [{
    The call's rows are cut into `microbatches` ceil-sized parts; later ones may have
    fewer rows or none. `runs` has three numbers for each run: the index of the
    phase in the body, the microbatch, and which copy it uses of the buffers that
    live from phase to phase.
    Constraint (X3): the body has phases only; each runs once on every microbatch.
  }];
  let arguments = (ins I64Attr:$microbatches, DenseI64ArrayAttr:$runs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$microbatches `runs` `=` $runs attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Exec_PhaseOp : Exec_Command<"phase", [NoTerminator, SingleBlock, HasParent<"ScheduleOp">]> {
  let summary = "A part of a schedule: what one chunk of the model does for one microbatch, forward or backward.";
  let arguments = (ins StrAttr:$name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name attr-dict-with-keyword $body";
}

def Exec_RetryOp : Exec_Command<"retry"> {
  let summary = "If the flag is set: accumulates the window again and restarts the entry, once.";
  let arguments = (ins FlatSymbolRefAttr:$flag);
  let assemblyFormat = "$flag attr-dict";
}

def Exec_CommitIfOp : Exec_Command<"commit_if"> {
  let summary = "Goes on only if the flag is non-zero; else ends the entry with `reason`, state unchanged.";
  let arguments = (ins FlatSymbolRefAttr:$flag, StrAttr:$reason);
  let assemblyFormat = "$flag $reason attr-dict";
}

#endif // EXEC_OPS_TD
