//===- ExecOps.td - The program of a rank on buffers -------*- tablegen -*-===//

#ifndef SHEAF_EXEC_OPS_TD
#define SHEAF_EXEC_OPS_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::sheaf::exec";
  let summary = "buffers, kernels, products and calls: what one rank does";
  let description = [{
    The last floor that people read. A function takes buffers (memrefs of static
    shape and plain layout): those it reads, then those it writes. Its own
    temporaries are `exec.buffer`s: first unplaced, then, after `exec-place`,
    each at an offset of one scratch memory that the caller hands over
    (`exec.scratch_bytes` on the function). Kernels are functions in the module
    `@kernels`. Loops are `scf.for`.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
  let hasOperationAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

def Exec_Memory : Type<
  CPred<"::sheaf::exec::isMemory($_self)">,
  "memref of integers or floats of static shape without zeros and identity layout",
  "::mlir::MemRefType">;

def Exec_Tensor : Type<
  CPred<"::sheaf::exec::isTensor($_self)">,
  "tensor of integers or floats of static shape without zeros",
  "::mlir::RankedTensorType">;

/// An op that reads some buffers and writes others.
def Exec_AccessOpInterface : OpInterface<"AccessOpInterface"> {
  let cppNamespace = "::sheaf::exec";
  let description = [{
    Which of its buffer operands an op reads and which it writes. A buffer in
    both lists is updated in place.
  }];
  let methods = [
    InterfaceMethod<"The buffers read.", "::mlir::OperandRange", "getRead">,
    InterfaceMethod<"The buffers written.", "::mlir::OperandRange", "getWritten">,
  ];
}

def Exec_BufferOp : Exec_Op<"buffer"> {
  let summary = "a temporary buffer of a function";
  let description = [{
    Holds nothing before it is first written. `at` is the offset in bytes in the
    scratch memory of the function, once placed.

    Example:

    ```mlir
    %a = exec.buffer : memref<4x8xf32>
    %b = exec.buffer at 4096 : memref<4x8xf32>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Exec_Memory:$result);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($result)";
}

def Exec_ViewOp : Exec_Op<"view", [Pure]> {
  let summary = "the bytes of a buffer under another type";
  let description = [{
    The result starts `offset` bytes (0 where it is not written) into the source
    and lies within it.

    Example:

    ```mlir
    %v = exec.view %a : memref<4x8xf32> to memref<32xf32>
    %w = exec.view %a offset 64 : memref<4x8xf32> to memref<2x8xf32>
    ```
  }];
  let arguments = (ins Exec_Memory:$source, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Exec_Memory:$result);
  let assemblyFormat = [{
    $source (`offset` $offset^)? attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Exec_PartOp : Exec_Op<"part", [Pure]> {
  let summary = "one of the equal parts of a buffer";
  let description = [{
    Part `index` of the source, which holds a whole number of results one after
    another.

    Example:

    ```mlir
    %p = exec.part %tokens[%k] : memref<8x64xi32> to memref<2x64xi32>
    ```
  }];
  let arguments = (ins Exec_Memory:$source, Index:$index);
  let results = (outs Exec_Memory:$result);
  let assemblyFormat = "$source `[` $index `]` attr-dict `:` type($source) `to` type($result)";
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Op<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>, Exec_AccessOpInterface]> {
  let summary = "runs a kernel";
  let description = [{
    Example:

    ```mlir
    exec.launch @kernels::@softmax_0 reads(%x : memref<8x64xf32>) writes(%y : memref<8x64xf32>)
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Variadic<Exec_Memory>:$read,
                       Variadic<Exec_Memory>:$written);
  let assemblyFormat = [{
    $kernel (`reads` `(` $read^ `:` type($read) `)`)? `writes` `(` $written `:` type($written) `)`
    attr-dict
  }];
}

def Exec_MatmulOp : Exec_Op<"matmul", [AttrSizedOperandSegments, Exec_AccessOpInterface]> {
  let summary = "a batched matrix product";
  let description = [{
    C = op(A) op(B), plus C where `accumulate`, on row-major matrices. `dims` is
    [m, n, k], `leading` the leading dimensions of A, B and C as stored; `batch`
    has up to three sizes, `strides` the distance between matrices for A, B and C
    along each, one after another. All in elements. `transpose_a`: A is stored
    k x m; `transpose_b`: B is stored n x k.

    Example:

    ```mlir
    exec.matmul reads(%a, %b : memref<512x64xf32>, memref<64x96xf32>) writes(%c : memref<512x96xf32>)
      dims [512, 96, 64] leading [64, 96, 96]
    exec.matmul reads(%q, %k : memref<2x8x4x16xf32>, memref<2x8x4x16xf32>) writes(%s : memref<2x4x8x8xf32>)
      dims [8, 8, 16] leading [64, 64, 8] batch [2, 4] strides [512, 16, 512, 16, 256, 64] transpose_b
    ```
  }];
  let arguments = (ins Variadic<Exec_Memory>:$read, Variadic<Exec_Memory>:$written,
                       DenseI64ArrayAttr:$dims, DenseI64ArrayAttr:$leading,
                       OptionalAttr<DenseI64ArrayAttr>:$batch,
                       OptionalAttr<DenseI64ArrayAttr>:$strides,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$accumulate);
  let assemblyFormat = [{
    `reads` `(` $read `:` type($read) `)` `writes` `(` $written `:` type($written) `)`
    `dims` $dims `leading` $leading (`batch` $batch^ `strides` $strides)?
    (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? (`accumulate` $accumulate^)?
    attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_GroupedMatmulOp : Exec_Op<"grouped_matmul", [AttrSizedOperandSegments, Exec_AccessOpInterface]> {
  let summary = "matrix products of uneven sizes, one for each expert";
  let description = [{
    Reads A, B and i32 offsets; `dims` is [groups, rows, experts, k, n]. A is
    [groups, rows, k]; the rows offsets[g][e] to offsets[g][e + 1] of group g are those
    of expert e. With `parts` P the groups, P equal runs of them, have experts of their
    own, and there are P times as many matrices. Without `outer`, B is [experts, k, n], or [experts, n, k] where
    `transposed`, and the rows of expert e in C, [groups, rows, n], are those in A times
    matrix e; rows past the last are zeros. With `outer`, B is [groups, rows, n], and
    matrix e of C, [experts, k, n], is the sum over its rows of A^T B, added to C where
    `accumulate`. The sizes are device data: nothing waits for them on the host.

    Example:

    ```mlir
    exec.grouped_matmul reads(%x, %w, %o : memref<4x32x16xf32>, memref<8x16x24xf32>, memref<4x9xi32>)
      writes(%y : memref<4x32x24xf32>) dims [4, 32, 8, 16, 24]
    exec.grouped_matmul reads(%x, %y, %o : memref<4x32x16xf32>, memref<4x32x24xf32>, memref<4x9xi32>)
      writes(%w : memref<8x16x24xf32>) dims [4, 32, 8, 16, 24] outer
    ```
  }];
  let arguments = (ins Variadic<Exec_Memory>:$read, Variadic<Exec_Memory>:$written,
                       DenseI64ArrayAttr:$dims,
                       DefaultValuedAttr<TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">, "1">:$parts,
                       UnitAttr:$transposed, UnitAttr:$outer, UnitAttr:$accumulate);
  let assemblyFormat = [{
    `reads` `(` $read `:` type($read) `)` `writes` `(` $written `:` type($written) `)`
    `dims` $dims (`parts` $parts^)? (`transposed` $transposed^)? (`outer` $outer^)? (`accumulate` $accumulate^)?
    attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_CopyOp : Exec_Op<"copy", [AttrSizedOperandSegments, Exec_AccessOpInterface]> {
  let summary = "copies a buffer";
  let description = [{
    Example:

    ```mlir
    exec.copy reads(%a : memref<4x8xf32>) writes(%b : memref<4x8xf32>)
    ```
  }];
  let arguments = (ins Variadic<Exec_Memory>:$read, Variadic<Exec_Memory>:$written);
  let assemblyFormat = [{
    `reads` `(` $read `:` type($read) `)` `writes` `(` $written `:` type($written) `)` attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_CallOp : Exec_Op<"call", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>, Exec_AccessOpInterface]> {
  let summary = "calls a layer function";
  let description = [{
    Hands over the buffers that the function reads and writes and, once placed,
    the offset of its scratch memory in the caller's.

    Example:

    ```mlir
    exec.call @block_forward reads(%x : memref<4x8xf32>) writes(%y : memref<4x8xf32>)
    exec.call @block_forward reads(%x : memref<4x8xf32>) writes(%y : memref<4x8xf32>) scratch 8192
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Exec_Memory>:$read,
                       Variadic<Exec_Memory>:$written, OptionalAttr<I64Attr>:$scratch);
  let assemblyFormat = [{
    $callee (`reads` `(` $read^ `:` type($read) `)`)?
    (`writes` `(` $written^ `:` type($written) `)`)? (`scratch` $scratch^)? attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Between ranks
//===----------------------------------------------------------------------===//

// The numbers are those of the C ABI.
def Exec_Transfer : I32EnumAttr<"Transfer", "what a transfer does", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"AllGather", 1, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Permute", 4, "permute">,
    I32EnumAttrCase<"Broadcast", 5, "broadcast">]> {
  let cppNamespace = "::sheaf::exec";
  let genSpecializedAttr = 0;
}
def Exec_TransferAttr : EnumAttr<Exec_Dialect, Exec_Transfer, "transfer"> {
  let assemblyFormat = "$value";
}
def Exec_Reduction : I32EnumAttr<"Reduction", "how contributions are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::sheaf::exec";
  let genSpecializedAttr = 0;
}
def Exec_ReductionAttr : EnumAttr<Exec_Dialect, Exec_Reduction, "reduction"> {
  let assemblyFormat = "$value";
}

def Exec_I64 : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">;

def Exec_CollectiveOp : Exec_Op<"collective", [AttrSizedOperandSegments, Exec_AccessOpInterface]> {
  let summary = "moves data between the ranks of a group";
  let description = [{
    Starts a transfer and waits for it. The group of a rank are the ranks that
    differ from it only along the axes `sizes` x `strides`: how many places an axis
    has, and by how much the rank grows with one step along it; members are numbered
    with the first axis outermost. The elements of a buffer that is cut into parts
    are [slices, parts, run], part j for member j: `cut` gives the slices of the
    buffer read, `join` those of the buffer written (1, where not written: the parts
    follow one another). `targets` has, for each member of a permutation, the one
    that it sends to, or -1: nobody; who gets nothing gets zeros. `root` is the
    member that a broadcast comes from. `about` says what asked for it: it goes to
    the manifest.

    An all-to-all that reads two more buffers, i32, moves rows: the last dimension is
    a row, the one before it the rows of a block, and only so many of the first rows of
    each block are sent as the second buffer says. The third says how many come in each
    block of the result; zeros follow them.

    A collective that writes a second buffer, its handle, only starts; an `exec.wait`
    waits for it. Those of one group and `channel` (0, where not written) take place one
    after the other, those of two channels when they can.

    Example:

    ```mlir
    exec.collective all_reduce by sum reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [4] strides [2]
    exec.collective all_gather reads(%d : memref<4x3xf32>) writes(%c : memref<4x6xf32>) sizes [2] strides [1] join 4
    exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
    exec.collective all_to_all reads(%x, %n, %m : memref<2x4x8x16xf32>, memref<2x4xi32>, memref<1x8xi32>)
      writes(%y : memref<1x8x8x16xf32>) sizes [2] strides [1]
    exec.collective permute reads(%a : memref<8xf32>) writes(%b, %h : memref<8xf32>, memref<i64>)
      sizes [2] strides [1] targets [1, 0]
    exec.wait reads(%h, %a : memref<i64>, memref<8xf32>) writes(%b : memref<8xf32>)
    ```
  }];
  let arguments = (ins Exec_TransferAttr:$kind, OptionalAttr<Exec_ReductionAttr>:$reduction,
                       Variadic<Exec_Memory>:$read, Variadic<Exec_Memory>:$written,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
                       DefaultValuedAttr<Exec_I64, "1">:$cut,
                       DefaultValuedAttr<Exec_I64, "1">:$join,
                       DefaultValuedAttr<Exec_I64, "0">:$root,
                       DefaultValuedAttr<Exec_I64, "0">:$channel,
                       OptionalAttr<DenseI64ArrayAttr>:$targets,
                       OptionalAttr<DictionaryAttr>:$about);
  let assemblyFormat = [{
    custom<Word>($kind) (`by` custom<Word>($reduction)^)? `reads` `(` $read `:` type($read) `)`
    `writes` `(` $written `:` type($written) `)` `sizes` $sizes `strides` $strides
    (`cut` $cut^)? (`join` $join^)? (`root` $root^)? (`channel` $channel^)? (`targets` $targets^)?
    (`about` $about^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether it only starts.
    bool isStarted() { return getWritten().size() == 2; }
  }];
}

def Exec_TransferOp : Exec_Op<"transfer", [Pure]> {
  let summary = "a collective that has no buffers yet";
  let description = [{
    What `exec.collective` does, on tensors: `nn-to-exec` gives it its buffers. The
    mesh is forgotten: a group is sizes and strides, and the shapes are exact, without
    padding to cut off. With `counts` an all-to-all moves rows: how many of each block are
    sent, and how many come.

    Example:

    ```mlir
    %y = exec.transfer all_reduce by sum %x sizes [4] strides [2] : (tensor<8xf32>) -> tensor<8xf32>
    %z = exec.transfer all_gather %y sizes [2] strides [1] : (tensor<8xf32>) -> tensor<16xf32>
    %w = exec.transfer all_to_all %r counts(%n, %m) sizes [2] strides [1]
      : (tensor<2x4x8x16xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x8x8x16xf32>
    ```
  }];
  let arguments = (ins Exec_TransferAttr:$kind, OptionalAttr<Exec_ReductionAttr>:$reduction,
                       Exec_Tensor:$input, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
                       DefaultValuedAttr<Exec_I64, "1">:$cut,
                       DefaultValuedAttr<Exec_I64, "1">:$join,
                       DefaultValuedAttr<Exec_I64, "0">:$root,
                       OptionalAttr<DenseI64ArrayAttr>:$targets,
                       OptionalAttr<DictionaryAttr>:$about,
                       Variadic<Exec_Tensor>:$counts);
  let results = (outs Exec_Tensor:$result);
  let assemblyFormat = [{
    custom<Word>($kind) (`by` custom<Word>($reduction)^)? $input (`counts` `(` $counts^ `)`)?
    `sizes` $sizes `strides` $strides
    (`cut` $cut^)? (`join` $join^)? (`root` $root^)? (`targets` $targets^)?
    (`about` $about^)? attr-dict `:` functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::sheaf::exec::TransferAttr":$kind,
                                 "::sheaf::exec::ReductionAttr":$reduction, "::mlir::Value":$input,
                                 "::mlir::DenseI64ArrayAttr":$sizes, "::mlir::DenseI64ArrayAttr":$strides,
                                 "::mlir::IntegerAttr":$cut, "::mlir::IntegerAttr":$join,
                                 "::mlir::IntegerAttr":$root, "::mlir::DenseI64ArrayAttr":$targets,
                                 "::mlir::DictionaryAttr":$about), [{
    build($_builder, $_state, type, kind, reduction, input, sizes, strides, cut, join, root,
          targets, about, ::mlir::ValueRange());
  }]>];
  let hasVerifier = 1;
}

// What two ranks of a group do.
def Exec_Pair : I32EnumAttr<"Pair", "an end of a transfer between two ranks", [
    I32EnumAttrCase<"Send", 6, "send">, I32EnumAttrCase<"Receive", 7, "receive">]> {
  let cppNamespace = "::sheaf::exec";
  let genSpecializedAttr = 0;
}
def Exec_PairAttr : EnumAttr<Exec_Dialect, Exec_Pair, "pair"> {
  let assemblyFormat = "$value";
}
def Exec_HandleTensor : Type<
  CPred<"::sheaf::exec::isHandle($_self)">,
  "handle of a transfer, tensor<i64>", "::mlir::RankedTensorType">,
  BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;

def Exec_SendOp : Exec_Op<"send"> {
  let summary = "starts to send a tensor to another rank";
  let description = [{
    To member `peer` of the group of one axis, of `size` places, by each of which the rank
    grows by `stride`. Sends from one rank to another match its receives in their order.
    The result is for `exec.wait_send`, until which the tensor may be read. `about` says
    what it is: it goes to the manifest.

    Example:

    ```mlir
    %h = exec.send %x to 1 size 4 stride 2 : tensor<8x16xf32>
    exec.wait_send %h, %x : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Exec_Tensor:$input, Exec_I64:$peer, Exec_I64:$size, Exec_I64:$stride,
                       OptionalAttr<DictionaryAttr>:$about);
  let results = (outs Exec_HandleTensor:$handle);
  let assemblyFormat = [{
    $input `to` $peer `size` $size `stride` $stride (`about` $about^)? attr-dict `:` type($input)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$peer, "int64_t":$size,
                                 "int64_t":$stride, "::mlir::DictionaryAttr":$about)>];
  let hasVerifier = 1;
}

def Exec_WaitSendOp : Exec_Op<"wait_send"> {
  let summary = "waits until a tensor has been sent";
  let description = [{
    Example:

    ```mlir
    %h = exec.send %x to 1 size 2 stride 1 : tensor<8x16xf32>
    exec.wait_send %h, %x : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Exec_HandleTensor:$handle, Exec_Tensor:$input);
  let assemblyFormat = "$handle `,` $input attr-dict `:` type($input)";
}

def Exec_ReceiveOp : Exec_Op<"receive"> {
  let summary = "starts to receive a tensor from another rank";
  let description = [{
    From member `peer` of the group, as `exec.send` names it. The tensor may be read as
    the result of `exec.wait_receive`.

    Example:

    ```mlir
    %h, %started = exec.receive from 0 size 4 stride 2 : tensor<8x16xf32>
    %x = exec.wait_receive %h, %started : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Exec_I64:$peer, Exec_I64:$size, Exec_I64:$stride,
                       OptionalAttr<DictionaryAttr>:$about);
  let results = (outs Exec_HandleTensor:$handle, Exec_Tensor:$result);
  let assemblyFormat = [{
    `from` $peer `size` $size `stride` $stride (`about` $about^)? attr-dict `:` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "int64_t":$peer, "int64_t":$size,
                                 "int64_t":$stride, "::mlir::DictionaryAttr":$about)>];
  let hasVerifier = 1;
}

def Exec_WaitReceiveOp : Exec_Op<"wait_receive", [AllTypesMatch<["started", "result"]>]> {
  let summary = "waits until a tensor has come";
  let description = [{
    The result is the tensor that came, in the bytes where it landed.

    Example:

    ```mlir
    %h, %started = exec.receive from 0 size 2 stride 1 : tensor<8x16xf32>
    %x = exec.wait_receive %h, %started : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Exec_HandleTensor:$handle, Exec_Tensor:$started);
  let results = (outs Exec_Tensor:$result);
  let assemblyFormat = "$handle `,` $started attr-dict `:` type($result)";
}

def Exec_StartOp : Exec_Op<"start", [AttrSizedOperandSegments, Exec_AccessOpInterface]> {
  let summary = "starts a transfer between two ranks";
  let description = [{
    What `exec.send` and `exec.receive` do, on buffers. A send reads its buffer and writes
    the handle, memref<i64>; a receive writes its buffer and the handle.

    Example:

    ```mlir
    exec.start send reads(%x : memref<8x16xf32>) writes(%h : memref<i64>) peer 1 size 4 stride 2
    exec.start receive writes(%y, %g : memref<8x16xf32>, memref<i64>) peer 0 size 4 stride 2
    ```
  }];
  let arguments = (ins Exec_PairAttr:$kind, Variadic<Exec_Memory>:$read,
                       Variadic<Exec_Memory>:$written, Exec_I64:$peer, Exec_I64:$size,
                       Exec_I64:$stride, OptionalAttr<DictionaryAttr>:$about);
  let assemblyFormat = [{
    custom<Word>($kind) (`reads` `(` $read^ `:` type($read) `)`)?
    `writes` `(` $written `:` type($written) `)` `peer` $peer `size` $size `stride` $stride
    (`about` $about^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The buffer that is sent or received into.
    ::mlir::Value getBuffer();
    ::mlir::Value getHandle();
  }];
}

def Exec_WaitOp : Exec_Op<"wait", [AttrSizedOperandSegments, Exec_AccessOpInterface]> {
  let summary = "waits for a transfer that was started";
  let description = [{
    Reads the handle that `exec.start` or `exec.collective` wrote, and the buffer that is
    sent; writes the one that comes. So a buffer lives as long as something is under way
    in it.

    Example:

    ```mlir
    exec.wait reads(%h, %x : memref<i64>, memref<8x16xf32>)
    exec.wait reads(%g : memref<i64>) writes(%y : memref<8x16xf32>)
    exec.wait reads(%h, %x : memref<i64>, memref<8x16xf32>) writes(%y : memref<8x16xf32>)
    ```
  }];
  let arguments = (ins Variadic<Exec_Memory>:$read, Variadic<Exec_Memory>:$written);
  let assemblyFormat = [{
    `reads` `(` $read `:` type($read) `)` (`writes` `(` $written^ `:` type($written) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // SHEAF_EXEC_OPS_TD
