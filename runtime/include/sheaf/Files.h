//===- Files.h - files that are there whole or not at all -------*- C++ -*-===//
//
// Writes go to a name aside, are synced, and are renamed into place, so that a
// crash, a kill or a full disk at any moment leaves the old file or the new
// one.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_FILES_H
#define SHEAF_FILES_H

#include <cstdint>
#include <string>

namespace sheaf {

/// A file written under a temporary name beside `path`; commit() syncs it and
/// renames it to `path`. What is there and no file (a device, a pipe) is
/// written to instead, and stays. Without commit() the destructor removes it.
/// All throw an Error with the path and the system's reason.
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, int64_t bytes);
  void commit();

private:
  std::string path, temporary;
  int file = -1;
  bool isSpecial = false;
};

/// Throws an Error where an AtomicFile at `path` could not be opened: asked
/// before long work whose result goes there.
void checkTarget(const std::string &path);

/// Writes and commits a whole text.
void writeFile(const std::string &path, const std::string &text);

/// The whole file. Throws an Error where it is larger than `limit` bytes.
std::string readFile(const std::string &path, int64_t limit = 1 << 26);

/// A sum of the file's bytes that shows damage: each byte changes all that
/// follows.
uint64_t checksumOf(const std::string &path);

/// Syncs a directory, so that renames in it last.
void syncDirectory(const std::string &path);

/// The directory part of a path, "." where there is none.
std::string directoryOf(const std::string &path);

} // namespace sheaf

#endif // SHEAF_FILES_H
