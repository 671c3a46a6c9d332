// RUN: sheaf-opt %s --verify-diagnostics --nn-convert-floats

// expected-error @below {{nn-convert-floats: @f is on buffers, expected a program on tensors}}
func.func @f(%a: memref<4xf32>) {
  return
}
