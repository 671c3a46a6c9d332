// RUN: not sheaf-opt %s --nn-prepare-evaluation=functions=loss 2>&1 | FileCheck %s
// CHECK: error: nn-prepare-evaluation: option 'functions' names 'loss', which is no function with a body
func.func @f() {
  return
}
