#include "man_page.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::app {
namespace {

constexpr const char* kEnd = R"(.SH ENVIRONMENT
Every option of a command may be given as
.BI CAUSEWAY_ OPTION\fR,
in capitals and with \(lq_\(rq for \(lq\-\(rq, or in the YAML file of
.B \-\-config
by its name without dashes. The command line counts before the environment, that before the file.
.SH EXIT STATUS
.TP
.B 0
It did what it was asked to.
.TP
.B 1
It failed, and says why in one line.
.TP
.B 2
An option, or a value of one, is not known or does not fit.
.SH FILES
.TP
.I /etc/causeway/causeway.yaml
Options of the service, where causeway is installed as one.
)";

// A code point of UTF-8 as \[uXXXX]; a byte that begins none as '?'.
std::string code_point(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const std::size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC2 ? 1 : 0;
  if (more == 0 || lead > 0xF4 || at + more >= text.size()) return "?";
  std::uint32_t code = lead & (0x3FU >> more);
  for (std::size_t i = 1; i <= more; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return "?";
    code = (code << 6) | (byte(at + i) & 0x3FU);
  }
  at += more;
  return fmt::format("\\[u{:04X}]", code);
}

// Text that roff prints as it is, its lines as lines.
std::string roff(const std::string& text) {
  std::string out;
  if (!text.empty() && text.front() == '.') out = "\\&";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '\n': out += "\n.br\n\\&"; break;
      default:
        out += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : code_point(text, i);
    }
  }
  return out;
}

std::string option_entry(const OptionText& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + roff(name);
  std::string entry = ".TP\n\\fB" + names + "\\fR";
  if (!option.form.empty()) entry += " " + roff(option.form);
  return entry + "\n" + (option.description.empty() ? "\\&" : roff(option.description)) + "\n";
}

// Positionals, then the groups in the order in which they come first.
std::string options_of(const CommandText& command) {
  std::vector<std::string> groups;
  std::string positionals;
  for (const OptionText& option : command.options) {
    if (option.positional) {
      positionals += option_entry(option);
    } else if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  std::string text = positionals;
  for (const std::string& group : groups) {
    if (group != "Options") text += ".PP\n\\fI" + roff(group) + "\\fR\n";
    for (const OptionText& option : command.options) {
      if (!option.positional && option.group == group) text += option_entry(option);
    }
  }
  return text;
}

}  // namespace

std::string man_page(const CommandText& program, const std::string& version) {
  const std::string& name = program.name();
  std::string page = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", roff(name),
                                 roff(name), roff(version));
  page += ".SH NAME\n" + roff(name) + " \\- " + roff(program.description) + "\n.SH SYNOPSIS\n";
  std::string usages;
  for (const CommandText* command : all_commands(program)) {
    if (!command->commands.empty()) continue;
    usages += (usages.empty() ? "" : ".br\n") + roff(command->usage) + "\n";
  }
  page += usages;
  page += ".SH DESCRIPTION\n" + roff(program.description) + "\n.SH OPTIONS\n" +
          "Those that may be given before or after any command:\n" + options_of(program) +
          ".SH COMMANDS\n";
  for (const CommandText* command : all_commands(program)) {
    if (command == &program) continue;
    page += ".SS " + roff(command->path()) + "\n" + roff(command->description) + "\n.PP\n" +
            roff(command->usage) + "\n" + options_of(*command);
  }
  return page + kEnd;
}

}  // namespace causeway::app
