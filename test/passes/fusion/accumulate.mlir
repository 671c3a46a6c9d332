// RUN: sheaf-opt %s --nn-accumulate-in-layers --symbol-dce | FileCheck %s
// RUN: sheaf-opt %s --nn-accumulate-in-layers --symbol-dce --nn-to-exec | FileCheck %s --check-prefix=EXEC

// The layer adds its gradient to the accumulator; the sum of what is yielded apart
// stays outside.
// CHECK: func.func private @layer_accumulate(%{{.*}}: tensor<8x4xf32>, %{{.*}}: tensor<8x4xf32>, %[[A:.*]]: tensor<4x4xf32>)
// CHECK-SAME: nn.accumulates = array<i64: 0, 2>
// CHECK: %[[P:.*]] = nn.einsum
// CHECK: %[[S:.*]] = nn.add %[[A]], %[[P]]
// CHECK: return %[[S]], %{{.*}}
// CHECK-LABEL: func.func @f
// CHECK: nn.microbatches
// CHECK: %[[C:.*]]:2 = func.call @layer_accumulate(%{{.*}}, %{{.*}}, %[[ACC:.*]]) {nn.accumulates = array<i64: 0, 2>}
// CHECK: nn.add %{{.*}}, %[[C]]#1
// CHECK: nn.yield %[[C]]#0

// The product adds to the accumulator where it lies.
// EXEC: func.func private @layer_accumulate
// EXEC: exec.matmul {{.*}} accumulate
// EXEC-NOT: exec.launch
// EXEC-NOT: exec.copy
// EXEC: exec.launch @kernels::@reduce
// EXEC: return
// EXEC-LABEL: func.func @f
// EXEC: exec.call @layer_accumulate
func.func private @layer(%x: tensor<8x4xf32>, %d: tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %0 = nn.einsum "bi,bo->io"(%x, %d) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = nn.reduce sum %d dims [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4xf32>
}

func.func @f(%x: tensor<16x4xf32>, %d: tensor<16x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<4x4xf32>
  %zero1 = nn.constant dense<0.0> : tensor<4xf32>
  %r:2 = nn.microbatches 2 slices(%x, %d : tensor<16x4xf32>, tensor<16x4xf32>) inits(%zero, %zero1 : tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>, tensor<4xf32> {
  ^bb0(%k: tensor<i32>, %a: tensor<8x4xf32>, %b: tensor<8x4xf32>, %acc: tensor<4x4xf32>, %acc1: tensor<4xf32>):
    %g:2 = func.call @layer(%a, %b) : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %0 = nn.add %acc, %g#0 : tensor<4x4xf32>
    %1 = nn.add %acc1, %g#1 : tensor<4xf32>
    %2 = nn.mul %1, %1 : tensor<4xf32>
    nn.yield %0, %2 : tensor<4x4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4x4xf32>, tensor<4xf32>
}
