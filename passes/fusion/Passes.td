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
    group would read is computed again where that reads fewer bytes. Products,
    attention, `nn.gather_grad`, `nn.top_k`, calls and loops are in no group.

    Each group is reported as a remark of the category `fusion` (bytes neither
    stored nor read again), each refusal as a missed one with its reason; with
    `print` also as diagnostics.

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

#endif // SHEAF_PASSES_FUSION_PASSES_TD
