// A GPT: the whole block, and how the rest is made of it.
// RUN: sheaf-model gpt --layers=2 --hidden=48 --heads=2 --ffn=80 --vocab=96 --seq=32 --batch=4 -o %t.mlir
// RUN: FileCheck %s --match-full-lines --input-file=%t.mlir
// RUN: sheaf-opt --verify-roundtrip %t.mlir -o %t.out

//      CHECK: // GPT, 41056 parameters: 2 layers, hidden 48, 2 heads, ffn 80, vocab 96.
// CHECK-NEXT: // One step takes 4 samples of 32 tokens. Written by sheaf-model.

//      CHECK: func.func private @block(
// CHECK-NEXT: %x: tensor<4x32x48xf32>,
// CHECK-NEXT: %ln_1.weight: tensor<48xf32>,
// CHECK-NEXT: %ln_1.bias: tensor<48xf32>,
// CHECK-NEXT: %attn.c_attn.weight: tensor<48x144xf32>,
// CHECK-NEXT: %attn.c_attn.bias: tensor<144xf32>,
// CHECK-NEXT: %attn.c_proj.weight: tensor<48x48xf32>,
// CHECK-NEXT: %attn.c_proj.bias: tensor<48xf32>,
// CHECK-NEXT: %ln_2.weight: tensor<48xf32>,
// CHECK-NEXT: %ln_2.bias: tensor<48xf32>,
// CHECK-NEXT: %mlp.c_fc.weight: tensor<48x80xf32>,
// CHECK-NEXT: %mlp.c_fc.bias: tensor<80xf32>,
// CHECK-NEXT: %mlp.c_proj.weight: tensor<80x48xf32>,
// CHECK-NEXT: %mlp.c_proj.bias: tensor<48xf32>) -> tensor<4x32x48xf32> attributes {nn.layer, no_inline} {
// CHECK-NEXT: %attn.input = nn.layer_norm %x, %ln_1.weight, %ln_1.bias eps 1.000000e-05 : (tensor<4x32x48xf32>, tensor<48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %qkv.weight = nn.reshape %attn.c_attn.weight : tensor<48x144xf32> -> tensor<48x3x2x24xf32>
// CHECK-NEXT: %qkv.bias = nn.reshape %attn.c_attn.bias : tensor<144xf32> -> tensor<3x2x24xf32>
// CHECK-NEXT: %query.weight.part = nn.slice %qkv.weight offsets [0, 0, 0, 0] sizes [48, 1, 2, 24] : (tensor<48x3x2x24xf32>) -> tensor<48x1x2x24xf32>
// CHECK-NEXT: %query.weight = nn.reshape %query.weight.part : tensor<48x1x2x24xf32> -> tensor<48x2x24xf32>
// CHECK-NEXT: %query.bias.part = nn.slice %qkv.bias offsets [0, 0, 0] sizes [1, 2, 24] : (tensor<3x2x24xf32>) -> tensor<1x2x24xf32>
// CHECK-NEXT: %query.bias = nn.reshape %query.bias.part : tensor<1x2x24xf32> -> tensor<2x24xf32>
// CHECK-NEXT: %query.product = nn.einsum "bse,ehd->bshd"(%attn.input, %query.weight) : (tensor<4x32x48xf32>, tensor<48x2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %query = nn.add %query.product, %query.bias : (tensor<4x32x2x24xf32>, tensor<2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %key.weight.part = nn.slice %qkv.weight offsets [0, 1, 0, 0] sizes [48, 1, 2, 24] : (tensor<48x3x2x24xf32>) -> tensor<48x1x2x24xf32>
// CHECK-NEXT: %key.weight = nn.reshape %key.weight.part : tensor<48x1x2x24xf32> -> tensor<48x2x24xf32>
// CHECK-NEXT: %key.bias.part = nn.slice %qkv.bias offsets [1, 0, 0] sizes [1, 2, 24] : (tensor<3x2x24xf32>) -> tensor<1x2x24xf32>
// CHECK-NEXT: %key.bias = nn.reshape %key.bias.part : tensor<1x2x24xf32> -> tensor<2x24xf32>
// CHECK-NEXT: %key.product = nn.einsum "bse,ehd->bshd"(%attn.input, %key.weight) : (tensor<4x32x48xf32>, tensor<48x2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %key = nn.add %key.product, %key.bias : (tensor<4x32x2x24xf32>, tensor<2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %value.weight.part = nn.slice %qkv.weight offsets [0, 2, 0, 0] sizes [48, 1, 2, 24] : (tensor<48x3x2x24xf32>) -> tensor<48x1x2x24xf32>
// CHECK-NEXT: %value.weight = nn.reshape %value.weight.part : tensor<48x1x2x24xf32> -> tensor<48x2x24xf32>
// CHECK-NEXT: %value.bias.part = nn.slice %qkv.bias offsets [2, 0, 0] sizes [1, 2, 24] : (tensor<3x2x24xf32>) -> tensor<1x2x24xf32>
// CHECK-NEXT: %value.bias = nn.reshape %value.bias.part : tensor<1x2x24xf32> -> tensor<2x24xf32>
// CHECK-NEXT: %value.product = nn.einsum "bse,ehd->bshd"(%attn.input, %value.weight) : (tensor<4x32x48xf32>, tensor<48x2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %value = nn.add %value.product, %value.bias : (tensor<4x32x2x24xf32>, tensor<2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %attended = nn.attention %query, %key, %value causal : (tensor<4x32x2x24xf32>, tensor<4x32x2x24xf32>, tensor<4x32x2x24xf32>) -> tensor<4x32x2x24xf32>
// CHECK-NEXT: %attn.weight = nn.reshape %attn.c_proj.weight : tensor<48x48xf32> -> tensor<2x24x48xf32>
// CHECK-NEXT: %attn.product = nn.einsum "bshd,hde->bse"(%attended, %attn.weight) : (tensor<4x32x2x24xf32>, tensor<2x24x48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %attn.output = nn.add %attn.product, %attn.c_proj.bias : (tensor<4x32x48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %residual = nn.add %x, %attn.output : tensor<4x32x48xf32>
// CHECK-NEXT: %mlp.input = nn.layer_norm %residual, %ln_2.weight, %ln_2.bias eps 1.000000e-05 : (tensor<4x32x48xf32>, tensor<48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %up.product = nn.einsum "bse,ef->bsf"(%mlp.input, %mlp.c_fc.weight) : (tensor<4x32x48xf32>, tensor<48x80xf32>) -> tensor<4x32x80xf32>
// CHECK-NEXT: %up = nn.add %up.product, %mlp.c_fc.bias : (tensor<4x32x80xf32>, tensor<80xf32>) -> tensor<4x32x80xf32>
// CHECK-NEXT: %active = nn.gelu_tanh %up : tensor<4x32x80xf32>
// CHECK-NEXT: %down.product = nn.einsum "bsf,fe->bse"(%active, %mlp.c_proj.weight) : (tensor<4x32x80xf32>, tensor<80x48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %down = nn.add %down.product, %mlp.c_proj.bias : (tensor<4x32x48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %output = nn.add %residual, %down : tensor<4x32x48xf32>
// CHECK-NEXT: return %output : tensor<4x32x48xf32>
// CHECK-NEXT: }

