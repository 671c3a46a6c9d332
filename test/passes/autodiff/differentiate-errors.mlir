// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-differentiate=functions=f

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'nn.microbatches' op cannot be differentiated; run nn-differentiate before nn-accumulate, which makes this loop}}
  %y = nn.microbatches 2 inits(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%k: tensor<i32>, %a: tensor<4xf32>):
    nn.yield %a : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// expected-error@below {{nn-differentiate: option 'functions' names 'f', which is no function with a body; the module has g}}
module {
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error@below {{'func.func' op cannot be differentiated: there is a @f_gradient already}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// expected-note@below {{here; rename or remove it}}
func.func @f_gradient(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func private @outside(tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'func.call' op calls @outside, which has no body; define it in this module}}
  %y = call @outside(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'func.call' op calls @again from within it; a function that calls itself cannot be taken apart}}
  %y = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  // expected-error@+1 {{'nn.sgd' op has no gradient, but the result to be differentiated depends on its operands}}
  %p, %c = nn.sgd %x, %g, %b lr %s momentum %s decay %s grad_scale %s
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %p : tensor<4xf32>
}

// -----

// expected-error@below {{'func.func' op has 2 blocks, expected one}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<4xf32>
}

// -----

// expected-error@below {{'func.func' op cannot be differentiated: argument 0 has the type 'tensor<1x9223372036854775807xf32>', expected static dimensions of at least 1 and at most 2^59 elements}}
func.func @f(%x: tensor<1x9223372036854775807xf32>) -> tensor<f32> {
  %y = nn.constant dense<1.0> : tensor<f32>
  return %y : tensor<f32>
}

// -----

// Payloads are put in behind differentiation.
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %q, %s = nn.quantize %x to f8E4M3FN blocks [1, 0] scale exact : (tensor<4x8xf32>) -> (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>)
  // expected-error@+1 {{'nn.dequantize' op has no gradient, but the result to be differentiated depends on its operands}}
  %y = nn.dequantize %q, %s blocks [1, 0] : (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
