// A Llama: the whole block, and how the rest is made of it.
// RUN: sheaf-model llama --layers=2 --hidden=48 --heads=6 --kv-heads=2 --ffn=80 --vocab=96 --seq=32 --batch=4 -o %t.mlir
// RUN: FileCheck %s --match-full-lines --input-file=%t.mlir
// RUN: sheaf-opt --verify-roundtrip %t.mlir -o %t.out

//      CHECK: // Llama, 44784 parameters: 2 layers, hidden 48, 6 heads with 2 of key and value, ffn 80, vocab 96.
// CHECK-NEXT: // One step takes 4 samples of 32 tokens. Written by sheaf-model.

//      CHECK: func.func private @block(
// CHECK-NEXT: %x: tensor<4x32x48xf32>,
// CHECK-NEXT: %input_layernorm.weight: tensor<48xf32>,
// CHECK-NEXT: %self_attn.q_proj.weight: tensor<48x48xf32>,
// CHECK-NEXT: %self_attn.k_proj.weight: tensor<16x48xf32>,
// CHECK-NEXT: %self_attn.v_proj.weight: tensor<16x48xf32>,
// CHECK-NEXT: %self_attn.o_proj.weight: tensor<48x48xf32>,
// CHECK-NEXT: %post_attention_layernorm.weight: tensor<48xf32>,
// CHECK-NEXT: %mlp.gate_proj.weight: tensor<80x48xf32>,
// CHECK-NEXT: %mlp.up_proj.weight: tensor<80x48xf32>,
// CHECK-NEXT: %mlp.down_proj.weight: tensor<48x80xf32>,
// CHECK-NEXT: %positions: tensor<32xi32>) -> tensor<4x32x48xf32> attributes {nn.layer, no_inline} {
// CHECK-NEXT: %attn.input = nn.rms_norm %x, %input_layernorm.weight eps 1.000000e-05 : (tensor<4x32x48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %query.weight = nn.reshape %self_attn.q_proj.weight : tensor<48x48xf32> -> tensor<6x8x48xf32>
// CHECK-NEXT: %query = nn.einsum "bse,hde->bshd"(%attn.input, %query.weight) : (tensor<4x32x48xf32>, tensor<6x8x48xf32>) -> tensor<4x32x6x8xf32>
// CHECK-NEXT: %key.weight = nn.reshape %self_attn.k_proj.weight : tensor<16x48xf32> -> tensor<2x8x48xf32>
// CHECK-NEXT: %key = nn.einsum "bse,hde->bshd"(%attn.input, %key.weight) : (tensor<4x32x48xf32>, tensor<2x8x48xf32>) -> tensor<4x32x2x8xf32>
// CHECK-NEXT: %value.weight = nn.reshape %self_attn.v_proj.weight : tensor<16x48xf32> -> tensor<2x8x48xf32>
// CHECK-NEXT: %value = nn.einsum "bse,hde->bshd"(%attn.input, %value.weight) : (tensor<4x32x48xf32>, tensor<2x8x48xf32>) -> tensor<4x32x2x8xf32>
// CHECK-NEXT: %query.turned = nn.rotary %query, %positions theta 1.000000e+04 : (tensor<4x32x6x8xf32>, tensor<32xi32>) -> tensor<4x32x6x8xf32>
// CHECK-NEXT: %key.turned = nn.rotary %key, %positions theta 1.000000e+04 : (tensor<4x32x2x8xf32>, tensor<32xi32>) -> tensor<4x32x2x8xf32>
// CHECK-NEXT: %attended = nn.attention %query.turned, %key.turned, %value causal : (tensor<4x32x6x8xf32>, tensor<4x32x2x8xf32>, tensor<4x32x2x8xf32>) -> tensor<4x32x6x8xf32>
// CHECK-NEXT: %attn.weight = nn.reshape %self_attn.o_proj.weight : tensor<48x48xf32> -> tensor<48x6x8xf32>
// CHECK-NEXT: %attn.output = nn.einsum "bshd,ehd->bse"(%attended, %attn.weight) : (tensor<4x32x6x8xf32>, tensor<48x6x8xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %residual = nn.add %x, %attn.output : tensor<4x32x48xf32>
// CHECK-NEXT: %mlp.input = nn.rms_norm %residual, %post_attention_layernorm.weight eps 1.000000e-05 : (tensor<4x32x48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %gate = nn.einsum "bse,fe->bsf"(%mlp.input, %mlp.gate_proj.weight) : (tensor<4x32x48xf32>, tensor<80x48xf32>) -> tensor<4x32x80xf32>
// CHECK-NEXT: %up = nn.einsum "bse,fe->bsf"(%mlp.input, %mlp.up_proj.weight) : (tensor<4x32x48xf32>, tensor<80x48xf32>) -> tensor<4x32x80xf32>
// CHECK-NEXT: %active = nn.silu %gate : tensor<4x32x80xf32>
// CHECK-NEXT: %gated = nn.mul %active, %up : tensor<4x32x80xf32>
// CHECK-NEXT: %down = nn.einsum "bsf,ef->bse"(%gated, %mlp.down_proj.weight) : (tensor<4x32x80xf32>, tensor<48x80xf32>) -> tensor<4x32x48xf32>
// CHECK-NEXT: %output = nn.add %residual, %down : tensor<4x32x48xf32>
// CHECK-NEXT: return %output : tensor<4x32x48xf32>
// CHECK-NEXT: }

