//===- Passes.td - Communication beside computation --------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def ExecCutProducts : Pass<"exec-cut-products", "::mlir::ModuleOp"> {
  let summary = "cut products along their rows, so that transfers of some go on beside the others";
  let description = [{
    On tensors, for tensor parallelism: an all-gather whose rows products keep becomes gathers
    of some rows of each device, and each product as many products, of which each waits for
    one gather alone; the products in front of a reduce-scatter, and what is computed of them
    element by element, are cut likewise, and each part is sent when it is there. Where
    something else reads all of what is gathered, such as a gradient of weights, it is put
    together. Sums are never cut: each number is computed of the same numbers.

    First, gradients of weights that stand between two transfers come behind the second,
    where that is a sum that does not need them: it goes on beside them.

    With `cluster`, the file that describes one, there are as many parts, up to 8, as take the
    least time; with `parts` so many everywhere. With neither the pass does nothing. A part has
    a multiple of 128 rows of each device, and 2^20 multiplications at least.

    Requires: nothing. Ensures: the same values; all ranks that run the function start the
    same transfers in one order.

    Before:

    ```mlir
    func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %g = exec.transfer all_gather %x sizes [2] strides [1] : (tensor<4x8xf32>) -> tensor<8x8xf32>
      %y = nn.einsum "mk,kn->mn"(%g, %w) : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
      return %y : tensor<8x16xf32>
    }
    ```

    After, with `parts=2`: two gathers of two rows of each device, two products, and a
    concatenation of their results, which `nn-to-exec` has written in place.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
      "A cluster's description (docs/design/simulation.md); none: times are not known">,
    Option<"parts", "parts", "int64_t", "0", "How many parts; 0: by cost">,
  ];
}

def ExecStagger : Pass<"exec-stagger", "::mlir::func::FuncOp"> {
  let summary = "round gradients where they are ready, and add them where they have arrived";
  let description = [{
    For programs on tensors whose gradients are computed with between transfers: rounded,
    sent in parts, added, gathered (`dist-compress`), or put together in buckets. In a block
    that calls layers or has a loop over microbatches, the ops of the role `weight_gradient`
    that lead to a transfer stand as early as what they read lets them; what reads a transfer
    of theirs stands `ahead` calls behind it, so that `exec-overlap` finds something to do
    beside. Of those in one place, all that wait for fewer transfers come first: parts of the
    next bucket are under way while those of one are added. What the optimizer computes of
    gradients comes behind all calls, of those that arrived earlier first: beside the last
    transfers. Products and calls stay.

    Requires: ops of this role are pure. Ensures: the same values; transfers of one role
    keep their order on all ranks that run the function, as it depends on the function alone.

    Before:

    ```mlir
    func.func private @layer(tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
    func.func @step(%x: tensor<8xf32>) -> (tensor<4xbf16>, tensor<4xbf16>) {
      %a, %g = call @layer(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
      %b, %h = call @layer(%a) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)
      %p = nn.cast %g {nn.role = "weight_gradient"} : tensor<4xf32> -> tensor<4xbf16>
      %q = exec.transfer all_to_all %p sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xbf16>) -> tensor<4xbf16>
      %r = nn.cast %h {nn.role = "weight_gradient"} : tensor<4xf32> -> tensor<4xbf16>
      %s = exec.transfer all_to_all %r sizes [2] strides [1] {nn.role = "weight_gradient"} : (tensor<4xbf16>) -> tensor<4xbf16>
      return %q, %s : tensor<4xbf16>, tensor<4xbf16>
    }
    ```

    After: `%p` and `%q` stand in front of the second call.
  }];
  let options = [
    Option<"ahead", "ahead", "int64_t", "1",
      "How many calls stand between a transfer and what reads it">,
  ];
}

