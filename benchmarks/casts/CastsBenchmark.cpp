//===- CastsBenchmark.cpp - Casts of all numbers, and their speed ---------===//
//
//   casts-benchmark all [THREADS]      each of the 2^32 words of f32, to each
//                                      format, saturating and not, against the
//                                      places between neighbouring numbers
//   casts-benchmark speed [THREADS]    arrays of 256 MiB of f32, as a part of
//                                      what copying reaches in the same run
//
// The reference of `all` knows no bits of f32: between two numbers of a format
// that follow each other what is nearer wins, and at the middle the even one.
//
//===----------------------------------------------------------------------===//

#include "sheaf/Casts.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

using namespace sheaf;

namespace {
constexpr Format formats[] = {Format::BF16, Format::FP16, Format::E4M3,
                              Format::E5M2, Format::E2M1, Format::E8M0};

void parallel(int threads, const std::function<void(int)> &body) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(body, i);
  body(0);
  for (std::thread &other : others)
    other.join();
}

/// Words of positive numbers that are not NaN and get the code of `format`
/// beside a larger one; the last is of the largest finite number.
template <Format F>
std::vector<uint32_t> lastWords() {
  FormatInfo f = infoOf(F);
  std::vector<uint32_t> last;
  for (uint32_t code = 0; code <= f.largest; ++code) {
    double here = decode<F>(code), middle;
    if (F == Format::E8M0) {
      middle = here; // Rounded up.
    } else if (code < f.largest) {
      middle = (here + decode<F>(code + 1)) / 2;
    } else {
      // As if one more number followed.
      middle = here + (here - decode<F>(code - 1)) / 2;
    }
    // The last word that is not above the middle, or below it.
    auto near = static_cast<float>(middle);
    uint32_t word = std::bit_cast<uint32_t>(near);
    bool takesMiddle = F == Format::E8M0 || code % 2 == 0;
    while (std::bit_cast<float>(word) > middle ||
           (std::bit_cast<float>(word) == middle && !takesMiddle))
      --word;
    last.push_back(word);
  }
  return last;
}

template <Format F>
int64_t checkAll(int threads) {
  FormatInfo f = infoOf(F);
  std::vector<uint32_t> last = lastWords<F>();
  std::vector<int64_t> wrong(threads, 0);
  parallel(threads, [&](int thread) {
    constexpr uint64_t count = uint64_t{0x7f800000} + 1;
    uint64_t begin = count * thread / threads,
             end = count * (thread + 1) / threads;
    auto code = static_cast<uint32_t>(
        std::lower_bound(last.begin(), last.end(), begin) - last.begin());
    uint32_t sign = F == Format::E8M0 ? 0 : f.sign();
    uint32_t behind = F == Format::E4M3 ? 0x7f : f.largest + 1;
    for (uint64_t word = begin; word < end; ++word) {
      while (code < last.size() && word > last[code])
        ++code;
      float x = std::bit_cast<float>(static_cast<uint32_t>(word));
      bool fits = code < last.size();
      uint32_t most = fits ? code : f.largest, plain = fits ? code : behind;
      if (F == Format::E2M1)
        plain = most;
      if (F == Format::E8M0 && !fits)
        plain = 0xff;
      wrong[thread] += encode<F>(x, true) != most;
      wrong[thread] += encode<F>(x, false) != plain;
      wrong[thread] += encode<F>(-x, true) != (sign | most);
      wrong[thread] += encode<F>(-x, false) != (sign | plain);
    }
    // NaN.
    for (uint64_t word = 0x7f800001 + thread; word < 0x80000000;
         word += threads)
      for (uint32_t signBit : {0u, 0x80000000u})
        for (bool saturates : {false, true}) {
          uint32_t found = encode<F>(
              std::bit_cast<float>(static_cast<uint32_t>(word) | signBit),
              saturates);
          wrong[thread] +=
              F == Format::E2M1 ? found != 7 : !std::isnan(decode<F>(found));
        }
  });
  int64_t all = 0;
  for (int64_t one : wrong)
    all += one;
  return all;
}

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Bytes a second of the median of some runs.
double speed(int64_t bytes, const std::function<void()> &run) {
  std::vector<double> times;
  run();
  for (int i = 0; i < 7; ++i) {
    double began = seconds();
    run();
    times.push_back(seconds() - began);
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(bytes) / times[times.size() / 2];
}

void measure(int threads) {
  constexpr int64_t count = 64 << 20;
  std::vector<float> from(count), back(count);
  std::vector<uint8_t> to(count * sizeof(float));
  uint32_t state = 1;
  for (float &x : from) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(static_cast<int32_t>(state)) / (1 << 28);
  }
  auto inParts = [&](const std::function<void(int64_t, int64_t)> &run) {
    return [&, run] {
      parallel(threads, [&](int i) {
        int64_t begin = count / threads * i;
        run(begin, i + 1 < threads ? count / threads : count - begin);
      });
    };
  };
  double copy = speed(2 * count * 4, inParts([&](int64_t begin, int64_t n) {
                        std::memcpy(&back[begin], &from[begin], n * 4);
                      }));
  std::printf("copy %.1f GB/s with %d threads, read and written\n", copy / 1e9,
              threads);
  for (Format format : formats) {
    int64_t bytes = count * 4 + bytesOf(format, count);
    double in = speed(bytes, inParts([&](int64_t begin, int64_t n) {
                        encode(format, true, &from[begin],
                               &to[bytesOf(format, begin)], n);
                      }));
    double out =
        speed(bytes, inParts([&](int64_t begin, int64_t n) {
                decode(format, &to[bytesOf(format, begin)], &back[begin], n);
              }));
    std::printf("%-7s encode %5.1f GB/s, %.2f of copy [0.5]   decode %5.1f "
                "GB/s, %.2f [0.5]\n",
                std::string(infoOf(format).name).c_str(), in / 1e9, in / copy,
                out / 1e9, out / copy);
  }
}
} // namespace

int main(int argc, char **argv) {
  int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  std::string what = argc > 1 ? argv[1] : "";
  if (threads < 1 || (what != "all" && what != "speed")) {
    std::fprintf(stderr, "casts-benchmark: expected all or speed, and a number "
                         "of threads, at least 1\n");
    return 1;
  }
  if (what == "speed") {
    measure(threads);
    return 0;
  }
  int64_t wrong = 0;
  auto report = [&](Format format, int64_t found) {
    wrong += found;
    std::printf("%-7s %lld of 2^33 casts differ\n",
                std::string(infoOf(format).name).c_str(),
                static_cast<long long>(found));
    std::fflush(stdout);
  };
  report(Format::BF16, checkAll<Format::BF16>(threads));
  report(Format::FP16, checkAll<Format::FP16>(threads));
  report(Format::E4M3, checkAll<Format::E4M3>(threads));
  report(Format::E5M2, checkAll<Format::E5M2>(threads));
  report(Format::E2M1, checkAll<Format::E2M1>(threads));
  report(Format::E8M0, checkAll<Format::E8M0>(threads));
  return wrong != 0;
}
