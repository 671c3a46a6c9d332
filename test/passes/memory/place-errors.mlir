// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --exec-place

// expected-error @below {{calls itself; recursion is not supported}}
func.func @itself() {
  exec.call @other
  return
}
func.func @other() {
  exec.call @itself
  return
}

// -----

// expected-error @below {{has no body of one block to place}}
func.func private @declared(memref<4xf32>)
