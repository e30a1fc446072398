// The trace of one generation, while it is served.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/prepare.h"
#include "server/http/choice_run.h"
#include "server/http/context.h"
#include "server/http/incoming.h"

namespace causeway::server {

class GenerationTrace {
 public:
  // Without effect, as all other functions, when traces are not sent or this one is not recorded.
  GenerationTrace(ServerContext& context, const Incoming& incoming, Nanos arrival);

  // Notes the request, before the engine's requests are moved out of `prepared`. `id`: of the
  // answer, without prefix.
  void asked(const Prepared& prepared, const std::string& id);
  // A choice has its first token: looks up, once, what is expected of the further tokens.
  void began(ModelId model);
  // Everything has ended: hands the trace over. `streamed`: events had been sent before the
  // failure.
  void end(const std::vector<ChoiceRun>& runs, const Usage& usage, const MaybeError& failure,
           bool streamed);

 private:
  ServerContext& context_;
  std::unique_ptr<RequestTrace> trace_;  // null: it is not recorded
  bool began_ = false;
};

}  // namespace causeway::server