def ExecOverlap : Pass<"exec-overlap", "::mlir::ModuleOp"> {
  let summary = "start transfers early and wait for them late, under a bound on memory";
  let description = [{
    An `exec.collective` becomes one that only starts, and an `exec.wait`. The start moves
    up past what neither writes the buffer that is sent nor touches the one that comes; the
    wait moves down past the same. What computes keeps its order. A collective that nothing
    could go on beside stays as it is, and so do those of rows.

    No start moves past another transfer of its communicator, a group and a channel, those
    in functions that are called included; so all ranks that run the function start them in
    one order. In a function that calls layers, gathers (of weights, `all_gather`) get
    channel 1 and reductions of their gradients channel 2, so that the next layer's weights
    do not wait behind this one's gradients.

    There a transfer starts at most `ahead` calls (or products between them) in front of what
    waits for it, and keeps a temporary buffer that it sends for at most as many behind it:
    the next layer's weights are gathered beside this one, and with `ahead=1` those of two
    layers are there at once.

    With `cluster`, the file that describes one, times decide in place of `ahead`: a transfer
    starts as late as it may so that nothing waits for it, its own time and a quarter more in
    front of what needs it and of the start of the next on its communicator; and keeps a
    temporary buffer that it sends until it should be done, and as long again. What a
    transfer or kernel takes is what `sheaf-run --device=sim` makes of the same file.

    With `memory`, the bytes of an entry's arguments and of the buffers that live at one op
    never get more than that, less the three parts in a hundred that placing them may lose;
    in functions that are called they never get more than without the pass, nor where more
    are needed than there may be. A transfer that could go on beside more is told of in a
    remark (`bounded`).

    Requires: calls access what their operands say. Arguments of an entry are buffers of
    their own, those of other functions may share bytes. A function whose buffers are placed,
    or that has a region of several blocks, stays as it is. Ensures: the same numbers; each
    started transfer is waited for once, in the same block.

    Before:

    ```mlir
    func.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
      %a = exec.buffer : memref<8xf32>
      %b = exec.buffer : memref<8xf32>
      exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
      exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
      exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
      exec.copy reads(%b : memref<8xf32>) writes(%z : memref<8xf32>)
      return
    }
    ```

    After: the collective writes a handle, too, `memref<i64>`, and `exec.wait` stands
    between the last two copies.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
      "A cluster's description (docs/design/simulation.md); none: times are not known">,
    ListOption<"kinds", "kinds", "std::string",
      "What to start early: permute, all_gather, ... (all)">,
    Option<"memory", "memory", "int64_t", "0",
      "Most bytes that a device has for an entry; 0: any">,
    Option<"ahead", "ahead", "int64_t", "1",
      "By how many layers a transfer starts early, or is waited for late">,
  ];
}

def ExecVerifyRaces : Pass<"exec-verify-races", "::mlir::ModuleOp"> {
  let summary = "check that no byte is used while a transfer has it";
  let description = [{
    A transfer is under way from its start to its `exec.wait`. Meanwhile nothing may write
    the bytes that it sends, nor read or write those that it receives into or its handle:
    no kernel, product, copy, call or other transfer, on whatever communicator. Bytes are
    told apart by the buffers that they belong to, views and parts included, and, once
    placed, by where they are in the scratch memory: so a place that is used again too
    early is found, and so is scratch memory of a call. Arguments of an entry are one
    buffer where they have one name. A layer is looked at for each way in which calls hand
    over the same bytes as several of its arguments.

    Each start has one wait, in its block, with its buffers. Bytes of temporary buffers
    that are read, above all sent, have been written: a bucket of gradients is not reduced
    in front of the last. Once placed, they have not been written over by another buffer
    since. Where it is not known which bytes an op touches, it may be any for the first of
    these rules, and nothing is said for the second.

    Requires: calls access what their operands say; that a function does not write what it
    should only read (`exec.read_count`) is checked. Ensures: nothing changes. The first
    op that breaks a rule is told of, with the transfer in a note; one error for each.

    Before, and after:

    ```mlir
    func.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
      %a = exec.buffer : memref<8xf32>
      %b = exec.buffer : memref<8xf32>
      %h = exec.buffer : memref<i64>
      exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
      exec.collective permute reads(%a : memref<8xf32>) writes(%b, %h : memref<8xf32>, memref<i64>)
        sizes [2] strides [1] targets [1, 0]
      exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
      exec.wait reads(%h, %a : memref<i64>, memref<8xf32>) writes(%b : memref<8xf32>)
      exec.copy reads(%b : memref<8xf32>) writes(%z : memref<8xf32>)
      return
    }
    ```

    With the last copy in front of the wait: "reads bytes 0 to 31 of a temporary buffer
    while permute receives into them".
  }];
}
