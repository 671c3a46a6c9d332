//===- Passes.td - Which ops become one kernel -------------*- tablegen -*-===//

#ifndef SHEAF_PASSES_FUSION_PASSES_TD
#define SHEAF_PASSES_FUSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNFuse : Pass<"nn-fuse", "::mlir::func::FuncOp"> {
  let summary = "group ops that one kernel computes";
  let description = [{
    Puts ops that one kernel can compute into an `nn.fused`. An op joins the groups
    of its producers, those from which most bytes come first, where the CPU's
    kernels can compute the union item by item (`planKernel`) and no element is
    computed much more often than before: reductions of one group are all along
    rows, or all down columns, of the same number; what is reduced reaches only the
    rows that it belongs to. Sums down columns first take in what nobody else reads,
    and share a pass where they read the same tensor. A cheap value that another
    group would read is computed again where that reads fewer bytes. Copies of one
    tensor in 8 bits, in blocks along rows and down columns, and their factors are one
    group: the kernel does all of them for a band of the tensor before the next band. Products,
    attention, `nn.gather_grad`, `nn.top_k`, calls and loops are in no group.

    Each group is reported as a remark of the category `fusion`, with its reason and
    the bytes that are neither stored nor read again; each two neighbours that stay
    apart as a missed one, with the reason and the bytes that this costs. With `print`
    (`sheaf-compile --print-fusion`) they are diagnostics.

    Requires: nothing. Ensures: the same values from the same operations, to
    rounding where a reduction is done in another order.

    Before:

    ```mlir
    %s = nn.sigmoid %x : tensor<4x8xf32>
    %y = nn.mul %x, %s : tensor<4x8xf32>
    ```

    after `--nn-fuse`:

    ```mlir
    %y = nn.fused(%x : tensor<4x8xf32>) -> tensor<4x8xf32> in_place [0, 0] {
    ^bb0(%a: tensor<4x8xf32>):
      %s = nn.sigmoid %a : tensor<4x8xf32>
      %m = nn.mul %a, %s : tensor<4x8xf32>
      nn.yield %m : tensor<4x8xf32>
    }
    ```
  }];
  let options = [
    Option<"print", "print", "bool", "false", "Say each decision as a diagnostic">,
  ];
}

def NNAccumulateInLayers : Pass<"nn-accumulate-in-layers", "::mlir::ModuleOp"> {
  let summary = "add gradients to accumulators inside the layers that compute them";
  let description = [{
    In the body of `nn.microbatches`, a result of a called function that is only
    added to an accumulator is added in the function: a copy of it, NAME_accumulate,
    takes the accumulator as one more argument and returns the sum. `nn.accumulates`
    on the copy and its calls has the pairs (result, argument), so that both can be
    one buffer and a product can add to what is there. The sum of an accumulator, a
    product and the gradient of a gather is taken in that order.

    Before:

    ```
    %g = call @layer_backward(%x) : (tensor<4x8xf32>) -> tensor<8xf32>
    %next = nn.add %acc, %g : tensor<8xf32>
    ```

    after `--nn-accumulate-in-layers`:

    ```
    %next = call @layer_backward_accumulate(%x, %acc) {nn.accumulates = array<i64: 0, 1>}
      : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    ```

    ```mlir
    %next = nn.add %acc, %g : tensor<8xf32>
    ```
  }];
}

def NNPoolStreams : Pass<"nn-pool-streams", "::mlir::func::FuncOp"> {
  let summary = "make the stream numbers of random ops data";
  let description = [{
    Puts the i32 constants that random ops, dropouts and calls of a function take
    into one table, of which each reads its element. Kernels that differ in the
    stream alone are then the same, and their number does not grow with that of
    layers and parameters. Nothing is done for a single constant.

    Before:

    ```mlir
    %s = nn.constant dense<7> : tensor<i32>
    %u = nn.random uniform %key, %s : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
    %t = nn.constant dense<9> : tensor<i32>
    %v = nn.random uniform %key, %t : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
    ```

    after `--nn-pool-streams`:

    ```mlir
    %table = nn.constant dense<[7, 9]> : tensor<2xi32>
    %0 = nn.slice %table offsets [0] sizes [1] : (tensor<2xi32>) -> tensor<1xi32>
    %s = nn.reshape %0 : tensor<1xi32> -> tensor<i32>
    %1 = nn.slice %table offsets [1] sizes [1] : (tensor<2xi32>) -> tensor<1xi32>
    %t = nn.reshape %1 : tensor<1xi32> -> tensor<i32>
    %u = nn.random uniform %key, %s : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
    %v = nn.random uniform %key, %t : (tensor<4xi32>, tensor<i32>) -> tensor<8xf32>
    ```
  }];
}

#endif // SHEAF_PASSES_FUSION_PASSES_TD
