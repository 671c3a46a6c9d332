//===- DistOps.td - The ops of dist ------------------------*- tablegen -*-===//

#ifndef SHEAF_DIST_OPS_TD
#define SHEAF_DIST_OPS_TD

include "DistDialect.td"
include "DistAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Tensor : Type<CPred<"::sheaf::dist::isStaticTensor($_self)">,
  "tensor with static dimensions of at least 1 and at most 2^59 elements",
  "::mlir::RankedTensorType">;
def Dist_I64 : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">;
def Dist_AxesAttr : TypedArrayAttrBase<Dist_AxisAttr, "axes of the mesh">;
def Dist_MeshAxesAttr : TypedArrayAttrBase<Dist_MeshAxisAttr, "axes with sizes and links">;

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, traits>;

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "the devices and how they are laid out";
  let description = [{
    Named axes, the outermost first. Device numbers count along the last axis
    first; `devices` gives them another order: entry i is the rank at place i.

    Example:

    ```mlir
    dist.mesh @mesh ["dp" = 4 network, "tp" = 2 nvlink]
    ```

    or, in another module,

    ```mlir
    dist.mesh @line ["x" = 4 link(1.0e10, 2.0e-6)] devices [0, 2, 1, 3]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Dist_MeshAxesAttr:$axes,
                       OptionalAttr<DenseI64ArrayAttr>:$devices);
  let assemblyFormat = [{
    $sym_name custom<MeshAxes>($axes) (`devices` $devices^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The axis of that name; null where there is none.
    ::sheaf::dist::MeshAxisAttr lookup(::llvm::StringRef name);
    /// The devices along an axis or sub-axis of this mesh.
    int64_t getSize(::sheaf::dist::AxisAttr axis);
    int64_t getSize(::llvm::ArrayRef<::sheaf::dist::AxisAttr> axes);
    int64_t getNumDevices();
  }];
}

def Dist_ConstraintOp : Dist_Op<"constraint", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "a value whose sharding is given";
  let description = [{
    The result has the sharding that is written, whatever the input has. Axes do
    not propagate from one to the other: what differs is communication, here. Its
    gradient has the same constraint.

    Example:

    ```mlir
    %y = dist.constraint %x <[{"dp"}, {} ]> because "ZeRO-3: weights are gathered for use" : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_ShardingAttr:$sharding,
                       OptionalAttr<StrAttr>:$because);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $input $sharding (`because` $because^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Dist_ShardingsAttr : TypedArrayAttrBase<Dist_ShardingAttr, "shardings">;

def Dist_ManualOp : Dist_Op<"manual", [IsolatedFromAbove, RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "a part of a program that is written for one device";
  let description = [{
    The body is what one device does: its arguments are the parts of the inputs that
    the shardings behind `in` give it, what it yields are its parts of the results,
    which have the shardings behind `out`. It may hold collectives over any axis. Over
    an axis that no sharding at the boundary names every device holds the same. On the
    side of whole tensors it is an op like any other: inputs are brought to where it
    wants them, and its results propagate. Partitioning puts the body in its place.
    A dimension with `?` may be sharded further, by axes that the body does not use,
    where every op of the body passes it through; the body's shapes then shrink.

    Example:

    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {
      %y = dist.manual %x in [#dist.sharding<[{}, {"tp"} ]>] out [#dist.sharding<[{} ]>] {
      ^bb0(%part: tensor<4x4xf32>):
        %0 = nn.reduce sum %part dims [1] : (tensor<4x4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
        %1 = dist.all_reduce sum %0 axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
        dist.yield %1 : tensor<4xf32>
      } : (tensor<4x8xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Dist_Tensor>:$inputs, Dist_ShardingsAttr:$in_shardings,
                       Dist_ShardingsAttr:$out_shardings);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    ($inputs^)? `in` $in_shardings `out` $out_shardings $body attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Dist_YieldOp : Dist_Op<"yield", [Pure, Terminator, HasParent<"ManualOp">]> {
  let summary = "the end of a part that is written for one device";
  let description = [{
    Gives the device's parts of the results.

    Example:

    ```mlir
    dist.yield %y : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Dist_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

def Dist_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::sheaf::dist";
  let description = [{
    An op on local tensors that moves data between devices: every device of a
    group takes part. Groups are the devices that differ along the axes only.
  }];
  let methods = [
    InterfaceMethod<"The axes of the group; for a permutation those that change.",
      "::llvm::SmallVector<::sheaf::dist::AxisAttr>", "getGroupAxes">,
    InterfaceMethod<"`all-gather`, `reduce-scatter`, ... as explanations name it.",
      "::llvm::StringRef", "getCollectiveKind">,
  ];
}

class Dist_CollectiveOp<string mnemonic, string kind, list<Trait> traits = []>
    : Dist_Op<mnemonic, !listconcat([Pure, Dist_CollectiveOpInterface], traits)> {
  let results = (outs Dist_Tensor:$result);
  let hasVerifier = 1;
  code kindName = [{
    ::llvm::StringRef getCollectiveKind() { return "}] # kind # [{"; }
  }];
  code axesOf = [{
    ::llvm::SmallVector<::sheaf::dist::AxisAttr> getGroupAxes() {
      return ::llvm::to_vector(getAxes().getAsRange<::sheaf::dist::AxisAttr>());
    }
  }];
  let extraClassDeclaration = kindName # axesOf;
}

def Dist_AllGatherOp : Dist_CollectiveOp<"all_gather", "all-gather"> {
  let summary = "the parts of all devices, one after another";
  let description = [{
    Along `dim`, in the order of the devices along the axes, the first axis
    outermost. What lies behind the end of the result is padding and is cut off.

    Example:

    ```mlir
    %y = dist.all_gather %x dim 1 axes ["tp"] : (tensor<4x8xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_I64:$dim, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    $input `dim` $dim `axes` custom<Axes>($axes) attr-dict `:` functional-type(operands, results)
  }];
}

def Dist_ReduceScatterOp : Dist_CollectiveOp<"reduce_scatter", "reduce-scatter"> {
  let summary = "each device's part of the reduced value";
  let description = [{
    Example:

    ```mlir
    %y = dist.reduce_scatter sum %x dim 0 axes ["dp"] : (tensor<4x8xf32, #dist.partial<["dp"], sum>>) -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Dist_ReductionAttr:$kind, Dist_Tensor:$input, Dist_I64:$dim, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    custom<Word>($kind) $input `dim` $dim `axes` custom<Axes>($axes) attr-dict `:` functional-type(operands, results)
  }];
}

def Dist_AllReduceOp : Dist_CollectiveOp<"all_reduce", "all-reduce"> {
  let summary = "the reduced value, on every device";
  let description = [{
    Example:

    ```mlir
    %y = dist.all_reduce sum %x axes ["dp", "tp"] : (tensor<4x8xf32, #dist.partial<["dp", "tp"], sum>>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dist_ReductionAttr:$kind, Dist_Tensor:$input, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    custom<Word>($kind) $input `axes` custom<Axes>($axes) attr-dict `:` functional-type(operands, results)
  }];
}

def Dist_AllToAllOp : Dist_CollectiveOp<"all_to_all", "all-to-all"> {
  let summary = "one dimension gathered, another cut";
  let description = [{
    Cuts dimension `split` in a part for each device of the group and puts what
    arrives one after another along dimension `concat`.

    Example:

    ```mlir
    %y = dist.all_to_all %x split 1 concat 0 axes ["tp"] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_I64:$split, Dist_I64:$concat, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    $input `split` $split `concat` $concat `axes` custom<Axes>($axes) attr-dict `:` functional-type(operands, results)
  }];
}

def Dist_ExchangeRowsOp : Dist_CollectiveOp<"exchange_rows", "all-to-all"> {
  let summary = "an all-to-all of the rows that are there";
  let description = [{
    `dist.all_to_all` of blocks of rows, [P, B, M, H], of which only the first rows of
    each block are sent: so many as `sent`, [P, B], says. `received` has how many come
    in each block of the result; zeros follow them. Both have been exchanged before.
    Blocks are cut and put together whole, along the first two dimensions, and
    nothing is padded.

    Example:

    ```mlir
    %y = dist.exchange_rows %x counts %s, %r split 0 concat 1 axes ["tp"]
      : (tensor<2x4x8x16xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x8x8x16xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_Tensor:$sent, Dist_Tensor:$received,
                       Dist_I64:$split, Dist_I64:$concat, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    $input `counts` $sent `,` $received `split` $split `concat` $concat `axes` custom<Axes>($axes) attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dist_PermuteOp : Dist_CollectiveOp<"permute", "permute",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "whole shards handed from device to device";
  let description = [{
    The shard that a device gets is the one that it holds under the sharding `to`;
    it comes from a device that holds it under `from`. Every dimension is in as many
    parts before as after.

    Example:

    ```mlir
    %y = dist.permute %x from <[{"x"}, {"y"} ]> to <[{"y"}, {"x"} ]> : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_ShardingAttr:$from, Dist_ShardingAttr:$to);
  let assemblyFormat = [{
    $input `from` $from `to` $to attr-dict `:` type($input)
  }];
  let extraClassDeclaration = kindName # [{
    ::llvm::SmallVector<::sheaf::dist::AxisAttr> getGroupAxes();
  }];
}

def Dist_ShiftOp : Dist_CollectiveOp<"shift", "permute",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "values handed on around a ring of devices";
  let description = [{
    Device i of k, counted along the axes, the first axis outermost, gives its value to
    device (i + by) mod k, so that it gets that of device (i - by) mod k.

    Example:

    ```mlir
    %y = dist.shift %x by 1 axes ["dp"] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_I64:$by, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    $input `by` $by `axes` custom<Axes>($axes) attr-dict `:` type($input)
  }];
}

def Dist_BroadcastOp : Dist_CollectiveOp<"broadcast", "broadcast",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "the value of one device, on every device";
  let description = [{
    Example:

    ```mlir
    %y = dist.broadcast %x from 0 axes ["dp"] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_I64:$root, Dist_AxesAttr:$axes);
  let assemblyFormat = [{
    $input `from` $root `axes` custom<Axes>($axes) attr-dict `:` type($input)
  }];
}

//===----------------------------------------------------------------------===//
// Local
//===----------------------------------------------------------------------===//

def Dist_SliceOp : Dist_Op<"slice", [Pure]> {
  let summary = "the part of this device";
  let description = [{
    Cuts dimension `dim` in a part for each device along the axes, of ceil(n/k)
    elements, the last ones padded with zeros, and keeps this device's. No
    communication. With the attribute `dist.any_padding` nobody reads the padding,
    which may then be anything.

    Example:

    ```mlir
    %y = dist.slice %x dim 0 axes ["dp"] : (tensor<5x8xf32>) -> tensor<3x8xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_I64:$dim, Dist_AxesAttr:$axes);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $input `dim` $dim `axes` custom<Axes>($axes) attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Dist_MakePartialOp : Dist_Op<"make_partial", [Pure]> {
  let summary = "the value on the first device, the neutral element on the others";
  let description = [{
    What a value that is complete becomes where it is combined with partial ones. No
    communication.

    Example:

    ```mlir
    %y = dist.make_partial sum %x axes ["tp"] : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
    ```
  }];
  let arguments = (ins Dist_ReductionAttr:$kind, Dist_Tensor:$input, Dist_AxesAttr:$axes);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    custom<Word>($kind) $input `axes` custom<Axes>($axes) attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Dist_LocalOp : Dist_Op<"local", [Pure]> {
  let summary = "what this device adds to a sum, as a value, or the other way round";
  let description = [{
    A value that is still to be summed becomes one that each device has for itself, which
    may go through what is not linear: it may be rounded before it is sent. Or such a value
    becomes what the device adds to a sum. No communication.

    Example:

    ```mlir
    %y = dist.local %x : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32>
    %z = dist.local %y : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Dist_AxisIndexOp : Dist_Op<"axis_index", [Pure]> {
  let summary = "the number of this device along axes";
  let description = [{
    The first axis counts the most.

    Example:

    ```mlir
    %i = dist.axis_index ["dp", "tp"] : tensor<i32>
    ```
  }];
  let arguments = (ins Dist_AxesAttr:$axes);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "custom<Axes>($axes) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // SHEAF_DIST_OPS_TD
