// RUN: sheaf-opt %s --verify-roundtrip | FileCheck %s

// What is to be done.
// CHECK-LABEL: pipe.pipeline @model attributes {bandwidth = 4.000000e+10 : f64, latency = 2.000000e-06 : f64} {
// CHECK-NEXT: pipe.stage forward 1.000000e+00 input_gradient 1.250000e+00 weight_gradient 7.500000e-01 {backward = 1.750000e+00 : f64, resident_bytes = 1000 : i64}
// CHECK-NEXT: pipe.stage forward 2.000000e+00 input_gradient 2.000000e+00 weight_gradient 0.000000e+00
// CHECK-NEXT: pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
// CHECK-NEXT: pipe.value F 0 to [#pipe.use<I 0>, #pipe.use<W 0>] : tensor<16xbf16>
// CHECK-NEXT: pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
pipe.pipeline @model attributes {latency = 2.0e-6 : f64, bandwidth = 4.0e10 : f64} {
  pipe.stage forward 1.0 input_gradient 1.25 weight_gradient 7.5e-1 {backward = 1.75 : f64, resident_bytes = 1000 : i64}
  pipe.stage forward 2.0 input_gradient 2.0 weight_gradient 0.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
  pipe.value F 0 to [#pipe.use<I 0>, #pipe.use<W 0>] : tensor<16xbf16>
  pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
}

// Every action.
// CHECK-LABEL: pipe.schedule @schedule of @model microbatches 2 {
// CHECK-NEXT: pipe.rank stages [0] {
// CHECK-NEXT: pipe.gather_weights 0
// CHECK-NEXT: %[[X:.*]]:2 = pipe.compute F 0 microbatch 0 () : () -> (tensor<4x8xf32>, tensor<16xbf16>)
// CHECK-NEXT: %[[S:.*]] = pipe.send %[[X]]#0 to 1 : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.wait_send %[[S]] : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.free %[[X]]#0 : tensor<4x8xf32>
// CHECK-NEXT: %[[T:.*]] = pipe.receive I 1 microbatch 0 value 0 from 1 : <tensor<4x8xf32>>
// CHECK-NEXT: %[[G:.*]] = pipe.wait_receive %[[T]] : <tensor<4x8xf32>>
// CHECK-NEXT: pipe.compute F 0 microbatch 1 fused () : () -> (tensor<4x8xf32>, tensor<16xbf16>)
// CHECK-NEXT: pipe.compute B 0 microbatch 0 (%[[X]]#1, %[[G]]) : (tensor<16xbf16>, tensor<4x8xf32>) -> ()
// CHECK-NEXT: pipe.free_weights 0
// CHECK-NEXT: pipe.reduce_gradients 0
// CHECK-NEXT: pipe.reduce_norm
// CHECK-NEXT: pipe.update 0
pipe.schedule @schedule of @model microbatches 2 {
  pipe.rank stages [0] {
    pipe.gather_weights 0
    %x:2 = pipe.compute F 0 microbatch 0 () : () -> (tensor<4x8xf32>, tensor<16xbf16>)
    %sent = pipe.send %x#0 to 1 : !pipe.transfer<tensor<4x8xf32>>
    pipe.wait_send %sent : !pipe.transfer<tensor<4x8xf32>>
    pipe.free %x#0 : tensor<4x8xf32>
    %coming = pipe.receive I 1 microbatch 0 value 0 from 1 : !pipe.transfer<tensor<4x8xf32>>
    %g = pipe.wait_receive %coming : !pipe.transfer<tensor<4x8xf32>>
    %y:2 = pipe.compute F 0 microbatch 1 fused () : () -> (tensor<4x8xf32>, tensor<16xbf16>)
    pipe.compute B 0 microbatch 0 (%x#1, %g) : (tensor<16xbf16>, tensor<4x8xf32>) -> ()
    pipe.free_weights 0
    pipe.reduce_gradients 0
    pipe.reduce_norm
    pipe.update 0
  }
}
