// RUN: bash -c "ulimit -t 10; exec sheaf-opt %s --dist-check-rules" 2>&1 | FileCheck %s
// RUN: sheaf-opt %s --dist-check-rules=most-loops=16383 2>&1 | FileCheck %s --check-prefix=FEWER

// Time follows the elements of a result: parts that devices hold are read in place, not
// copied for each element, which takes twice the seconds of processor that there are.
// CHECK: remark: rules of 1 ops hold in {{[1-9][0-9]}} shardings
// FEWER: remark: nn.neg is not checked: it loops over more than 16383 elements; write it smaller
func.func @large(%x: tensor<4x4x4x4x4x4x4xf32>) -> tensor<4x4x4x4x4x4x4xf32> {
  %y = nn.neg %x : tensor<4x4x4x4x4x4x4xf32>
  return %y : tensor<4x4x4x4x4x4x4xf32>
}
