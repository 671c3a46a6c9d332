// RUN: sheaf-opt %s --dist-explain -o /dev/null | FileCheck %s
// RUN: not sheaf-opt %s --dist-explain=function=none 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: dist-explain: there is no function @none

dist.mesh @mesh ["dp" = 4, "tp" = 1]

func.func private @layer(%p: tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32> {
  %y = dist.all_reduce sum %p axes ["dp"] {dist.reason = {kind = "partial result", op = "nn.einsum", text = "why"}, nn.role = "weight_gradient"}
    : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Calls and microbatches count; groups of one do not.
// CHECK: "axes": [
// CHECK-NEXT: "dp"
// CHECK-NEXT: ],
// CHECK-NEXT: "count": 6,
// CHECK-NEXT: "dtype": "f32",
// CHECK-NEXT: "elements": 8,
// CHECK-NEXT: "group": 4,
// CHECK-NEXT: "kind": "all-reduce",
// CHECK-NEXT: "layer": "layer",
// CHECK-NEXT: "op": "nn.einsum",
// CHECK-NEXT: "phase": "backward",
// CHECK-NEXT: "reason": {
// CHECK-NEXT: "kind": "partial result",
// CHECK-NEXT: "text": "why"
// CHECK-NEXT: },
// CHECK-NEXT: "seconds": {{[0-9.e-]+}},
// CHECK-NEXT: "wire_bytes": 48
// CHECK-NOT: "kind": "all-gather"
func.func @step(%p: tensor<8xf32, #dist.partial<["dp"], sum>>, %x: tensor<8xf32>) {
  nn.microbatches 3 {
  ^bb0(%k: tensor<i32>):
    %a = func.call @layer(%p) : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
    %b = func.call @layer(%p) : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
    nn.yield
  }
  %y = dist.all_gather %x dim 0 axes ["tp"] : (tensor<8xf32>) -> tensor<8xf32>
  return
}
