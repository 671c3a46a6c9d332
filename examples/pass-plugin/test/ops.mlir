// The op prints, parses, shards, is differentiated and lowered; sheaf-opt and Debian's own
// mlir-opt load the same file.
// RUN: sheaf-opt %s --load-dialect-plugin=%plugin --verify-roundtrip | FileCheck %s
// RUN: mlir-opt %s --load-dialect-plugin=%plugin --verify-roundtrip | FileCheck %s
// RUN: sheaf-opt %s --load-dialect-plugin=%plugin --nn-print-rules -o %t 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: sheaf-opt %s --load-dialect-plugin=%plugin --nn-differentiate=functions=f | FileCheck %s --check-prefix=GRADIENT
// RUN: sheaf-opt %s --load-dialect-plugin=%plugin --nn-decompose | FileCheck %s --check-prefix=SIMPLE

// RULE: remark: rule: [d0][d1] -> [d0][d1]
// CHECK-LABEL: func.func @f
// CHECK: cube.cube %{{.*}} : tensor<5x7xf64>
// GRADIENT-LABEL: func.func @f_gradient
// GRADIENT: %[[SQUARE:.*]] = nn.mul
// GRADIENT: nn.mul %[[SQUARE]]
// SIMPLE-LABEL: func.func @f
// SIMPLE-NOT: cube.cube
// SIMPLE-COUNT-2: nn.mul
func.func @f(%x: tensor<5x7xf64>) -> tensor<5x7xf64> {
  %y = cube.cube %x : tensor<5x7xf64>
  return %y : tensor<5x7xf64>
}
