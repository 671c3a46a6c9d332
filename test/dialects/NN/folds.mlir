// RUN: sheaf-opt %s --split-input-file --canonicalize | FileCheck %s

// Identities of arithmetic, on either side.
// CHECK-LABEL: @identities
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>
func.func @identities(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<4xf32>
  %0 = nn.add %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.add %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.sub %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.mul %one, %x : tensor<4xf32>
  %4 = nn.div %x, %one : tensor<4xf32>
  %5 = nn.max %x, %x : tensor<4xf32>
  %6 = nn.pow %x, %one : tensor<4xf32>
  %n = nn.neg %x : tensor<4xf32>
  %7 = nn.neg %n : tensor<4xf32>
  // CHECK: %[[S:.*]] = nn.sub %[[Y]], %[[X]] : tensor<4xf32>
  %8 = nn.add %y, %n : tensor<4xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[S]]
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What a NaN or an infinity would make different stays.
// CHECK-LABEL: @not_for_nan
func.func @not_for_nan(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>) {
  %zero = nn.constant dense<0.0> : tensor<4xf32>
  // CHECK: nn.mul
  %0 = nn.mul %x, %zero : tensor<4xf32>
  // CHECK: nn.sub
  %1 = nn.sub %x, %x : tensor<4xf32>
  // CHECK: nn.div
  %2 = nn.div %x, %x : tensor<4xf32>
  // CHECK: nn.compare eq
  %3 = nn.compare eq %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>
}

// -----

// Integers have neither.
// CHECK-LABEL: @integers
func.func @integers(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %zero = nn.constant dense<0> : tensor<i32>
  %0 = nn.mul %x, %zero : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %1 = nn.sub %x, %x : tensor<4xi32>
  // CHECK: %[[Z:.*]] = nn.constant dense<0> : tensor<4xi32>
  // CHECK-NEXT: return %[[Z]], %[[Z]]
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}

// -----

