//===- toy_parallel.c - an artifact for a mesh, written by hand ---*- C -*-===//
//
// A bigram model, logits = table[token] + bias, on a mesh of TOY_DP x TOY_TP
// ranks, as a compiler would partition it: the batch is cut over dp; the table,
// its gradient and its momentum are cut over dp by rows (gathered for each
// step, gradients reduce-scattered); the bias and its momentum are cut over tp.
// Neither the batch nor the vocabulary need divide. The runtime's tests train
// it on threads and on processes.
//
//   TOY_FAIL=RANK:STEP:HOW in the environment makes a rank fail in a step: by
//   an error code, a signal (kill, segv), a collective left out (skip) or of
//   another size (size), a transfer left open (open), or not at all (none).
//   -DTOY_DOUBLED   the gradient of the bias is doubled: --verify must see it
//
//===----------------------------------------------------------------------===//

#include "sheaf/abi.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TOY_DP
#define TOY_DP 1
#endif
#ifndef TOY_TP
#define TOY_TP 1
#endif

enum {
  V = 50,
  B = 10,
  T = 8,
  M = 2, // microbatches
  Rows = (V + TOY_DP - 1) / TOY_DP,
  Columns = (V + TOY_TP - 1) / TOY_TP,
  Local = M * ((B / M + TOY_DP - 1) / TOY_DP)
};

static const double momentum = 0.5;

//===- Collectives
//---------------------------------------------------------===//

#define ALONG(kind, size, stride, elements, id)                                \
  {kind, SHEAF_SUM, SHEAF_F32, id, 1, 0, {size}, {stride}, elements, 1, 1, 0, 0}
static const SheafCollective gatherTable =
    ALONG(SHEAF_ALL_GATHER, TOY_DP, TOY_TP, (int64_t)Rows *V, 0);
static const SheafCollective scatterTable =
    ALONG(SHEAF_REDUCE_SCATTER, TOY_DP, TOY_TP, (int64_t)Rows * V * TOY_DP, 1);
static const SheafCollective gatherBias =
    ALONG(SHEAF_ALL_GATHER, TOY_TP, 1, Columns, 2);
static const SheafCollective reduceBias =
    ALONG(SHEAF_ALL_REDUCE, TOY_DP, TOY_TP, V, 3);
static const SheafCollective reduceLoss =
    ALONG(SHEAF_ALL_REDUCE, TOY_DP, TOY_TP, 1, 4);
static const SheafCollective wrongSize =
    ALONG(SHEAF_ALL_REDUCE, TOY_DP, TOY_TP, 2, 4);

static void run(SheafContext *c, const SheafCollective *what, const void *send,
                void *receive) {
  c->communicator->wait(c, c->communicator->start(c, what, send, receive));
}

/// "none" where this rank does not fail in this step.
static const char *failure(int64_t rank, int step) {
  static const char none[] = "none";
  const char *text = getenv("TOY_FAIL");
  int who, when, end = 0;
  if (!text || sscanf(text, "%d:%d:%n", &who, &when, &end) < 2 || who != rank ||
      when != step)
    return none;
  return text + end;
}

//===- The model
//-----------------------------------------------------------===//

// Offsets into the arena, in elements.
enum {
  atTable = 0,
  atBias = atTable + Rows * TOY_DP * V,
  atDTable = atBias + Columns * TOY_TP,
  atMyDTable = atDTable + Rows * TOY_DP * V,
  atDBias = atMyDTable + Rows * V,
  atEnd = atDBias + V
};

static void gatherParameters(SheafContext *c, const void *table,
                             const void *bias) {
  float *a = c->arena;
  // Both are open at once.
  int64_t t = c->communicator->start(c, &gatherTable, table, a + atTable);
  run(c, &gatherBias, bias, a + atBias);
  c->communicator->wait(c, t);
}

/// Gradients of this rank's samples by table and bias, or none; the loss of
/// all.
static void forward(SheafContext *c, const int32_t *tokens,
                    const int32_t *targets, int withGradients, float *loss) {
  float *a = c->arena, sum = 0;
  if (withGradients) {
    memset(a + atDTable, 0, sizeof(float) * Rows * TOY_DP * V);
    memset(a + atDBias, 0, sizeof(float) * V);
  }
  for (int i = 0; i < Local * T; ++i) {
    if (targets[i] < 0)
      continue;
    const float *row = a + atTable + tokens[i] * V;
    double total = 0;
    for (int v = 0; v < V; ++v)
      total += exp(row[v] + a[atBias + v]);
    sum += (float)(log(total) - row[targets[i]] - a[atBias + targets[i]]);
    if (withGradients)
      for (int v = 0; v < V; ++v) {
        float d =
            (float)(exp(row[v] + a[atBias + v]) / total - (v == targets[i])) /
            (B * T);
        a[atDTable + tokens[i] * V + v] += d;
        a[atDBias + v] += d;
      }
  }
  sum /= B * T;
  run(c, &reduceLoss, &sum, loss);
}

