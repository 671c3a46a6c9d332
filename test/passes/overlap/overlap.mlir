// RUN: sheaf-opt %s --exec-overlap --remarks-filter=overlap 2>%t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.txt
// RUN: sheaf-opt %s --exec-overlap=kinds=permute | FileCheck %s --check-prefix=PERMUTE
// RUN: sed '/^.. What comes from a branch/,$d' %s | sheaf-opt --exec-overlap --exec-place --exec-to-llvm | FileCheck %s --check-prefix=LLVM
// RUN: sheaf-opt %s --exec-overlap --exec-overlap | sheaf-opt --emit-bytecode | sheaf-opt | FileCheck %s

// REMARK: overlap.mlir:[[#@LINE+18]]:3: remark: [Passed] started-early | Category:overlap | Function=beside | Ops=2, Remark="permute goes on beside 2 ops

// The start moves up to where what it sends is written, the wait down to where what comes is read.
// CHECK-LABEL: func.func @beside
// CHECK: exec.copy reads(%arg0 : memref<8xf32>) writes(%[[A:.*]] : memref<8xf32>)
// CHECK: %[[H:.*]] = exec.buffer : memref<i64>
// CHECK: exec.collective permute reads(%[[A]] : memref<8xf32>) writes(%[[B:.*]], %[[H]] : memref<8xf32>, memref<i64>) sizes [2] strides [1] targets [1, 0]
// CHECK: exec.copy reads(%arg0 : memref<8xf32>) writes(%arg1 : memref<8xf32>)
// CHECK: exec.copy reads(%[[A]] : memref<8xf32>) writes(%arg1 : memref<8xf32>)
// CHECK: exec.wait reads(%[[H]], %[[A]] : memref<i64>, memref<8xf32>) writes(%[[B]] : memref<8xf32>)
// CHECK: exec.copy reads(%[[B]] : memref<8xf32>) writes(%arg2 : memref<8xf32>)
// The handle lies in a buffer as others do: start (6) and wait (7) find it at offset 128.
// LLVM: @program_beside(dense<[{{.*}}, 774, 0, 0, 64, 128, {{.*}}, 775, 0, 128, 0, 64, {{.*}}]>
func.func @beside(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%x : memref<8xf32>) writes(%y : memref<8xf32>)
  %b = exec.buffer : memref<8xf32>
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%z : memref<8xf32>)
  return
}

// All kinds, unless some are asked for.
// CHECK-LABEL: func.func @kinds
// CHECK: exec.collective all_reduce by sum reads(%arg0 : memref<8xf32>) writes(%{{.*}}, %{{.*}} : memref<8xf32>, memref<i64>)
// PERMUTE-LABEL: func.func @kinds
// PERMUTE: exec.collective all_reduce by sum reads(%arg0 : memref<8xf32>) writes(%{{.*}} : memref<8xf32>) sizes
func.func @kinds(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  exec.collective all_reduce by sum reads(%x : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1]
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// Nothing to go on beside.
// CHECK-LABEL: func.func @alone
// CHECK: exec.collective permute reads(%arg0 : memref<8xf32>) writes(%[[A:.*]] : memref<8xf32>) sizes
// CHECK-NEXT: exec.copy reads(%[[A]]
func.func @alone(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  exec.collective permute reads(%x : memref<8xf32>) writes(%a : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// What is sent may not be written, through whatever view, until it has gone.
// CHECK-LABEL: func.func @overwritten
// CHECK: exec.collective permute {{.*}} memref<i64>
// CHECK-NEXT: exec.copy reads(%{{.*}} : memref<8xf32>) writes(%arg1
// CHECK-NEXT: exec.wait
// CHECK-NEXT: exec.copy reads(%{{.*}} : memref<4xf32>) writes(%{{.*}} : memref<4xf32>)
func.func @overwritten(%x: memref<8xf32>, %y: memref<8xf32>, %w: memref<4xf32>) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  %v = exec.view %a offset 16 : memref<8xf32> to memref<4xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.copy reads(%w : memref<4xf32>) writes(%v : memref<4xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// Transfers start in the order that they had. The second sends what the first brings.
// CHECK-LABEL: func.func @order
// CHECK: exec.collective permute reads(%[[S:.*]] : memref<8xf32>) writes(%[[A:.*]], %[[H:.*]] : memref<8xf32>, memref<i64>)
// CHECK-NEXT: exec.copy reads(%[[S]] : memref<8xf32>) writes(%arg1 : memref<8xf32>)
// CHECK: exec.wait reads(%[[H]], %[[S]] : memref<i64>, memref<8xf32>) writes(%[[A]] : memref<8xf32>)
// CHECK: exec.collective permute reads(%[[A]] : memref<8xf32>) writes(%[[B:.*]], %[[G:.*]] : memref<8xf32>, memref<i64>)
// CHECK-NEXT: exec.copy reads(%[[A]] : memref<8xf32>) writes(%arg1 : memref<8xf32>)
// CHECK-NEXT: exec.wait reads(%[[G]], %[[A]] : memref<i64>, memref<8xf32>) writes(%[[B]] : memref<8xf32>)
func.func @order(%x: memref<8xf32>, %y: memref<8xf32>) {
  %s = exec.buffer : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%s : memref<8xf32>)
  %a = exec.buffer : memref<8xf32>
  exec.collective permute reads(%s : memref<8xf32>) writes(%a : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%s : memref<8xf32>) writes(%y : memref<8xf32>)
  %b = exec.buffer : memref<8xf32>
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// Two arguments may be one buffer: what comes into one waits for readers of the other.
// CHECK-LABEL: func.func @arguments
// CHECK: exec.copy reads(%arg0 : memref<8xf32>)
// CHECK-NEXT: exec.copy reads(%arg0 : memref<8xf32>)
// CHECK-NEXT: exec.collective permute reads(%{{.*}} : memref<8xf32>) writes(%arg1 : memref<8xf32>) sizes
// CHECK-NEXT: exec.copy reads(%arg0 : memref<8xf32>)
func.func @arguments(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%x : memref<8xf32>) writes(%b : memref<8xf32>)
  exec.collective permute reads(%b : memref<8xf32>) writes(%y : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  return
}

// A loop is waited for where something in it reads what comes.
// CHECK-LABEL: func.func @loop
// CHECK: exec.collective permute {{.*}} memref<i64>
// CHECK-NEXT: exec.copy
// CHECK-NEXT: exec.wait
// CHECK-NEXT: scf.for
func.func @loop(%x: memref<8xf32>, %y: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %a = exec.buffer : memref<8xf32>
  %s = exec.buffer : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%s : memref<8xf32>)
  exec.collective permute reads(%s : memref<8xf32>) writes(%a : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%s : memref<8xf32>) writes(%y : memref<8xf32>)
  scf.for %i = %zero to %two step %one {
    exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  }
  return
}

// What comes from a branch may be any buffer.
// CHECK-LABEL: func.func @branch
// CHECK: exec.collective permute reads(%{{.*}} : memref<8xf32>) writes(%{{.*}} : memref<8xf32>) sizes
// CHECK-NEXT: exec.copy
func.func @branch(%x: memref<8xf32>, %y: memref<8xf32>, %c: i1) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  %s = arith.select %c, %a, %b : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%s : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// Placed buffers share bytes.
// CHECK-LABEL: func.func @placed
// CHECK: exec.collective permute reads(%{{.*}} : memref<8xf32>) writes(%{{.*}} : memref<8xf32>) sizes
func.func @placed(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.scratch_bytes = 64 : i64} {
  %a = exec.buffer at 0 : memref<8xf32>
  %b = exec.buffer at 32 : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}
