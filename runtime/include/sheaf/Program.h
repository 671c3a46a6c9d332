//===- Program.h - an artifact with its buffers -----------------*- C++ -*-===//
//
// Holds the persistent buffers and the arena of a loaded artifact, counts their
// bytes, and calls entries on a device.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PROGRAM_H
#define SHEAF_PROGRAM_H

#include "sheaf/Artifact.h"
#include "sheaf/CpuDevice.h"
#include "sheaf/Memory.h"
#include <array>
#include <span>
#include <string>
#include <vector>

namespace sheaf {

class Program {
public:
  /// Both must outlive the program.
  Program(const Artifact &artifact, CpuDevice &device);

  const Artifact &artifact;
  const Manifest &manifest;
  CpuDevice &device;

  /// Allocates what the entries name, and room for the largest of their
  /// arenas. Buffers are resident and zero, scalars have their value at compile
  /// time; the arena's pages are not touched. Throws an Error with the bytes
  /// needed and available where the machine has too little.
  void prepare(const std::vector<std::string> &entries);

  /// Calls an entry, prepared before if need be. Throws an Error where the
  /// entry returns a code other than 0.
  void call(const std::string &entry);

  /// What this rank runs as an entry. Throws an Error that lists the entries
  /// there are.
  const EntryInfo &entry(const std::string &name) const {
    return manifest.entry(name).at(manifest.stageOf(communicator().rank));
  }
  /// Whether an entry that is prepared names the buffer, on this rank or on
  /// another.
  bool isPresent(int index) const { return present[index]; }
  /// Data of buffer `index`; null until an entry that names it is prepared, and
  /// where only others have it.
  void *data(int index) const { return memory[index].data(); }

  /// Sets all elements of a buffer to a number; nothing where index is -1 or
  /// the buffer is not allocated.
  void fill(int index, double value);
  /// The first element of a buffer as a number.
  double value(int index) const;

  void setStep(uint64_t seed, int64_t step);

  Communicator &communicator() const { return device.communicator; }
  bool isRoot() const { return device.communicator.isRoot(); }

  /// The whole tensor of a buffer on the root, null on the others. All ranks
  /// call it, for the same buffers in the same order. Where it is cut over
  /// ranks, `space` holds it.
  const void *whole(int index, Memory &space) const;

  /// Gives the arena's pages back to the system.
  void releaseArena() { arena.release(); }

  /// Allocated bytes, by kind of buffer.
  std::array<int64_t, bufferKinds> bytesByKind() const;
  int64_t arenaBytes() const { return arena.bytes(); }
  /// Bytes of the arena that entries have touched since it was there, or was
  /// given back; whole pages.
  int64_t arenaTouched() const { return arena.resident(); }

private:
  std::vector<Memory> memory; // one for each buffer of the manifest
  std::vector<bool> present;
  Memory arena;
};

} // namespace sheaf

#endif // SHEAF_PROGRAM_H