/// This rank's rows of the table's gradient, the bias's whole one, the norm.
static void reduceGradients(SheafContext *c, float *norm) {
  float *a = c->arena;
  int64_t t =
      c->communicator->start(c, &scatterTable, a + atDTable, a + atMyDTable);
  run(c, &reduceBias, a + atDBias, a + atDBias);
  c->communicator->wait(c, t);
#ifdef TOY_DOUBLED
  for (int v = 0; v < V; ++v)
    a[atDBias + v] *= 2;
#endif
  float mine = 0, all;
  for (int i = 0; i < Rows * V; ++i)
    mine += a[atMyDTable + i] * a[atMyDTable + i];
  run(c, &reduceLoss, &mine, &all);
  for (int v = 0; v < V; ++v)
    all += a[atDBias + v] * a[atDBias + v];
  *norm = sqrtf(all);
}

static uint32_t mix(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// rng, coordinates, table, bias
int32_t toy_init(SheafContext *c) {
  const int32_t *rng = c->buffers[0], *at = c->buffers[1];
  float *table = c->buffers[2], *bias = c->buffers[3];
  for (int i = 0; i < Rows * V; ++i) {
    int global = at[0] * Rows * V + i;
    uint32_t bits = mix((uint32_t)global ^ mix((uint32_t)rng[0]));
    table[i] = global < V * V ? (float)(bits >> 8) * 0x1p-24f - 0.5f : 0;
  }
  memset(bias, 0, sizeof(float) * Columns);
  return 0;
}

// coordinates, table, bias, momentum of both, tokens, targets, step, lr, loss,
// grad_norm, learning_rate
int32_t toy_step(SheafContext *c) {
  void *const *b = c->buffers;
  const int32_t *at = b[0];
  float *a = c->arena, *table = b[1], *bias = b[2], *mTable = b[3],
        *mBias = b[4];
  float lr = *(float *)b[8];
  const char *fail = failure(c->rank, *(int32_t *)b[7]);
  if (at[0] * TOY_TP + at[1] != c->rank)
    return 3;
  if (!strcmp(fail, "code"))
    return 7;
  if (!strcmp(fail, "kill"))
    raise(SIGKILL);
  if (!strcmp(fail, "segv"))
    raise(SIGSEGV);
  if (!strcmp(fail, "size")) {
    float two[2] = {0};
    run(c, &wrongSize, two, two);
  }
  if (strcmp(fail, "skip"))
    gatherParameters(c, table, bias);
  if (!strcmp(fail, "open")) {
    c->communicator->start(c, &reduceLoss, a, a);
    return 0;
  }
  forward(c, b[5], b[6], 1, b[9]);
  reduceGradients(c, b[10]);
  for (int i = 0; i < Rows * V; ++i) {
    mTable[i] = (float)(momentum * mTable[i] + a[atMyDTable + i]);
    table[i] -= lr * mTable[i];
  }
  for (int i = 0; i < Columns; ++i) {
    int global = at[1] * Columns + i;
    mBias[i] =
        (float)(momentum * mBias[i] + (global < V ? a[atDBias + global] : 0));
    bias[i] -= lr * mBias[i];
  }
  *(float *)b[11] = lr;
  return 0;
}

// coordinates, table, bias, gradient of both, tokens, targets, loss, grad_norm
int32_t toy_gradients(SheafContext *c) {
  void *const *b = c->buffers;
  const int32_t *at = b[0];
  float *a = c->arena, *dBias = b[4];
  gatherParameters(c, b[1], b[2]);
  forward(c, b[5], b[6], 1, b[7]);
  reduceGradients(c, b[8]);
  memcpy(b[3], a + atMyDTable, sizeof(float) * Rows * V);
  for (int i = 0; i < Columns; ++i) {
    int global = at[1] * Columns + i;
    dBias[i] = global < V ? a[atDBias + global] : 0;
  }
  return 0;
}

// table, bias, tokens, targets, loss
int32_t toy_loss(SheafContext *c) {
  void *const *b = c->buffers;
  gatherParameters(c, b[0], b[1]);
  forward(c, b[2], b[3], 0, b[4]);
  return 0;
}

// coordinates, table, bias, tokens, logits
int32_t toy_logits(SheafContext *c) {
  void *const *b = c->buffers;
  const int32_t *at = b[0], *tokens = b[3];
  float *a = c->arena, *logits = b[4];
  gatherParameters(c, b[1], b[2]);
  for (int i = 0; i < Local * T; ++i)
    for (int j = 0; j < Columns; ++j) {
      int global = at[1] * Columns + j;
      logits[i * Columns + j] =
          global < V ? a[atTable + tokens[i] * V + global] + a[atBias + global]
                     : 0;
    }
  return 0;
}

//===- What the artifact says
//----------------------------------------------===//

const uint32_t sheaf_abi_version = SHEAF_ABI_VERSION;

// The manifest is text, so the build gives these as numbers.
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
_Static_assert(
    TOY_ROWS == Rows && TOY_COLUMNS == Columns && TOY_LOCAL == Local,
    "TOY_ROWS, TOY_COLUMNS or TOY_LOCAL is not what TOY_DP and TOY_TP give");
_Static_assert(200000 >= sizeof(float) * (int64_t)atEnd, "raise arena_bytes");

#define TABLE(kind)                                                            \
  "{\"name\": \"table\", \"kind\": \"" kind "\", \"dtype\": \"f32\","          \
  " \"shape\": [" TEXT(TOY_ROWS) ", 50], \"global_shape\": [50, 50],"          \
                                 " \"sharding\": [[\"dp\"], []]},"
#define BIAS(kind)                                                             \
  "{\"name\": \"bias\", \"kind\": \"" kind "\", \"dtype\": \"f32\","           \
  " \"shape\": [" TEXT(TOY_COLUMNS) "], \"global_shape\": [50],"               \
                                    " \"sharding\": [[\"tp\"]]},"
#define BATCH(role)                                                            \
  "{\"name\": \"" role "\", \"kind\": \"batch\", \"role\": \"" role "\","      \
  " \"dtype\": \"i32\", \"shape\": [" TEXT(                                    \
      TOY_LOCAL) ", 8],"                                                       \
                 " \"global_shape\": [10, 8], \"sharding\": [[\"dp\"], []]},"
#define ONE(name, kind, type)                                                  \
  "{\"name\": \"" name "\", \"kind\": \"" kind "\", \"dtype\": \"" type        \
  "\", \"shape\": []},"

const char sheaf_manifest[] =
    "{\"abi\": 4, \"producer\": \"by hand\", \"target\": \"cpu\","
    "\"mesh\": {\"axes\": [{\"name\": \"dp\", \"size\": " TEXT(
        TOY_DP) "},"
                "{\"name\": \"tp\", \"size\": " TEXT(
                    TOY_TP) "}]},"
                            "\"model\": {\"name\": \"bigram\", \"batch\": 10, "
                            "\"seq\": 8, \"vocab\": 50,"
                            " \"microbatches\": 2, \"parameters\": 2550, "
                            "\"flops_per_step\": 1e4},"
                            "\"buffers\": [" TABLE("parameter")
                                BIAS("parameter") // 0, 1
    TABLE("momentum") BIAS("momentum")            // 2, 3
    TABLE("gradient") BIAS("gradient")            // 4, 5
    BATCH("tokens") BATCH("targets")              // 6, 7
    "{\"name\": \"rng\", \"kind\": \"rng\", \"dtype\": \"i32\", \"shape\": "
    "[4]},"
    "{\"name\": \"coordinates\", \"kind\": \"coordinates\", \"dtype\": \"i32\","
    " \"shape\": [2]},"        // 8, 9
    ONE("step", "step", "i32") // 10
    "{\"name\": \"lr\", \"kind\": \"scalar\", \"dtype\": \"f32\", \"shape\": "
    "[],"
    " \"value\": 0.5}," // 11
    ONE("loss", "result", "f32") ONE("grad_norm", "result", "f32")
        ONE("learning_rate", "result", "f32") // 12, 13, 14
    "{\"name\": \"logits\", \"kind\": \"result\", \"dtype\": \"f32\","
    " \"shape\": [" TEXT(TOY_LOCAL) ", 8, " TEXT(
        TOY_COLUMNS) "],"
                     " \"global_shape\": [10, 8, 50], \"blocks\": [2, 1, 1],"
                     " \"sharding\": [[\"dp\"], [], [\"tp\"]]}]," // 15
                     "\"entries\": {"
                     "\"init\": {\"symbol\": \"toy_init\", \"arguments\": [8, "
                     "9, 0, 1],"
                     " \"arena_bytes\": 0},"
                     "\"step\": {\"symbol\": \"toy_step\", \"arguments\": [9, "
                     "0, 1, 2, 3, 6, 7, 10, 11,"
                     " 12, 13, 14], \"arena_bytes\": 200000},"
                     "\"gradients\": {\"symbol\": \"toy_gradients\", "
                     "\"arguments\": [9, 0, 1, 4, 5, 6, 7,"
                     " 12, 13], \"arena_bytes\": 200000},"
                     "\"loss\": {\"symbol\": \"toy_loss\", \"arguments\": [0, "
                     "1, 6, 7, 12],"
                     " \"arena_bytes\": 200000},"
                     "\"logits\": {\"symbol\": \"toy_logits\", \"arguments\": "
                     "[9, 0, 1, 6, 15],"
                     " \"arena_bytes\": 200000}},"
                     "\"collectives\": ["
                     "{\"name\": \"all-gather table\"}, {\"name\": "
                     "\"reduce-scatter table\"},"
                     "{\"name\": \"all-gather bias\"}, {\"name\": \"all-reduce "
                     "bias\"},"
                     "{\"name\": \"all-reduce loss\", \"purpose\": \"loss\"}],"
                     "\"kernels\": []}";
const uint64_t sheaf_manifest_size = sizeof(sheaf_manifest) - 1;