// CHECK: func.func private @hidden(%embed_tokens.weight: tensor<96x48xf32>, %layers.0.input_layernorm.weight: tensor<48xf32>,
// CHECK: %positions = nn.iota dim 0 : tensor<32xi32>
// CHECK: %embedded = nn.embedding %embed_tokens.weight[%tokens] : (tensor<96x48xf32>, tensor<4x32xi32>) -> tensor<4x32x48xf32>
// CHECK: %x.0 = call @block(%embedded, %layers.0.input_layernorm.weight, %layers.0.self_attn.q_proj.weight,
// CHECK: %x.1 = call @block(%x.0, %layers.1.input_layernorm.weight, %layers.1.self_attn.q_proj.weight,
// CHECK: %normed = nn.rms_norm %x.1, %norm.weight eps 1.000000e-05 : (tensor<4x32x48xf32>, tensor<48xf32>) -> tensor<4x32x48xf32>
// CHECK: return %normed : tensor<4x32x48xf32>
// CHECK: func.func @logits(
// CHECK: %embed_tokens.weight: tensor<96x48xf32> {nn.param = #nn.param<"model.embed_tokens.weight", axes = [vocab, embed], init = normal(0.02)>},
// CHECK: %layers.1.input_layernorm.weight: tensor<48xf32> {nn.param = #nn.param<"model.layers.1.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
// CHECK: %layers.1.self_attn.q_proj.weight: tensor<48x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
// CHECK: %layers.1.self_attn.k_proj.weight: tensor<16x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
// CHECK: %layers.1.self_attn.v_proj.weight: tensor<16x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
// CHECK: %layers.1.self_attn.o_proj.weight: tensor<48x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.01)>},
// CHECK: %layers.1.post_attention_layernorm.weight: tensor<48xf32> {nn.param = #nn.param<"model.layers.1.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
// CHECK: %layers.1.mlp.gate_proj.weight: tensor<80x48xf32> {nn.param = #nn.param<"model.layers.1.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
// CHECK: %layers.1.mlp.up_proj.weight: tensor<80x48xf32> {nn.param = #nn.param<"model.layers.1.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
// CHECK: %layers.1.mlp.down_proj.weight: tensor<48x80xf32> {nn.param = #nn.param<"model.layers.1.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.01)>},
// CHECK: %lm_head.weight: tensor<96x48xf32> {nn.param = #nn.param<"lm_head.weight", axes = [vocab, embed], init = normal(0.02)>},
// CHECK: %tokens: tensor<4x32xi32> {nn.batch = "tokens"}) -> tensor<4x32x96xf32> {
// CHECK: %hidden = call @hidden(%embed_tokens.weight, %layers.0.input_layernorm.weight, %layers.0.self_attn.q_proj.weight,
// CHECK: %logits = nn.einsum "bse,ve->bsv"(%hidden, %lm_head.weight) : (tensor<4x32x48xf32>, tensor<96x48xf32>) -> tensor<4x32x96xf32>
// CHECK: return %logits : tensor<4x32x96xf32>
// CHECK: func.func @loss(
// CHECK: %embed_tokens.weight: tensor<96x48xf32> {nn.param = #nn.param<"model.embed_tokens.weight", axes = [vocab, embed], init = normal(0.02)>},
// CHECK: %layers.1.input_layernorm.weight: tensor<48xf32> {nn.param = #nn.param<"model.layers.1.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
// CHECK: %layers.1.self_attn.q_proj.weight: tensor<48x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
// CHECK: %layers.1.self_attn.k_proj.weight: tensor<16x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
// CHECK: %layers.1.self_attn.v_proj.weight: tensor<16x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
// CHECK: %layers.1.self_attn.o_proj.weight: tensor<48x48xf32> {nn.param = #nn.param<"model.layers.1.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.01)>},
// CHECK: %layers.1.post_attention_layernorm.weight: tensor<48xf32> {nn.param = #nn.param<"model.layers.1.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
// CHECK: %layers.1.mlp.gate_proj.weight: tensor<80x48xf32> {nn.param = #nn.param<"model.layers.1.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
// CHECK: %layers.1.mlp.up_proj.weight: tensor<80x48xf32> {nn.param = #nn.param<"model.layers.1.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
// CHECK: %layers.1.mlp.down_proj.weight: tensor<48x80xf32> {nn.param = #nn.param<"model.layers.1.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.01)>},
// CHECK: %lm_head.weight: tensor<96x48xf32> {nn.param = #nn.param<"lm_head.weight", axes = [vocab, embed], init = normal(0.02)>},
// CHECK: %tokens: tensor<4x32xi32> {nn.batch = "tokens"},
// CHECK: %targets: tensor<4x32xi32> {nn.batch = "targets"}) -> tensor<f32> {
// CHECK: %hidden = call @hidden(%embed_tokens.weight, %layers.0.input_layernorm.weight, %layers.0.self_attn.q_proj.weight,
// CHECK: %logits = nn.einsum "bse,ve->bsv"(%hidden, %lm_head.weight) : (tensor<4x32x48xf32>, tensor<96x48xf32>) -> tensor<4x32x96xf32>
// CHECK: %losses, %losses_0 = nn.cross_entropy %logits, %targets : (tensor<4x32x96xf32>, tensor<4x32xi32>) -> (tensor<4x32xf32>, tensor<4x32xf32>)
