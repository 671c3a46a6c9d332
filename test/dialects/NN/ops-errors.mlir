// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

// Element types: a float op on integers, a logical op on numbers, an unknown element.
func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'nn.exp' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16 or f16, but got 'tensor<4xi32>'}}
  %0 = nn.exp %x : tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.not' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type i1, but got 'tensor<4xf32>'}}
  %0 = nn.not %x : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi64>) {
  // expected-error @+1 {{'nn.neg' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16 or i32, but got 'tensor<4xi64>'}}
  %0 = nn.neg %x : tensor<4xi64>
  return
}

// -----

func.func @f(%x: tensor<4xcomplex<f32>>) {
  // expected-error @+1 {{'nn.reshape' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16, an 8-bit or 4-bit float, i32, i8 or i1, but got 'tensor<4xcomplex<f32>>'}}
  %0 = nn.reshape %x : tensor<4xcomplex<f32>> -> tensor<2x2xcomplex<f32>>
  return
}

// -----

func.func @f(%x: tensor<4xf8E4M3FN>) {
  // expected-error @+1 {{'nn.add' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16 or i32, but got 'tensor<4xf8E4M3FN>'}}
  %0 = nn.add %x, %x : tensor<4xf8E4M3FN>
  return
}

// -----

// Dynamic, zero and unranked shapes.
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'nn.exp' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16 or f16, but got 'tensor<?x4xf32>'}}
  %0 = nn.exp %x : tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<0x4xf32>) {
  // expected-error @+1 {{'nn.exp' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16 or f16, but got 'tensor<0x4xf32>'}}
  %0 = nn.exp %x : tensor<0x4xf32>
  return
}

// -----

func.func @f(%x: tensor<*xf32>) {
  // expected-error @+1 {{custom op 'nn.exp' invalid kind of type specified: expected builtin.tensor, but found 'tensor<*xf32>'}}
  %0 = nn.exp %x : tensor<*xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'nn.reduce' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16 or i32, but got 'tensor<?x4xf32>'}}
  %0 = nn.reduce sum %x dims [0] : (tensor<?x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'nn.reshape' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16, an 8-bit or 4-bit float, i32, i8 or i1, but got 'tensor<?x4xf32>'}}
  %0 = nn.reshape %x : tensor<?x4xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: vector<4xf32>) {
  // expected-error @+1 {{custom op 'nn.exp' invalid kind of type specified: expected builtin.tensor, but found 'vector<4xf32>'}}
  %0 = nn.exp %x : vector<4xf32>
  return
}

// -----

// Sizes whose product does not fit.
func.func @f(%x: tensor<4611686018427387904x4xf32>) {
  // expected-error @+1 {{'nn.exp' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16 or f16, but got 'tensor<4611686018427387904x4xf32>'}}
  %0 = nn.exp %x : tensor<4611686018427387904x4xf32>
  return
}

// -----