// An identity that also broadcasts keeps the type of its result.
// CHECK-LABEL: @broadcasting
func.func @broadcasting(%x: tensor<1xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<4xf32>
  %true = nn.constant dense<true> : tensor<4xi1>
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = nn.add %x, %zero : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.select %{{.*}} : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.select %true, %s, %zero : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.sub %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %2 = nn.sub %zero, %x : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// a - -b is a + b, 0 - b is -b; the role is kept.
// CHECK-LABEL: @signs
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
func.func @signs(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %n = nn.neg %y : tensor<4xf32>
  // CHECK: nn.add %[[X]], %[[Y]] {nn.role = "weight_gradient"} : tensor<4xf32>
  %0 = nn.sub %x, %n {nn.role = "weight_gradient"} : tensor<4xf32>
  // CHECK: nn.neg %[[X]] : tensor<4xf32>
  %1 = nn.sub %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Constants, equal elements or few, in every element type.
// CHECK-LABEL: @constants
func.func @constants() -> (tensor<4xf32>, tensor<2x2xf64>, tensor<2xbf16>, tensor<2xi32>, tensor<2xi1>, tensor<i1>, tensor<2xf16>, tensor<10000000000xf32>) {
  %a = nn.constant dense<2.0> : tensor<f32>
  %b = nn.constant dense<3.0> : tensor<4xf32>
  // CHECK-DAG: nn.constant dense<6.000000e+00> : tensor<4xf32>
  %0 = nn.mul %a, %b : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %c = nn.constant dense<[1.0, 2.0]> : tensor<2xf64>
  %d = nn.constant dense<[[10.0], [20.0]]> : tensor<2x1xf64>
  // CHECK-DAG: dense<{{\[\[}}1.100000e+01, 1.200000e+01], [2.100000e+01, 2.200000e+01]]> : tensor<2x2xf64>
  %1 = nn.add %d, %c : (tensor<2x1xf64>, tensor<2xf64>) -> tensor<2x2xf64>
  %e = nn.constant dense<[1.0, 0.00390625]> : tensor<2xbf16>
  // Rounded to bf16: 1 + 2^-8 is a tie, to even.
  // CHECK-DAG: dense<[1.000000e+00, 1.562500e-02]> : tensor<2xbf16>
  %f = nn.constant dense<[0.00390625, 0.01171875]> : tensor<2xbf16>
  %2 = nn.add %e, %f : tensor<2xbf16>
  %g = nn.constant dense<[-7, 5]> : tensor<2xi32>
  %h = nn.constant dense<[2, 0]> : tensor<2xi32>
  // CHECK-DAG: dense<[-3, 0]> : tensor<2xi32>
  %3 = nn.div %g, %h : tensor<2xi32>
  // CHECK-DAG: dense<[true, false]> : tensor<2xi1>
  %4 = nn.compare lt %g, %h : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  %nan = nn.constant dense<0x7FC00000> : tensor<f32>
  // CHECK-DAG: dense<true> : tensor<i1>
  %5 = nn.compare ne %nan, %nan : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %i = nn.constant dense<[9.0, 2.0]> : tensor<2xf16>
  // CHECK-DAG: dense<[3.000000e+00, 1.414060e+00]> : tensor<2xf16>
  %6 = nn.sqrt %i : tensor<2xf16>
  %j = nn.constant dense<1.5> : tensor<10000000000xf32>
  // CHECK-DAG: dense<3.000000e+00> : tensor<10000000000xf32>
  %7 = nn.add %j, %j : tensor<10000000000xf32>
  // CHECK-NOT: nn.{{add|mul|div|sqrt|compare}}
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<4xf32>, tensor<2x2xf64>, tensor<2xbf16>, tensor<2xi32>, tensor<2xi1>, tensor<i1>, tensor<2xf16>, tensor<10000000000xf32>
}

// -----

// NaN and infinity in constants.
// CHECK-LABEL: @special_constants
func.func @special_constants() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %nan = nn.constant dense<0x7FC00000> : tensor<f32>
  %inf = nn.constant dense<0x7F800000> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.max %nan, %two : tensor<f32>
  %1 = nn.relu %nan : tensor<f32>
  %2 = nn.neg %inf : tensor<f32>
  %3 = nn.min %inf, %two : tensor<f32>
  // CHECK-DAG: %[[NAN:.*]] = nn.constant dense<0x7FC00000>
  // CHECK-DAG: %[[LOW:.*]] = nn.constant dense<0xFF800000>
  // CHECK-DAG: %[[TWO:.*]] = nn.constant dense<2.000000e+00>
  // CHECK: return %[[NAN]], %[[NAN]], %[[LOW]], %[[TWO]]
  return %0, %1, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// What the host's library would round, and large constants of unequal elements, stay.
// CHECK-LABEL: @not_evaluated
func.func @not_evaluated() -> tensor<2xf32> {
  %a = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: nn.exp
  %0 = nn.exp %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Logic.
// CHECK-LABEL: @logic
// CHECK-SAME: (%[[M:.*]]: tensor<4xi1>)
func.func @logic(%m: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %true = nn.constant dense<true> : tensor<i1>
  %false = nn.constant dense<false> : tensor<4xi1>
  %0 = nn.and %m, %true : (tensor<4xi1>, tensor<i1>) -> tensor<4xi1>
  %1 = nn.and %m, %false : tensor<4xi1>
  %2 = nn.or %m, %true : (tensor<4xi1>, tensor<i1>) -> tensor<4xi1>
  %n = nn.not %m : tensor<4xi1>
  %3 = nn.not %n : tensor<4xi1>
  %4 = nn.not %false : tensor<4xi1>
  // CHECK-DAG: %[[F:.*]] = nn.constant dense<false> : tensor<4xi1>
  // CHECK-DAG: %[[T:.*]] = nn.constant dense<true> : tensor<4xi1>
  // CHECK: return %[[M]], %[[F]], %[[T]], %[[M]], %[[T]]
  return %0, %1, %2, %3, %4 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// -----

// A choice that is known.
// CHECK-LABEL: @select
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>, %[[M:.*]]: tensor<4xi1>)
func.func @select(%x: tensor<4xf32>, %y: tensor<4xf32>, %m: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %false = nn.constant dense<false> : tensor<i1>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %0 = nn.select %false, %x, %y : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.select %m, %x, %x : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.select %false, %x, %zero : (tensor<i1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: %[[Z:.*]] = nn.constant dense<0.000000e+00> : tensor<4xf32>
  // CHECK-NEXT: return %[[Y]], %[[X]], %[[Z]]
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A cast of a cast, where the first loses nothing; never otherwise.
// CHECK-LABEL: @casts
// CHECK-SAME: (%[[X:.*]]: tensor<4xbf16>, %[[Y:.*]]: tensor<4xf32>, %[[M:.*]]: tensor<4xi1>)
func.func @casts(%x: tensor<4xbf16>, %y: tensor<4xf32>, %m: tensor<4xi1>) -> (tensor<4xbf16>, tensor<4xf64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.cast %x : tensor<4xbf16> -> tensor<4xf32>
  %0 = nn.cast %a : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: %[[A:.*]] = nn.cast %[[X]] : tensor<4xbf16> -> tensor<4xf64>
  %1 = nn.cast %a : tensor<4xf32> -> tensor<4xf64>
  // CHECK: %[[N:.*]] = nn.cast %[[Y]] : tensor<4xf32> -> tensor<4xbf16>
  %b = nn.cast %y : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: %[[B:.*]] = nn.cast %[[N]] : tensor<4xbf16> -> tensor<4xf32>
  %2 = nn.cast %b : tensor<4xbf16> -> tensor<4xf32>
  %3 = nn.cast %y : tensor<4xf32> -> tensor<4xf32>
  %c = nn.cast %m : tensor<4xi1> -> tensor<4xi32>
  // CHECK: %[[C:.*]] = nn.cast %[[M]] : tensor<4xi1> -> tensor<4xf32>
  %4 = nn.cast %c : tensor<4xi32> -> tensor<4xf32>
  // CHECK: return %[[X]], %[[A]], %[[B]], %[[Y]], %[[C]]
  return %0, %1, %2, %3, %4 : tensor<4xbf16>, tensor<4xf64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Casts of constants; not of what does not fit. 8-bit floats take what is too large as their largest number.
// CHECK-LABEL: @constant_casts
func.func @constant_casts() -> (tensor<3xi32>, tensor<2xf32>, tensor<2xi1>, tensor<2xf32>, tensor<i32>, tensor<f8E5M2>) {
  %a = nn.constant dense<[-2.7, 2.7, 0.0]> : tensor<3xf32>
  // CHECK-DAG: dense<[-2, 2, 0]> : tensor<3xi32>
  %0 = nn.cast %a : tensor<3xf32> -> tensor<3xi32>
  %b = nn.constant dense<[-3, 16777217]> : tensor<2xi32>
  // CHECK-DAG: dense<[-3.000000e+00, 0x4B800000]> : tensor<2xf32>
  %1 = nn.cast %b : tensor<2xi32> -> tensor<2xf32>
  %c = nn.constant dense<[0.0, -0.5]> : tensor<2xf32>
  // CHECK-DAG: dense<[false, true]> : tensor<2xi1>
  %2 = nn.cast %c : tensor<2xf32> -> tensor<2xi1>
  // CHECK-DAG: dense<[0.000000e+00, 1.000000e+00]> : tensor<2xf32>
  %3 = nn.cast %2 : tensor<2xi1> -> tensor<2xf32>
  %d = nn.constant dense<1.0e10> : tensor<f32>
  // CHECK-DAG: nn.cast %{{.*}} : tensor<f32> -> tensor<i32>
  %4 = nn.cast %d : tensor<f32> -> tensor<i32>
  // CHECK-DAG: dense<5.734400e+04> : tensor<f8E5M2>
  %5 = nn.cast %d : tensor<f32> -> tensor<f8E5M2>
  return %0, %1, %2, %3, %4, %5 : tensor<3xi32>, tensor<2xf32>, tensor<2xi1>, tensor<2xf32>, tensor<i32>, tensor<f8E5M2>
}

// -----

// Reshapes, transpositions, broadcasts of each other, and of nothing.
// CHECK-LABEL: @shapes
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>, %[[Y:.*]]: tensor<2x3x4xf32>, %[[R:.*]]: tensor<3xf32>)
func.func @shapes(%x: tensor<4x6xf32>, %y: tensor<2x3x4xf32>, %r: tensor<3xf32>) -> (tensor<24xf32>, tensor<4x6xf32>, tensor<3x4x2xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>) {
  %a = nn.reshape %x : tensor<4x6xf32> -> tensor<2x12xf32>
  // CHECK: %[[A:.*]] = nn.reshape %[[X]] : tensor<4x6xf32> -> tensor<24xf32>
  %0 = nn.reshape %a : tensor<2x12xf32> -> tensor<24xf32>
  %1 = nn.reshape %a : tensor<2x12xf32> -> tensor<4x6xf32>
  %b = nn.transpose %y [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  // CHECK: %[[B:.*]] = nn.transpose %[[Y]] [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %2 = nn.transpose %b [2, 1, 0] : (tensor<2x4x3xf32>) -> tensor<3x4x2xf32>
  %3 = nn.transpose %b [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  %c = nn.broadcast %r dims [0] : tensor<3xf32> -> tensor<3x4xf32>
  // CHECK: %[[C:.*]] = nn.broadcast %[[R]] dims [1] : tensor<3xf32> -> tensor<2x3x4xf32>
  %4 = nn.broadcast %c dims [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %5 = nn.broadcast %r dims [0] : tensor<3xf32> -> tensor<3xf32>
  // CHECK: return %[[A]], %[[X]], %[[B]], %[[Y]], %[[C]], %[[R]]
  return %0, %1, %2, %3, %4, %5 : tensor<24xf32>, tensor<4x6xf32>, tensor<3x4x2xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>
}

// -----

// Slices, borders, concatenations.
// CHECK-LABEL: @parts
// CHECK-SAME: (%[[X:.*]]: tensor<4x16xf32>, %[[Y:.*]]: tensor<4x2xf32>)
func.func @parts(%x: tensor<4x16xf32>, %y: tensor<4x2xf32>) -> (tensor<4x16xf32>, tensor<2x3xf32>, tensor<4x16xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x1xf32>) {
  %0 = nn.slice %x offsets [0, 0] sizes [4, 16] : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %a = nn.slice %x offsets [1, 2] sizes [3, 6] strides [1, 2] : (tensor<4x16xf32>) -> tensor<3x6xf32>
  // CHECK: %[[A:.*]] = nn.slice %[[X]] offsets [2, 4] sizes [2, 3] strides [1, 4] : (tensor<4x16xf32>) -> tensor<2x3xf32>
  %1 = nn.slice %a offsets [1, 1] sizes [2, 3] strides [1, 2] : (tensor<3x6xf32>) -> tensor<2x3xf32>
  %2 = nn.pad %x low [0, 0] high [0, 0] : (tensor<4x16xf32>) -> tensor<4x16xf32>
  // CHECK: %[[B:.*]] = nn.concatenate
  %b = nn.concatenate %x, %y dim 1 : (tensor<4x16xf32>, tensor<4x2xf32>) -> tensor<4x18xf32>
  %3 = nn.slice %b offsets [0, 16] sizes [4, 2] : (tensor<4x18xf32>) -> tensor<4x2xf32>
  %4 = nn.concatenate %y dim 0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  // CHECK: %[[C:.*]] = nn.slice %[[B]] offsets [0, 16] sizes [4, 1]
  %5 = nn.slice %b offsets [0, 16] sizes [4, 1] : (tensor<4x18xf32>) -> tensor<4x1xf32>
  // CHECK: return %[[X]], %[[A]], %[[X]], %[[Y]], %[[Y]], %[[C]]
  return %0, %1, %2, %3, %4, %5 : tensor<4x16xf32>, tensor<2x3xf32>, tensor<4x16xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x1xf32>
}

// -----

// A slice that has a written-out stride of 1 loses it when it is merged.
// CHECK-LABEL: @slice_strides
func.func @slice_strides(%x: tensor<16xf32>) -> tensor<4xf32> {
  %a = nn.slice %x offsets [2] sizes [8] : (tensor<16xf32>) -> tensor<8xf32>
  // CHECK: nn.slice %{{.*}} offsets [5] sizes [4] : (tensor<16xf32>) -> tensor<4xf32>
  %0 = nn.slice %a offsets [3] sizes [4] strides [1] : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Reductions over nothing, and over dimensions of size 1.
// CHECK-LABEL: @reductions
// CHECK-SAME: (%[[X:.*]]: tensor<4x1x8xf32>)
func.func @reductions(%x: tensor<4x1x8xf32>) -> (tensor<4x1x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x1x1xf32>, tensor<4x8xf32>, tensor<4x1x8xf32>) {
  %0 = nn.reduce mean %x dims [] : (tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  // CHECK-DAG: %[[A:.*]] = nn.reshape %[[X]] : tensor<4x1x8xf32> -> tensor<4x8xf32>
  %1 = nn.reduce max %x dims [1] : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  // CHECK-DAG: %[[B:.*]] = nn.reduce sum %[[X]] dims [2] : (tensor<4x1x8xf32>) -> tensor<4x1xf32>
  // CHECK-DAG: %[[C:.*]] = nn.reshape %[[B]] : tensor<4x1xf32> -> tensor<4xf32>
  %2 = nn.reduce sum %x dims [1, 2] : (tensor<4x1x8xf32>) -> tensor<4xf32>
  // CHECK-DAG: %[[D:.*]] = nn.reduce sum %[[X]] dims [2] keep : (tensor<4x1x8xf32>) -> tensor<4x1x1xf32>
  %3 = nn.reduce sum %x dims [1, 2] keep : (tensor<4x1x8xf32>) -> tensor<4x1x1xf32>
  // CHECK-DAG: %[[S:.*]] = nn.mul %[[X]], %[[X]] : tensor<4x1x8xf32>
  // CHECK-DAG: %[[E:.*]] = nn.reshape %[[S]] : tensor<4x1x8xf32> -> tensor<4x8xf32>
  %4 = nn.reduce sum_of_squares %x dims [1] : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  %5 = nn.reduce min %x dims [1] keep : (tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  // CHECK: return %[[X]], %[[A]], %[[C]], %[[D]], %[[E]], %[[X]]
  return %0, %1, %2, %3, %4, %5 : tensor<4x1x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x1x1xf32>, tensor<4x8xf32>, tensor<4x1x8xf32>
}

// -----

// Dropout that drops nothing.
// CHECK-LABEL: @dropout
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
func.func @dropout(%x: tensor<4xf32>, %k: tensor<4xi32>, %s: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.dropout %x, %k, %s rate 0.0 : (tensor<4xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4xf32>
  // CHECK: %[[Y:.*]] = nn.dropout
  %1 = nn.dropout %x, %k, %s rate 1.0e-9 : (tensor<4xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4xf32>
  // CHECK: return %[[X]], %[[Y]]
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// An einsum of one operand is a transposition, a sum, or both.
// CHECK-LABEL: @einsum_of_one
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>, %[[Y:.*]]: tensor<2x3xbf16>)
func.func @einsum_of_one(%x: tensor<2x3x4xf32>, %y: tensor<2x3xbf16>) -> (tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x2xf32>, tensor<2x3x4xf32>, tensor<2xf32>) {
  // CHECK-DAG: %[[A:.*]] = nn.transpose %[[X]] [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %0 = nn.einsum "abc->cab"(%x) : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  // CHECK-DAG: %[[B:.*]] = nn.reduce sum %[[X]] dims [0, 2] : (tensor<2x3x4xf32>) -> tensor<3xf32>
  %1 = nn.einsum "abc->b"(%x) : (tensor<2x3x4xf32>) -> tensor<3xf32>
  // CHECK-DAG: %[[C:.*]] = nn.reduce sum %[[X]] dims [1] {nn.role = "weight_gradient"} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  // CHECK-DAG: %[[D:.*]] = nn.transpose %[[C]] [1, 0] {nn.role = "weight_gradient"} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %2 = nn.einsum "abc->ca"(%x) {nn.role = "weight_gradient"} : (tensor<2x3x4xf32>) -> tensor<4x2xf32>
  %3 = nn.einsum "abc->abc"(%x) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-DAG: %[[E:.*]] = nn.cast %[[Y]] : tensor<2x3xbf16> -> tensor<2x3xf32>
  // CHECK-DAG: %[[F:.*]] = nn.reduce sum %[[E]] dims [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  %4 = nn.einsum "ab->a"(%y) : (tensor<2x3xbf16>) -> tensor<2xf32>
  // CHECK: return %[[A]], %[[B]], %[[D]], %[[X]], %[[F]]
  return %0, %1, %2, %3, %4 : tensor<4x2x3xf32>, tensor<3xf32>, tensor<4x2xf32>, tensor<2x3x4xf32>, tensor<2xf32>
}

// -----

// Transpositions go into the letters of operands and result.
// CHECK-LABEL: @einsum_of_transposes
// CHECK-SAME: (%[[X:.*]]: tensor<3x2x4xf32>, %[[Y:.*]]: tensor<5x4xf32>)
func.func @einsum_of_transposes(%x: tensor<3x2x4xf32>, %y: tensor<5x4xf32>) -> tensor<5x3x2xf32> {
  %a = nn.transpose %x [1, 2, 0] : (tensor<3x2x4xf32>) -> tensor<2x4x3xf32>
  %b = nn.transpose %y [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %c = nn.einsum "adc,de->ace"(%a, %b) : (tensor<2x4x3xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: %[[R:.*]] = nn.einsum "cad,ed->eca"(%[[X]], %[[Y]]) : (tensor<3x2x4xf32>, tensor<5x4xf32>) -> tensor<5x3x2xf32>
  %0 = nn.transpose %c [2, 1, 0] : (tensor<2x3x5xf32>) -> tensor<5x3x2xf32>
  // CHECK-NEXT: return %[[R]]
  return %0 : tensor<5x3x2xf32>
}

// -----

// A result that something else reads stays as it is.
// CHECK-LABEL: @einsum_used_twice
func.func @einsum_used_twice(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>) -> (tensor<3x5xf32>, tensor<5x3xf32>) {
  // CHECK: nn.einsum "ab,bc->ac"
  %a = nn.einsum "ab,bc->ac"(%x, %y) : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  // CHECK: nn.transpose
  %0 = nn.transpose %a [1, 0] : (tensor<3x5xf32>) -> tensor<5x3xf32>
  return %a, %0 : tensor<3x5xf32>, tensor<5x3xf32>
}

// -----

// An op with a rule of its own keeps its dimensions.
// CHECK-LABEL: @own_rule
func.func @own_rule(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  // CHECK: nn.reshape %{{.*}} : tensor<4x6xf32> -> tensor<2x12xf32>
  %a = nn.reshape %x : tensor<4x6xf32> -> tensor<2x12xf32>
  // CHECK: nn.reshape %{{.*}} {nn.rule = {{.*}}} : tensor<2x12xf32> -> tensor<24xf32>
  %0 = nn.reshape %a {nn.rule = "[a][b] -> [a b] {a=2, b=12 whole}"} : tensor<2x12xf32> -> tensor<24xf32>
  return %0 : tensor<24xf32>
}

// -----

// 10^10 elements, moved but never listed.
// CHECK-LABEL: @large
func.func @large(%x: tensor<100000x100000xf32>) -> (tensor<100000x100000xf32>, tensor<100000x100000xf32>) {
  %a = nn.constant dense<1.0> : tensor<10000000000xf32>
  // CHECK: %[[A:.*]] = nn.constant dense<1.000000e+00> : tensor<100000x100000xf32>
  %0 = nn.reshape %a : tensor<10000000000xf32> -> tensor<100000x100000xf32>
  %1 = nn.mul %x, %0 : tensor<100000x100000xf32>
  // CHECK: return %[[A]], %{{.*}}
  return %0, %1 : tensor<100000x100000xf32>, tensor<100000x100000xf32>
}

// -----

// A cast that saturates changes infinities, one to f8E5M2, too; f8E4M3FN has none. Random bits are for f32 alone.
// CHECK-LABEL: @rounding_casts
// CHECK-SAME: (%[[X:.*]]: tensor<2xbf16>, %[[F:.*]]: tensor<2xf8E5M2>, %[[E:.*]]: tensor<2xf8E4M3FN>, %[[B:.*]]: tensor<2xi32>
func.func @rounding_casts(%x: tensor<2xbf16>, %f: tensor<2xf8E5M2>, %e: tensor<2xf8E4M3FN>, %b: tensor<2xi32>)
    -> (tensor<2xbf16>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf8E5M2>, tensor<2xf8E5M2>, tensor<2xf8E4M3FN>) {
  // CHECK: %[[W:.*]] = nn.cast %[[X]] : tensor<2xbf16> -> tensor<2xf32>
  %w = nn.cast %x : tensor<2xbf16> -> tensor<2xf32>
  // CHECK: %[[S:.*]] = nn.cast %[[W]] saturate : tensor<2xf32> -> tensor<2xbf16>
  %0 = nn.cast %w saturate : tensor<2xf32> -> tensor<2xbf16>
  // CHECK: %[[H:.*]] = nn.cast %[[W]] stochastic %[[B]] : tensor<2xf32>, tensor<2xi32> -> tensor<2xf16>
  %1 = nn.cast %w stochastic %b : tensor<2xf32>, tensor<2xi32> -> tensor<2xf16>
  // What is exact is not rounded.
  %2 = nn.cast %w stochastic %b : tensor<2xf32>, tensor<2xi32> -> tensor<2xbf16>
  // CHECK: %[[T:.*]] = nn.cast %[[F]] saturate : tensor<2xf8E5M2> -> tensor<2xf16>
  %t = nn.cast %f saturate : tensor<2xf8E5M2> -> tensor<2xf16>
  // CHECK: %[[U:.*]] = nn.cast %[[T]] : tensor<2xf16> -> tensor<2xf8E5M2>
  %3 = nn.cast %t : tensor<2xf16> -> tensor<2xf8E5M2>
  // CHECK: %[[G:.*]] = nn.cast %[[F]] : tensor<2xf8E5M2> -> tensor<2xf32>
  %g = nn.cast %f : tensor<2xf8E5M2> -> tensor<2xf32>
  // CHECK: %[[V:.*]] = nn.cast %[[G]] : tensor<2xf32> -> tensor<2xf8E5M2>
  %4 = nn.cast %g : tensor<2xf32> -> tensor<2xf8E5M2>
  %h = nn.cast %e : tensor<2xf8E4M3FN> -> tensor<2xf32>
  %5 = nn.cast %h : tensor<2xf32> -> tensor<2xf8E4M3FN>
  // CHECK: return %[[S]], %[[H]], %[[X]], %[[U]], %[[V]], %[[E]]
  return %0, %1, %2, %3, %4, %5 : tensor<2xbf16>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf8E5M2>, tensor<2xf8E5M2>, tensor<2xf8E4M3FN>
}

// -----

// Constants are rounded as kernels round: 1.003 lies between 1 and 1.0078125.
// CHECK-LABEL: @constant_rounding
func.func @constant_rounding() -> (tensor<2xf16>, tensor<2xbf16>, tensor<2xf8E4M3FN>, tensor<3xf8E8M0FNU>, tensor<3xf32>) {
  %a = nn.constant dense<[1.0e6, 0xFF800000]> : tensor<2xf32>
  // CHECK-DAG: %[[A:.*]] = nn.constant dense<[6.550400e+04, -6.550400e+04]> : tensor<2xf16>
  %0 = nn.cast %a saturate : tensor<2xf32> -> tensor<2xf16>
  %b = nn.constant dense<1.003> : tensor<2xf32>
  %r = nn.constant dense<[0, -1]> : tensor<2xi32>
  // CHECK-DAG: %[[B:.*]] = nn.constant dense<[1.000000e+00, 1.007810e+00]> : tensor<2xbf16>
  %1 = nn.cast %b stochastic %r : tensor<2xf32>, tensor<2xi32> -> tensor<2xbf16>
  // CHECK-DAG: %[[C:.*]] = nn.constant dense<[4.480000e+02, -4.480000e+02]> : tensor<2xf8E4M3FN>
  %2 = nn.cast %a stochastic %r : tensor<2xf32>, tensor<2xi32> -> tensor<2xf8E4M3FN>
  %d = nn.constant dense<[3.0, -4.0, 1.0e38]> : tensor<3xf32>
  // CHECK-DAG: %[[D:.*]] = nn.constant dense<[4.000000e+00, 4.000000e+00, 1.701410e+38]> : tensor<3xf8E8M0FNU>
  %3 = nn.cast %d : tensor<3xf32> -> tensor<3xf8E8M0FNU>
  // CHECK-DAG: %[[E:.*]] = nn.constant dense<[4.000000e+00, 4.000000e+00, 1.70141183E+38]> : tensor<3xf32>
  %4 = nn.cast %3 : tensor<3xf8E8M0FNU> -> tensor<3xf32>
  // CHECK: return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
  return %0, %1, %2, %3, %4 : tensor<2xf16>, tensor<2xbf16>, tensor<2xf8E4M3FN>, tensor<3xf8E8M0FNU>, tensor<3xf32>
}
