// RUN: not sheaf-opt %s --nn-add-optimizer=kind=adam 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not sheaf-opt %s --nn-add-optimizer=lr=-1 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: not sheaf-opt %s --nn-add-optimizer=beta2=1 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: not sheaf-opt %s --nn-add-optimizer 2>&1 | FileCheck %s --check-prefix=MISSING
// KIND: error: nn-add-optimizer: option 'kind' is 'adam', expected adamw or sgd
// RATE: error: nn-add-optimizer: option 'lr' is -1.0{{.*}}, expected a finite number of at least 0
// BETA: error: nn-add-optimizer: option 'beta2' is 1.0{{.*}}, expected at least 0 and below 1
// MISSING: error: nn-add-optimizer: the module has no @gradients; run nn-accumulate before
func.func @f() {
  return
}
