#include "sheaf/Data.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sheaf;

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

namespace {
constexpr int64_t llmcHeader = 256 * 4;
constexpr int32_t llmcU16 = 20240520, llmcU32 = 20240801;

void readFully(int file, void *to, int64_t bytes, int64_t offset,
               const std::string &path) {
  char *at = static_cast<char *>(to);
  while (bytes > 0) {
    ssize_t got = pread(file, at, bytes, offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      fail("{}: cannot read: {}", path, std::strerror(errno));
    if (got == 0)
      fail("{}: the file became shorter while it was read", path);
    at += got;
    bytes -= got;
    offset += got;
  }
}
} // namespace

TokenFile::TokenFile(const std::string &file_, TokenType type) : path(file_) {
  file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    fail("{}: cannot open: {}", path, std::strerror(errno));
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    fail("{}: not a regular file; expected a file of tokens", path);
  }
  try {
    int64_t bytes = info.st_size;
    if (bytes == 0)
      fail("{}: the file is empty; expected tokens", path);
    int32_t header[3] = {};
    if (type != TokenType::U8 && bytes >= 12)
      readFully(file, header, sizeof(header), 0, path);
    bool isLlmc = header[0] == llmcU16 || header[0] == llmcU32;
    if (!isLlmc) {
      width = type == TokenType::U8 ? 1 : type == TokenType::U32 ? 4 : 2;
      if (bytes % width)
        fail("{}: {} bytes are no whole number of u{} tokens; expected a "
             "multiple of {}, or give --token-type",
             path, bytes, width * 8, width);
      count = bytes / width;
      return;
    }
    int32_t version = header[0] == llmcU16 ? 1 : 7;
    width = header[0] == llmcU16 ? 2 : 4;
    if (header[1] != version)
      fail("{}: token file header has magic {} and version {}; expected "
           "version {}",
           path, header[0], header[1], version);
    if ((type == TokenType::U16 && width != 2) ||
        (type == TokenType::U32 && width != 4))
      fail("{}: the header says u{} tokens, --token-type says u{}", path,
           width * 8, type == TokenType::U16 ? 16 : 32);
    int64_t held = bytes - llmcHeader;
    if (header[2] <= 0 || held != int64_t{header[2]} * width)
      fail("{}: the header promises {} tokens of {} bytes, {} bytes follow it; "
           "the file is {}",
           path, header[2], width, std::max<int64_t>(held, 0),
           held < int64_t{header[2]} * width ? "truncated" : "damaged");
    headerBytes = llmcHeader;
    count = header[2];
  } catch (const Error &) {
    close(file);
    throw;
  }
}

TokenFile::~TokenFile() { close(file); }

void TokenFile::readRange(int64_t position, int64_t length, uint32_t *out) {
  raw.resize(length * width);
  readFully(file, raw.data(), length * width, headerBytes + position * width,
            path);
  for (int64_t i = 0; i < length; ++i) {
    uint32_t token = 0;
    std::memcpy(&token, &raw[i * width], width);
    out[i] = token;
  }
}

void TokenFile::read(int64_t position, int64_t length, int64_t vocab,
                     uint32_t *out) {
  position %= count;
  for (int64_t done = 0; done < length;) {
    int64_t part = std::min(length - done, count - position);
    readRange(position, part, out + done);
    for (int64_t i = 0; i < part; ++i)
      if (out[done + i] >= vocab)
        fail("{}: token {} at position {} is not below the model's vocabulary "
             "of {} (for the bytes of a text give --token-type=u8)",
             path, out[done + i], position + i, vocab);
    done += part;
    position = 0;
  }
}
