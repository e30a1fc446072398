// The layout of --help: names on the left, descriptions beside them, wrapped to 100 columns.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace causeway::app {

// For the program and the commands that are added to it afterwards.
void set_help_format(CLI::App& app);

}  // namespace causeway::app
