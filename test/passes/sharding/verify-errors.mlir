// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-verify
// What forgets which values are partial looks first.
// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-to-nn

dist.mesh @mesh ["tp" = 2]
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) {
  // expected-error@+1 {{is not linear in operand 0, which is partial over "tp"; reduce it first, for instance by dist.all_reduce}}
  %y = nn.exp %x : tensor<4xf32, #dist.partial<["tp"], sum>>
  return
}

// -----

// A maximum passes what is monotone.
dist.mesh @mesh ["tp" = 2]
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], max>>) {
  %y = nn.exp %x : tensor<4xf32, #dist.partial<["tp"], max>>
  // expected-error@+1 {{is not monotone in operand 0}}
  %z = nn.neg %x : tensor<4xf32, #dist.partial<["tp"], max>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>, %y: tensor<4xf32>) {
  // expected-error@+1 {{adds operand 0, which is partial over "tp", to operand 1, which is not; make it so by dist.make_partial}}
  %z = nn.add %x, %y : (tensor<4xf32, #dist.partial<["tp"], sum>>, tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) {
  // expected-error@+1 {{multiplies operands 0 and 1, which are both partial; reduce one of them}}
  %z = nn.mul %x, %x : tensor<4xf32, #dist.partial<["tp"], sum>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>, %y: tensor<4xf32>) {
  // expected-error@+1 {{result 0 is not partial, but operand 0 is, over "tp"}}
  %z = nn.mul %x, %y : (tensor<4xf32, #dist.partial<["tp"], sum>>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
// expected-error@+1 {{argument 0 of the entry @step is partial over "tp"; what an entry is given or gives must be reduced, for instance by dist.all_reduce}}
func.func @step(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) {
  return
}

// -----

// A zero, such as what stands in for padding, is a sum whose parts are zero.
dist.mesh @mesh ["tp" = 2]
func.func private @f(%inside: tensor<4xi1>, %x: tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32, #dist.partial<["tp"], sum>> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %z = nn.select %inside, %x, %zero : (tensor<4xi1>, tensor<4xf32, #dist.partial<["tp"], sum>>, tensor<f32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
  return %z : tensor<4xf32, #dist.partial<["tp"], sum>>
}

// -----

// Of a maximum it is the same.
dist.mesh @mesh ["tp" = 2]
// expected-error@+1 {{result 0 of the entry @step is partial over "tp"}}
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp"], max>> {
  %y = dist.make_partial max %x axes ["tp"] : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp"], max>>
  return %y : tensor<4xf32, #dist.partial<["tp"], max>>
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func private @f(%inside: tensor<4xi1>, %x: tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32, #dist.partial<["tp"], sum>> {
  %one = nn.constant dense<1.0> : tensor<f32>
  // expected-error@+1 {{adds operand 1, which is partial over "tp", to operand 2, which is not}}
  %z = nn.select %inside, %x, %one : (tensor<4xi1>, tensor<4xf32, #dist.partial<["tp"], sum>>, tensor<f32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
  return %z : tensor<4xf32, #dist.partial<["tp"], sum>>
}

// -----

// A type names an axis that the mesh lacks.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-error@+1 {{has a value of type 'tensor<4xf32, #dist.partial<["ttp"], sum>>', which uses axis "ttp", which the mesh does not have; it has "dp", "tp"; did you mean "tp"?}}
func.func private @f(%x: tensor<4xf32, #dist.partial<["ttp"], sum>>) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-error@+1 {{has a value of type 'tensor<4xf32, #dist.partial<["tp", "tp"], sum>>', which uses axis "tp" twice}}
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp", "tp"], sum>>) {
  return
}

// -----

// expected-error@+1 {{has a value of type 'tensor<4xf32, #dist.partial<["tp"], sum>>', but the module has no mesh; declare one with dist.mesh}}
func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) {
  return
}
