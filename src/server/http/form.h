// The form that an answer must have, while it is compiled on other threads.
#pragma once

#include <memory>
#include <string>

#include "fleet/fleet.h"
#include "request/constraint.h"
#include "server/http/connection.h"

namespace causeway::server {

// The form of one request. What is compiled after the request has ended is forgotten here, and kept
// by the compiler.
class Form {
 public:
  explicit Form(Connection& connection);
  ~Form();
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

  // Begins. On a preparing thread, since the model's vocabulary may have to be copied. `field`:
  // which asked for it.
  void compile(const fleet::CatalogueEntry& model, request::ConstraintText text, std::string field);
  // After compile(): until it is there, or the deadline has passed, or the client has gone. An
  // error names the field.
  asio::awaitable<MaybeError> wait();
  // Null after an error, or when the client has gone.
  std::shared_ptr<const request::Constraint> constraint() const;

 private:
  struct Pending;
  Connection& connection_;
  std::shared_ptr<Pending> pending_;  // shared with the compiling thread
  std::string field_;
};

}  // namespace causeway::server