func.func @f(%x: tensor<1000000000x1xf32>, %y: tensor<1000000000xf32>) {
  // expected-error @+1 {{'nn.add' op result #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16 or i32, but got 'tensor<1000000000x1000000000xf32>'}}
  %0 = nn.add %x, %y : (tensor<1000000000x1xf32>, tensor<1000000000xf32>) -> tensor<1000000000x1000000000xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+2 {{padded size of dimension 0 does not fit 64 bits}}
  // expected-error @+1 {{'nn.pad' op failed to infer returned types}}
  %0 = nn.pad %x low [9223372036854775807] high [0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.broadcast' op result #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16, an 8-bit or 4-bit float, i32, i8 or i1, but got 'tensor<9223372036854775807x4xf32>'}}
  %0 = nn.broadcast %x dims [1] : tensor<4xf32> -> tensor<9223372036854775807x4xf32>
  return
}

// -----

// Dimensions whose indices do not fit i32, and more constants than a program should have.
func.func @f() {
  // expected-error @+1 {{dimension has size 10000000000, expected at most 2147483647: indices are i32}}
  %0 = nn.iota dim 0 : tensor<10000000000xi32>
  return
}

// -----

func.func @f(%x: tensor<10000000000xf32>) {
  // expected-error @+2 {{last dimension has size 10000000000, expected at most 2147483647: indices are i32}}
  // expected-error @+1 {{'nn.top_k' op failed to infer returned types}}
  %0, %1 = nn.top_k %x k 1 : (tensor<10000000000xf32>) -> (tensor<1xf32>, tensor<1xi32>)
  return
}

// -----

func.func @f(%x: tensor<1x10000000000xf32>, %t: tensor<1xi32>) {
  // expected-error @+2 {{vocabulary has size 10000000000, expected at most 2147483647: indices are i32}}
  // expected-error @+1 {{'nn.cross_entropy' op failed to infer returned types}}
  %0, %1 = nn.cross_entropy %x, %t : (tensor<1x10000000000xf32>, tensor<1xi32>) -> (tensor<1xf32>, tensor<1xf32>)
  return
}

// -----

func.func @f(%q: tensor<1x10000000000x1x1xf32>) {
  // expected-error @+1 {{sequence has size 10000000000, expected at most 2147483647: indices are i32}}
  %0 = nn.attention %q, %q, %q causal : (tensor<1x10000000000x1x1xf32>, tensor<1x10000000000x1x1xf32>, tensor<1x10000000000x1x1xf32>) -> tensor<1x10000000000x1x1xf32>
  return
}

// -----

func.func @f(%x: tensor<1x1x1x10000000000xf32>, %p: tensor<1xi32>) {
  // expected-error @+2 {{heads have width 10000000000, expected at most 65536}}
  // expected-error @+1 {{'nn.rotary' op failed to infer returned types}}
  %0 = nn.rotary %x, %p theta 10000.0 : (tensor<1x1x1x10000000000xf32>, tensor<1xi32>) -> tensor<1x1x1x10000000000xf32>
  return
}

// -----

// Unknown ops and words.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'nn.frobnicate' is unknown}}
  %0 = nn.frobnicate %x : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+2 {{custom op 'nn.reduce' expected ::sheaf::nn::ReduceKind to be one of: sum, max, min, mean, sum_of_squares}}
  // expected-error @+1 {{custom op 'nn.reduce' failed to parse NN_ReduceKindAttr parameter 'value' which is to be a `::sheaf::nn::ReduceKind`}}
  %0 = nn.reduce product %x dims [0] : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+2 {{custom op 'nn.compare' expected ::sheaf::nn::Predicate to be one of: eq, ne, lt, le, gt, ge}}
  // expected-error @+1 {{custom op 'nn.compare' failed to parse NN_PredicateAttr parameter 'value' which is to be a `::sheaf::nn::Predicate`}}
  %0 = nn.compare lower %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// -----

// Broadcasting.
func.func @f(%x: tensor<4xf32>, %y: tensor<3xf32>) {
  // expected-error @+2 {{shapes [4] and [3] do not broadcast: aligned at the last dimension, sizes must be equal or 1}}
  // expected-error @+1 {{'nn.add' op failed to infer returned types}}
  %0 = nn.add %x, %y : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+2 {{operands have element types 'f32' and 'f64', expected the same; use nn.cast on one of them}}
  // expected-error @+1 {{'nn.mul' op failed to infer returned types}}
  %0 = nn.mul %x, %y : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<2x1xf32>) {
  // expected-error @+2 {{'nn.sub' op inferred type(s) 'tensor<2x4xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'}}
  // expected-error @+1 {{'nn.sub' op failed to infer returned types}}
  %0 = nn.sub %x, %y : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'nn.max' expected two operand types and one result type}}
  %0 = nn.max %x, %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.compare' op result #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type i1, but got 'tensor<4xf32>'}}
  %0 = nn.compare lt %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%m: tensor<3xi1>, %x: tensor<4xf32>) {
  // expected-error @+2 {{shapes [4] and [3] do not broadcast: aligned at the last dimension, sizes must be equal or 1}}
  // expected-error @+1 {{'nn.select' op failed to infer returned types}}
  %0 = nn.select %m, %x, %x : (tensor<3xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.cast' op changes the shape from [4] to [2, 2]; use nn.reshape or nn.broadcast for that}}
  %0 = nn.cast %x : tensor<4xf32> -> tensor<2x2xi32>
  return
}

// -----

// Einsum.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.einsum' op equation 'ab=>ba' is not of the form "ab,bc->ac"}}
  %0 = nn.einsum "ab=>ba"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.einsum' op equation 'a b->ba' is not of the form "ab,bc->ac"}}
  %0 = nn.einsum "a b->ba"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.einsum' op has 3 operands, expected one or two; write a longer product as several einsums}}
  %0 = nn.einsum "a,a,a->a"(%x, %x, %x) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nn.einsum' op has 0 operands, expected one or two; write a longer product as several einsums}}
  %0 = nn.einsum "->"() : () -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.einsum' op equation 'a,a->a' names 2 operands, but there are 1}}
  %0 = nn.einsum "a,a->a"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.einsum' op equation 'abc->a' gives operand 0 3 dimensions, but its type is 'tensor<4x8xf32>'}}
  %0 = nn.einsum "abc->a"(%x) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{'nn.einsum' op letter 'a' occurs twice in operand 0; take the diagonal beforehand}}
  %0 = nn.einsum "aa->a"(%x) : (tensor<4x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.einsum' op letter 'b' has size 8 and, in operand 1, size 4}}
  %0 = nn.einsum "ab,bc->ac"(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<8x2xbf16>) {
  // expected-error @+1 {{'nn.einsum' op operands have element types 'f32' and 'bf16', expected the same; use nn.cast on one of them}}
  %0 = nn.einsum "ab,bc->ac"(%x, %y) : (tensor<4x8xf32>, tensor<8x2xbf16>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.einsum' op letter 'c' of the result is in no operand; use nn.broadcast for a new dimension}}
  %0 = nn.einsum "ab->abc"(%x) : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.einsum' op letter 'b' has size 8 and, in the result, size 4}}
  %0 = nn.einsum "ab->ba"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// Reductions.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{dims [1, 0] must be ascending, distinct, at least 0 and below the rank, 2}}
  // expected-error @+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce sum %x dims [1, 0] : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{dims [2] must be ascending, distinct, at least 0 and below the rank, 2}}
  // expected-error @+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce sum %x dims [2] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+2 {{dims [0] must be ascending, distinct, at least 0 and below the rank, 0}}
  // expected-error @+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce sum %x dims [0] : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4x8xi32>) {
  // expected-error @+2 {{the mean of integers is not defined; use nn.cast first}}
  // expected-error @+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce mean %x dims [1] : (tensor<4x8xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'nn.reduce' op inferred type(s) 'tensor<4x1xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'}}
  // expected-error @+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce sum %x dims [1] keep : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

// Shapes.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.reshape' op changes the number of elements from 32 [4, 8] to 30 [5, 6]}}
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<5x6xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.reshape' op changes the element type from 'f32' to 'bf16'; use nn.cast}}
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<32xbf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{[0, 0] is not a permutation of the 2 dimensions}}
  // expected-error @+1 {{'nn.transpose' op failed to infer returned types}}
  %0 = nn.transpose %x [0, 0] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{[0] is not a permutation of the 2 dimensions}}
  // expected-error @+1 {{'nn.transpose' op failed to infer returned types}}
  %0 = nn.transpose %x [0] : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.broadcast' op changes the element type from 'f32' to 'bf16'; use nn.cast}}
  %0 = nn.broadcast %x dims [0] : tensor<4xf32> -> tensor<4x8xbf16>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.broadcast' op has 0 dims, expected one for each of the 1 dimensions of its input}}
  %0 = nn.broadcast %x dims [] : tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{dims [2] must be ascending, distinct, at least 0 and below the rank, 2}}
  %0 = nn.broadcast %x dims [2] : tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.broadcast' op input dimension 0 has size 4, expected 1 or the result's 8}}
  %0 = nn.broadcast %x dims [1] : tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{offsets has 1 numbers, expected 2}}
  // expected-error @+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x offsets [0] sizes [4, 8] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{offsets [0, -1] must be at least 0}}
  // expected-error @+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x offsets [0, -1] sizes [4, 8] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{sizes [4, 0] must be at least 1}}
  // expected-error @+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x offsets [0, 0] sizes [4, 0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{slice of dimension 1 ends at element 8, but the dimension has size 8}}
  // expected-error @+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x offsets [0, 4] sizes [4, 3] strides [1, 2] : (tensor<4x8xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{high has 1 numbers, expected 2}}
  // expected-error @+1 {{'nn.pad' op failed to infer returned types}}
  %0 = nn.pad %x low [0, 0] high [0] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{high [0, -1] must be at least 0}}
  // expected-error @+1 {{'nn.pad' op failed to infer returned types}}
  %0 = nn.pad %x low [0, 0] high [0, -1] : (tensor<4x8xf32>) -> tensor<4x7xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{dim 2 is not a dimension of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{'nn.concatenate' op failed to infer returned types}}
  %0 = nn.concatenate %x dim 2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+2 {{expected at least one operand}}
  // expected-error @+1 {{'nn.concatenate' op failed to infer returned types}}
  %0 = nn.concatenate dim 0 : () -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xbf16>) {
  // expected-error @+2 {{operand 1 has type 'tensor<4x8xbf16>', expected the element type and rank of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{'nn.concatenate' op failed to infer returned types}}
  %0 = nn.concatenate %x, %y dim 0 : (tensor<4x8xf32>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x7xf32>) {
  // expected-error @+2 {{operand 1 has size 7 in dimension 1, operand 0 has 8}}
  // expected-error @+1 {{'nn.concatenate' op failed to infer returned types}}
  %0 = nn.concatenate %x, %y dim 0 : (tensor<4x8xf32>, tensor<4x7xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nn.iota' op dim 1 is not a dimension of 'tensor<4xi32>'}}
  %0 = nn.iota dim 1 : tensor<4xi32>
  return
}

// -----

// Indexed access.
func.func @f(%t: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+2 {{axis 2 is not a dimension of the table 'tensor<4x8xf32>'}}
  // expected-error @+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %t[%i] axis 2 : (tensor<4x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%t: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+2 {{batch is 1, expected at most the axis and the rank of the indices, 0}}
  // expected-error @+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %t[%i] axis 0 batch 1 : (tensor<4x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%t: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+2 {{batch dimension 0 has size 4 in the table and 3 in the indices}}
  // expected-error @+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %t[%i] axis 1 batch 1 : (tensor<4x8xf32>, tensor<3xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%t: tensor<4x8xf32>, %i: tensor<3xf32>) {
  // expected-error @+1 {{'nn.gather' op operand #1 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type i32, but got 'tensor<3xf32>'}}
  %0 = nn.gather %t[%i] axis 0 : (tensor<4x8xf32>, tensor<3xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%g: tensor<3x7xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nn.gather_grad' op gradient has type 'tensor<3x7xf32>', expected 'tensor<3x8xf32>' as nn.gather of the result would have}}
  %0 = nn.gather_grad %g[%i] axis 0 : (tensor<3x7xf32>, tensor<3xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%t: tensor<4x8x2xf32>, %i: tensor<3xi32>) {
  // expected-error @+2 {{table has rank 3, expected 2: [vocabulary, width]}}
  // expected-error @+1 {{'nn.embedding' op failed to infer returned types}}
  %0 = nn.embedding %t[%i] : (tensor<4x8x2xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+2 {{operand has rank 0, expected at least 1}}
  // expected-error @+1 {{'nn.top_k' op failed to infer returned types}}
  %0, %1 = nn.top_k %x k 1 : (tensor<f32>) -> (tensor<f32>, tensor<i32>)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+2 {{k is 5, expected between 1 and 4}}
  // expected-error @+1 {{'nn.top_k' op failed to infer returned types}}
  %0, %1 = nn.top_k %x k 5 : (tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi32>)
  return
}

// -----

// Random numbers.
func.func @f(%k: tensor<3xi32>, %s: tensor<i32>) {
  // expected-error @+1 {{key has type 'tensor<3xi32>', expected tensor<4xi32>}}
  %0 = nn.random uniform %k, %s : (tensor<3xi32>, tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%k: tensor<4xi32>, %s: tensor<1xi32>) {
  // expected-error @+1 {{stream has type 'tensor<1xi32>', expected tensor<i32>}}
  %0 = nn.random uniform %k, %s : (tensor<4xi32>, tensor<1xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-error @+1 {{more than 2^32 random numbers a sample in 'tensor<4294967297xf32>'}}
  %0 = nn.random normal %k, %s : (tensor<4xi32>, tensor<i32>) -> tensor<4294967297xf32>
  return
}

// -----

func.func @f(%k: tensor<4xi32>, %s: tensor<i32>, %o: tensor<1xi32>) {
  // expected-error @+1 {{has offsets of type 'tensor<1xi32>' and 2 sizes, expected one of each for each of the 2 dimensions}}
  %0 = nn.random normal %k, %s at %o of [8, 8] : (tensor<4xi32>, tensor<i32>, tensor<1xi32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-error @+1 {{a scalar has no sample dimension}}
  %0 = nn.random normal %k, %s sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-error @+2 {{rate is 1.000000e+00, expected at least 0 and below 1}}
  // expected-error @+1 {{'nn.dropout' op failed to infer returned types}}
  %0 = nn.dropout %x, %k, %s rate 1.0 : (tensor<4xf32>, tensor<4xi32>, tensor<i32>) -> tensor<4xf32>
  return
}

// -----

// Composites of a transformer.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.softmax' op dim 1 is not a dimension of 'tensor<4xf32>'}}
  %0 = nn.softmax %x dim 1 : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>, %s: tensor<1xf32>) {
  // expected-error @+2 {{input has rank 0, expected at least 1}}
  // expected-error @+1 {{'nn.rms_norm' op failed to infer returned types}}
  %0 = nn.rms_norm %x, %s eps 1.0e-5 : (tensor<f32>, tensor<1xf32>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @+2 {{scale or bias has type 'tensor<4xf32>', expected 'tensor<8xf32>' for the last dimension of 'tensor<4x8xf32>'}}
  // expected-error @+1 {{'nn.layer_norm' op failed to infer returned types}}
  %0 = nn.layer_norm %x, %s, %s eps 1.0e-5 : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+2 {{eps is -1.000000e+00, expected at least 0}}
  // expected-error @+1 {{'nn.rms_norm' op failed to infer returned types}}
  %0 = nn.rms_norm %x, %s eps -1.0 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x5xf32>, %p: tensor<3xi32>) {
  // expected-error @+2 {{input has type 'tensor<2x3x4x5xf32>', expected [batch, sequence, heads, even width]}}
  // expected-error @+1 {{'nn.rotary' op failed to infer returned types}}
  %0 = nn.rotary %x, %p theta 10000.0 : (tensor<2x3x4x5xf32>, tensor<3xi32>) -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %p: tensor<2xi32>) {
  // expected-error @+2 {{positions have type 'tensor<2xi32>', expected shape [2, 3] or [3]}}
  // expected-error @+1 {{'nn.rotary' op failed to infer returned types}}
  %0 = nn.rotary %x, %p theta 10000.0 : (tensor<2x3x4x6xf32>, tensor<2xi32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %p: tensor<3xi32>) {
  // expected-error @+2 {{theta must be positive}}
  // expected-error @+1 {{'nn.rotary' op failed to infer returned types}}
  %0 = nn.rotary %x, %p theta 0.0 : (tensor<2x3x4x6xf32>, tensor<3xi32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %p: tensor<3xi32>) {
  // expected-error @+1 {{custom op 'nn.rotary' unknown rotary scaling 'ntk', expected 'linear', 'llama3' or 'yarn'}}
  %0 = nn.rotary %x, %p theta 1.0 scaling <ntk, factor = 1.0, low = 1.0, high = 4.0, original = 8> : (tensor<2x3x4x6xf32>, tensor<3xi32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %p: tensor<3xi32>) {
  // expected-error @+1 {{custom op 'nn.rotary' rotary scaling factor must be positive}}
  %0 = nn.rotary %x, %p theta 1.0 scaling <linear, factor = 0.0, low = 1.0, high = 4.0, original = 8> : (tensor<2x3x4x6xf32>, tensor<3xi32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %p: tensor<3xi32>) {
  // expected-error @+1 {{custom op 'nn.rotary' llama3 rotary scaling expects 0 < low < high and original >= 1}}
  %0 = nn.rotary %x, %p theta 1.0 scaling <llama3, factor = 2.0, low = 4.0, high = 1.0, original = 8> : (tensor<2x3x4x6xf32>, tensor<3xi32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

// Attention.
func.func @f(%q: tensor<2x3x8xf32>) {
  // expected-error @+1 {{'nn.attention' op query, key and value have types 'tensor<2x3x8xf32>', 'tensor<2x3x8xf32>', 'tensor<2x3x8xf32>', expected [batch, sequence, heads, width]}}
  %0 = nn.attention %q, %q, %q : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xbf16>) {
  // expected-error @+1 {{'nn.attention' op query, key and value have different element types; use nn.cast}}
  %0 = nn.attention %q, %k, %q : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %k: tensor<1x3x4x8xf32>) {
  // expected-error @+1 {{'nn.attention' op query, key and value have different batch sizes}}
  %0 = nn.attention %q, %k, %k : (tensor<2x3x4x8xf32>, tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x6xf32>) {
  // expected-error @+1 {{'nn.attention' op key has width 6, expected the query's 8}}
  %0 = nn.attention %q, %k, %q : (tensor<2x3x4x8xf32>, tensor<2x3x4x6xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %v: tensor<2x5x4x8xf32>) {
  // expected-error @+1 {{'nn.attention' op value has shape [2, 5, 4, 8], expected the key's sequence 3 and heads 4}}
  %0 = nn.attention %q, %q, %v : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x3x8xf32>) {
  // expected-error @+1 {{'nn.attention' op has 4 query heads, expected a multiple of the 3 key heads}}
  %0 = nn.attention %q, %k, %k : (tensor<2x3x4x8xf32>, tensor<2x3x3x8xf32>, tensor<2x3x3x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>) {
  // expected-error @+1 {{'nn.attention' op result has type 'tensor<2x3x4x7xf32>', expected 'tensor<2x3x4x8xf32>'}}
  %0 = nn.attention %q, %q, %q : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x7xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xbf16>) {
  // expected-error @+1 {{'nn.attention' op log-sum-exp has type 'tensor<2x3x4xbf16>', expected 'tensor<2x3x4xf32>'}}
  %0, %1 = nn.attention %q, %q, %q : (tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>) -> (tensor<2x3x4x8xbf16>, tensor<2x3x4xbf16>)
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %b: tensor<2x4x3x1xf32>) {
  // expected-error @+1 {{'nn.attention' op bias has type 'tensor<2x4x3x1xf32>', expected 'tensor<2x4x3x3xf32>', where the first two sizes may be 1}}
  %0 = nn.attention %q, %q, %q bias %b : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x4x3x1xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %d: tensor<3xi32>) {
  // expected-error @+1 {{'nn.attention' op documents have shapes [3] and [3], expected [2, 3] and [2, 3]}}
  %0 = nn.attention %q, %q, %q documents %d, %d : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>) {
  // expected-error @+1 {{'nn.attention' op window is 0, expected at least 1}}
  %0 = nn.attention %q, %q, %q window 0 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %p: tensor<1xi32>) {
  // expected-error @+1 {{'nn.attention' op position of the first query has type 'tensor<1xi32>', expected tensor<i32>}}
  %0 = nn.attention %q, %q, %q from %p causal : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<1xi32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %p: tensor<i32>) {
  // expected-error @+1 {{'nn.attention' op has the position of the first query, which matters with causal or window alone; leave it out}}
  %0 = nn.attention %q, %q, %q from %p : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<i32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %l: tensor<2x3x4xf32>, %p: tensor<2xi32>) {
  // expected-error @+1 {{'nn.attention_grad' op position of the first query has type 'tensor<2xi32>', expected tensor<i32>}}
  %0:3 = nn.attention_grad %q, %q, %q result %q, %l grad %q from %p causal : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4x8xf32>, tensor<2xi32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>) {
  // expected-error @+1 {{'nn.attention' op scale must be finite}}
  %0 = nn.attention %q, %q, %q scale 0x7FF0000000000000 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %l: tensor<2x3x4xf32>, %g: tensor<2x3x4x7xf32>) {
  // expected-error @+1 {{'nn.attention_grad' op gradient has type 'tensor<2x3x4x7xf32>', expected the result's 'tensor<2x3x4x8xf32>'}}
  %0:3 = nn.attention_grad %q, %q, %q result %q, %l grad %g : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4x7xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %l: tensor<2x3x4xf32>, %m: tensor<2x3xf32>) {
  // expected-error @+1 {{'nn.attention_grad' op gradient of the log-sum-exp has type 'tensor<2x3xf32>', expected 'tensor<2x3x4xf32>'}}
  %0:3 = nn.attention_grad %q, %q, %q result %q, %l grad %q, %m : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4x8xf32>, tensor<2x3xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %l: tensor<2x3x4xf32>) {
  // expected-error @+1 {{'nn.attention_grad' op results must have the types of query, key and value}}
  %0:3 = nn.attention_grad %q, %q, %q result %q, %l grad %q : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x7xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x3x4x8xf32>, %l: tensor<2x3x4xf32>, %b: tensor<1x1x3x3xf32>) {
  // expected-error @+1 {{'nn.attention_grad' op expected a fourth result of the bias's type exactly where there is a bias}}
  %0:3 = nn.attention_grad %q, %q, %q result %q, %l grad %q bias %b : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4x8xf32>, tensor<1x1x3x3xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>)
  return
}

// -----

// The loss and the step.
func.func @f(%x: tensor<2x3x8xf32>, %t: tensor<2xi32>) {
  // expected-error @+2 {{targets have shape [2], expected that of the logits [2, 3, 8] without the last dimension}}
  // expected-error @+1 {{'nn.cross_entropy' op failed to infer returned types}}
  %0, %1 = nn.cross_entropy %x, %t : (tensor<2x3x8xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %t: tensor<2xi32>) {
  // expected-error @+2 {{smoothing is 1.000000e+00, expected at least 0 and below 1}}
  // expected-error @+1 {{'nn.cross_entropy' op failed to infer returned types}}
  %0, %1 = nn.cross_entropy %x, %t smoothing 1.0 : (tensor<2x8xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @f(%x: tensor<2x8xbf16>, %t: tensor<2xi32>) {
  // expected-error @+2 {{'nn.cross_entropy' op inferred type(s) 'tensor<2xf32>', 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xbf16>', 'tensor<2xbf16>'}}
  // expected-error @+1 {{'nn.cross_entropy' op failed to infer returned types}}
  %0, %1 = nn.cross_entropy %x, %t : (tensor<2x8xbf16>, tensor<2xi32>) -> (tensor<2xbf16>, tensor<2xbf16>)
  return
}

// -----

func.func @f(%x: tensor<2x8xbf16>, %t: tensor<2xi32>, %l: tensor<2xbf16>) {
  // expected-error @+1 {{'nn.cross_entropy_grad' op operand has type 'tensor<2xbf16>', expected 'tensor<2xf32>'}}
  %0 = nn.cross_entropy_grad %x, %t, %l grad %l : (tensor<2x8xbf16>, tensor<2xi32>, tensor<2xbf16>, tensor<2xbf16>) -> tensor<2x8xbf16>
  return
}

// -----

func.func @f(%x: tensor<2x8xbf16>, %t: tensor<2xi32>, %l: tensor<2xf32>) {
  // expected-error @+1 {{'nn.cross_entropy_grad' op result has type 'tensor<2x8xf32>', expected the logits' 'tensor<2x8xbf16>'}}
  %0 = nn.cross_entropy_grad %x, %t, %l grad %l : (tensor<2x8xbf16>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8xi1>) {
  // expected-error @+2 {{weights have shape [8], expected that of the values, [2, 8]}}
  // expected-error @+1 {{'nn.step_mean' op failed to infer returned types}}
  %0 = nn.step_mean %x weights %w : (tensor<2x8xf32>, tensor<8xi1>) -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<2x8xi32>) {
  // expected-error @+1 {{'nn.step_mean' op operand #1 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f64, f32, bf16, f16 or i1, but got 'tensor<2x8xi32>'}}
  %0 = nn.step_mean %x weights %w : (tensor<2x8xf32>, tensor<2x8xi32>) -> tensor<f32>
  return
}

// -----

func.func @f(%p: tensor<4xf32>, %g: tensor<5xf32>, %s: tensor<f32>) {
  // expected-error @+2 {{operand of type 'tensor<5xf32>' does not have the parameter's shape [4]}}
  // expected-error @+1 {{'nn.sgd' op failed to infer returned types}}
  %0:2 = nn.sgd %p, %g, %p lr %s momentum %s decay %s grad_scale %s : (tensor<4xf32>, tensor<5xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%p: tensor<4xf32>, %s: tensor<bf16>) {
  // expected-error @+1 {{'nn.sgd' op operand #3 must be tensor of rank 0 with element type f64 or f32, but got 'tensor<bf16>'}}
  %0:2 = nn.sgd %p, %p, %p lr %s momentum %s decay %s grad_scale %s : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// The loop over microbatches.
func.func @f() {
  // expected-error @+1 {{'nn.microbatches' op count is 0, expected at least 1}}
  nn.microbatches 0 {
  ^bb0(%k: tensor<i32>):
    nn.yield
  }
  return
}

// -----

func.func @f(%x: tensor<7x4xf32>) {
  // expected-error @+1 {{'nn.microbatches' op sliced operand 0 of type 'tensor<7x4xf32>' does not divide into 2 microbatches along dimension 0}}
  nn.microbatches 2 slices(%x : tensor<7x4xf32>) {
  ^bb0(%k: tensor<i32>, %p: tensor<3x4xf32>):
    nn.yield
  }
  return
}

// -----

func.func @f(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'nn.microbatches' op body has arguments of types ('tensor<i32>', 'tensor<2x4xf32>'), expected ('tensor<i32>', 'tensor<4x4xf32>')}}
  nn.microbatches 2 slices(%x : tensor<8x4xf32>) {
  ^bb0(%k: tensor<i32>, %p: tensor<2x4xf32>):
    nn.yield
  }
  return
}

// -----

func.func @f(%z: tensor<f32>) {
  // expected-error @+1 {{'nn.microbatches' op results must have the types of the accumulators, ('tensor<f32>')}}
  nn.microbatches 2 inits(%z : tensor<f32>) {
  ^bb0(%k: tensor<i32>, %a: tensor<f32>):
    nn.yield
  }
  return
}

// -----

func.func @f(%z: tensor<f32>) {
  %0 = nn.microbatches 2 inits(%z : tensor<f32>) -> tensor<f32> {
  ^bb0(%k: tensor<i32>, %a: tensor<f32>):
    // expected-error @+1 {{'nn.yield' op yields types ('tensor<i32>'), expected ('tensor<f32>')}}
    nn.yield %k : tensor<i32>
  }
  return
}

// -----

func.func @f(%z: tensor<f32>) {
  // expected-error @+1 {{'nn.yield' op expects parent op to be one of 'nn.microbatches, nn.fused'}}
  nn.yield %z : tensor<f32>
}

// -----

// Attributes of arguments.
// expected-error @+1 {{'func.func' op argument 0 has nn.param = "w", expected #nn.param<...>}}
func.func private @f(tensor<4xf32> {nn.param = "w"})

// -----

// expected-error @+1 {{'func.func' op argument 0 is a parameter of type 'tensor<4xi32>', expected a static tensor of floats}}
func.func private @f(tensor<4xi32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>})

// -----

// expected-error @+1 {{'func.func' op argument 0 names 1 axes for the 2 dimensions of 'tensor<4x4xf32>'; write _ for a dimension without a name}}
func.func private @f(tensor<4x4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>})

// -----

// expected-error @+1 {{'func.func' op argument 0 is a parameter without a name}}
func.func private @f(tensor<4xf32> {nn.param = #nn.param<"", axes = [_], init = constant(0)>})

// -----

// expected-error @+1 {{'func.func' op argument 1 has the parameter name 'w' of argument 0}}
func.func private @f(tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>}, tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(0)>})

// -----

// expected-error @+1 {{expected a finite number}}
func.func private @f(tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(inf)>})

// -----

// expected-error @+1 {{unknown initialiser 'uniform', expected 'constant' or 'normal'}}
func.func private @f(tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = uniform(1)>})

// -----

// expected-error @+1 {{unknown flag 'cold', expected 'frozen', 'no_decay' or 'balance'}}
func.func private @f(tensor<4xf32> {nn.param = #nn.param<"w", axes = [_], init = constant(1), cold>})

// -----

// expected-error @+1 {{'func.func' op argument 0 has nn.batch = "images", expected "tokens", "targets", "positions" or "documents"}}
func.func private @f(tensor<4x8xi32> {nn.batch = "images"})

// -----

// expected-error @+1 {{'func.func' op argument 0 is part of the batch and has type 'tensor<4xi32>', expected tensor<batch x sequence x i32>}}
func.func private @f(tensor<4xi32> {nn.batch = "tokens"})

// -----

// expected-error @+1 {{'func.func' op argument 0 is the random key and has type 'tensor<4xf32>', expected tensor<4xi32>}}
func.func private @f(tensor<4xf32> {nn.rng})

// -----

// expected-error @+1 {{'func.func' op argument 0 has nn.scalar = 1 : i32, expected a name in quotes}}
func.func private @f(tensor<4xf32> {nn.scalar = 1 : i32})

// -----

// expected-error @+1 {{'func.func' op argument 0 has the unknown attribute 'nn.parameter', expected nn.param, nn.batch, nn.rng, nn.scalar, nn.state or nn.name}}
func.func private @f(tensor<4xf32> {nn.parameter = "w"})

// -----

// expected-error @+1 {{'func.func' op argument 0 has nn.state = "moment1", expected ["kind of state", "name of parameter"]}}
func.func private @f(tensor<4xf32> {nn.state = "moment1"})

// -----

// Attributes of ops.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' op nn.role is "backward", expected "forward", "input_gradient", "weight_gradient" or "optimizer"}}
  %0 = nn.exp %x {nn.role = "backward"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' op nn.rule must be a string}}
  %0 = nn.exp %x {nn.rule = 3 : i32} : tensor<4xf32>
  return
}

// -----

// The body of nn.fused has the inputs as arguments.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nn.fused' op body has arguments of types ('tensor<5xf32>'), expected those of the inputs, ('tensor<4xf32>')}}
  %y = nn.fused(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<5xf32>):
    %0 = nn.constant dense<0.0> : tensor<4xf32>
    nn.yield %0 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// It yields its results.
func.func @f(%x: tensor<4xf32>) -> tensor<5xf32> {
  %y = nn.fused(%x : tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{'nn.yield' op yields types ('tensor<4xf32>'), expected ('tensor<5xf32>')}}
    nn.yield %a : tensor<4xf32>
  }
  return %y : tensor<5xf32>
}

// -----

// Only nn ops become a kernel.
func.func private @g(tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.fused(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{'func.call' op cannot be part of nn.fused, expected nn ops without regions}}
    %0 = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>
    nn.yield %0 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// Pairs for results in place are of one type.
func.func @f(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nn.fused' op in_place names input 0 of type 'tensor<4x1xf32>' and result 0 of type 'tensor<4xf32>', expected the same type}}
  %y = nn.fused(%x : tensor<4x1xf32>) -> tensor<4xf32> in_place [0, 0] {
  ^bb0(%a: tensor<4x1xf32>):
    %0 = nn.reshape %a : tensor<4x1xf32> -> tensor<4xf32>
    nn.yield %0 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// And exist.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nn.fused' op in_place names input 1 and result 0, but there are 1 and 1}}
  %y = nn.fused(%x : tensor<4xf32>) -> tensor<4xf32> in_place [1, 0] {
  ^bb0(%a: tensor<4xf32>):
    nn.yield %a : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// Roundings that a cast does not have.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.cast' op saturates from 'f32' to 'i8', expected another float, and bf16, f16 or an 8-bit float as the result; leave 'saturate' out}}
  %0 = nn.cast %x saturate : tensor<4xf32> -> tensor<4xi8>
  return
}

// -----

func.func @f(%x: tensor<4xbf16>) {
  // expected-error @+1 {{'nn.cast' op saturates from 'bf16' to 'bf16', expected another float}}
  %0 = nn.cast %x saturate : tensor<4xbf16> -> tensor<4xbf16>
  return
}

// -----

func.func @f(%x: tensor<4xf64>) {
  // expected-error @+1 {{'nn.cast' op saturates from 'f64' to 'f32', expected another float}}
  %0 = nn.cast %x saturate : tensor<4xf64> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xbf16>, %b: tensor<4xi32>) {
  // expected-error @+1 {{'nn.cast' op rounds stochastically from 'bf16' to 'f8E4M3FN', expected f32 and bf16, f16, f8E4M3FN or f8E5M2}}
  %0 = nn.cast %x stochastic %b : tensor<4xbf16>, tensor<4xi32> -> tensor<4xf8E4M3FN>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %b: tensor<4xi32>) {
  // expected-error @+1 {{'nn.cast' op rounds stochastically from 'f32' to 'f8E8M0FNU', expected f32 and bf16, f16, f8E4M3FN or f8E5M2}}
  %0 = nn.cast %x stochastic %b : tensor<4xf32>, tensor<4xi32> -> tensor<4xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %b: tensor<1xi32>) {
  // expected-error @+1 {{'nn.cast' op has random bits of shape [1], expected [4]: a word for each element, of nn.random bits}}
  %0 = nn.cast %x stochastic %b : tensor<4xf32>, tensor<1xi32> -> tensor<4xbf16>
  return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'nn.cast' op is from 'i32' to f8E8M0FNU, expected f32, bf16, f16 or an 8-bit float; cast to f32 first}}
  %0 = nn.cast %x : tensor<4xi32> -> tensor<4xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<4xf8E8M0FNU>) {
  // expected-error @+1 {{'nn.cast' op is from f8E8M0FNU to 'i32', expected a float; cast to f32 first}}
  %0 = nn.cast %x : tensor<4xf8E8M0FNU> -> tensor<4xi32>
  return
}

// -----

func.func @f(%k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-error @+1 {{'nn.random' op draws bits of type 'f32', expected i32, or 'uniform' or 'normal'}}
  %0 = nn.random bits %k, %s : (tensor<4xi32>, tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%k: tensor<4xi32>, %s: tensor<i32>) {
  // expected-error @+1 {{'nn.random' op draws normal of type 'i32', expected 'bits' for i32}}
  %0 = nn.random normal %k, %s : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  return
}

// -----

// Payloads and factors.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.quantize' op attribute 'format' failed to satisfy constraint: f8E4M3FN, f8E5M2, f4E2M1FN or f16}}
  %q, %s = nn.quantize %x to bf16 blocks [1, 0] scale exact : (tensor<4x8xf32>) -> (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nn.quantize' op result #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f8E4M3FN, f8E5M2, f4E2M1FN or f16, but got 'tensor<4x8xbf16>'}}
  %q, %s = nn.quantize %x to f8E4M3FN blocks [1, 0] scale exact : (tensor<4x8xf32>) -> (tensor<4x8xbf16>, tensor<4x1xf32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf64>) {
  // expected-error @+1 {{'nn.quantize' op operand #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f32, bf16 or f16, but got 'tensor<4x8xf64>'}}
  %q, %s = nn.quantize %x to f8E4M3FN blocks [1, 0] scale exact : (tensor<4x8xf64>) -> (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{blocks has 1 numbers, expected 2}}
  // expected-error @+1 {{'nn.quantize' op failed to infer returned types}}
  %q, %s = nn.quantize %x to f8E4M3FN blocks [1] scale exact : (tensor<4x8xf32>) -> (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{'nn.quantize' op inferred type(s) 'tensor<4x8xf8E4M3FN>', 'tensor<4x1xf32>' are incompatible with return type(s) of operation 'tensor<4x8xf8E4M3FN>', 'tensor<4x2xf32>'}}
  // expected-error @+1 {{'nn.quantize' op failed to infer returned types}}
  %q, %s = nn.quantize %x to f8E4M3FN blocks [1, 0] scale exact : (tensor<4x8xf32>) -> (tensor<4x8xf8E4M3FN>, tensor<4x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<4x8xf8E4M3FN>, %s: tensor<4x1xf32>) {
  // expected-error @+1 {{'nn.dequantize' op has factors of shape [4, 1], expected [4, 2]: one for each block [1, 5] of [4, 8]}}
  %x = nn.dequantize %q, %s blocks [1, 5] : (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8xf8E4M3FN>, %s: tensor<4x1xf32>) {
  // expected-error @+1 {{'nn.dequantize' op has a result of shape [8, 4], expected the payload's [4, 8]}}
  %x = nn.dequantize %q, %s blocks [1, 0] : (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8xf8E4M3FN>, %s: tensor<4x1xf32>) {
  // expected-error @+1 {{blocks [1, -1] must be at least 0}}
  %x = nn.dequantize %q, %s blocks [1, -1] : (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return
}

// -----

// What products of payloads do not do.
func.func @f(%a: tensor<4x8xf8E5M2>, %b: tensor<6x8xf8E5M2>, %s: tensor<1x1xf32>, %t: tensor<1x1xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op multiplies f8E5M2 by f8E5M2, which no tensor core does; expected f8E4M3FN for one of them}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [0, 0], [0, 0] : (tensor<4x8xf8E5M2>, tensor<6x8xf8E5M2>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x8xf8E4M3FN>, %s: tensor<4x2xf32>, %t: tensor<6x2xf8E8M0FNU>) {
  // expected-error @+1 {{'nn.scaled_einsum' op has factors of 'f32' and 'f8E8M0FNU', expected the same; quantise both by one rule}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 4], [1, 4] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<4x2xf32>, tensor<6x2xf8E8M0FNU>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x8xf8E4M3FN>, %s: tensor<1x2xf32>, %t: tensor<2x2xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op multiplies blocks [4, 4] by blocks [4, 4], expected blocks along one dimension, as [1, 128], for one of them}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [4, 4], [4, 4] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x8xf8E4M3FN>, %s: tensor<4x2xf32>, %t: tensor<1x1xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op letter 'k' is summed in blocks of 4 in operand 0 and of 8 in operand 1, expected the same}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 4], [0, 0] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<4x2xf32>, tensor<1x1xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x8xf8E4M3FN>, %s: tensor<4x2xf32>, %t: tensor<6x1xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op has factors of shape [6, 1] for operand 1, expected [6, 2]: one for each block [1, 4] of [6, 8]}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 4], [1, 4] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<4x2xf32>, tensor<6x1xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x9xf8E4M3FN>, %s: tensor<4x1xf32>, %t: tensor<6x1xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op letter 'k' has size 8 and, in operand 1, size 9}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 0], [1, 0] : (tensor<4x8xf8E4M3FN>, tensor<6x9xf8E4M3FN>, tensor<4x1xf32>, tensor<6x1xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x8xf8E4M3FN>, %s: tensor<4x1xf32>, %t: tensor<6x1xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op equation 'mk->m' names 1 operands, but there are 2}}
  %y = nn.scaled_einsum "mk->m"(%a, %b) scales(%s, %t) blocks [1, 0], [1, 0] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<4x1xf32>, tensor<6x1xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xf8E4M3FN>, %b: tensor<6x8xf8E4M3FN>, %s: tensor<4x1xf32>, %t: tensor<6x1xf32>) {
  // expected-error @+1 {{'nn.scaled_einsum' op result #0 must be tensor with static dimensions of at least 1 and at most 2^59 elements of type f32, bf16 or f16, but got 'tensor<4x6xf8E4M3FN>'}}
  %y = nn.scaled_einsum "mk,nk->mn"(%a, %b) scales(%s, %t) blocks [1, 0], [1, 0] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<4x1xf32>, tensor<6x1xf32>) -> tensor<4x6xf8E4M3FN>
  return
}

// -----

// Payloads of which there is no product.
func.func @f(%a: tensor<4x32xf4E2M1FN>, %b: tensor<8x32xf4E2M1FN>, %fa: tensor<4x1xf8E8M0FNU>, %fb: tensor<8x1xf8E8M0FNU>) {
  // expected-error @+1 {{'nn.scaled_einsum' op multiplies a payload of 'f4E2M1FN', expected f8E4M3FN or f8E5M2; no other product is built, use nn.dequantize and nn.einsum}}
  %y = nn.scaled_einsum "bk,nk->bn"(%a, %b) scales(%fa, %fb) blocks [1, 32], [1, 32]
    : (tensor<4x32xf4E2M1FN>, tensor<8x32xf4E2M1FN>, tensor<4x1xf8E8M0FNU>, tensor<8x1xf8E8M0FNU>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %b: tensor<4xi32>) {
  // expected-error @+1 {{'nn.cast' op rounds stochastically from 'f32' to 'f4E2M1FN', expected f32 and bf16, f16, f8E4M3FN or f8E5M2}}
  %y = nn.cast %x stochastic %b : tensor<4xf32>, tensor<4xi32> -> tensor<4xf4E2M1FN>
  return
}

// -----

func.func @scores(%q: tensor<1x2147483647x12x4xf32>) -> tensor<1x2147483647x12x4xf32> {
  // expected-error @+1 {{'nn.attention' op has scores of [1, 12, 2147483647, 2147483647], expected at most 2^59 elements; cut the sequence}}
  %y = nn.attention %q, %q, %q : (tensor<1x2147483647x12x4xf32>, tensor<1x2147483647x12x4xf32>, tensor<1x2147483647x12x4xf32>) -> tensor<1x2147483647x12x4xf32>
  return %y : tensor<1x2147483647x12x4xf32>
}
