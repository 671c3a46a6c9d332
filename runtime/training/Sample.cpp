#include "sheaf/Error.h"
#include "sheaf/Training.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

using namespace sheaf;

namespace {
/// The prompt as tokens: its bytes where the vocabulary is bytes, else numbers
/// between commas. Without a prompt: a new line, or token 0.
std::vector<uint32_t> promptTokens(const std::string &prompt, int64_t vocab,
                                   bool bytes) {
  std::vector<uint32_t> tokens;
  if (prompt.empty())
    return {bytes && vocab > '\n' ? uint32_t{'\n'} : 0u};
  if (bytes) {
    for (unsigned char c : prompt)
      tokens.push_back(c);
  } else {
    const char *at = prompt.data(), *end = at + prompt.size();
    while (true) {
      uint32_t token;
      auto [rest, error] = std::from_chars(at, end, token);
      if (error != std::errc() || (rest != end && *rest != ','))
        fail("--prompt={}: a vocabulary of {} is not bytes; expected token "
             "numbers with commas between them",
             prompt, vocab);
      tokens.push_back(token);
      if (rest == end)
        break;
      at = rest + 1;
    }
  }
  for (uint32_t token : tokens)
    if (token >= vocab)
      fail("--prompt: token {} is not below the model's vocabulary of {}",
           token, vocab);
  return tokens;
}

/// Draws from softmax(logits / temperature) with `bits`; the largest, lowest
/// index first, where the temperature is 0.
uint32_t draw(SheafType type, const void *logits, int64_t offset, int64_t vocab,
              double temperature, uint64_t bits) {
  std::vector<double> weights(vocab);
  for (int64_t i = 0; i < vocab; ++i)
    weights[i] = element(type, logits, offset + i);
  auto largest = std::max_element(weights.begin(), weights.end());
  if (!std::isfinite(*largest))
    fail("the logits are not finite, cannot sample");
  if (temperature == 0)
    return static_cast<uint32_t>(largest - weights.begin());
  double most = *largest, sum = 0;
  for (double &weight : weights)
    sum += weight = std::exp((weight - most) / temperature);
  double target = static_cast<double>(bits >> 11) * 0x1p-53 * sum;
  for (int64_t i = 0; i + 1 < vocab; ++i) {
    target -= weights[i];
    if (target < 0)
      return static_cast<uint32_t>(i);
  }
  return static_cast<uint32_t>(vocab - 1);
}
} // namespace

void sheaf::sampleTokens(const RunOptions &options, Program &program,
                         uint64_t seed) {
  const Manifest &manifest = program.manifest;
  int64_t batch = manifest.model.batch, sequence = manifest.model.sequence,
          vocab = manifest.model.vocab;
  int logits = manifest.find(BufferKind::Result, "logits");
  if (logits < 0 || manifest.buffers[logits].layout.global.empty() ||
      manifest.buffers[logits].layout.global.back() < vocab ||
      *elementCount(manifest.buffers[logits].layout.global) <
          sequence * manifest.buffers[logits].layout.global.back())
    fail("{}: has no result 'logits' of shape [batch, seq, vocab], cannot "
         "sample",
         program.artifact.path);
  const BufferInfo &buffer = manifest.buffers[logits];
  program.prepare({"logits"});

  bool bytes = vocab <= 256;
  std::vector<uint32_t> text = promptTokens(options.prompt, vocab, bytes);
  size_t shown = options.prompt.empty() ? text.size() : 0;
  auto show = [&] {
    if (!program.isRoot())
      return;
    for (; shown < text.size(); ++shown) {
      unsigned char c = static_cast<unsigned char>(text[shown]);
      if (!bytes)
        fmt::print("{}{}", text[shown], shown + 1 < text.size() ? " " : " ");
      else if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f))
        std::fputc(c, stdout);
      else
        fmt::print("\\x{:02x}", c); // no control codes to a terminal
    }
    std::fflush(stdout);
  };
  if (program.isRoot())
    fmt::print("\nsample of {} tokens\n", options.sample);
  show();
  std::vector<uint32_t> window(batch * (sequence + 1));
  Communicator &communicator = program.communicator();
  Memory space;
  for (int64_t i = 0; i < options.sample && !communicator.agreeMax(stopSignal);
       ++i) {
    // The last T tokens, in every row, so that no row is out of range.
    int64_t used =
        std::min<int64_t>(static_cast<int64_t>(text.size()), sequence);
    std::fill(window.begin(), window.end(), 0);
    for (int64_t row = 0; row < batch; ++row)
      std::copy(text.end() - used, text.end(),
                window.begin() + row * (sequence + 1));
    fillBatch(program, window);
    program.setStep(seed, 0);
    program.call("logits");
    // The root draws and tells the others.
    const void *whole = program.whole(logits, space);
    int64_t token = 0;
    if (whole)
      token =
          draw(buffer.type, whole, (used - 1) * buffer.layout.global.back(),
               vocab, options.temperature, randomBits(seed, SampleStream, i));
    text.push_back(static_cast<uint32_t>(communicator.agreeMax(token)));
    show();
  }
  if (program.isRoot())
    fmt::print("\n");
}
