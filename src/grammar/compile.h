// One grammar for one model, compiled by XGrammar. The only file of this room that knows it is
// compile.cc; in a build without it (CAUSEWAY_XGRAMMAR) nothing can be compiled.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "grammar/token_table.h"
#include "grammar/work_pool.h"
#include "request/constraint.h"

namespace causeway::grammar {

// Whether this build has XGrammar.
bool available();

// A model's tokens as XGrammar wants them: sorted, which takes a tenth of a second.
class PreparedTokens;
Result<std::shared_ptr<const PreparedTokens>> prepare_tokens(const TokenTable& table);

struct Compiled {
  std::shared_ptr<const request::Constraint> constraint;
  std::size_t bytes = 0;  // at most
};

// Takes as long as it takes; the stack should be large. `matching` is where its matchers compute
// masks. kInvalidArgument says what is wrong with the text, kUnsupported what cannot be done.
Result<Compiled> compile(std::shared_ptr<const PreparedTokens> tokens, request::ConstraintText text,
                         std::shared_ptr<WorkPool> matching);

}  // namespace causeway::grammar
