// RUN: sheaf-opt %s --pipe-verify="memory-limit=192 print-peaks=true" --split-input-file --verify-diagnostics | FileCheck %s
// RUN: not sheaf-opt %s --pipe-verify="memory-limit=191" --split-input-file 2>&1 | FileCheck %s --check-prefix=LIMIT

// A schedule by hand with all that it must hold; the most bytes of each rank.
// LIMIT: error: rank 0 needs 192 bytes at '0F0', expected at most the memory limit of 191
// CHECK-LABEL: pipe.schedule @schedule
pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
  pipe.value F 0 to [#pipe.use<I 0>, #pipe.use<W 0>] : tensor<32xbf16>
  pipe.value I 1 to [#pipe.use<I 0>] : tensor<4xf32>
}
pipe.schedule @schedule of @model microbatches 1 {
  pipe.rank stages [0] {
    // expected-remark @below {{rank 0 holds at most 192 bytes, here}}
    %x:2 = pipe.compute F 0 microbatch 0 () : () -> (tensor<4x8xf32>, tensor<32xbf16>)
    %sent = pipe.send %x#0 to 1 : !pipe.transfer<tensor<4x8xf32>>
    pipe.wait_send %sent : !pipe.transfer<tensor<4x8xf32>>
    pipe.free %x#0 : tensor<4x8xf32>
    %coming = pipe.receive I 1 microbatch 0 value 0 from 1 : !pipe.transfer<tensor<4xf32>>
    %g = pipe.wait_receive %coming : !pipe.transfer<tensor<4xf32>>
    pipe.compute B 0 microbatch 0 (%x#1, %g) : (tensor<32xbf16>, tensor<4xf32>) -> ()
    pipe.free %x#1 : tensor<32xbf16>
    pipe.free %g : tensor<4xf32>
  }
  pipe.rank stages [1] {
    // expected-remark @below {{rank 1 holds at most 128 bytes, here}}
    %coming = pipe.receive F 0 microbatch 0 value 0 from 0 : !pipe.transfer<tensor<4x8xf32>>
    %x = pipe.wait_receive %coming : !pipe.transfer<tensor<4x8xf32>>
    pipe.compute F 1 microbatch 0 (%x) : (tensor<4x8xf32>) -> ()
    pipe.free %x : tensor<4x8xf32>
    %g = pipe.compute B 1 microbatch 0 () : () -> tensor<4xf32>
    %sent = pipe.send %g to 0 : !pipe.transfer<tensor<4xf32>>
    pipe.wait_send %sent : !pipe.transfer<tensor<4xf32>>
    pipe.free %g : tensor<4xf32>
  }
}
