// RUN: sheaf-opt %s --exec-verify-races | FileCheck %s
// RUN: sheaf-opt %s --exec-verify-races | sheaf-opt --exec-verify-races | FileCheck %s

// What is under way is left alone: what is sent is read, and the rest is another buffer.
// CHECK-LABEL: func.func @beside
func.func @beside(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.collective permute reads(%a : memref<8xf32>) writes(%b, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] targets [1, 0]
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.wait reads(%h, %a : memref<i64>, memref<8xf32>) writes(%b : memref<8xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%z : memref<8xf32>)
  return
}

// Two transfers send one buffer; a handle serves again when its transfer was waited for.
// CHECK-LABEL: func.func @again
func.func @again(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  %g = exec.buffer : memref<i64>
  exec.collective all_reduce by sum reads(%x : memref<8xf32>) writes(%y, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1]
  exec.collective permute reads(%x : memref<8xf32>) writes(%z, %g : memref<8xf32>, memref<i64>) sizes [2] strides [1] channel 1 targets [1, 0]
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%y : memref<8xf32>)
  exec.start send reads(%y : memref<8xf32>) writes(%h : memref<i64>) peer 1 size 2 stride 1
  exec.wait reads(%h, %y : memref<i64>, memref<8xf32>)
  exec.wait reads(%g, %x : memref<i64>, memref<8xf32>) writes(%z : memref<8xf32>)
  return
}

// One buffer for both sides of a reduction, and other bytes of a buffer beside what comes into it.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: memref<8xf32>, %y: memref<4xf32>) {
  %one = arith.constant 1 : index
  %a = exec.buffer : memref<16xf32>
  %h = exec.buffer : memref<i64>
  %low = exec.view %a : memref<16xf32> to memref<8xf32>
  %high = exec.view %a offset 32 : memref<16xf32> to memref<8xf32>
  %last = exec.part %high[%one] : memref<8xf32> to memref<4xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%low : memref<8xf32>)
  exec.collective all_reduce by sum reads(%low : memref<8xf32>) writes(%low, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1]
  exec.copy reads(%x : memref<8xf32>) writes(%high : memref<8xf32>)
  exec.copy reads(%last : memref<4xf32>) writes(%y : memref<4xf32>)
  exec.wait reads(%h, %low : memref<i64>, memref<8xf32>) writes(%low : memref<8xf32>)
  return
}

// A product reaches no further than its last element, and reads some of what is between.
// CHECK-LABEL: func.func @product
func.func @product(%x: memref<4x4xf32>, %y: memref<8xf32>) {
  %a = exec.buffer : memref<32xf32>
  %b = exec.buffer : memref<16xf32>
  %h = exec.buffer : memref<i64>
  %some = exec.view %a : memref<32xf32> to memref<4xf32>
  %behind = exec.view %a offset 96 : memref<32xf32> to memref<8xf32>
  %end = exec.view %x : memref<4x4xf32> to memref<4xf32>
  exec.copy reads(%end : memref<4xf32>) writes(%some : memref<4xf32>)
  exec.start receive writes(%behind, %h : memref<8xf32>, memref<i64>) peer 1 size 2 stride 1
  exec.matmul reads(%a, %x : memref<32xf32>, memref<4x4xf32>) writes(%b : memref<16xf32>) dims [2, 4, 4] leading [16, 4, 4]
  exec.wait reads(%h : memref<i64>) writes(%behind : memref<8xf32>)
  exec.copy reads(%behind : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// A layer starts and waits within itself; it is handed one buffer to read and to write.
// CHECK-LABEL: func.func @layers
func.func private @layer(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.read_count = 1 : i64} {
  %a = exec.buffer : memref<8xf32>
  %h = exec.buffer : memref<i64>
  exec.collective all_reduce by sum reads(%x : memref<8xf32>) writes(%a, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1]
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}
func.func @layers(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %h = exec.buffer : memref<i64>
  exec.collective permute reads(%x : memref<8xf32>) writes(%z, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] targets [1, 0]
  exec.call @layer reads(%x : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.call @layer reads(%y : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%z : memref<8xf32>)
  return
}

// What an iteration starts it waits for; an accumulator holds something before the loop.
// CHECK-LABEL: func.func @loop
func.func @loop(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.scratch_bytes = 256 : i64} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %sum = exec.buffer at 0 : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%sum : memref<8xf32>)
  scf.for %i = %zero to %two step %one {
    %half = exec.part %sum[%i] : memref<8xf32> to memref<4xf32>
    %to = exec.part %y[%i] : memref<8xf32> to memref<4xf32>
    %a = exec.buffer at 64 : memref<4xf32>
    %h = exec.buffer at 128 : memref<i64>
    exec.collective all_reduce by sum reads(%half : memref<4xf32>) writes(%a, %h : memref<4xf32>, memref<i64>) sizes [2] strides [1]
    exec.copy reads(%half : memref<4xf32>) writes(%to : memref<4xf32>)
    exec.wait reads(%h, %half : memref<i64>, memref<4xf32>) writes(%a : memref<4xf32>)
    exec.copy reads(%a : memref<4xf32>) writes(%to : memref<4xf32>)
  }
  return
}

// A place is used again once the transfer is over, and scratch memory of calls beside it.
// CHECK-LABEL: func.func @placed
func.func private @scratch(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.read_count = 1 : i64, exec.scratch_bytes = 64 : i64} {
  %a = exec.buffer at 0 : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}
func.func @placed(%x: memref<8xf32>, %y: memref<8xf32>) attributes {exec.scratch_bytes = 192 : i64} {
  %a = exec.buffer at 0 : memref<8xf32>
  %h = exec.buffer at 64 : memref<i64>
  %b = exec.buffer at 0 : memref<8xf32>
  exec.collective permute reads(%x : memref<8xf32>) writes(%a, %h : memref<8xf32>, memref<i64>) sizes [2] strides [1] targets [1, 0]
  exec.call @scratch reads(%x : memref<8xf32>) writes(%y : memref<8xf32>) scratch 128
  exec.wait reads(%h, %x : memref<i64>, memref<8xf32>) writes(%a : memref<8xf32>)
  exec.copy reads(%a : memref<8xf32>) writes(%y : memref<8xf32>)
  exec.copy reads(%x : memref<8xf32>) writes(%b : memref<8xf32>)
  exec.copy reads(%b : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}

// What comes from a branch may be any buffer: beside nothing that is all right.
// CHECK-LABEL: func.func @branch
func.func @branch(%x: memref<8xf32>, %y: memref<8xf32>, %c: i1) {
  %a = exec.buffer : memref<8xf32>
  %b = exec.buffer : memref<8xf32>
  %s = arith.select %c, %a, %b : memref<8xf32>
  exec.copy reads(%x : memref<8xf32>) writes(%s : memref<8xf32>)
  exec.copy reads(%s : memref<8xf32>) writes(%y : memref<8xf32>)
  return
}
