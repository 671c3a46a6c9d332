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

// -----

// expected-error@below {{'func.func' op has the parameter "table" of 4294967298 elements, expected at most 2^32 where they are random: cut it in several}}
func.func @loss(%zeros: tensor<2147483649x2xf32> {nn.param = #nn.param<"zeros", axes = [vocab, embed], init = constant(0)>},
    %table: tensor<2147483649x2xf32> {nn.param = #nn.param<"table", axes = [vocab, embed], init = normal(0.5)>}) {
  return
}
