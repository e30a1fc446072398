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
  // Does nothing, nor do the others, where traces are not sent, or this one is not recorded.
  GenerationTrace(ServerContext& context, const Incoming& incoming, Nanos arrival);

  // What is asked for, before the requests leave `prepared`. `id`: of the answer, without prefix.
  void asked(const Prepared& prepared, const std::string& id);
  // A choice has its first token: what is expected of the further ones is looked up, once.
  void began(ModelId model);
  // All has ended: hands it over. `streamed`: events had been sent before the failure.
  void end(const std::vector<ChoiceRun>& runs, const Usage& usage, const MaybeError& failure,
           bool streamed);

 private:
  ServerContext& context_;
  std::unique_ptr<RequestTrace> trace_;  // null: it is not recorded
  bool began_ = false;
};

}  // namespace causeway::server
