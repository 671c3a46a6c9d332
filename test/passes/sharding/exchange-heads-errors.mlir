// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-exchange-heads
// RUN: echo "module {}" | not sheaf-opt --dist-exchange-heads 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: echo 'dist.mesh @mesh ["cp" = 2]' | not sheaf-opt --dist-exchange-heads=mesh=cp=2 2>&1 | FileCheck %s --check-prefix=TWO
// NONE: has no mesh; declare one with dist.mesh, or name one to dist-exchange-heads
// TWO: the module has a mesh already; leave out the option 'mesh' of dist-exchange-heads

dist.mesh @mesh ["cp" = 4, "tp" = 2]
func.func @queries(%q: tensor<1x8x12x4xf32>) -> tensor<1x8x12x4xf32> {
  // expected-error@+1 {{has 12 query heads, 6 on each device of tp, which the 4 devices of cp do not divide, as Ulysses needs; nearest: cp=3 or 6}}
  %y = nn.attention %q, %q, %q : (tensor<1x8x12x4xf32>, tensor<1x8x12x4xf32>, tensor<1x8x12x4xf32>) -> tensor<1x8x12x4xf32>
  return %y : tensor<1x8x12x4xf32>
}

// -----

// Six query heads on each of two devices, of key heads three.
dist.mesh @mesh ["cp" = 2]
func.func @keys(%q: tensor<1x8x6x4xf32>, %k: tensor<1x8x3x4xf32>) -> tensor<1x8x6x4xf32> {
  // expected-error@+1 {{has 3 key heads on each device of tp and 2 devices of cp, expected one to be a multiple of the other, as Ulysses needs; nearest: cp=1 or 3}}
  %y = nn.attention %q, %k, %k : (tensor<1x8x6x4xf32>, tensor<1x8x3x4xf32>, tensor<1x8x3x4xf32>) -> tensor<1x8x6x4xf32>
  return %y : tensor<1x8x6x4xf32>
}

// -----

dist.mesh @mesh ["cp" = 2]
func.func @gradient(%q: tensor<1x4x2x4xf32>, %l: tensor<1x4x2xf32>) {
  // expected-error@+1 {{is of a gradient; dist-exchange-heads expects a model before it is differentiated}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q result %q, %l grad %q
    : (tensor<1x4x2x4xf32>, tensor<1x4x2x4xf32>, tensor<1x4x2x4xf32>, tensor<1x4x2x4xf32>, tensor<1x4x2xf32>, tensor<1x4x2x4xf32>)
    -> (tensor<1x4x2x4xf32>, tensor<1x4x2x4xf32>, tensor<1x4x2x4xf32>)
  return
}
