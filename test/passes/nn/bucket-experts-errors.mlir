// RUN: sheaf-opt %s --verify-diagnostics --nn-bucket-experts=parts=3
// RUN: not sheaf-opt %s --nn-bucket-experts=parts=0 2>&1 | FileCheck %s

// CHECK: error: nn-bucket-experts: option 'parts' is 0, expected at least 1
func.func @experts(%x: tensor<4x6x8xf32>, %e: tensor<4x6x2xi32>) -> tensor<4x12x8xf32> {
  %o, %p, %q = nn.expert_sort %e of 4 : (tensor<4x6x2xi32>) -> (tensor<4x12xi32>, tensor<4x6x2xi32>, tensor<4x5xi32>)
  // expected-error @below {{'nn.dispatch' op goes to 4 experts, which 3 parts do not divide; the nearest that fit: 2 or 4}}
  %r = nn.dispatch %x, %o, %p : (tensor<4x6x8xf32>, tensor<4x12xi32>, tensor<4x6x2xi32>) -> tensor<4x12x8xf32>
  return %r : tensor<4x12x8xf32>
}
