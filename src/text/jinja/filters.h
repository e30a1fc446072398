// The tables of filters by theme (find_filter in call.h looks through all), and what they share.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/call.h"

namespace causeway::text::jinja {

struct FilterEntry {
  std::string_view name;
  Filter call;
};

std::span<const FilterEntry> text_filters();      // filters_text.cc
std::span<const FilterEntry> number_filters();    // filters_number.cc
std::span<const FilterEntry> sequence_filters();  // filters_sequence.cc
std::span<const FilterEntry> layout_filters();    // filters_layout.cc: center, wordwrap, ...
std::span<const FilterEntry> web_filters();       // filters_web.cc: urlencode, xmlattr, ...
std::span<const FilterEntry>
choice_filters();  // filters_choice.cc: map, select, sort and their like

Value pprint(Heap& heap, const Value& subject, const Arguments& arguments);  // filters_pprint.cc
Value urlize(Heap& heap, const Value& subject, const Arguments& arguments);  // filters_urlize.cc

// value.a.b.0 for the path "a.b.0"; an integer is an element.
Value attribute_path(Heap& heap, Value value, const Value& path);

}  // namespace causeway::text::jinja
