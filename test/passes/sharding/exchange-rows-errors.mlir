// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-exchange-rows

dist.mesh @mesh ["dp" = 2]

func.func @padded(%x: tensor<2x12x8xf32>, %offsets: tensor<2x5xi32>) -> tensor<1x3x6x8xf32> {
  %b = nn.bucket %x, %offsets : (tensor<2x12x8xf32>, tensor<2x5xi32>) -> tensor<2x2x6x8xf32>
  // expected-error @below {{'dist.all_to_all' op moves rows of 'tensor<2x2x6x8xf32>' to 'tensor<1x3x6x8xf32>' among 2 devices with padding, which is not sent by count; expected a batch that dp and the microbatches divide}}
  %t = dist.all_to_all %b split 0 concat 1 axes ["dp"] : (tensor<2x2x6x8xf32>) -> tensor<1x3x6x8xf32>
  return %t : tensor<1x3x6x8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @late(%y: tensor<1x4x6x8xf32>, %offsets: tensor<2x5xi32>) -> (tensor<2x12x8xf32>, tensor<2x2x6x8xf32>) {
  // expected-error @below {{'dist.all_to_all' op moves rows for several readers before their offsets are there, so that they cannot be sent by count}}
  %t = dist.all_to_all %y split 1 concat 0 axes ["dp"] : (tensor<1x4x6x8xf32>) -> tensor<2x2x6x8xf32>
  %n = nn.neg %t : tensor<2x2x6x8xf32>
  %o = nn.add %offsets, %offsets : tensor<2x5xi32>
  %u = nn.unbucket %t, %o : (tensor<2x2x6x8xf32>, tensor<2x5xi32>) -> tensor<2x12x8xf32>
  return %u, %n : tensor<2x12x8xf32>, tensor<2x2x6x8xf32>
}
