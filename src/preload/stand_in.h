// What stands in the program's stream in place of a copy that is made elsewhere: it tells when all
// earlier work is done, and, unless the caller waits for the copy, delays later work until the copy
// is complete. There are two ways (docs/decisions/0005-stand-in.md):
//
//   value    cuStreamBatchMemOp: write `started`, wait until `released` reaches it. One call
//   kernel   the paper's (MMA §4): a host function writes `started`, a kernel of one thread looks
//            at `released` in mapped memory. The driver may run the host functions of all streams
//            one after the other: the notice comes behind the program's own
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "preload/flags.h"
#include "preload/settings.h"

namespace causeway::preload {

class StandIn {
 public:
  virtual ~StandIn() = default;
  virtual std::string_view name() const = 0;
  // Enqueues the stand-in; the program's context must be current. Without `hold` the stream
  // continues at once. After an error the stream is not held, but `started` may still be written
  // later. Any thread; does not block.
  virtual Status place(CUstream_st* stream, const FlagUse& use, bool hold) = 0;
};

// Everything that the stand-in needs is loaded into all of `contexts` at once.
Result<std::unique_ptr<StandIn>> make_stand_in(const Native& native, Order order,
                                               const std::vector<CUctx_st*>& contexts);

}  // namespace causeway::preload
