// RUN: sheaf-opt %s --split-input-file --exec-place | FileCheck %s

// Two buffers that do not live at the same time share their place; every place is a
// multiple of 64 bytes.
// CHECK-LABEL: func.func @share
// CHECK-SAME: exec.live_bytes = 512 : i64
// CHECK-SAME: exec.scratch_bytes = 512 : i64
// CHECK: exec.buffer at [[A:[0-9]+]] : memref<60xf32>
// CHECK: exec.buffer at {{[0-9]+}} : memref<60xf32>
// CHECK: exec.buffer at [[A]] : memref<60xf32>
func.func @share(%x: memref<60xf32>, %y: memref<60xf32>) {
  %a = exec.buffer : memref<60xf32>
  exec.copy reads(%x : memref<60xf32>) writes(%a : memref<60xf32>)
  %b = exec.buffer : memref<60xf32>
  exec.copy reads(%a : memref<60xf32>) writes(%b : memref<60xf32>)
  %c = exec.buffer : memref<60xf32>
  exec.copy reads(%b : memref<60xf32>) writes(%c : memref<60xf32>)
  exec.copy reads(%c : memref<60xf32>) writes(%y : memref<60xf32>)
  return
}

// -----

// A buffer lives as long as a view of it is read.
// CHECK-LABEL: func.func @view
// CHECK-SAME: exec.scratch_bytes = 512 : i64
func.func @view(%x: memref<64xf32>, %y: memref<64xf32>, %z: memref<32xf32>) {
  %a = exec.buffer : memref<64xf32>
  exec.copy reads(%x : memref<64xf32>) writes(%a : memref<64xf32>)
  %v = exec.view %a offset 128 : memref<64xf32> to memref<32xf32>
  %b = exec.buffer : memref<64xf32>
  exec.copy reads(%x : memref<64xf32>) writes(%b : memref<64xf32>)
  exec.copy reads(%b : memref<64xf32>) writes(%y : memref<64xf32>)
  exec.copy reads(%v : memref<32xf32>) writes(%z : memref<32xf32>)
  return
}

// -----

// What is defined outside of a loop and touched inside lives through the loop; what
// is defined inside shares with what is behind it.
// CHECK-LABEL: func.func @loop
// CHECK-SAME: exec.scratch_bytes = 512 : i64
// CHECK: exec.buffer at [[SUM:[0-9]+]]
// CHECK: scf.for
// CHECK: exec.buffer at [[INNER:[0-9]+]]
// CHECK: }
// CHECK: exec.buffer at [[INNER]]
func.func @loop(%x: memref<64xf32>, %y: memref<64xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %sum = exec.buffer : memref<64xf32>
  exec.copy reads(%x : memref<64xf32>) writes(%sum : memref<64xf32>)
  scf.for %i = %zero to %four step %one {
    %a = exec.buffer : memref<64xf32>
    exec.copy reads(%sum : memref<64xf32>) writes(%a : memref<64xf32>)
    exec.copy reads(%a : memref<64xf32>) writes(%sum : memref<64xf32>)
  }
  %b = exec.buffer : memref<64xf32>
  exec.copy reads(%sum : memref<64xf32>) writes(%b : memref<64xf32>)
  exec.copy reads(%b : memref<64xf32>) writes(%y : memref<64xf32>)
  return
}

// -----

// The scratch memory of a callee lies in its caller's, beside what lives across the
// call; after it the memory is free again. The callee stands behind its caller here.
// CHECK-LABEL: func.func @caller
// CHECK-SAME: exec.scratch_bytes = 768 : i64
// CHECK: exec.buffer at
// CHECK: exec.call @callee {{.*}} scratch [[SCRATCH:[0-9]+]]
// CHECK: exec.buffer at [[SCRATCH]]
// CHECK: exec.call @callee {{.*}} scratch
// CHECK-LABEL: func.func private @callee
// CHECK-SAME: exec.scratch_bytes = 256 : i64
func.func @caller(%x: memref<64xf32>, %y: memref<64xf32>) {
  %a = exec.buffer : memref<64xf32>
  exec.call @callee reads(%x : memref<64xf32>) writes(%a : memref<64xf32>)
  %b = exec.buffer : memref<64xf32>
  exec.call @callee reads(%a : memref<64xf32>) writes(%b : memref<64xf32>)
  exec.copy reads(%b : memref<64xf32>) writes(%y : memref<64xf32>)
  return
}
func.func private @callee(%x: memref<64xf32>, %y: memref<64xf32>) {
  %a = exec.buffer : memref<64xf32>
  exec.copy reads(%x : memref<64xf32>) writes(%a : memref<64xf32>)
  exec.copy reads(%a : memref<64xf32>) writes(%y : memref<64xf32>)
  return
}

// -----

// A buffer that nobody touches does not lengthen anything.
// CHECK-LABEL: func.func @untouched
// CHECK: exec.buffer at 0
func.func @untouched() {
  %a = exec.buffer : memref<8xi1>
  return
}

// -----

// What the scratch bytes are is told by the roles of the ops: here, where most is in
// use, an activation and a gradient.
// CHECK-LABEL: func.func @kinds
// CHECK-SAME: exec.scratch_kinds = {activations = 256 : i64, gradients = 256 : i64, temporaries = 0 : i64, unused = 0 : i64}
func.func @kinds(%x: memref<64xf32>, %y: memref<64xf32>) {
  %a = exec.buffer : memref<64xf32>
  exec.copy reads(%x : memref<64xf32>) writes(%a : memref<64xf32>) {nn.role = "forward"}
  %g = exec.buffer : memref<64xf32>
  exec.copy reads(%a : memref<64xf32>) writes(%g : memref<64xf32>) {nn.role = "weight_gradient"}
  exec.copy reads(%g : memref<64xf32>) writes(%y : memref<64xf32>) {nn.role = "optimizer"}
  return
}
