// The form that an answer must have (a grammar or schema), while other threads compile it.
#pragma once

#include <memory>
#include <string>

#include "fleet/fleet.h"
#include "request/constraint.h"
#include "server/http/connection.h"

namespace causeway::server {

// The form of one request. If the request ends before the form is compiled, the result is dropped
// here, and the compiler keeps it.
class Form {
 public:
  explicit Form(Connection& connection);
  ~Form();
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

  // Begins to compile; call it on a preparing thread, because the model's vocabulary may have to be
  // copied. `field`: the field of the request that asked for the form.
  void compile(const fleet::CatalogueEntry& model, request::ConstraintText text, std::string field);
  // Call it after compile(). Waits until the form is compiled, the deadline has passed or the
  // client has left. An error names the field.
  asio::awaitable<MaybeError> wait();
  // Null after an error, or when the client has left.
  std::shared_ptr<const request::Constraint> constraint() const;

 private:
  struct Pending;
  Connection& connection_;
  std::shared_ptr<Pending> pending_;  // shared with the compiling thread
  std::string field_;
};

}  // namespace causeway::server
