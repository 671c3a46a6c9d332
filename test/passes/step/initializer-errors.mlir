// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --nn-add-initializer

// expected-error@below {{nn-add-initializer: option 'function' names 'loss', which is no function of the module}}
module {
}

// -----

// expected-error@below {{'func.func' op cannot get an initializer: there is an @init already}}
func.func @loss() {
  return
}
// expected-note@below {{here}}
func.func @init() {
  return
}
