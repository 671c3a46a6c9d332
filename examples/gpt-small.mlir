// GPT, 842496 parameters: 4 layers, hidden 128, 4 heads, ffn 512, vocab 256.
// One step takes 8 samples of 128 tokens. Written by sheaf-model.

module {
  func.func private @block(
      %x: tensor<8x128x128xf32>,
      %ln_1.weight: tensor<128xf32>,
      %ln_1.bias: tensor<128xf32>,
      %attn.c_attn.weight: tensor<128x384xf32>,
      %attn.c_attn.bias: tensor<384xf32>,
      %attn.c_proj.weight: tensor<128x128xf32>,
      %attn.c_proj.bias: tensor<128xf32>,
      %ln_2.weight: tensor<128xf32>,
      %ln_2.bias: tensor<128xf32>,
      %mlp.c_fc.weight: tensor<128x512xf32>,
      %mlp.c_fc.bias: tensor<512xf32>,
      %mlp.c_proj.weight: tensor<512x128xf32>,
      %mlp.c_proj.bias: tensor<128xf32>) -> tensor<8x128x128xf32> attributes {nn.layer, no_inline} {
    %attn.input = nn.layer_norm %x, %ln_1.weight, %ln_1.bias eps 1.000000e-05 : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    %qkv.weight = nn.reshape %attn.c_attn.weight : tensor<128x384xf32> -> tensor<128x3x4x32xf32>
    %qkv.bias = nn.reshape %attn.c_attn.bias : tensor<384xf32> -> tensor<3x4x32xf32>
    %query.weight.part = nn.slice %qkv.weight offsets [0, 0, 0, 0] sizes [128, 1, 4, 32] : (tensor<128x3x4x32xf32>) -> tensor<128x1x4x32xf32>
    %query.weight = nn.reshape %query.weight.part : tensor<128x1x4x32xf32> -> tensor<128x4x32xf32>
    %query.bias.part = nn.slice %qkv.bias offsets [0, 0, 0] sizes [1, 4, 32] : (tensor<3x4x32xf32>) -> tensor<1x4x32xf32>
    %query.bias = nn.reshape %query.bias.part : tensor<1x4x32xf32> -> tensor<4x32xf32>
    %query.product = nn.einsum "bse,ehd->bshd"(%attn.input, %query.weight) : (tensor<8x128x128xf32>, tensor<128x4x32xf32>) -> tensor<8x128x4x32xf32>
    %query = nn.add %query.product, %query.bias : (tensor<8x128x4x32xf32>, tensor<4x32xf32>) -> tensor<8x128x4x32xf32>
    %key.weight.part = nn.slice %qkv.weight offsets [0, 1, 0, 0] sizes [128, 1, 4, 32] : (tensor<128x3x4x32xf32>) -> tensor<128x1x4x32xf32>
    %key.weight = nn.reshape %key.weight.part : tensor<128x1x4x32xf32> -> tensor<128x4x32xf32>
    %key.bias.part = nn.slice %qkv.bias offsets [1, 0, 0] sizes [1, 4, 32] : (tensor<3x4x32xf32>) -> tensor<1x4x32xf32>
    %key.bias = nn.reshape %key.bias.part : tensor<1x4x32xf32> -> tensor<4x32xf32>
    %key.product = nn.einsum "bse,ehd->bshd"(%attn.input, %key.weight) : (tensor<8x128x128xf32>, tensor<128x4x32xf32>) -> tensor<8x128x4x32xf32>
    %key = nn.add %key.product, %key.bias : (tensor<8x128x4x32xf32>, tensor<4x32xf32>) -> tensor<8x128x4x32xf32>
    %value.weight.part = nn.slice %qkv.weight offsets [0, 2, 0, 0] sizes [128, 1, 4, 32] : (tensor<128x3x4x32xf32>) -> tensor<128x1x4x32xf32>
    %value.weight = nn.reshape %value.weight.part : tensor<128x1x4x32xf32> -> tensor<128x4x32xf32>
    %value.bias.part = nn.slice %qkv.bias offsets [2, 0, 0] sizes [1, 4, 32] : (tensor<3x4x32xf32>) -> tensor<1x4x32xf32>
    %value.bias = nn.reshape %value.bias.part : tensor<1x4x32xf32> -> tensor<4x32xf32>
    %value.product = nn.einsum "bse,ehd->bshd"(%attn.input, %value.weight) : (tensor<8x128x128xf32>, tensor<128x4x32xf32>) -> tensor<8x128x4x32xf32>
    %value = nn.add %value.product, %value.bias : (tensor<8x128x4x32xf32>, tensor<4x32xf32>) -> tensor<8x128x4x32xf32>
    %attended = nn.attention %query, %key, %value causal : (tensor<8x128x4x32xf32>, tensor<8x128x4x32xf32>, tensor<8x128x4x32xf32>) -> tensor<8x128x4x32xf32>
    %attn.weight = nn.reshape %attn.c_proj.weight : tensor<128x128xf32> -> tensor<4x32x128xf32>
    %attn.product = nn.einsum "bshd,hde->bse"(%attended, %attn.weight) : (tensor<8x128x4x32xf32>, tensor<4x32x128xf32>) -> tensor<8x128x128xf32>
    %attn.output = nn.add %attn.product, %attn.c_proj.bias : (tensor<8x128x128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    %residual = nn.add %x, %attn.output : tensor<8x128x128xf32>
    %mlp.input = nn.layer_norm %residual, %ln_2.weight, %ln_2.bias eps 1.000000e-05 : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    %up.product = nn.einsum "bse,ef->bsf"(%mlp.input, %mlp.c_fc.weight) : (tensor<8x128x128xf32>, tensor<128x512xf32>) -> tensor<8x128x512xf32>
    %up = nn.add %up.product, %mlp.c_fc.bias : (tensor<8x128x512xf32>, tensor<512xf32>) -> tensor<8x128x512xf32>
    %active = nn.gelu_tanh %up : tensor<8x128x512xf32>
    %down.product = nn.einsum "bsf,fe->bse"(%active, %mlp.c_proj.weight) : (tensor<8x128x512xf32>, tensor<512x128xf32>) -> tensor<8x128x128xf32>
    %down = nn.add %down.product, %mlp.c_proj.bias : (tensor<8x128x128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    %output = nn.add %residual, %down : tensor<8x128x128xf32>
    return %output : tensor<8x128x128xf32>
  }

  func.func private @hidden(%wte.weight: tensor<256x128xf32>, %wpe.weight: tensor<128x128xf32>,
      %h.0.ln_1.weight: tensor<128xf32>, %h.0.ln_1.bias: tensor<128xf32>, %h.0.attn.c_attn.weight: tensor<128x384xf32>,
      %h.0.attn.c_attn.bias: tensor<384xf32>, %h.0.attn.c_proj.weight: tensor<128x128xf32>,
      %h.0.attn.c_proj.bias: tensor<128xf32>, %h.0.ln_2.weight: tensor<128xf32>, %h.0.ln_2.bias: tensor<128xf32>,
      %h.0.mlp.c_fc.weight: tensor<128x512xf32>, %h.0.mlp.c_fc.bias: tensor<512xf32>,
      %h.0.mlp.c_proj.weight: tensor<512x128xf32>, %h.0.mlp.c_proj.bias: tensor<128xf32>,
      %h.1.ln_1.weight: tensor<128xf32>, %h.1.ln_1.bias: tensor<128xf32>, %h.1.attn.c_attn.weight: tensor<128x384xf32>,
      %h.1.attn.c_attn.bias: tensor<384xf32>, %h.1.attn.c_proj.weight: tensor<128x128xf32>,
      %h.1.attn.c_proj.bias: tensor<128xf32>, %h.1.ln_2.weight: tensor<128xf32>, %h.1.ln_2.bias: tensor<128xf32>,
      %h.1.mlp.c_fc.weight: tensor<128x512xf32>, %h.1.mlp.c_fc.bias: tensor<512xf32>,
      %h.1.mlp.c_proj.weight: tensor<512x128xf32>, %h.1.mlp.c_proj.bias: tensor<128xf32>,
      %h.2.ln_1.weight: tensor<128xf32>, %h.2.ln_1.bias: tensor<128xf32>, %h.2.attn.c_attn.weight: tensor<128x384xf32>,
      %h.2.attn.c_attn.bias: tensor<384xf32>, %h.2.attn.c_proj.weight: tensor<128x128xf32>,
      %h.2.attn.c_proj.bias: tensor<128xf32>, %h.2.ln_2.weight: tensor<128xf32>, %h.2.ln_2.bias: tensor<128xf32>,
      %h.2.mlp.c_fc.weight: tensor<128x512xf32>, %h.2.mlp.c_fc.bias: tensor<512xf32>,
      %h.2.mlp.c_proj.weight: tensor<512x128xf32>, %h.2.mlp.c_proj.bias: tensor<128xf32>,
      %h.3.ln_1.weight: tensor<128xf32>, %h.3.ln_1.bias: tensor<128xf32>, %h.3.attn.c_attn.weight: tensor<128x384xf32>,
      %h.3.attn.c_attn.bias: tensor<384xf32>, %h.3.attn.c_proj.weight: tensor<128x128xf32>,
      %h.3.attn.c_proj.bias: tensor<128xf32>, %h.3.ln_2.weight: tensor<128xf32>, %h.3.ln_2.bias: tensor<128xf32>,
      %h.3.mlp.c_fc.weight: tensor<128x512xf32>, %h.3.mlp.c_fc.bias: tensor<512xf32>,
      %h.3.mlp.c_proj.weight: tensor<512x128xf32>, %h.3.mlp.c_proj.bias: tensor<128xf32>, %ln_f.weight: tensor<128xf32>,
      %ln_f.bias: tensor<128xf32>, %tokens: tensor<8x128xi32>) -> tensor<8x128x128xf32> {
    %token_rows = nn.embedding %wte.weight[%tokens] : (tensor<256x128xf32>, tensor<8x128xi32>) -> tensor<8x128x128xf32>
    %embedded = nn.add %token_rows, %wpe.weight : (tensor<8x128x128xf32>, tensor<128x128xf32>) -> tensor<8x128x128xf32>
    %x.0 = call @block(%embedded, %h.0.ln_1.weight, %h.0.ln_1.bias, %h.0.attn.c_attn.weight, %h.0.attn.c_attn.bias,
        %h.0.attn.c_proj.weight, %h.0.attn.c_proj.bias, %h.0.ln_2.weight, %h.0.ln_2.bias, %h.0.mlp.c_fc.weight,
        %h.0.mlp.c_fc.bias, %h.0.mlp.c_proj.weight, %h.0.mlp.c_proj.bias) : (tensor<8x128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>)
        -> tensor<8x128x128xf32>
    %x.1 = call @block(%x.0, %h.1.ln_1.weight, %h.1.ln_1.bias, %h.1.attn.c_attn.weight, %h.1.attn.c_attn.bias,
        %h.1.attn.c_proj.weight, %h.1.attn.c_proj.bias, %h.1.ln_2.weight, %h.1.ln_2.bias, %h.1.mlp.c_fc.weight,
        %h.1.mlp.c_fc.bias, %h.1.mlp.c_proj.weight, %h.1.mlp.c_proj.bias) : (tensor<8x128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>)
        -> tensor<8x128x128xf32>
    %x.2 = call @block(%x.1, %h.2.ln_1.weight, %h.2.ln_1.bias, %h.2.attn.c_attn.weight, %h.2.attn.c_attn.bias,
        %h.2.attn.c_proj.weight, %h.2.attn.c_proj.bias, %h.2.ln_2.weight, %h.2.ln_2.bias, %h.2.mlp.c_fc.weight,
        %h.2.mlp.c_fc.bias, %h.2.mlp.c_proj.weight, %h.2.mlp.c_proj.bias) : (tensor<8x128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>)
        -> tensor<8x128x128xf32>
    %x.3 = call @block(%x.2, %h.3.ln_1.weight, %h.3.ln_1.bias, %h.3.attn.c_attn.weight, %h.3.attn.c_attn.bias,
        %h.3.attn.c_proj.weight, %h.3.attn.c_proj.bias, %h.3.ln_2.weight, %h.3.ln_2.bias, %h.3.mlp.c_fc.weight,
        %h.3.mlp.c_fc.bias, %h.3.mlp.c_proj.weight, %h.3.mlp.c_proj.bias) : (tensor<8x128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>)
        -> tensor<8x128x128xf32>
    %normed = nn.layer_norm %x.3, %ln_f.weight, %ln_f.bias eps 1.000000e-05 : (tensor<8x128x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<8x128x128xf32>
    return %normed : tensor<8x128x128xf32>
  }

  func.func @logits(
      %wte.weight: tensor<256x128xf32> {nn.param = #nn.param<"transformer.wte.weight", axes = [vocab, embed], init = normal(0.02)>},
      %wpe.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.wpe.weight", axes = [_, embed], init = normal(0.02)>},
      %h.0.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.0.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.0.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.0.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.0.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.0.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.0.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.0.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.0.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.0.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.0.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.0.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.1.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.1.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.1.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.1.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.1.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.1.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.1.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.1.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.2.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.2.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.2.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.2.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.2.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.2.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.2.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.2.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.3.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.3.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.3.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.3.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.3.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.3.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.3.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.3.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %ln_f.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.ln_f.weight", axes = [embed], init = constant(1), no_decay>},
      %ln_f.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.ln_f.bias", axes = [embed], init = constant(0), no_decay>},
      %tokens: tensor<8x128xi32> {nn.batch = "tokens"}) -> tensor<8x128x256xf32> {
    %hidden = call @hidden(%wte.weight, %wpe.weight, %h.0.ln_1.weight, %h.0.ln_1.bias, %h.0.attn.c_attn.weight,
        %h.0.attn.c_attn.bias, %h.0.attn.c_proj.weight, %h.0.attn.c_proj.bias, %h.0.ln_2.weight, %h.0.ln_2.bias,
        %h.0.mlp.c_fc.weight, %h.0.mlp.c_fc.bias, %h.0.mlp.c_proj.weight, %h.0.mlp.c_proj.bias, %h.1.ln_1.weight,
        %h.1.ln_1.bias, %h.1.attn.c_attn.weight, %h.1.attn.c_attn.bias, %h.1.attn.c_proj.weight, %h.1.attn.c_proj.bias,
        %h.1.ln_2.weight, %h.1.ln_2.bias, %h.1.mlp.c_fc.weight, %h.1.mlp.c_fc.bias, %h.1.mlp.c_proj.weight,
        %h.1.mlp.c_proj.bias, %h.2.ln_1.weight, %h.2.ln_1.bias, %h.2.attn.c_attn.weight, %h.2.attn.c_attn.bias,
        %h.2.attn.c_proj.weight, %h.2.attn.c_proj.bias, %h.2.ln_2.weight, %h.2.ln_2.bias, %h.2.mlp.c_fc.weight,
        %h.2.mlp.c_fc.bias, %h.2.mlp.c_proj.weight, %h.2.mlp.c_proj.bias, %h.3.ln_1.weight, %h.3.ln_1.bias,
        %h.3.attn.c_attn.weight, %h.3.attn.c_attn.bias, %h.3.attn.c_proj.weight, %h.3.attn.c_proj.bias,
        %h.3.ln_2.weight, %h.3.ln_2.bias, %h.3.mlp.c_fc.weight, %h.3.mlp.c_fc.bias, %h.3.mlp.c_proj.weight,
        %h.3.mlp.c_proj.bias, %ln_f.weight, %ln_f.bias, %tokens) : (tensor<256x128xf32>, tensor<128x128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<8x128xi32>) -> tensor<8x128x128xf32>
    %logits = nn.einsum "bse,ve->bsv"(%hidden, %wte.weight) : (tensor<8x128x128xf32>, tensor<256x128xf32>) -> tensor<8x128x256xf32>
    return %logits : tensor<8x128x256xf32>
  }

  func.func @loss(
      %wte.weight: tensor<256x128xf32> {nn.param = #nn.param<"transformer.wte.weight", axes = [vocab, embed], init = normal(0.02)>},
      %wpe.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.wpe.weight", axes = [_, embed], init = normal(0.02)>},
      %h.0.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.0.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.0.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.0.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.0.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.0.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.0.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.0.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.0.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.0.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.0.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.0.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.0.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.1.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.1.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.1.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.1.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.1.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.1.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.1.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.1.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.1.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.1.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.2.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.2.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.2.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.2.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.2.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.2.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.2.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.2.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.2.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.2.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.ln_1.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_1.weight", axes = [embed], init = constant(1), no_decay>},
      %h.3.ln_1.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_1.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.attn.c_attn.weight: tensor<128x384xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_attn.weight", axes = [embed, heads], init = normal(0.02)>},
      %h.3.attn.c_attn.bias: tensor<384xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_attn.bias", axes = [heads], init = constant(0), no_decay>},
      %h.3.attn.c_proj.weight: tensor<128x128xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_proj.weight", axes = [heads, embed], init = normal(0.0070710678118654745)>},
      %h.3.attn.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.attn.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.ln_2.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_2.weight", axes = [embed], init = constant(1), no_decay>},
      %h.3.ln_2.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.ln_2.bias", axes = [embed], init = constant(0), no_decay>},
      %h.3.mlp.c_fc.weight: tensor<128x512xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_fc.weight", axes = [embed, mlp], init = normal(0.02)>},
      %h.3.mlp.c_fc.bias: tensor<512xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_fc.bias", axes = [mlp], init = constant(0), no_decay>},
      %h.3.mlp.c_proj.weight: tensor<512x128xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_proj.weight", axes = [mlp, embed], init = normal(0.0070710678118654745)>},
      %h.3.mlp.c_proj.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.h.3.mlp.c_proj.bias", axes = [embed], init = constant(0), no_decay>},
      %ln_f.weight: tensor<128xf32> {nn.param = #nn.param<"transformer.ln_f.weight", axes = [embed], init = constant(1), no_decay>},
      %ln_f.bias: tensor<128xf32> {nn.param = #nn.param<"transformer.ln_f.bias", axes = [embed], init = constant(0), no_decay>},
      %tokens: tensor<8x128xi32> {nn.batch = "tokens"},
      %targets: tensor<8x128xi32> {nn.batch = "targets"}) -> tensor<f32> {
    %hidden = call @hidden(%wte.weight, %wpe.weight, %h.0.ln_1.weight, %h.0.ln_1.bias, %h.0.attn.c_attn.weight,
        %h.0.attn.c_attn.bias, %h.0.attn.c_proj.weight, %h.0.attn.c_proj.bias, %h.0.ln_2.weight, %h.0.ln_2.bias,
        %h.0.mlp.c_fc.weight, %h.0.mlp.c_fc.bias, %h.0.mlp.c_proj.weight, %h.0.mlp.c_proj.bias, %h.1.ln_1.weight,
        %h.1.ln_1.bias, %h.1.attn.c_attn.weight, %h.1.attn.c_attn.bias, %h.1.attn.c_proj.weight, %h.1.attn.c_proj.bias,
        %h.1.ln_2.weight, %h.1.ln_2.bias, %h.1.mlp.c_fc.weight, %h.1.mlp.c_fc.bias, %h.1.mlp.c_proj.weight,
        %h.1.mlp.c_proj.bias, %h.2.ln_1.weight, %h.2.ln_1.bias, %h.2.attn.c_attn.weight, %h.2.attn.c_attn.bias,
        %h.2.attn.c_proj.weight, %h.2.attn.c_proj.bias, %h.2.ln_2.weight, %h.2.ln_2.bias, %h.2.mlp.c_fc.weight,
        %h.2.mlp.c_fc.bias, %h.2.mlp.c_proj.weight, %h.2.mlp.c_proj.bias, %h.3.ln_1.weight, %h.3.ln_1.bias,
        %h.3.attn.c_attn.weight, %h.3.attn.c_attn.bias, %h.3.attn.c_proj.weight, %h.3.attn.c_proj.bias,
        %h.3.ln_2.weight, %h.3.ln_2.bias, %h.3.mlp.c_fc.weight, %h.3.mlp.c_fc.bias, %h.3.mlp.c_proj.weight,
        %h.3.mlp.c_proj.bias, %ln_f.weight, %ln_f.bias, %tokens) : (tensor<256x128xf32>, tensor<128x128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x384xf32>, tensor<384xf32>, tensor<128x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<128x512xf32>, tensor<512xf32>, tensor<512x128xf32>, tensor<128xf32>,
        tensor<128xf32>, tensor<128xf32>, tensor<8x128xi32>) -> tensor<8x128x128xf32>
    %logits = nn.einsum "bse,ve->bsv"(%hidden, %wte.weight) : (tensor<8x128x128xf32>, tensor<256x128xf32>) -> tensor<8x128x256xf32>
    %losses, %losses_0 = nn.cross_entropy %logits, %targets : (tensor<8x128x256xf32>, tensor<8x128xi32>) -> (tensor<8x128xf32>, tensor<8x128xf32>)
    %zero = nn.constant dense<0> : tensor<i32>
    %valid = nn.compare ge %targets, %zero : (tensor<8x128xi32>, tensor<i32>) -> tensor<8x128xi1>
    %loss = nn.step_mean %losses weights %valid : (tensor<8x128xf32>, tensor<8x128xi1>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
