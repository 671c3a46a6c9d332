// RUN: sheaf-opt %s --exec-overlap | FileCheck %s

// Outside of functions nothing runs, and nothing is moved.
// CHECK: exec.collective permute reads(%{{.*}} : memref<8xf32>) writes(%{{.*}} : memref<8xf32>) sizes
%a = exec.buffer : memref<8xf32>
%b = exec.buffer : memref<8xf32>
exec.collective permute reads(%a : memref<8xf32>) writes(%b : memref<8xf32>) sizes [2] strides [1] targets [1, 0]
