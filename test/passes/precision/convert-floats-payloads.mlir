// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-convert-floats

// Payloads have factors of f32: there is no wider program to compare with.
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf8E4M3FN> {
  // expected-error@+1 {{'nn.quantize' op is of scaled 8-bit floats; nn-convert-floats expects a program without them, before they are put in}}
  %q, %s = nn.quantize %x to f8E4M3FN blocks [1, 0] scale exact : (tensor<4x8xf32>) -> (tensor<4x8xf8E4M3FN>, tensor<4x1xf32>)
  return %q : tensor<4x8xf8E4M3FN>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf8E8M0FNU> {
  // expected-error@+1 {{'nn.cast' op is of scaled 8-bit floats}}
  %s = nn.cast %x : tensor<4xf32> -> tensor<4xf8E8M0FNU>
  return %s : tensor<4xf8E8M0FNU>
}
