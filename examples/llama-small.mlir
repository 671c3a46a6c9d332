// Llama, 853120 parameters: 4 layers, hidden 128, 4 heads with 2 of key and value, ffn 384, vocab 256.
// One step takes 8 samples of 128 tokens. Written by sheaf-model.

module {
  func.func private @block(
      %x: tensor<8x128x128xf32>,
      %input_layernorm.weight: tensor<128xf32>,
      %self_attn.q_proj.weight: tensor<128x128xf32>,
      %self_attn.k_proj.weight: tensor<64x128xf32>,
      %self_attn.v_proj.weight: tensor<64x128xf32>,
      %self_attn.o_proj.weight: tensor<128x128xf32>,
      %post_attention_layernorm.weight: tensor<128xf32>,
      %mlp.gate_proj.weight: tensor<384x128xf32>,
      %mlp.up_proj.weight: tensor<384x128xf32>,
      %mlp.down_proj.weight: tensor<128x384xf32>,
      %positions: tensor<128xi32>) -> tensor<8x128x128xf32> attributes {nn.layer, no_inline} {
    %attn.input = nn.rms_norm %x, %input_layernorm.weight eps 1.000000e-05 : (tensor<8x128x128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    %query.weight = nn.reshape %self_attn.q_proj.weight : tensor<128x128xf32> -> tensor<4x32x128xf32>
    %query = nn.einsum "bse,hde->bshd"(%attn.input, %query.weight) : (tensor<8x128x128xf32>, tensor<4x32x128xf32>) -> tensor<8x128x4x32xf32>
    %key.weight = nn.reshape %self_attn.k_proj.weight : tensor<64x128xf32> -> tensor<2x32x128xf32>
    %key = nn.einsum "bse,hde->bshd"(%attn.input, %key.weight) : (tensor<8x128x128xf32>, tensor<2x32x128xf32>) -> tensor<8x128x2x32xf32>
    %value.weight = nn.reshape %self_attn.v_proj.weight : tensor<64x128xf32> -> tensor<2x32x128xf32>
    %value = nn.einsum "bse,hde->bshd"(%attn.input, %value.weight) : (tensor<8x128x128xf32>, tensor<2x32x128xf32>) -> tensor<8x128x2x32xf32>
    %query.turned = nn.rotary %query, %positions theta 1.000000e+04 : (tensor<8x128x4x32xf32>, tensor<128xi32>) -> tensor<8x128x4x32xf32>
    %key.turned = nn.rotary %key, %positions theta 1.000000e+04 : (tensor<8x128x2x32xf32>, tensor<128xi32>) -> tensor<8x128x2x32xf32>
    %attended = nn.attention %query.turned, %key.turned, %value causal : (tensor<8x128x4x32xf32>, tensor<8x128x2x32xf32>, tensor<8x128x2x32xf32>) -> tensor<8x128x4x32xf32>
    %attn.weight = nn.reshape %self_attn.o_proj.weight : tensor<128x128xf32> -> tensor<128x4x32xf32>
    %attn.output = nn.einsum "bshd,ehd->bse"(%attended, %attn.weight) : (tensor<8x128x4x32xf32>, tensor<128x4x32xf32>) -> tensor<8x128x128xf32>
    %residual = nn.add %x, %attn.output : tensor<8x128x128xf32>
    %mlp.input = nn.rms_norm %residual, %post_attention_layernorm.weight eps 1.000000e-05 : (tensor<8x128x128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    %gate = nn.einsum "bse,fe->bsf"(%mlp.input, %mlp.gate_proj.weight) : (tensor<8x128x128xf32>, tensor<384x128xf32>) -> tensor<8x128x384xf32>
    %up = nn.einsum "bse,fe->bsf"(%mlp.input, %mlp.up_proj.weight) : (tensor<8x128x128xf32>, tensor<384x128xf32>) -> tensor<8x128x384xf32>
    %active = nn.silu %gate : tensor<8x128x384xf32>
    %gated = nn.mul %active, %up : tensor<8x128x384xf32>
    %down = nn.einsum "bsf,ef->bse"(%gated, %mlp.down_proj.weight) : (tensor<8x128x384xf32>, tensor<128x384xf32>) -> tensor<8x128x128xf32>
    %output = nn.add %residual, %down : tensor<8x128x128xf32>
    return %output : tensor<8x128x128xf32>
  }

  func.func private @hidden(%embed_tokens.weight: tensor<256x128xf32>,
      %layers.0.input_layernorm.weight: tensor<128xf32>, %layers.0.self_attn.q_proj.weight: tensor<128x128xf32>,
      %layers.0.self_attn.k_proj.weight: tensor<64x128xf32>, %layers.0.self_attn.v_proj.weight: tensor<64x128xf32>,
      %layers.0.self_attn.o_proj.weight: tensor<128x128xf32>,
      %layers.0.post_attention_layernorm.weight: tensor<128xf32>, %layers.0.mlp.gate_proj.weight: tensor<384x128xf32>,
      %layers.0.mlp.up_proj.weight: tensor<384x128xf32>, %layers.0.mlp.down_proj.weight: tensor<128x384xf32>,
      %layers.1.input_layernorm.weight: tensor<128xf32>, %layers.1.self_attn.q_proj.weight: tensor<128x128xf32>,
      %layers.1.self_attn.k_proj.weight: tensor<64x128xf32>, %layers.1.self_attn.v_proj.weight: tensor<64x128xf32>,
      %layers.1.self_attn.o_proj.weight: tensor<128x128xf32>,
      %layers.1.post_attention_layernorm.weight: tensor<128xf32>, %layers.1.mlp.gate_proj.weight: tensor<384x128xf32>,
      %layers.1.mlp.up_proj.weight: tensor<384x128xf32>, %layers.1.mlp.down_proj.weight: tensor<128x384xf32>,
      %layers.2.input_layernorm.weight: tensor<128xf32>, %layers.2.self_attn.q_proj.weight: tensor<128x128xf32>,
      %layers.2.self_attn.k_proj.weight: tensor<64x128xf32>, %layers.2.self_attn.v_proj.weight: tensor<64x128xf32>,
      %layers.2.self_attn.o_proj.weight: tensor<128x128xf32>,
      %layers.2.post_attention_layernorm.weight: tensor<128xf32>, %layers.2.mlp.gate_proj.weight: tensor<384x128xf32>,
      %layers.2.mlp.up_proj.weight: tensor<384x128xf32>, %layers.2.mlp.down_proj.weight: tensor<128x384xf32>,
      %layers.3.input_layernorm.weight: tensor<128xf32>, %layers.3.self_attn.q_proj.weight: tensor<128x128xf32>,
      %layers.3.self_attn.k_proj.weight: tensor<64x128xf32>, %layers.3.self_attn.v_proj.weight: tensor<64x128xf32>,
      %layers.3.self_attn.o_proj.weight: tensor<128x128xf32>,
      %layers.3.post_attention_layernorm.weight: tensor<128xf32>, %layers.3.mlp.gate_proj.weight: tensor<384x128xf32>,
      %layers.3.mlp.up_proj.weight: tensor<384x128xf32>, %layers.3.mlp.down_proj.weight: tensor<128x384xf32>,
      %norm.weight: tensor<128xf32>, %tokens: tensor<8x128xi32>) -> tensor<8x128x128xf32> {
    %positions = nn.iota dim 0 : tensor<128xi32>
    %embedded = nn.embedding %embed_tokens.weight[%tokens] : (tensor<256x128xf32>, tensor<8x128xi32>) -> tensor<8x128x128xf32>
    %x.0 = call @block(%embedded, %layers.0.input_layernorm.weight, %layers.0.self_attn.q_proj.weight,
        %layers.0.self_attn.k_proj.weight, %layers.0.self_attn.v_proj.weight, %layers.0.self_attn.o_proj.weight,
        %layers.0.post_attention_layernorm.weight, %layers.0.mlp.gate_proj.weight, %layers.0.mlp.up_proj.weight,
        %layers.0.mlp.down_proj.weight, %positions) : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128x128xf32>,
        tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>,
        tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xi32>) -> tensor<8x128x128xf32>
    %x.1 = call @block(%x.0, %layers.1.input_layernorm.weight, %layers.1.self_attn.q_proj.weight,
        %layers.1.self_attn.k_proj.weight, %layers.1.self_attn.v_proj.weight, %layers.1.self_attn.o_proj.weight,
        %layers.1.post_attention_layernorm.weight, %layers.1.mlp.gate_proj.weight, %layers.1.mlp.up_proj.weight,
        %layers.1.mlp.down_proj.weight, %positions) : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128x128xf32>,
        tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>,
        tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xi32>) -> tensor<8x128x128xf32>
    %x.2 = call @block(%x.1, %layers.2.input_layernorm.weight, %layers.2.self_attn.q_proj.weight,
        %layers.2.self_attn.k_proj.weight, %layers.2.self_attn.v_proj.weight, %layers.2.self_attn.o_proj.weight,
        %layers.2.post_attention_layernorm.weight, %layers.2.mlp.gate_proj.weight, %layers.2.mlp.up_proj.weight,
        %layers.2.mlp.down_proj.weight, %positions) : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128x128xf32>,
        tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>,
        tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xi32>) -> tensor<8x128x128xf32>
    %x.3 = call @block(%x.2, %layers.3.input_layernorm.weight, %layers.3.self_attn.q_proj.weight,
        %layers.3.self_attn.k_proj.weight, %layers.3.self_attn.v_proj.weight, %layers.3.self_attn.o_proj.weight,
        %layers.3.post_attention_layernorm.weight, %layers.3.mlp.gate_proj.weight, %layers.3.mlp.up_proj.weight,
        %layers.3.mlp.down_proj.weight, %positions) : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128x128xf32>,
        tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>,
        tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xi32>) -> tensor<8x128x128xf32>
    %normed = nn.rms_norm %x.3, %norm.weight eps 1.000000e-05 : (tensor<8x128x128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    return %normed : tensor<8x128x128xf32>
  }

  func.func @logits(
      %embed_tokens.weight: tensor<256x128xf32> {nn.param = #nn.param<"model.embed_tokens.weight", axes = [vocab, embed], init = normal(0.02)>},
      %layers.0.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.0.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.0.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.0.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.0.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.0.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.0.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.0.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.0.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.0.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.0.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.0.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.0.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.0.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %layers.1.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.1.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.1.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.1.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.1.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.1.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.1.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.1.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.1.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.1.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.1.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.1.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.1.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.1.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %layers.2.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.2.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.2.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.2.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.2.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.2.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.2.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.2.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.2.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.2.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.2.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.2.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.2.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.2.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %layers.3.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.3.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.3.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.3.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.3.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.3.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.3.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.3.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.3.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.3.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.3.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.3.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.3.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.3.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %norm.weight: tensor<128xf32> {nn.param = #nn.param<"model.norm.weight", axes = [embed], init = constant(1), no_decay>},
      %lm_head.weight: tensor<256x128xf32> {nn.param = #nn.param<"lm_head.weight", axes = [vocab, embed], init = normal(0.02)>},
      %tokens: tensor<8x128xi32> {nn.batch = "tokens"}) -> tensor<8x128x256xf32> {
    %hidden = call @hidden(%embed_tokens.weight, %layers.0.input_layernorm.weight, %layers.0.self_attn.q_proj.weight,
        %layers.0.self_attn.k_proj.weight, %layers.0.self_attn.v_proj.weight, %layers.0.self_attn.o_proj.weight,
        %layers.0.post_attention_layernorm.weight, %layers.0.mlp.gate_proj.weight, %layers.0.mlp.up_proj.weight,
        %layers.0.mlp.down_proj.weight, %layers.1.input_layernorm.weight, %layers.1.self_attn.q_proj.weight,
        %layers.1.self_attn.k_proj.weight, %layers.1.self_attn.v_proj.weight, %layers.1.self_attn.o_proj.weight,
        %layers.1.post_attention_layernorm.weight, %layers.1.mlp.gate_proj.weight, %layers.1.mlp.up_proj.weight,
        %layers.1.mlp.down_proj.weight, %layers.2.input_layernorm.weight, %layers.2.self_attn.q_proj.weight,
        %layers.2.self_attn.k_proj.weight, %layers.2.self_attn.v_proj.weight, %layers.2.self_attn.o_proj.weight,
        %layers.2.post_attention_layernorm.weight, %layers.2.mlp.gate_proj.weight, %layers.2.mlp.up_proj.weight,
        %layers.2.mlp.down_proj.weight, %layers.3.input_layernorm.weight, %layers.3.self_attn.q_proj.weight,
        %layers.3.self_attn.k_proj.weight, %layers.3.self_attn.v_proj.weight, %layers.3.self_attn.o_proj.weight,
        %layers.3.post_attention_layernorm.weight, %layers.3.mlp.gate_proj.weight, %layers.3.mlp.up_proj.weight,
        %layers.3.mlp.down_proj.weight, %norm.weight, %tokens) : (tensor<256x128xf32>, tensor<128xf32>,
        tensor<128x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<384x128xf32>, tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xf32>, tensor<128x128xf32>,
        tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>,
        tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xf32>, tensor<128x128xf32>, tensor<64x128xf32>,
        tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>, tensor<384x128xf32>,
        tensor<128x384xf32>, tensor<128xf32>, tensor<128x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>,
        tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>, tensor<384x128xf32>, tensor<128x384xf32>,
        tensor<128xf32>, tensor<8x128xi32>) -> tensor<8x128x128xf32>
    %logits = nn.einsum "bse,ve->bsv"(%hidden, %lm_head.weight) : (tensor<8x128x128xf32>, tensor<256x128xf32>) -> tensor<8x128x256xf32>
    return %logits : tensor<8x128x256xf32>
  }

  func.func @loss(
      %embed_tokens.weight: tensor<256x128xf32> {nn.param = #nn.param<"model.embed_tokens.weight", axes = [vocab, embed], init = normal(0.02)>},
      %layers.0.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.0.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.0.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.0.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.0.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.0.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.0.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.0.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.0.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.0.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.0.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.0.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.0.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.0.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.0.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %layers.1.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.1.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.1.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.1.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.1.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.1.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.1.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.1.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.1.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.1.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.1.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.1.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.1.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.1.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.1.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %layers.2.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.2.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.2.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.2.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.2.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.2.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.2.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.2.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.2.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.2.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.2.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.2.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.2.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.2.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.2.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %layers.3.input_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.3.input_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.3.self_attn.q_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.q_proj.weight", axes = [heads, embed], init = normal(0.02)>},
      %layers.3.self_attn.k_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.k_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.3.self_attn.v_proj.weight: tensor<64x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.v_proj.weight", axes = [kv_heads, embed], init = normal(0.02)>},
      %layers.3.self_attn.o_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"model.layers.3.self_attn.o_proj.weight", axes = [embed, heads], init = normal(0.0070710678118654745)>},
      %layers.3.post_attention_layernorm.weight: tensor<128xf32> {nn.param = #nn.param<"model.layers.3.post_attention_layernorm.weight", axes = [embed], init = constant(1), no_decay>},
      %layers.3.mlp.gate_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.3.mlp.gate_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.3.mlp.up_proj.weight: tensor<384x128xf32> {nn.param = #nn.param<"model.layers.3.mlp.up_proj.weight", axes = [mlp, embed], init = normal(0.02)>},
      %layers.3.mlp.down_proj.weight: tensor<128x384xf32> {nn.param = #nn.param<"model.layers.3.mlp.down_proj.weight", axes = [embed, mlp], init = normal(0.0070710678118654745)>},
      %norm.weight: tensor<128xf32> {nn.param = #nn.param<"model.norm.weight", axes = [embed], init = constant(1), no_decay>},
      %lm_head.weight: tensor<256x128xf32> {nn.param = #nn.param<"lm_head.weight", axes = [vocab, embed], init = normal(0.02)>},
      %tokens: tensor<8x128xi32> {nn.batch = "tokens"},
      %targets: tensor<8x128xi32> {nn.batch = "targets"}) -> tensor<f32> {
    %hidden = call @hidden(%embed_tokens.weight, %layers.0.input_layernorm.weight, %layers.0.self_attn.q_proj.weight,
        %layers.0.self_attn.k_proj.weight, %layers.0.self_attn.v_proj.weight, %layers.0.self_attn.o_proj.weight,
        %layers.0.post_attention_layernorm.weight, %layers.0.mlp.gate_proj.weight, %layers.0.mlp.up_proj.weight,
        %layers.0.mlp.down_proj.weight, %layers.1.input_layernorm.weight, %layers.1.self_attn.q_proj.weight,
        %layers.1.self_attn.k_proj.weight, %layers.1.self_attn.v_proj.weight, %layers.1.self_attn.o_proj.weight,
        %layers.1.post_attention_layernorm.weight, %layers.1.mlp.gate_proj.weight, %layers.1.mlp.up_proj.weight,
        %layers.1.mlp.down_proj.weight, %layers.2.input_layernorm.weight, %layers.2.self_attn.q_proj.weight,
        %layers.2.self_attn.k_proj.weight, %layers.2.self_attn.v_proj.weight, %layers.2.self_attn.o_proj.weight,
        %layers.2.post_attention_layernorm.weight, %layers.2.mlp.gate_proj.weight, %layers.2.mlp.up_proj.weight,
        %layers.2.mlp.down_proj.weight, %layers.3.input_layernorm.weight, %layers.3.self_attn.q_proj.weight,
        %layers.3.self_attn.k_proj.weight, %layers.3.self_attn.v_proj.weight, %layers.3.self_attn.o_proj.weight,
        %layers.3.post_attention_layernorm.weight, %layers.3.mlp.gate_proj.weight, %layers.3.mlp.up_proj.weight,
        %layers.3.mlp.down_proj.weight, %norm.weight, %tokens) : (tensor<256x128xf32>, tensor<128xf32>,
        tensor<128x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<384x128xf32>, tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xf32>, tensor<128x128xf32>,
        tensor<64x128xf32>, tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>,
        tensor<384x128xf32>, tensor<128x384xf32>, tensor<128xf32>, tensor<128x128xf32>, tensor<64x128xf32>,
        tensor<64x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>, tensor<384x128xf32>,
        tensor<128x384xf32>, tensor<128xf32>, tensor<128x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>,
        tensor<128x128xf32>, tensor<128xf32>, tensor<384x128xf32>, tensor<384x128xf32>, tensor<128x384xf32>,
        tensor<128xf32>, tensor<8x128xi32>) -> tensor<8x128x128xf32>
    %logits = nn.einsum "bse,ve->bsv"(%hidden, %lm_head.weight) : (tensor<8x128x128xf32>, tensor<256x128xf32>) -> tensor<8x128x256xf32>
    %losses, %losses_0 = nn.cross_entropy %logits, %targets : (tensor<8x128x256xf32>, tensor<8x128xi32>) -> (tensor<8x128xf32>, tensor<8x128xf32>)
    %zero = nn.constant dense<0> : tensor<i32>
    %valid = nn.compare ge %targets, %zero : (tensor<8x128xi32>, tensor<i32>) -> tensor<8x128xi1>
    %loss = nn.step_mean %losses weights %valid : (tensor<8x128xf32>, tensor<8x128xi1>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
