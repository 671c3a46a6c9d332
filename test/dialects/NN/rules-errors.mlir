// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

// Text that is no rule.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected the name of a factor or ']' at character 4, found '-> [a] {a=4}'}}
  %0 = math.exp %x {nn.rule = "[a -> [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '[', '()' or '->' at character 4, where the text ends}}
  %0 = math.exp %x {nn.rule = "[a]"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '[', '()' or '->' at character 5, found '=> [a] {a=4}'}}
  %0 = math.exp %x {nn.rule = "[a] => [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected ')'; '()' stands for a value without dimensions at character 2, found 'x) -> [a] {a'}}
  %0 = math.exp %x {nn.rule = "(x) -> [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '[' or '()' for the next value at character 6, found '-> [a] {a=4}'}}
  %0 = math.exp %x {nn.rule = "[a], -> [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '{' and the sizes of the factors at character 11, where the text ends}}
  %0 = math.exp %x {nn.rule = "[a] -> [a]"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: factor 'b' has no size in {...}; it is used at character 9}}
  %0 = math.exp %x {nn.rule = "[a] -> [b] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: factor 'b' is in no dimension at character 13}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {b=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '=' and the size of factor 'a' at character 14, found '}'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected the size of factor 'a' at character 15, found 'x}'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=x}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: factor 'a' is listed twice at character 18}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4, a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected 'sum', 'max', 'min', 'whole', 'halo(', 'via', ',' or '}' at character 17, found 'some}'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4 some}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '(' after 'halo' at character 21, found '}'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4 halo}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected ',' and the elements after at character 23, found ')}'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4 halo(1)}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected the name of an expansion after 'via' at character 26, found '}'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4 whole via}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected 'joint' or 'separate' after 'linear' at character 24, where the text ends}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4} linear"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected '(' and numbers of operands at character 30, where the text ends}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4} linear joint"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected the end at character 34, found 'more'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4} linear joint(0) more"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected ',' or ')' at character 28, where the text ends}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4} monotone(0"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: no op has operand 99999999999 at character 38}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4} monotone(99999999999)"} : tensor<4xf32>
  return
}

// -----

// Rules that do not fit the op.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: the op has 1 operands, the rule 2}}
  %0 = math.exp %x {nn.rule = "[a], [a] -> [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: the op has 1 results, the rule 2}}
  %0 = math.exp %x {nn.rule = "[a] -> [a], [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: operand 0 has 1 dimensions, the rule gives it 2}}
  %0 = math.exp %x {nn.rule = "[a][b] -> [a] {a=4, b=1}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: operand 0 has 1 dimensions, the rule gives it 0}}
  %0 = math.exp %x {nn.rule = "() -> [a] {a=4}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: dimension 0 of operand 0 has size 4, but its factors give 3}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=3}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: factor 'a' has size 0, expected at least 1}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=0}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: dimension 0 of operand 0 has size 4, but its factors give 6}}
  %0 = math.exp %x {nn.rule = "[a b] -> [a b] {a=2, b=3}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: factor 'a' occurs twice in operand 0}}
  %0 = math.exp %x {nn.rule = "[a a] -> [a a] {a=2}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: the factors of dimension 0 of operand 0 give a size that does not fit 64 bits}}
  %0 = math.exp %x {nn.rule = "[a b] -> [a b] {a=9223372036854775807, b=2}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: expected the size of factor 'a' at character 15, found '999999999999'}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=99999999999999999999}"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: the rule is linear or monotone in operand 1, but the op has 1}}
  %0 = math.exp %x {nn.rule = "[a] -> [a] {a=4} linear joint(1)"} : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'math.exp' op nn.rule: dimension 0 of operand 0 has size 4, but its factors give 1}}
  %0 = math.exp %x {nn.rule = "[] -> [a] {a=4}"} : tensor<4xf32>
  return
}
