// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<f32>) {
  // expected-error @+2 {{logits have rank 0, expected at least the dimension of experts}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = "nn.route"(%x) <{scores = #nn<scores softmax>, k = 1 : i64}> : (tensor<f32>) -> (tensor<1xf32>, tensor<1xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @+2 {{bias has type 'tensor<4xf32>', expected a number for each of the 8 experts}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route softmax %x bias %b k 2 : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{k is 9, expected between 1 and the 8 experts that can be chosen}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route softmax %x k 9 : (tensor<4x8xf32>) -> (tensor<4x9xf32>, tensor<4x9xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{groups is 3, expected a divisor of the 8 experts}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route sigmoid %x k 2 groups 3 keep 1 best 1 : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{keep is 5, expected between 1 and the 4 groups}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route sigmoid %x k 2 groups 4 keep 5 best 1 : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{best is 3, expected between 1 and the 2 experts of a group}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route sigmoid %x k 2 groups 4 keep 2 best 3 : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

// Two groups of two experts have four.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{k is 5, expected between 1 and the 4 experts that can be chosen}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route sigmoid %x k 5 groups 4 keep 2 best 1 : (tensor<4x8xf32>) -> (tensor<4x5xf32>, tensor<4x5xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{scale is 0.000000e+00, expected a positive number}}
  // expected-error @+1 {{'nn.route' op failed to infer returned types}}
  %w, %e = nn.route softmax %x k 2 scale 0.0 : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @f(%e: tensor<4x8xi32>) {
  // expected-error @+2 {{experts have shape [4, 8], expected [groups, tokens, choices]}}
  // expected-error @+1 {{'nn.expert_sort' op failed to infer returned types}}
  %o, %p, %q = nn.expert_sort %e of 8 : (tensor<4x8xi32>) -> (tensor<4x8xi32>, tensor<4x8xi32>, tensor<4x9xi32>)
  return
}

// -----

func.func @f(%e: tensor<4x8x2xi32>) {
  // expected-error @+2 {{there are 0 experts, expected at least 1}}
  // expected-error @+1 {{'nn.expert_sort' op failed to infer returned types}}
  %o, %p, %q = nn.expert_sort %e of 0 : (tensor<4x8x2xi32>) -> (tensor<4x16xi32>, tensor<4x8x2xi32>, tensor<4x1xi32>)
  return
}

// -----

func.func @f(%e: tensor<4x8x2xi32>) {
  // expected-error @+2 {{there are 65537 experts, expected at most 65536}}
  // expected-error @+1 {{'nn.expert_sort' op failed to infer returned types}}
  %o, %p, %q = nn.expert_sort %e of 65537 : (tensor<4x8x2xi32>) -> (tensor<4x16xi32>, tensor<4x8x2xi32>, tensor<4x65538xi32>)
  return
}

// -----

func.func @f(%e: tensor<4x8x2xi32>) {
  // expected-error @+2 {{capacity is 0, expected at least 1}}
  // expected-error @+1 {{'nn.expert_sort' op failed to infer returned types}}
  %o, %p, %q = nn.expert_sort %e of 4 capacity 0 : (tensor<4x8x2xi32>) -> (tensor<4x16xi32>, tensor<4x8x2xi32>, tensor<4x5xi32>)
  return
}

// -----

// Three experts of two have six rows.
func.func @f(%e: tensor<4x8x2xi32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error-re @+1 {{inferred type(s) {{.*}}tensor<4x6xi32>{{.*}} are incompatible}}
  %o, %p, %q = nn.expert_sort %e of 3 capacity 2 : (tensor<4x8x2xi32>) -> (tensor<4x16xi32>, tensor<4x8x2xi32>, tensor<4x4xi32>)
  return
}

// -----

