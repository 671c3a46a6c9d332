#include "sheaf/Files.h"
#include "sheaf/Error.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

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
  file =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    fail("{}: cannot create: {}", temporary, std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (file < 0)
    return;
  close(file);
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
  if (fsync(file) != 0)
    fail("{}: cannot write: {}", path, std::strerror(errno));
  if (rename(temporary.c_str(), path.c_str()) != 0)
    fail("{}: cannot rename the finished file into place: {}", path,
         std::strerror(errno));
  close(file);
  file = -1;
  syncDirectory(directoryOf(path));
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