// CHECK: func.func private @hidden(%wte.weight: tensor<96x48xf32>, %wpe.weight: tensor<32x48xf32>,
// CHECK: %token_rows = nn.embedding %wte.weight[%tokens] : (tensor<96x48xf32>, tensor<4x32xi32>) -> tensor<4x32x48xf32>
// CHECK: %embedded = nn.add %token_rows, %wpe.weight : (tensor<4x32x48xf32>, tensor<32x48xf32>) -> tensor<4x32x48xf32>
// CHECK: %x.0 = call @block(%embedded, %h.0.ln_1.weight, %h.0.ln_1.bias, %h.0.attn.c_attn.weight, %h.0.attn.c_attn.bias,
// CHECK: %x.1 = call @block(%x.0, %h.1.ln_1.weight, %h.1.ln_1.bias, %h.1.attn.c_attn.weight, %h.1.attn.c_attn.bias,
// CHECK: %normed = nn.layer_norm %x.1, %ln_f.weight, %ln_f.bias eps 1.000000e-05 : (tensor<4x32x48xf32>, tensor<48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK: return %normed : tensor<4x32x48xf32>
// CHECK: func.func @logits(
// CHECK: %wte.weight: tensor<96x48xf32> {nn.param = #nn.param<"transformer.wte.weight", axes = [vocab, embed], init = normal(0.02)>},
// CHECK: %wpe.weight: tensor<32x48xf32> {nn.param = #nn.param<"transformer.wpe.weight", axes = [_, embed], init = normal(0.02)>},
// CHECK: %h.1.ln_1.weight: tensor<48xf32> {nn.param = #nn.param<"transformer.h.1.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
// CHECK: %h.1.mlp.c_proj.weight: tensor<80x48xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.01)>},
// CHECK: %h.1.mlp.c_proj.bias: tensor<48xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
// CHECK: %tokens: tensor<4x32xi32> {nn.batch = "tokens"}) -> tensor<4x32x96xf32> {
// CHECK: %hidden = call @hidden(%wte.weight, %wpe.weight, %h.0.ln_1.weight, %h.0.ln_1.bias, %h.0.attn.c_attn.weight,
// CHECK: %logits = nn.einsum "bse,ve->bsv"(%hidden, %wte.weight) : (tensor<4x32x48xf32>, tensor<96x48xf32>) -> tensor<4x32x96xf32>
// CHECK: return %logits : tensor<4x32x96xf32>
// CHECK: func.func @loss(
// CHECK: %wte.weight: tensor<96x48xf32> {nn.param = #nn.param<"transformer.wte.weight", axes = [vocab, embed], init = normal(0.02)>},
// CHECK: %wpe.weight: tensor<32x48xf32> {nn.param = #nn.param<"transformer.wpe.weight", axes = [_, embed], init = normal(0.02)>},
// CHECK: %h.1.ln_1.weight: tensor<48xf32> {nn.param = #nn.param<"transformer.h.1.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
// CHECK: %h.1.mlp.c_proj.weight: tensor<80x48xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.01)>},
// CHECK: %h.1.mlp.c_proj.bias: tensor<48xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
// CHECK: %tokens: tensor<4x32xi32> {nn.batch = "tokens"},
// CHECK: %targets: tensor<4x32xi32> {nn.batch = "targets"}) -> tensor<f32> {
// CHECK: %hidden = call @hidden(%wte.weight, %wpe.weight, %h.0.ln_1.weight, %h.0.ln_1.bias, %h.0.attn.c_attn.weight,
// CHECK: %logits = nn.einsum "bse,ve->bsv"(%hidden, %wte.weight) : (tensor<4x32x48xf32>, tensor<96x48xf32>) -> tensor<4x32x96xf32>
// CHECK: %losses, %losses_0 = nn.cross_entropy %logits, %targets : (tensor<4x32x96xf32>, tensor<4x32xi32>) -> (tensor<4x32xf32>, tensor<4x32xf32>)
// CHECK: %zero = nn.constant dense<0> : tensor<i32>
// CHECK: %valid = nn.compare ge %targets, %zero : (tensor<4x32xi32>, tensor<i32>) -> tensor<4x32xi1>
// CHECK: %loss = nn.step_mean %losses weights %valid : (tensor<4x32xf32>, tensor<4x32xi1>) -> tensor<f32>
// CHECK: return %loss : tensor<f32>
