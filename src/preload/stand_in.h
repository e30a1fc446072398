// What the program's stream does in place of a copy that is made elsewhere: it says when everything
// before it is done, and, unless the caller waits for the copy, holds back what follows until the
// copy is complete. Two ways, to be
// measured against each other (docs/decisions/0005-stand-in.md):
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
  // Enqueues it, the program's context being current. On an error the stream is not held back, but
  // `started` may still be written later. Any thread; does not block.
  // Without `hold` the stream goes on at once.
  virtual Status place(CUstream_st* stream, const FlagUse& use, bool hold) = 0;
};

// Whatever it needs is loaded into all of `contexts` at once.
Result<std::unique_ptr<StandIn>> make_stand_in(const Native& native, Order order,
                                               const std::vector<CUctx_st*>& contexts);

}  // namespace causeway::preload
