// RUN: not sheaf-opt %s --dist-to-nn --mlir-print-ir-after-failure 2>&1 | FileCheck %s

// A module that cannot be lowered is left as it was, with what is noted on its ops.
// CHECK: error: 'dist.constraint' op is a wish on whole tensors; run dist-partition first
// CHECK: nn.neg{{.*}}dist.conflicts
dist.mesh @mesh ["x" = 2]
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = nn.neg %x {dist.conflicts = [{by = "size", candidates = [{what = "a"}], choice = 0 : i64}]} : tensor<8xf32>
  %z = dist.constraint %y <[{}]> : tensor<8xf32>
  return %z : tensor<8xf32>
}
