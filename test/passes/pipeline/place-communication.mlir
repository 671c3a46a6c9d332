// RUN: sheaf-opt %s --pipe-schedule="ranks=2 microbatches=1" --pipe-place-communication --pipe-verify | FileCheck %s
// RUN: sheaf-opt %s --pipe-schedule="ranks=2 microbatches=4 pipeline=zb-h1" --pipe-place-communication="weights=each-run epilogue=true" --pipe-verify | FileCheck %s --check-prefix=ALL
// RUN: sheaf-opt %s --pipe-schedule="ranks=1 microbatches=2 pipeline=dualpipev" --pipe-place-communication --pipe-verify | FileCheck %s --check-prefix=PAIR

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
  pipe.value F 0 to [#pipe.use<I 0>, #pipe.use<W 0>] : tensor<16xbf16>
  pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
}

// CHECK-LABEL: pipe.schedule @model_schedule of @model microbatches 1
// CHECK-NEXT: pipe.rank stages [0] {
// CHECK-NEXT: %[[X:.*]]:2 = pipe.compute F 0 microbatch 0 () : () -> (tensor<4x8xf32>, tensor<16xbf16>)
// CHECK-NEXT: %[[S:.*]] = pipe.send %[[X]]#0 to 1 : <tensor<4x8xf32>>
// CHECK-NEXT: %[[T:.*]] = pipe.receive I 1 microbatch 0 value 0 from 1 : <tensor<4x8xf32>>
// CHECK-NEXT: %[[G:.*]] = pipe.wait_receive %[[T]] : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.wait_send %[[S]] : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.free %[[X]]#0 : tensor<4x8xf32>
// CHECK-NEXT: pipe.compute B 0 microbatch 0 (%[[X]]#1, %[[G]]) : (tensor<16xbf16>, tensor<4x8xf32>) -> ()
// CHECK-NEXT: pipe.free %[[X]]#1 : tensor<16xbf16>
// CHECK-NEXT: pipe.free %[[G]] : tensor<4x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: pipe.rank stages [1] {
// CHECK-NEXT: %[[T:.*]] = pipe.receive F 0 microbatch 0 value 0 from 0 : <tensor<4x8xf32>>
// CHECK-NEXT: %[[X:.*]] = pipe.wait_receive %[[T]] : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.compute F 1 microbatch 0 (%[[X]]) : (tensor<4x8xf32>) -> ()
// CHECK-NEXT: pipe.free %[[X]] : tensor<4x8xf32>
// CHECK-NEXT: %[[G:.*]] = pipe.compute B 1 microbatch 0 () : () -> tensor<4x8xf32>
// CHECK-NEXT: %[[S:.*]] = pipe.send %[[G]] to 0 : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.wait_send %[[S]] : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.free %[[G]] : tensor<4x8xf32>

// Weights, and the end of a step.
// ALL: pipe.rank stages [1] {
// ALL: pipe.gather_weights 1
// ALL-NEXT: pipe.compute F 1 microbatch 0
// ALL: pipe.compute W 1 microbatch 3
// ALL-NEXT: pipe.free_weights 1
// ALL: pipe.reduce_gradients 1
// ALL-NEXT: pipe.reduce_norm
// ALL-NEXT: pipe.update 1

// PAIR: pipe.rank stages [0, 1] {
// PAIR: pipe.compute F 1 microbatch 1 fused ({{.*}}) : (tensor<4x8xf32>) -> ()
// PAIR-NEXT: pipe.compute B 0 microbatch 0 (
