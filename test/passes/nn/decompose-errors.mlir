// RUN: not sheaf-opt %s --nn-decompose=ops=softmax,soft_max 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// Nothing of nn in the module: its ops are known all the same.
// RUN: echo "module {}" | sheaf-opt --nn-decompose=ops=softmax
// RUN: echo "module {}" | not sheaf-opt --nn-decompose=ops=soft_max 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not sheaf-opt %s --nn-decompose=ops=add 2>&1 | FileCheck %s --check-prefix=SIMPLE

// UNKNOWN: error: nn-decompose: option 'ops' names 'soft_max', which is no known op; expected one of nn.adamw, nn.attention,
// SIMPLE: error: nn-decompose: option 'ops' names 'add', which is an op without a decomposition; expected one of nn.adamw, nn.attention,
// UNKNOWN-NOT: func.func
// SIMPLE-NOT: func.func
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.softmax %x dim 0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