func.func @f(%x: tensor<4x8x3xf32>, %o: tensor<4x16xi32>, %p: tensor<4x7x2xi32>) {
  // expected-error @+2 {{input has shape [4, 8, 3], expected [4, 7, width]: the tokens of each group}}
  // expected-error @+1 {{'nn.dispatch' op failed to infer returned types}}
  %y = nn.dispatch %x, %o, %p : (tensor<4x8x3xf32>, tensor<4x16xi32>, tensor<4x7x2xi32>) -> tensor<4x16x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8x3xf32>, %o: tensor<5x16xi32>, %p: tensor<4x8x2xi32>) {
  // expected-error @+2 {{order has shape [5, 16], expected [4, rows]: the groups are those of position}}
  // expected-error @+1 {{'nn.dispatch' op failed to infer returned types}}
  %y = nn.dispatch %x, %o, %p : (tensor<4x8x3xf32>, tensor<5x16xi32>, tensor<4x8x2xi32>) -> tensor<4x16x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x15x3xf32>, %o: tensor<4x16xi32>, %p: tensor<4x8x2xi32>) {
  // expected-error @+2 {{input has shape [4, 15, 3], expected [4, 16, width]: the rows of each group}}
  // expected-error @+1 {{'nn.combine' op failed to infer returned types}}
  %y = nn.combine %x, %o, %p : (tensor<4x15x3xf32>, tensor<4x16xi32>, tensor<4x8x2xi32>) -> tensor<4x8x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x16x3xf32>, %o: tensor<4x16xi32>, %p: tensor<4x8x2xi32>, %w: tensor<4x8xf32>) {
  // expected-error @+2 {{weights have type 'tensor<4x8xf32>', expected 'tensor<4x8x2xf32>', one for each assignment}}
  // expected-error @+1 {{'nn.combine' op failed to infer returned types}}
  %y = nn.combine %x, %o, %p weights %w : (tensor<4x16x3xf32>, tensor<4x16xi32>, tensor<4x8x2xi32>, tensor<4x8xf32>) -> tensor<4x8x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x16x3xf32>, %o: tensor<4x16xi32>, %p: tensor<4x16xi32>) {
  // expected-error @+2 {{position has shape [4, 16], expected [groups, tokens, choices]}}
  // expected-error @+1 {{'nn.combine' op failed to infer returned types}}
  %y = nn.combine %x, %o, %p : (tensor<4x16x3xf32>, tensor<4x16xi32>, tensor<4x16xi32>) -> tensor<4x8x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x16xf32>, %w: tensor<8x16x3xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+2 {{rows have shape [4, 16], expected [groups, rows, width], or parts in front of them}}
  // expected-error @+1 {{'nn.grouped_matmul' op failed to infer returned types}}
  %y = nn.grouped_matmul %x, %w, %o : (tensor<4x16xf32>, tensor<8x16x3xf32>, tensor<4x9xi32>) -> tensor<4x16x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %w: tensor<8x16x3xf32>, %o: tensor<3x9xi32>) {
  // expected-error @+2 {{offsets have shape [3, 9], expected [4] and experts + 1}}
  // expected-error @+1 {{'nn.grouped_matmul' op failed to infer returned types}}
  %y = nn.grouped_matmul %x, %w, %o : (tensor<4x32x16xf32>, tensor<8x16x3xf32>, tensor<3x9xi32>) -> tensor<4x32x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %w: tensor<8x3x16xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+2 {{matrices have shape [8, 3, 16], expected [8, 16, 16], where the second size of a matrix is free}}
  // expected-error @+1 {{'nn.grouped_matmul' op failed to infer returned types}}
  %y = nn.grouped_matmul %x, %w, %o : (tensor<4x32x16xf32>, tensor<8x3x16xf32>, tensor<4x9xi32>) -> tensor<4x32x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %w: tensor<8x16x3xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+2 {{matrices have shape [8, 16, 3], expected [8, 16, 16], where the first size of a matrix is free}}
  // expected-error @+1 {{'nn.grouped_matmul' op failed to infer returned types}}
  %y = nn.grouped_matmul %x, %w, %o transposed : (tensor<4x32x16xf32>, tensor<8x16x3xf32>, tensor<4x9xi32>) -> tensor<4x32x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %w: tensor<8x16x3xbf16>, %o: tensor<4x9xi32>) {
  // expected-error @+2 {{rows are of 'f32' and matrices of 'bf16', expected the same}}
  // expected-error @+1 {{'nn.grouped_matmul' op failed to infer returned types}}
  %y = nn.grouped_matmul %x, %w, %o : (tensor<4x32x16xf32>, tensor<8x16x3xbf16>, tensor<4x9xi32>) -> tensor<4x32x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %y: tensor<4x31x3xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+2 {{rows have types 'tensor<4x32x16xf32>' and 'tensor<4x31x3xf32>', expected as many rows of one element type}}
  // expected-error @+1 {{'nn.grouped_outer' op failed to infer returned types}}
  %w = nn.grouped_outer %x, %y, %o : (tensor<4x32x16xf32>, tensor<4x31x3xf32>, tensor<4x9xi32>) -> tensor<8x16x3xf32>
  return
}

// -----

// expected-error @+1 {{balance is 0.000000e+00, expected a positive number}}
func.func @f(%b: tensor<8xf32> {nn.param = #nn.param<"b", axes = [expert], init = constant(0), balance(0)>}) {
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+1 {{has 3 parts, expected a divisor of the 8 experts}}
  %y = nn.bucket %x, %o : (tensor<4x32x16xf32>, tensor<4x9xi32>) -> tensor<3x4x32x16xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x32x16xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+1 {{takes rows between 'tensor<4x32x15xf32>' and 'tensor<2x4x32x16xf32>', expected the same groups, width and element type}}
  %y = nn.unbucket %x, %o : (tensor<2x4x32x16xf32>, tensor<4x9xi32>) -> tensor<4x32x15xf32>
  return
}

// -----

func.func @f(%x: tensor<4x32x16xf32>, %o: tensor<4x9xi32>) {
  // expected-error @+1 {{expected [groups, rows, width] and [parts, groups, rows, width]}}
  %y = nn.bucket %x, %o : (tensor<4x32x16xf32>, tensor<4x9xi32>) -> tensor<4x32x16xf32>
  return
}
