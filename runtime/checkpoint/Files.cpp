#include "sheaf/Files.h"
#include "sheaf/Error.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace sheaf;

std::string sheaf::directoryOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sheaf::syncDirectory(const std::string &path) {
  int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    fail("{}: cannot open directory: {}", path, std::strerror(errno));
  // Some file systems cannot sync a directory and say so with EINVAL.
  int result = fsync(directory);
  int error = errno;
  close(directory);
  if (result != 0 && error != EINVAL)
    fail("{}: cannot sync directory: {}", path, std::strerror(error));
}

AtomicFile::AtomicFile(std::string target)
    : path(std::move(target)),
      temporary(fmt::format("{}.tmp-{}", path, getpid())) {
  // A device or a pipe is written to; a rename would put a file in its place.
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode))
      fail("{}: is a directory; expected the name of a file", path);
    isSpecial = true;
    file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0)
      fail("{}: cannot open: {}", path, std::strerror(errno));
    return;
  }
  file =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    fail("{}: cannot create: {}", temporary, std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (file < 0)
    return;
  close(file);
  if (!isSpecial)
    unlink(temporary.c_str());
}

void AtomicFile::write(const void *data, int64_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = ::write(file, at, bytes);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      fail("{}: cannot write: {}", path, std::strerror(errno));
    at += done;
    bytes -= done;
  }
}

void AtomicFile::commit() {
  if (isSpecial) {
    int result = close(file);
    file = -1;
    if (result != 0)
      fail("{}: cannot write: {}", path, std::strerror(errno));
    return;
  }
  if (fsync(file) != 0)
    fail("{}: cannot write: {}", path, std::strerror(errno));
  if (rename(temporary.c_str(), path.c_str()) != 0)
    fail("{}: cannot rename the finished file into place: {}", path,
         std::strerror(errno));
  close(file);
  file = -1;
  syncDirectory(directoryOf(path));
}

void sheaf::checkTarget(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
      !S_ISDIR(info.st_mode)) {
    // Opening a pipe would end its reader's wait.
    if (access(path.c_str(), W_OK) != 0)
      fail("{}: cannot write: {}", path, std::strerror(errno));
    return;
  }
  AtomicFile removedAgain(path);
}

void sheaf::writeFile(const std::string &path, const std::string &text) {
  AtomicFile file(path);
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.commit();
}

std::string sheaf::readFile(const std::string &path, int64_t limit) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    fail("{}: cannot open: {}", path, std::strerror(errno));
  in.seekg(0, std::ios::end);
  if (in.tellg() > limit)
    fail("{}: {} bytes; expected at most {}", path,
         static_cast<int64_t>(in.tellg()), limit);
  in.seekg(0);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

uint64_t sheaf::checksumOf(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    fail("{}: cannot open: {}", path, std::strerror(errno));
  // Words of a block that is always full but at the end, so that the result
  // does not depend on how much a read returns.
  std::vector<uint64_t> block(1 << 17);
  char *bytes = reinterpret_cast<char *>(block.data());
  size_t capacity = block.size() * sizeof(uint64_t);
  uint64_t sum = 0, length = 0;
  for (bool atEnd = false; !atEnd;) {
    size_t held = 0;
    while (held < capacity) {
      ssize_t got = read(file, bytes + held, capacity - held);
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0) {
        int error = errno;
        close(file);
        fail("{}: cannot read: {}", path, std::strerror(error));
      }
      if (got == 0) {
        atEnd = true;
        break;
      }
      held += got;
    }
    length += held;
    while (held % sizeof(uint64_t))
      bytes[held++] = 0;
    for (size_t i = 0; i < held / sizeof(uint64_t); ++i) {
      sum = (sum ^ block[i]) * 0x9e3779b97f4a7c15;
      sum ^= sum >> 32;
    }
  }
  close(file);
  return sum ^ length;
}
