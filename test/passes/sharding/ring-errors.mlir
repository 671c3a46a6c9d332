// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-partition=context=ring
// RUN: echo 'dist.mesh @mesh ["cp" = 2]' | not sheaf-opt --dist-partition=context=rings 2>&1 | FileCheck %s
// CHECK: dist-partition: option 'context' is 'rings', expected gather or ring

dist.mesh @mesh ["cp" = 2]
func.func @bias(%q: tensor<1x4x1x4xf32> {dist.sharding = #dist.sharding<[{}, {"cp"}, {}, {}]>}, %b: tensor<1x1x4x4xf32>)
    -> tensor<1x4x1x4xf32> {
  // expected-error@+1 {{has a bias, of which each query has a value for each key, so keys cannot go round; expected no bias, or --context=gather}}
  %y = nn.attention %q, %q, %q bias %b {dist.shardings = [#dist.sharding<[{}, {"cp"}, {}, {}]>]}
    : (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x4x1x4xf32>
  return %y : tensor<1x4x1x4xf32>
}

// -----

// As many chunks as the devices have, two each.
dist.mesh @mesh ["cp" = 2]
func.func private @chunks(%q: tensor<1x8x1x4xf32> {dist.sharding = #dist.sharding<[{}, {"cp"} zigzag 8, {}, {}]>}) -> tensor<1x8x1x4xf32> {
  // expected-error@+1 {{has queries in 8 chunks on 2 devices, expected two for each: zigzag 4}}
  %y = nn.attention %q, %q, %q causal {dist.shardings = [#dist.sharding<[{}, {"cp"} zigzag 8, {}, {}]>]}
    : (tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32>
  return %y : tensor<1x8x1x4xf32>
}

// -----

// Queries that are a part of the keys' sequence have no keys that go round.
dist.mesh @mesh ["cp" = 2]
func.func private @parts(%q: tensor<1x4x1x4xf32> {dist.sharding = #dist.sharding<[{}, {"cp"} zigzag 4, {}, {}]>}, %k: tensor<1x8x1x4xf32>) -> tensor<1x4x1x4xf32> {
  // expected-error@+1 {{has queries in zig-zag order, which stand at two places of the sequence; expected keys that go round (dist-partition{context=ring}), and for that as many keys as queries and no bias}}
  %y = nn.attention %q, %k, %k causal {dist.shardings = [#dist.sharding<[{}, {"cp"} zigzag 4, {}, {}]>]}
    : (tensor<1x4x1x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>) -> tensor<1x4x1x4xf32>
  return %y : tensor<1x4x1x4xf32>
}
