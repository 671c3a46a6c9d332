// RUN: sheaf-opt %s --nn-decompose=ops=softmax,nn.relu | FileCheck %s --check-prefix=SOME
// RUN: sheaf-opt %s --nn-decompose --mlir-print-debuginfo | FileCheck %s --check-prefix=ALL

// Only the ops named; with or without the dialect's name.
// SOME-LABEL: @f
// SOME-NOT: nn.softmax
// SOME-NOT: nn.relu
// SOME: nn.gelu
// Inside a loop, too.
// SOME: nn.microbatches
// SOME-NOT: nn.softmax
// SOME: return

// All; role and location of an op are those of what replaces it.
// ALL-LABEL: @f
// ALL-NOT: nn.{{softmax|relu|gelu}}
// ALL: nn.reduce max %{{.*}} {nn.role = "weight_gradient"} {{.*}} loc(#[[SOFTMAX:loc[0-9]*]])
// ALL: nn.div %{{.*}} {nn.role = "weight_gradient"} {{.*}} loc(#[[SOFTMAX]])
// ALL: nn.erf
// ALL-NOT: nn.role
// ALL-NOT: nn.{{softmax|relu|gelu}}
// ALL: #[[SOFTMAX]] = loc("model.py":7:3)
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x dim 1 {nn.role = "weight_gradient"} : tensor<4x8xf32> loc("model.py":7:3)
  %1 = nn.gelu %0 : tensor<4x8xf32>
  %2 = nn.relu %1 : tensor<4x8xf32>
  %3 = nn.microbatches 2 inits(%2 : tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%k: tensor<i32>, %acc: tensor<4x8xf32>):
    %s = nn.softmax %acc dim 0 : tensor<4x8xf32>
    nn.yield %s : tensor<4x8xf32>
  }
  return %3 : tensor<4x8xf32>
}
