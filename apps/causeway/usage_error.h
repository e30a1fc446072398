// What is wrong with a command line, in words that name the argument, the one that was probably
// meant, and the page that helps. CLI11's own words name types, and print arguments in reverse.
#pragma once

#include <string>

namespace CLI {
class App;
class Error;
class ParseError;
}  // namespace CLI

namespace causeway::app {

// `program`, which is named `name`, has thrown `error` from parse(); not one that asks for help.
std::string usage_error(const CLI::App& program, const std::string& name,
                        const CLI::ParseError& error);

// What is wrong with an option's value, or with how many it has: "--port: needs a value".
std::string value_error(const CLI::Error& error);

}  // namespace causeway::app
