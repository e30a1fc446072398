// The inputs of the admin port beside paths: bodies that name a model, and parameters of queries,
// also of the first port's. They are read strictly: a wrong type, or a name that is not known, is
// an error that names it.
#pragma once

#include <string>
#include <string_view>

#include "fleet/sleep_mode.h"
#include "server/api/generation_request.h"

namespace causeway::server {

struct AdminBody {
  std::string model;
  bool wait = true;  // for the end, before it is answered
};

// {"model": …}, and with `may_wait` "wait": false.
MaybeError parse_admin_body(std::string_view body, const ApiLimits& limits, bool may_wait,
                            AdminBody& out);

// The query of /sleep, as vLLM has it.
struct SleepQuery {
  // level=0: models stay where they are, and requests wait; 1 (the default): weights stay in host
  // memory; 2: they do not.
  int level = 1;
  // mode=wait or abort, of requests; without it models that have some stay awake.
  fleet::SleepMode mode = fleet::SleepMode::kIdle;
  bool keeps = false;  // mode=keep: requests go on after /wake_up
};
MaybeError parse_sleep_query(std::string_view query, SleepQuery& out);
// Reads the query of /wake_up: tags=weights, kv_cache and scheduling, each any number of times. All
// is woken whatever they say.
MaybeError parse_wake_query(std::string_view query);
// Reads the query of /health: deep=1 or 0. Other parameters are left alone, as probes send what
// they like.
MaybeError parse_health_query(std::string_view query, bool& deep);
// Reads the query of a generation, as llama.cpp's router has it. autoload=false: a model that is
// not loaded is not loaded for it. Other parameters are left alone likewise.
MaybeError parse_autoload_query(std::string_view query, bool& autoload);

}  // namespace causeway::server
