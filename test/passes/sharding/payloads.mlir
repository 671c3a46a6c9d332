// RUN: sheaf-opt %s --dist-propagate --dist-partition | FileCheck %s
// RUN: sheaf-opt %s --nn-decompose=ops=quantize --dist-propagate --dist-partition | FileCheck %s --check-prefix=AMAX

dist.mesh @mesh ["dp" = 2]

// A dimension of whole blocks is cut between them, and its factors with it.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT: nn.quantize %arg0 to f8E4M3FN blocks [1, 128] scale exact : (tensor<8x128xf32>) -> (tensor<8x128xf8E4M3FN>, tensor<8x1xf32>)
// CHECK-NEXT: return
func.func @blocks(%x: tensor<8x256xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>})
    -> (tensor<8x256xf8E4M3FN> {dist.sharding = #dist.sharding<[{}, {"dp"}]>}, tensor<8x2xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>}) {
  %q, %f = nn.quantize %x to f8E4M3FN blocks [1, 128] scale exact : (tensor<8x256xf32>) -> (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>)
  return %q, %f : tensor<8x256xf8E4M3FN>, tensor<8x2xf32>
}

// A tensor that is one block is gathered, or its largest magnitude reduced; bytes are what is gathered behind it.
// CHECK-LABEL: func.func @whole
// CHECK: %[[X:.*]] = dist.all_gather %arg0 {{.*}} -> tensor<8x256xf32>
// CHECK: nn.quantize %[[X]] {{.*}} : (tensor<8x256xf32>) -> (tensor<8x256xf8E4M3FN>, tensor<1x1xf32>)
// CHECK-NOT: dist.all_gather
// AMAX-LABEL: func.func @whole
// AMAX: dist.all_reduce max {{.*}} -> tensor<1x1xf32>
// AMAX: dist.all_gather {{.*}} -> tensor<8x256xf8E4M3FN>
// AMAX: return
func.func @whole(%x: tensor<8x256xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>})
    -> (tensor<8x256xf8E4M3FN> {dist.sharding = #dist.sharding<[{}, {}]>}, tensor<1x1xf32> {dist.sharding = #dist.sharding<[{}, {}]>}) {
  %q, %f = nn.quantize %x to f8E4M3FN blocks [0, 0] scale exact : (tensor<8x256xf32>) -> (tensor<8x256xf8E4M3FN>, tensor<1x1xf32>)
  return %q, %f : tensor<8x256xf8E4M3FN>, tensor<1x1xf32>
}

// A product is summed over the blocks of a device; random bits are those of the whole tensor.
// CHECK-LABEL: func.func @product
// CHECK: %[[Y:.*]] = nn.scaled_einsum "mk,nk->mn"(%arg0, %arg1) scales(%arg2, %arg3) blocks [1, 128], [128, 128]
// CHECK-SAME: tensor<8x128xf8E4M3FN>, tensor<128x128xf8E4M3FN>, tensor<8x1xf32>, tensor<1x1xf32>
// CHECK: dist.all_reduce sum %[[Y]]
func.func @product(%a: tensor<8x256xf8E4M3FN> {dist.sharding = #dist.sharding<[{}, {"dp"}]>},
                   %b: tensor<128x256xf8E4M3FN> {dist.sharding = #dist.sharding<[{}, {"dp"}]>},
                   %s: tensor<8x2xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>},
                   %t: tensor<1x2xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>})
    -> (tensor<8x128xf32> {dist.sharding = #dist.sharding<[{}, {}]>}) {
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 128], [128, 128]
    : (tensor<8x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<8x2xf32>, tensor<1x2xf32>) -> tensor<8x128xf32>
  return %y : tensor<8x128xf32>
}

// CHECK-LABEL: func.func @stochastic
// CHECK: %[[B:.*]] = nn.random bits %arg1, %{{.*}} at %{{.*}} of [8, 256] {{.*}} -> tensor<8x128xi32>
// CHECK: nn.cast %arg0 stochastic %[[B]] : tensor<8x128xf32>, tensor<8x128xi32> -> tensor<8x128xbf16>
func.func @stochastic(%x: tensor<8x256xf32> {dist.sharding = #dist.sharding<[{}, {"dp"}]>}, %k: tensor<4xi32>)
    -> (tensor<8x256xbf16> {dist.sharding = #dist.sharding<[{}, {"dp"}]>}) {
  %s = nn.constant dense<3> : tensor<i32>
  %b = nn.random bits %k, %s : (tensor<4xi32>, tensor<i32>) -> tensor<8x256xi32>
  %y = nn.cast %x stochastic %b : tensor<8x256xf32>, tensor<8x256xi32> -> tensor<8x256xbf16>
  return %y : tensor<8x256xbf16>
}
