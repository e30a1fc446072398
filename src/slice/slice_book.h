// The slices that a process has open, as far as they must know of each other: whether any of them
// serves, because registering host memory holds up the launches of all, and what they have of their
// GPU's memory, because a slice's share does not depend on what its neighbours have taken so far.
//
//   GPU's memory │ others │ slice │ slice │ free │
//
//   others: what was used when the first slice was opened, or is used now beyond the slices' parts
//
// Thread-safe; its lock is held while it asks, which must not block. Entries go before the book.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/units.h"
#include "device/paced_registration.h"

namespace causeway::slice {

class SliceBook {
 public:
  // The entry of one open slice.
  class Entry {
   public:
    // Called by SliceBook::add().
    Entry(SliceBook& book, int gpu, std::function<Bytes()> holds);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Sets the function that tells whether the slice serves; empty: it does not serve.
    void set_serves(std::function<bool()> serves);
    // Sets how much of the GPU's memory the slice may take beyond what `holds` returns: code,
    // libraries, graphs.
    void set_beside(Bytes beside);

   private:
    friend class SliceBook;
    SliceBook& book_;
    const int gpu_;
    // Guarded by the book's mutex.
    const std::function<Bytes()> holds_;
    std::function<bool()> serves_;
    Bytes beside_;
  };

  // Adds an open slice. `used`: the GPU's memory in use by all; `holds`: returns the slice's part
  // of that.
  std::unique_ptr<Entry> add(int gpu, Bytes used, std::function<Bytes()> holds);

  // Whether any slice of the process serves requests.
  bool serving() const;
  // The memory of a GPU that this process's slices use, if all processes together use `used`.
  Bytes slices_use(int gpu, Bytes used) const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::set<Entry*> entries_;
  // By GPU: the memory in use when its first slice was opened, less what that slice held.
  std::map<int, Bytes> before_;
};

// How host memory is registered beside these slices: slowly while requests are served, by whichever
// slice, since the driver holds up the launches of all. The book outlives the result.
device::Pace pace_among(const SliceBook& slices, Bytes at_once, std::function<bool()> cancelled);

}  // namespace causeway::slice
