// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-apply-strategy="mesh=dp=3,tp=4"
// RUN: echo "module {}" | not sheaf-opt --dist-apply-strategy="mesh=dp" 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: echo "module {}" | not sheaf-opt --dist-apply-strategy="mesh=dp=2 zero=4" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: echo "module {}" | not sheaf-opt --dist-apply-strategy="mesh=dp=4 zero=1 zero-group=3" 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: echo "module {}" | not sheaf-opt --dist-apply-strategy="mesh=dp=3,cp=4 zero=1 zero-group=6" 2>&1 | FileCheck %s --check-prefix=INNER
// TEXT: dist-apply-strategy: mesh has 'dp', expected AXIS=N with N at least 1, as in dp=4
// ZERO: dist-apply-strategy: zero is 4, expected 0 to 3
// GROUP: dist-apply-strategy: zero-group is 3, which does not divide the 4 devices of dp; nearest: 2 or 4
// INNER: dist-apply-strategy: zero-group is 6, which is no innermost part of the 12 devices of dp and cp; nearest: 4 or 12

// Two heads on four devices.
func.func @heads(
    // expected-error@+1 {{parameter "w" is to be sharded over tp = 4 along dimension 1 (heads), which its uses do not allow; nearest that they do, as all other parameters: --mesh=dp=3,tp=2}}
    %w: tensor<8x8xf32> {nn.param = #nn.param<"w", axes = [embed, heads], init = constant(0)>}) -> tensor<8x2x4xf32> {
  %0 = nn.reshape %w : tensor<8x8xf32> -> tensor<8x2x4xf32>
  return %0 : tensor<8x2x4xf32>
}

// -----

// expected-error@+1 {{the module has a mesh already; leave out the option 'mesh' of dist-apply-strategy}}
dist.mesh @mesh ["dp" = 2]

// -----

// Three heads on four devices: there is a size on either side.
func.func @heads(
    // expected-error@+1 {{parameter "w" is to be sharded over tp = 4 along dimension 1 (heads), which its uses do not allow; nearest that they do, as all other parameters: --mesh=dp=3,tp=3 or --mesh=dp=3,tp=6}}
    %w: tensor<8x24xf32> {nn.param = #nn.param<"w", axes = [embed, heads], init = constant(0)>},
    %v: tensor<36x8xf32> {nn.param = #nn.param<"v", axes = [mlp, embed], init = constant(0)>}) -> (tensor<8x6x4xf32>, tensor<36x8xf32>) {
  %0 = nn.reshape %w : tensor<8x24xf32> -> tensor<8x6x4xf32>
  %1 = nn.exp %v : tensor<36x8xf32>
  return %0, %1 : tensor<8x6x4xf32>, tensor<36x8xf32>
}
