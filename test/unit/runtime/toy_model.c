//===- toy_model.c - an artifact written by hand ------------------*- C -*-===//
//
// A linear softmax model of the next token, with the entries, kernels and
// manifest that the compiler would make for it: logits = E[token] H^T + b,
// mean cross entropy, AdamW. The runtime's tests train it without a compiler.
//
//   -DTOY_F64      in double precision
//   -DTOY_BROKEN   the gradient of E is doubled: --verify must see it
//   -DTOY_BATCH=N -DTOY_VOCAB=N -DTOY_DIM=N -DTOY_SEQ=N   other sizes
//
//===----------------------------------------------------------------------===//

#include "sheaf/abi.h"
#include <math.h>

#ifdef TOY_F64
typedef double real;
#define TYPE SHEAF_F64
#define TYPE_NAME "f64"
#else
typedef float real;
#define TYPE SHEAF_F32
#define TYPE_NAME "f32"
#endif

#ifndef TOY_VOCAB
#define TOY_VOCAB 256
#endif
#ifndef TOY_DIM
#define TOY_DIM 32
#endif
#ifndef TOY_BATCH
#define TOY_BATCH 4
#endif
#ifndef TOY_SEQ
#define TOY_SEQ 16
#endif

enum {
  V = TOY_VOCAB,
  D = TOY_DIM,
  B = TOY_BATCH,
  T = TOY_SEQ,
  N = TOY_BATCH * TOY_SEQ
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define SV TEXT(TOY_VOCAB)
#define SD TEXT(TOY_DIM)
#define SBT TEXT(TOY_BATCH) ", " TEXT(TOY_SEQ)

//===- Kernels
//-------------------------------------------------------------===//

static uint32_t mix(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// reads rng, salt; writes a parameter. Uniform in [-0.1, 0.1).
static void initKernel(void *const *b, int64_t begin, int64_t end) {
  const int32_t *rng = b[0], *salt = b[1];
  real *p = b[2];
  for (int64_t i = begin; i < end; ++i) {
    uint32_t h =
        mix((uint32_t)i ^ mix((uint32_t)rng[0] ^ mix((uint32_t)*salt)));
    p[i] = (real)((float)(h >> 8) * 0x1p-24f * 0.2f - 0.1f);
  }
}

// reads tokens, E; writes x. Items are rows.
static void gatherKernel(void *const *b, int64_t begin, int64_t end) {
  const int32_t *tokens = b[0];
  const real *e = b[1];
  real *x = b[2];
  for (int64_t i = begin; i < end; ++i)
    for (int d = 0; d < D; ++d)
      x[i * D + d] = e[(int64_t)tokens[i] * D + d];
}

// reads bias; adds it to logits. Items are rows.
static void biasKernel(void *const *b, int64_t begin, int64_t end) {
  const real *bias = b[0];
  real *logits = b[1];
  for (int64_t i = begin; i < end; ++i)
    for (int v = 0; v < V; ++v)
      logits[i * V + v] += bias[v];
}

// reads targets; turns logits into their gradient, writes the loss of each row.
static void lossKernel(void *const *b, int64_t begin, int64_t end) {
  const int32_t *targets = b[0];
  real *logits = b[1], *rowLoss = b[2];
  for (int64_t i = begin; i < end; ++i) {
    real *row = logits + i * V, most = row[0], sum = 0;
    for (int v = 1; v < V; ++v)
      most = row[v] > most ? row[v] : most;
    for (int v = 0; v < V; ++v)
      sum += (real)exp(row[v] - most);
    rowLoss[i] = (real)log(sum) + most - row[targets[i]];
    for (int v = 0; v < V; ++v)
      row[v] = ((real)exp(row[v] - most) / sum - (v == targets[i])) / N;
  }
}

// reads the loss of each row; writes their mean. One item.
static void meanKernel(void *const *b, int64_t begin, int64_t end) {
  const real *rowLoss = b[0];
  real *loss = b[1], sum = 0;
  for (int64_t i = begin; i < end; ++i)
    for (int j = 0; j < N; ++j)
      sum += rowLoss[j];
  *loss = sum / N;
}

// reads dlogits; writes db. Items are vocabulary entries.
static void biasGradKernel(void *const *b, int64_t begin, int64_t end) {
  const real *d = b[0];
  real *db = b[1];
  for (int64_t v = begin; v < end; ++v) {
    real sum = 0;
    for (int i = 0; i < N; ++i)
      sum += d[(int64_t)i * V + v];
    db[v] = sum;
  }
}

// reads tokens, dx; writes dE. Items are vocabulary entries.
static void embedGradKernel(void *const *b, int64_t begin, int64_t end) {
  const int32_t *tokens = b[0];
  const real *dx = b[1];
  real *de = b[2];
  for (int64_t v = begin; v < end; ++v) {
    for (int d = 0; d < D; ++d)
      de[v * D + d] = 0;
    for (int i = 0; i < N; ++i)
      if (tokens[i] == v)
        for (int d = 0; d < D; ++d)
          de[v * D + d] += dx[(int64_t)i * D + d];
#ifdef TOY_BROKEN
    for (int d = 0; d < D; ++d)
      de[v * D + d] *= 2;
#endif
  }
}

// reads dE, dH, db; writes the norm of all. One item.
static void normKernel(void *const *b, int64_t begin, int64_t end) {
  const real *de = b[0], *dh = b[1], *db = b[2];
  real *norm = b[3];
  double sum = 0;
  for (int64_t j = begin; j < end; ++j) {
    for (int64_t i = 0; i < (int64_t)V * D; ++i)
      sum += (double)de[i] * de[i] + (double)dh[i] * dh[i];
    for (int i = 0; i < V; ++i)
      sum += (double)db[i] * db[i];
  }
  *norm = (real)sqrt(sum);
}

// reads gradient, norm, step, lr, clip; updates parameter and moments.
static void adamKernel(void *const *b, int64_t begin, int64_t end) {
  const real *g = b[0], norm = *(real *)b[1];
  int step = *(int32_t *)b[2] + 1;
  double lr = *(float *)b[3], clip = *(float *)b[4];
  real *p = b[5], *m = b[6], *v = b[7];
  double factor = clip > 0 && norm > clip ? clip / norm : 1;
  double c1 = 1 - pow(0.9, step), c2 = 1 - pow(0.95, step);
  for (int64_t i = begin; i < end; ++i) {
    double gi = g[i] * factor;
    m[i] = (real)(0.9 * m[i] + 0.1 * gi);
    v[i] = (real)(0.95 * v[i] + 0.05 * gi * gi);
    p[i] = (real)(p[i] - lr * (m[i] / c1 / (sqrt(v[i] / c2) + 1e-8)));
  }
}

// reads lr; writes it as the step's learning rate. One item.
static void rateKernel(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    *(real *)b[1] = *(float *)b[0];
}

//===- Host code
//-----------------------------------------------------------===//

static const SheafLaunch initLaunch = {initKernel, (int64_t)V *D, 1000, 0, 3};
static const SheafLaunch gather = {gatherKernel, N, 8, 1, 3};
static const SheafLaunch bias = {biasKernel, N, 8, 2, 2};
static const SheafLaunch loss = {lossKernel, N, 4, 3, 3};
static const SheafLaunch mean = {meanKernel, 1, 1, 4, 2};
static const SheafLaunch biasGrad = {biasGradKernel, V, 32, 5, 2};
static const SheafLaunch embedGrad = {embedGradKernel, V, 32, 6, 3};
static const SheafLaunch norm = {normKernel, 1, 1, 7, 4};
static const SheafLaunch adam = {adamKernel, (int64_t)V *D, 1024, 8, 8};
static const SheafLaunch adamBias = {adamKernel, V, 1024, 8, 8};
static const SheafLaunch rate = {rateKernel, 1, 1, 9, 2};

#define PRODUCT(m, n, k, lda, ldb, ldc, ta, tb, id)                            \
  {m,         n,  k,  lda,  ldb,  ldc,  {1, 1, 1}, {0, 0, 0}, {0, 0, 0},       \
   {0, 0, 0}, ta, tb, TYPE, TYPE, TYPE, id,        1.0,       0.0}
static const SheafMatmul forward = PRODUCT(N, V, D, D, D, V, 0, 1, 10);
static const SheafMatmul inputGrad = PRODUCT(N, D, V, V, D, D, 0, 0, 11);
static const SheafMatmul headGrad = PRODUCT(V, D, N, V, D, D, 1, 0, 12);

// Offsets into the arena, in elements; rounded up to whole cache lines.
#define ROUND(n) (((int64_t)(n) + 15) / 16 * 16)
enum {
  atX = 0,
  atLogits = ROUND(N * D),
  atDx = atLogits + ROUND(N * V),
  atRow = atDx + ROUND(N * D),
  atDe = atRow + ROUND(N),
  atDh = atDe + ROUND(V * D),
  atDb = atDh + ROUND(V * D),
  atEnd = atDb + ROUND(V)
};

static void run(SheafContext *c, const SheafLaunch *l, void *const *b) {
  c->device->launch(c, l, b);
}

static void logitsOf(SheafContext *c, void *tokens, void *e, void *h, void *b,
                     real *logits) {
  real *a = c->arena;
  run(c, &gather, (void *[]){tokens, e, a + atX});
  c->device->matmul(c, &forward, a + atX, h, logits);
  run(c, &bias, (void *[]){b, logits});
}

static void gradientsOf(SheafContext *c, void *tokens, void *targets, void *e,
                        void *h, void *b, real *de, real *dh, real *db,
                        void *lossOut, void *normOut) {
  real *a = c->arena;
  logitsOf(c, tokens, e, h, b, a + atLogits);
  run(c, &loss, (void *[]){targets, a + atLogits, a + atRow});
  run(c, &mean, (void *[]){a + atRow, lossOut});
  if (!de)
    return;
  run(c, &biasGrad, (void *[]){a + atLogits, db});
  c->device->matmul(c, &inputGrad, a + atLogits, h, a + atDx);
  c->device->matmul(c, &headGrad, a + atLogits, a + atX, dh);
  run(c, &embedGrad, (void *[]){tokens, a + atDx, de});
  run(c, &norm, (void *[]){de, dh, db, normOut});
}

// rng, E, H, b
int32_t toy_init(SheafContext *c) {
  static const int32_t salts[] = {1, 2};
  run(c, &initLaunch,
      (void *[]){c->buffers[0], (void *)&salts[0], c->buffers[1]});
  run(c, &initLaunch,
      (void *[]){c->buffers[0], (void *)&salts[1], c->buffers[2]});
  c->device->zero(c, c->buffers[3], V * sizeof(real));
  return 0;
}

// E, H, b, m1 x 3, m2 x 3, tokens, targets, step, lr, clip, loss, grad_norm,
// learning_rate
int32_t toy_step(SheafContext *c) {
  void *const *b = c->buffers;
  real *a = c->arena;
  gradientsOf(c, b[9], b[10], b[0], b[1], b[2], a + atDe, a + atDh, a + atDb,
              b[14], b[15]);
  run(c, &adam,
      (void *[]){a + atDe, b[15], b[11], b[12], b[13], b[0], b[3], b[6]});
  run(c, &adam,
      (void *[]){a + atDh, b[15], b[11], b[12], b[13], b[1], b[4], b[7]});
  run(c, &adamBias,
      (void *[]){a + atDb, b[15], b[11], b[12], b[13], b[2], b[5], b[8]});
  run(c, &rate, (void *[]){b[12], b[16]});
  return 0;
}

// E, H, b, dE, dH, db, tokens, targets, loss, grad_norm
int32_t toy_gradients(SheafContext *c) {
  void *const *b = c->buffers;
  gradientsOf(c, b[6], b[7], b[0], b[1], b[2], b[3], b[4], b[5], b[8], b[9]);
  return 0;
}

// E, H, b, tokens, targets, loss
int32_t toy_loss(SheafContext *c) {
  void *const *b = c->buffers;
  gradientsOf(c, b[3], b[4], b[0], b[1], b[2], 0, 0, 0, b[5], 0);
  return 0;
}

// E, H, b, tokens, logits
int32_t toy_logits(SheafContext *c) {
  void *const *b = c->buffers;
  logitsOf(c, b[3], b[0], b[1], b[2], b[4]);
  return 0;
}

//===- What the artifact says
//----------------------------------------------===//

const uint32_t sheaf_abi_version = SHEAF_ABI_VERSION;

#define MATRIX(name, kind)                                                     \
  "{\"name\": \"" name "\", \"kind\": \"" kind "\", \"dtype\": \"" TYPE_NAME   \
  "\", \"shape\": [" SV ", " SD "]},"
#define VECTOR(name, kind)                                                     \
  "{\"name\": \"" name "\", \"kind\": \"" kind "\", \"dtype\": \"" TYPE_NAME   \
  "\", \"shape\": [" SV "]},"
#define THREE(kind)                                                            \
  MATRIX("transformer.wte.weight", kind)                                       \
  MATRIX("head.weight", kind) VECTOR("head.bias", kind)
#define RESULT(name)                                                           \
  "{\"name\": \"" name "\", \"kind\": \"result\", \"dtype\": \"" TYPE_NAME     \
  "\", \"shape\": []}"
#define KERNEL(name, kind, flops)                                              \
  "{\"name\": \"" name "\", \"kind\": \"" kind "\", \"flops\": " flops         \
  ", \"bytes\": 1000, \"loc\": \"toy_model.c\"}"

// Text in the manifest, so a literal; at least what the entries use.
#ifndef TOY_ARENA
#define TOY_ARENA 300000
#endif
_Static_assert(TOY_ARENA >= sizeof(real) * (int64_t)atEnd, "raise TOY_ARENA");

const char
    sheaf_manifest
        [] =
            "{\"abi\": 4, \"producer\": \"by hand\", \"target\": \"cpu\","
            "\"cpu\": \"x86-64\", \"cpu_features\": [\"sse2\"],"
            "\"mesh\": {\"axes\": [], \"ranks\": 1},"
            "\"model\": {\"name\": \"toy\", \"batch\": " TEXT(
                TOY_BATCH) ", \"seq\": " TEXT(TOY_SEQ) ", \"vocab\": " SV
                                                       ", \"microbatches\": 1, "
                                                       "\"parameters\": 16640, "
                                                       "\"flops_per_step\": "
                                                       "3.1e6},"
                                                       "\"buffers\": [" THREE(
                                                           "parameter") THREE("moment1") THREE("moment2") THREE("gradient") "{\"name\": \"tokens\", \"kind\": \"batch\", \"role\": \"tokens\","
                                                                                                                            " \"dtype\": \"i32\", \"shape\": [" SBT
                                                                                                                            "]},"
                                                                                                                            "{\"name\": \"targets\", \"kind\": \"batch\", \"role\": \"targets\","
                                                                                                                            " \"dtype\": \"i32\", \"shape\": [" SBT
                                                                                                                            "]},"
                                                                                                                            "{\"name\": \"rng\", \"kind\": \"rng\", \"dtype\": \"i32\", \"shape\": [4]},"
                                                                                                                            "{\"name\": \"step\", \"kind\": \"step\", \"dtype\": \"i32\", \"shape\": []},"
                                                                                                                            "{\"name\": \"lr\", \"kind\": \"scalar\", \"dtype\": \"f32\", \"shape\": [],"
                                                                                                                            " \"value\": 0.01},"
                                                                                                                            "{\"name\": \"clip\", \"kind\": \"scalar\", \"dtype\": \"f32\","
                                                                                                                            " \"shape\": [], \"value\": 1}," RESULT("loss") "," RESULT("grad_norm") "," RESULT("learning_rate") ","
                                                                                                                                                                                                                                "{\"name\": \"logits\", \"kind\": \"result\", \"dtype\": \"" TYPE_NAME "\", \"shape\": [" SBT ", " SV
                                                                                                                                                                                                                                "]}],"
                                                                                                                                                                                                                                "\"entries\": {"
                                                                                                                                                                                                                                "\"init\": {\"symbol\": \"toy_init\", \"arguments\": [14, 0, 1, 2],"
                                                                                                                                                                                                                                " \"arena_bytes\": 0},"
                                                                                                                                                                                                                                "\"step\": {\"symbol\": \"toy_step\", \"arguments\": [0, 1, 2, 3, 4, 5, 6,"
                                                                                                                                                                                                                                " 7, 8, 12, 13, 15, 16, 17, 18, 19, 20],"
                                                                                                                                                                                                                                " \"arena_bytes\": " TEXT(TOY_ARENA) "},"
                                                                                                                                                                                                                                                                     "\"gradients\": {\"symbol\": \"toy_gradients\", \"arguments\": [0, 1, 2, 9,"
                                                                                                                                                                                                                                                                     " 10, 11, 12, 13, 18, 19], \"arena_bytes\": " TEXT(TOY_ARENA) "},"
                                                                                                                                                                                                                                                                                                                                   "\"loss\": {\"symbol\": \"toy_loss\", \"arguments\": [0, 1, 2, 12, 13, 18],"
                                                                                                                                                                                                                                                                                                                                   " \"arena_bytes\": " TEXT(
                                                                                                                                                                                                                                                                                                                                       TOY_ARENA) "},"
                                                                                                                                                                                                                                                                                                                                                  "\"logits\": {\"symbol\": \"toy_logits\", \"arguments\": [0, 1, 2, 12, 21],"
                                                                                                                                                                                                                                                                                                                                                  " \"arena_bytes\": " TEXT(TOY_ARENA) "}},"
                                                                                                                                                                                                                                                                                                                                                                                       "\"kernels\": [" KERNEL("init",
                                                                                                                                                                                                                                                                                                                                                                                                               "kernel",
                                                                                                                                                                                                                                                                                                                                                                                                               "0") "," KERNEL("gather",
                                                                                                                                                                                                                                                                                                                                                                                                                               "kernel",
                                                                                                                                                                                                                                                                                                                                                                                                                               "0") "," KERNEL("bias", "kernel", "0") "," KERNEL("loss", "kernel", "0") "," KERNEL("mean", "kernel", "0") "," KERNEL("bias_grad", "kernel", "0") "," KERNEL("embed_grad", "kernel", "0") "," KERNEL("norm",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "kernel",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "0") "," KERNEL("adam", "kernel", "0") "," KERNEL("rate", "kernel", "0") "," KERNEL("matmul forward", "matmul", "1.05e6") "," KERNEL("matmul input gradient",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "matmul",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "1.05e6") "," KERNEL("matmul weight gradient", "matmul",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                              "1.05e6") "]}";
const uint64_t sheaf_manifest_size = sizeof(sheaf_manifest) - 1;

// Stands for bytecode: the tests' sheaf-compile only looks that it arrives.
const uint8_t sheaf_model[] = {'M', 'L', 0xef, 'R', 't', 'o', 'y'};
const uint64_t sheaf_model_size = sizeof(sheaf_model);
