// Written by tests/text/make_feature_cases.py from the answers of Python's jinja2: not by hand.
#include "text/jinja/feature_cases.h"

namespace causeway::text::jinja {
namespace {

// clang-format off
constexpr FeatureCase kMoreCases[] = {
    {"{{ -1|abs }}", "1"},
    {"{{ 1 if yes else 2 + 3 }}", "1"},
    {"{{ (n, s)[0] }}", "42"},
    {"{{ \"%s\" % nil }}", "None"},
    {"{{ s[:5] + '!' * 2 }}", "Hello!!"},
    {"{{ u.upper() }}", "A\303\221\346\227\245\360\237\230\200B"},
    {"{{ [1, [2, [3]]] | string }}", "[1, [2, [3]]]"},
    {"{{ 'a\\ }}", kFails},
    {"{{ b' }}", kFails},
    {"{{ d|attr('a') }}", ""},
    {"{{ 'x'|indent('a') }}", "x"},
    {"{{ u|first ~ u|list|length }}", "a5"},
    {"{{ 'abc'|batch(2)|list }}", "[['a', 'b'], ['c']]"},
    {"{{ {'a':1}|length }}", "1"},
    {"{{ [{'a':{'b':1}}]|map(attribute='a.b')|list }}", "[1]"},
    {"{{ [[5,6]]|map(attribute=1)|list }}", "[6]"},
    {"{{ [[5,6]]|map(attribute='1')|list }}", "[6]"},
    {"{{ 'a' < 1 }}", kFails},
    {"{{ [3,'a']|sort }}", kFails},
    {"{{ '\303\237'.upper() is defined }}", "True"},
    {"{{ 'K' ~ loop }}", "K"},
    {"{{ 'x' is in 'xyz' }}", "True"},
    {"{{ 5 is not in [1] }}", "True"},
    {"{{ none is none }}", "True"},
    {"{{ None is none and True and not False }}", "True"},
    {"{{ \"\"|default(\"e\") }}", ""},
    {"{{ d is defined and d.a is defined and d.zz is not defined }}", "True"},
    {"{{ 'a'.join('xyz') }}", "xayaz"},
    {"{{ 'abc'[1] }}", "b"},
    {"{{ 'abc'['x'] is defined }}", "False"},
    {"{{ s is string and s|length > 3 and s.startswith('H') }}", "True"},
    {"{{ 1.5|int ~ 1e2|int }}", "1100"},
    {"{{ 1 ~ 2 }}", "12"},
    {"{{ true + 1 }}", "2"},
    {"{{ true ~ false }}", "TrueFalse"},
    {"{{ 1 + 1.0 }}", "2.0"},
    {"{{ 7 % 2.5 }}", "2.0"},
    {"{{ 1e16 }}", "1e+16"},
    {"{{ 123456789012345678 }}", "123456789012345678"},
    {"{{ 1e15 + 0.5 }}", "1000000000000000.5"},
    {"{{ -0.0 }}", "-0.0"},
    {"{{ 0.1 + 0.2 }}", "0.30000000000000004"},
    {"{{ 3.0 * 2 }}", "6.0"},
    {"{{ 10 ** 20 }}", "100000000000000000000"},
    {"{{ 10.0 ** 20 }}", "1e+20"},
    {"{{ (1 / 3)|round(3) }}", "0.333"},
    {"{{ '%.3f' % 1.0005 }}", "1.000"},
    {"{{ '%5.1f|%-8d|%+d' % (3.14159, 42, 7) }}", "  3.1|42      |+7"},
    {"{{ '%e' % 12345.678 }}", "1.234568e+04"},
    {"{{ '%g' % 0.00001 }}", "1e-05"},
    {"{{ '%' }}", "%"},
    {"{{ '100%' % () }}", kFails},
    {"{{ none[1:] }}", ""},
    {"{{ nil[1:] }}", kFails},
    {"{{ true[:2] }}", ""},
    {"{{ (none[1:]) is defined }}", "False"},
    {"{{ [none[1:], (1, 2)[1:]] }}", "[Undefined, (2,)]"},
    {"{{ {'a': 1}[1:] }}", ""},
    {"{{ '<' + ('<' | safe) }}", "&lt;<"},
    {"{{ ('<' | safe) + '<' }}", "<&lt;"},
    {"{{ '<' ~ ('<' | safe) }}", "<<"},
    {"{{ ('<' | safe) | list }}", "['<']"},
    {"{{ [('<' | safe)] }}", "[Markup('<')]"},
    {"{{ ('<b>' | safe)[0] + '<' }}", "<&lt;"},
    {"{{ ('<b>' | safe)[::-1] + '<' }}", ">b<&lt;"},
    {"{{ ('<b>' | safe) | first + '<' }}", "<<"},
    {"{{ ('<b>' | safe) | last + '<' }}", ">&lt;"},
    {"{{ ('<b>' | safe) | reverse + '<' }}", ">b<&lt;"},
    {"{{ ('<b>' | safe) | title + '<' }}", "<B><"},
    {"{{ ('<b>' | safe) | string + '<' }}", "<b>&lt;"},
    {"{{ ('<b>' | safe) | trim + '<' }}", "<b>&lt;"},
    {"{{ ('<b>' | safe) | upper + '<' }}", "<B>&lt;"},
    {"{{ ('<b>\\n<' | safe) | indent + '<' }}", "<b>\n    <&lt;"},
    {"{{ ('<b>' | safe) | replace('b', 'c') + '<' }}", "<c><"},
    {"{{ ('<b>' | safe) | tojson + '<' }}", "\"<b>\"<"},
    {"{{ ('<%s>' | safe) % '<' }}", "<&lt;>"},
    {"{{ ('<%s%s>' | safe) % ('<', '<' | safe) }}", "<&lt;<>"},
    {"{{ ('<%d>' | safe) % 5 + '<' }}", "<5>&lt;"},
    {"{{ ('<%s>' | safe) | format('<') }}", "<&lt;>"},
    {"{{ ('<{}>' | safe).format('<') }}", "<&lt;>"},
    {"{{ ('<{}>' | safe).format('<' | safe) }}", "<<>"},
    {"{{ ('<{:5}>' | safe).format('<') }}", "<&lt;    >"},
    {"{{ ('<{:5}>' | safe).format('<' | safe) }}", kFails},
    {"{{ ('<%s>' | safe) % ['<'] }}", "<[&#39;&lt;&#39;]>"},
    {"{{ ('<%r>' | safe) % '<' }}", "<&#39;&lt;&#39;>"},
    {"{{ '<%s>' % ('<' | safe) + '<' }}", "<<><"},
    {"{{ '<%s>' | format('<' | safe) + '<' }}", "<<><"},
    {"{{ ('<a>' | safe).replace('a', '<') }}", "<&lt;>"},
    {"{{ ('<a>' | safe).join(['<', '>' | safe]) }}", "&lt;<a>>"},
    {"{{ ('<a> <' | safe).split() | string }}", "[Markup('<a>'), Markup('<')]"},
    {"{{ ('<a> <' | safe).partition(' ') | string }}",
     "(Markup('<a>'), Markup(' '), Markup('<'))"},
    {"{{ ('<a>' | safe).upper() + '<' }}", "<A>&lt;"},
    {"{{ ('<a>' | safe).strip('<') + '<' }}", "a>&lt;"},
    {"{{ '<'.join(['<', '>' | safe]) + '<' }}", "<<><"},
    {"{{ ['a<', 'b'] | join('<' | safe) + '<' }}", "a<<b<"},
    {"{{ ('<a' | safe) * 2 + '<' }}", "<a<a&lt;"},
    {"{{ 2 * ('<a' | safe) + '<' }}", "<a<a&lt;"},
    {"{{ '<a>' | e + '<' }}", "&lt;a&gt;&lt;"},
    {"{{ '<a>' | e | e }}", "&lt;a&gt;"},
    {"{{ '<a>' | e | forceescape }}", "&amp;lt;a&amp;gt;"},
    {"{{ none | e }}", "None"},
    {"{{ ('<a>' | safe) is escaped }}", "True"},
    {"{{ '<a>' is escaped }}", "False"},
    {"{{ ('<a>' | safe) is string }}", "True"},
    {"{{ ('<a>' | safe) == '<a>' }}", "True"},
    {"{{ '<' + (d | tojson | safe) + s }}",
     "&lt;{\"b\": 2, \"a\": 1, \"items\": \"own\", \"x y\": {\"z\": [0, 1]}}Hello, Wor"
     "ld"},
    {"{{ '[' ~ (d | tojson | safe) ~ '\"<' }}",
     "[{\"b\": 2, \"a\": 1, \"items\": \"own\", \"x y\": {\"z\": [0, 1]}}\"<"},
    {"{{ ('<' | safe) + 5 }}", kFails},
    {"{{ 5 is even }}", "False"},
    {"{{ 4 is even }}", "True"},
    {"{{ 1.5 is even }}", "False"},
    {"{{ 2.0 is even }}", "True"},
    {"{{ 1.5 is odd }}", "False"},
    {"{{ 'a' is even }}", kFails},
    {"{{ nil | map('upper') | list }}", "[]"},
    {"{{ 0 | select | list }}", "[]"},
    {"{{ '' | map | list }}", "[]"},
    {"{{ nil | selectattr | list }}", "[]"},
    {"{{ nil | map('zork') | list }}", "[]"},
    {"{{ nil | select('zork') | list }}", "[]"},
    {"{{ nil | rejectattr('x', 'zork') | list }}", "[]"},
    {"{{ missing | selectattr('x') | list }}", "[]"},
    {"{{ {} | reject | list }}", "[]"},
    {"{{ s | center(20) ~ '|' }}", "    Hello, World    |"},
    {"{{ s | center(21) ~ '|' }}", "     Hello, World    |"},
    {"{{ 'ab' | center(5) ~ '|' ~ ('abc' | center(6)) ~ '|' ~ ('abc' | center) }}",
     "  ab | abc  |                                      abc                          "
     "             "},
    {"{{ n | center(7) ~ '|' }}", "   42  |"},
    {"{{ 'ab'.center(5, '*') ~ 'abc'.center(6, '\303\251') ~ 'abc'.center(2) }}",
     "**ab*\303\251abc\303\251\303\251abc"},
    {"{{ 'abc'.ljust(5) ~ '|' ~ 'abc'.rjust(5, '.') ~ '|' }}", "abc  |..abc|"},
    {"{{ 'abc'.ljust(5, 'xy') }}", kFails},
    {"{{ ('<' | safe).ljust(3, '<') }}", kFails},
    {"{{ ('<' | safe).ljust(3) + '<' }}", "<  &lt;"},
    {"{{ '-3'.zfill(5) ~ '\303\251'.zfill(5) ~ '+'.zfill(3) ~ 'abcd'.zfill(2) }}",
     "-00030000\303\251+00abcd"},
    {"{{ 'abc'.encode() }}", "b'abc'"},
    {"{{ '\303\251'.encode('utf-8') }}", "b'\\xc3\\xa9'"},
    {"{{ '\303\251' .encode('ascii', 'ignore') ~ '\303\251'.encode('ascii', 'replace')"
     " ~ '\303\251'.encode('latin-1') }}",
     "b''b'?'b'\\xe9'"},
    {"{{ '\303\251'.encode('ascii') }}", kFails},
    {"{{ '\346\227\245\346\234\254'.encode() | length }}", "6"},
    {"{{ 'abc'.encode()[0] ~ 'abc'.encode()[1:] ~ ('abc'.encode() | list) }}",
     "97b'bc'[97, 98, 99]"},
    {"{{ u.encode().decode() }}", "a\303\261\346\227\245\360\237\230\200b"},
    {"{{ 'abc'.encode() == 'abc'.encode() and 'abc'.encode() != 'abc' }}", "True"},
    {"{{ 'abc'.encode() is string or 'abc'.encode() is mapping }}", "False"},
    {"{{ 'abc'.encode() is sequence and 'abc'.encode() is iterable }}", "True"},
    {"{{ 'abc'.encode() + 'd'.encode() }}", "b'abcd'"},
    {"{{ 'abc'.encode() + 'd' }}", kFails},
    {"{{ 'abc'.encode() | tojson }}", kFails},
    {"{{ 'a\"\\'\\n\\\\'.encode() }}", "b'a\"\\'\\n\\\\'"},
    {"{{ 98 in 'abc'.encode() and 'b'.encode() in 'abc'.encode() }}", "True"},
    {"{{ 'a\303\251'.encode().hex() }}", "61c3a9"},
    {"{{ 'abc'.encode().nothing }}", ""},
    {"{{ 'aBc\303\237'.swapcase() ~ 'abcabc'.rindex('b') }}", "AbCSS4"},
    {"{{ 'abc'.isalpha() ~ 'ab1'.isalnum() ~ 'ab1_'.isalnum() ~ ''.isalpha() ~ '\303"
     "\251'.isascii() ~ ''.isascii() }}",
     "TrueTrueFalseFalseFalseTrue"},
    {"{{ '5'.isdecimal() ~ 'a\\n'.isprintable() ~ 'abc'.isprintable() }}", "TrueFalseTrue"},
    {"{{ [1, 2, 3, 4, 5, 6, 7] | slice(3) | list }}", "[[1, 2, 3], [4, 5], [6, 7]]"},
    {"{{ [1, 2, 3, 4, 5, 6, 7] | slice(3, 'x') | list }}",
     "[[1, 2, 3], [4, 5, 'x'], [6, 7, 'x']]"},
    {"{{ 'abcd' | slice(2) | list }}", "[['a', 'b'], ['c', 'd']]"},
    {"{{ [] | slice(2, 0) | list }}", "[[0], [0]]"},
    {"{{ [1] | slice(3) | list }}", "[[1], [], []]"},
    {"{{ [1] | slice(-1) | list }}", "[]"},
    {"{{ [1] | slice(0) | list }}", kFails},
    {"{{ 'foo bar baz qux' | truncate(9) }}", "foo..."},
    {"{{ 'foo bar baz qux' | truncate(9, true) }}", "foo ba..."},
    {"{{ 'foo bar baz qux' | truncate(11) }}", "foo bar baz qux"},
    {"{{ 'foo bar baz qux' | truncate(11, false, '...', 0) }}", "foo bar..."},
    {"{{ 'foo bar baz qux' | truncate(8, leeway=0, end='>') }}", "foo>"},
    {"{{ 'foo bar baz qux' | truncate(1) }}", kFails},
    {"{{ '\346\227\245\346\234\254\350\252\236\343\203\206\343\202\255\343\202\271\343"
     "\203\210' | truncate(4, true, '\342\200\246', 0) }}",
     "\346\227\245\346\234\254\350\252\236\342\200\246"},
    {"{{ lst | truncate(4) }}", "[3, 1, 2]"},
    {"{{ n | truncate }}", kFails},
    {"{{ missing | truncate }}", ""},
    {"{{ nil | truncate }}", kFails},
    {"{{ 'a' * 300 | truncate }}", kFails},
    {"{{ ('<b> <c> <d>' | safe) | truncate(4, false, '<', 0) }}", "<b>&lt;"},
    {"{{ 'Hello World!' | urlencode ~ ('a/b?c=d&e' | urlencode) ~ ('\346\227\245\346"
     "\234\254 \303\261' | urlencode) }}",
     "Hello%20World%21a/b%3Fc%3Dd%26e%E6%97%A5%E6%9C%AC%20%C3%B1"},
    {"{{ {'a b': 'c/d', '\303\251': 1} | urlencode }}", "a+b=c%2Fd&%C3%A9=1"},
    {"{{ [['a', 'b'], ('c', 'd e')] | urlencode }}", "a=b&c=d+e"},
    {"{{ ['ab', 'cd'] | urlencode }}", "a=b&c=d"},
    {"{{ [1] | urlencode }}", kFails},
    {"{{ 5 | urlencode ~ (nil | urlencode) ~ (missing | urlencode) ~ (2.5 | urlencode)"
     " }}",
     "5None2.5"},
    {"{{ d | pprint }}", "{'a': 1, 'b': 2, 'items': 'own', 'x y': {'z': [0, 1]}}"},
    {"{{ messages | pprint }}",
     "[{'content': 'Be brief. ', 'role': 'system'},\n {'content': 'Gr\303\274\303\237e"
     ", \344\270\226\347\225\214! \360\237\221\213\\n', 'role': 'user'},\n {'content':"
     " None,\n  'role': 'assistant',\n  'tool_calls': [{'function': {'arguments': {'x'"
     ": 1, 'y': [1.5, None, True]},\n                               'name': 'f'}}]},\n"
     " {'content': '<r>\\'\"&\\\\</r>', 'role': 'tool'},\n {'content': [{'text': 'part"
     "s', 'type': 'text'}], 'role': 'user'}]"},
    {"{{ tools | pprint }}",
     "[{'function': {'description': 'd\303\251j\303\240 \\u2028 vu',\n               '"
     "name': 'f',\n               'parameters': {'properties': {'x': {'type': 'integer"
     "'}},\n                              'required': [],\n                           "
     "   'type': 'object'}},\n  'type': 'function'}]"},
    {"{{ [] | pprint ~ {} | pprint ~ ((1,) | pprint) ~ (nil | pprint) ~ (missing | ppr"
     "int) }}",
     "[]{}(1,)NoneUndefined"},
    {"{{ 'a' * 100 | pprint }}", kFails},
    {"{{ ('word ' * 30) | pprint }}",
     "('word word word word word word word word word word word word word word word '\n"
     " 'word word word word word word word word word word word word word word word ')"},
    {"{{ ['word ' * 30, 'line one\\nline two\\n' * 8, {'k': 'word ' * 30}] | pprint }}",
     "['word word word word word word word word word word word word word word word '\n"
     " 'word word word word word word word word word word word word word word word ',"
     "\n 'line one\\n'\n 'line two\\n'\n 'line one\\n'\n 'line two\\n'\n 'line one\\n'"
     "\n 'line two\\n'\n 'line one\\n'\n 'line two\\n'\n 'line one\\n'\n 'line two\\n'"
     "\n 'line one\\n'\n 'line two\\n'\n 'line one\\n'\n 'line two\\n'\n 'line one\\n'"
     "\n 'line two\\n',\n {'k': 'word word word word word word word word word word wor"
     "d word word word '\n       'word word word word word word word word word word wo"
     "rd word word word '\n       'word word '}]"},
    {"{{ {2: 'a', 1: 'b', 'c': 1, 'a': 2} | pprint }}", "{1: 'b', 2: 'a', 'a': 2, 'c': 1}"},
    {"{{ {'b': {'z': 1, 'y': [1, 2, 3] * 15}, 'a': 'x' * 90} | pprint }}",
     "{'a': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxx',\n 'b': {'y': [1,\n             2,\n             3,\n        "
     "     1,\n             2,\n             3,\n             1,\n             2,\n   "
     "          3,\n             1,\n             2,\n             3,\n             1,"
     "\n             2,\n             3,\n             1,\n             2,\n          "
     "   3,\n             1,\n             2,\n             3,\n             1,\n     "
     "        2,\n             3,\n             1,\n             2,\n             3,\n"
     "             1,\n             2,\n             3,\n             1,\n            "
     " 2,\n             3,\n             1,\n             2,\n             3,\n       "
     "      1,\n             2,\n             3,\n             1,\n             2,\n  "
     "           3,\n             1,\n             2,\n             3],\n       'z': 1"
     "}}"},
    {"{{ ((1, 2) * 30,) | pprint }}",
     "((1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  "
     "2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,"
     "\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n"
     "  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  "
     "2,\n  1,\n  2,\n  1,\n  2,\n  1,\n  2),)"},
    {"{{ ('\346\227\245\346\234\254\350\252\236 ' * 30) | pprint }}",
     "('\346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346"
     "\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227"
     "\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245"
     "\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346"
     "\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346\234"
     "\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254"
     "\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350"
     "\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252"
     "\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 '"
     "\n '\346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 "
     "\346\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346"
     "\227\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227"
     "\245\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245"
     "\346\234\254\350\252\236 \346\227\245\346\234\254\350\252\236 \346\227\245\346"
     "\234\254\350\252\236 ')"},
    {"{{ 'abcde' * 30 | pprint }}", kFails},
    {"{{ ('abcdefg' * 30).encode() | pprint }}",
     "(b'abcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdef'"
     "\n b'gabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcd"
     "e'\n b'fgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefgabcdefg')"},
    {"{{ ['abcdefg'.encode() * 2, ('ab' * 60).encode()] | pprint }}",
     "[b'abcdefgabcdefg',\n b'abababababababababababababababababababababababababababab"
     "abababababababababab'\n b'abababababababababababababababababababababab']"},
    {"{{ (\"it's \" * 30) | pprint }}",
     "(\"it's it's it's it's it's it's it's it's it's it's it's it's it's it's it's \""
     "\n \"it's it's it's it's it's it's it's it's it's it's it's it's it's it's it's "
     "\")"},
    {"{{ ('<b>  x</b>\\n<i a=\"b\">y &amp; z</i>' | striptags) }}", "x y & z"},
    {"{{ '<!-- c > --> a <b' | striptags }}", "a <b"},
    {"{{ '&lt;b&gt; &#65;&#x42; &#150; &#0; &nbsp;x &quot;&apos; &unknown; &amp' | str"
     "iptags }}",
     "<b> AB \342\200\223 \357\277\275 \302\240x \"' &unknown; &"},
    {"{{ 5 | striptags ~ ('<a>' | safe | striptags) }}", "5"},
    {"{{ 'a <b>c</b>' | striptags | wordcount }}", "2"},
    {"{{ 'The quick brown fox jumps over the lazy dog' | wordwrap(10) }}",
     "The quick\nbrown fox\njumps over\nthe lazy\ndog"},
    {"{{ 'The quick brown fox jumps over the lazy dog' | wordwrap(10, wrapstring='|') "
     "}}",
     "The quick|brown fox|jumps over|the lazy|dog"},
    {"{{ 'averyveryverylongword and-hyphenated-words-too x' | wordwrap(8) }}",
     "averyver\nyverylon\ngword\nand-hyph\nenated-\nwords-\ntoo x"},
    {"{{ 'averyveryverylongword and-hyphenated-words-too x' | wordwrap(8, false) }}",
     "averyveryverylongword\nand-\nhyphenated-\nwords-\ntoo x"},
    {"{{ 'averyveryverylongword and-hyphenated-words-too x' | wordwrap(8, true, none, "
     "false) }}",
     "averyver\nyverylon\ngword an\nd-hyphen\nated-wor\nds-too x"},
    {"{{ 'one\\ntwo three   four\\n\\n  five ' | wordwrap(9) }}",
     "one\ntwo three\nfour\n\n  five"},
    {"{{ 'an em--dash---here and --more 2-3 a-b x-y-z' | wordwrap(5) }}",
     "an em\n--\ndash\n---\nhere\nand -\n-more\n2-3\na-b\nx-y-z"},
    {"{{ '\346\227\245\346\234\254\350\252\236 \343\203\206\343\202\255\343\202\271"
     "\343\203\210 \343\203\206\343\202\271\343\203\210' | wordwrap(4) }}",
     "\346\227\245\346\234\254\350\252\236\n\343\203\206\343\202\255\343\202\271\343"
     "\203\210\n\343\203\206\343\202\271\343\203\210"},
    {"{{ 'a\\tb\\x0bc d\\u00a0e f' | wordwrap(3) }}", "a\011b\nc\nd\302\240e\nf"},
    {"{{ '  leading and   gaps  ' | wordwrap(6) }}", "  lead\ning\nand\ngaps"},
    {"{{ 'x' | wordwrap(0) }}", kFails},
    {"{{ '' | wordwrap(0) }}", ""},
    {"{{ ('<a> <b>' | safe) | wordwrap(3) + '<' }}", "<a>\n<b><"},
    {"{{ 'a b' | wordwrap(1, wrapstring='<br>' | safe) + '<' }}", "a<br>b&lt;"},
    {"{{ 5 | wordwrap }}", kFails},
    {"{{ 1 | filesizeformat ~ ' ' ~ (0 | filesizeformat) ~ ' ' ~ (999 | filesizeformat"
     ") ~ ' ' ~ (-5.5 | filesizeformat) }}",
     "1 Byte 0 Bytes 999 Bytes -5 Bytes"},
    {"{{ 1000 | filesizeformat ~ ' ' ~ (1024 | filesizeformat(true)) ~ ' ' ~ (1e6 | fi"
     "lesizeformat) ~ ' ' ~ ('1234567' | filesizeformat) }}",
     "1.0 kB 1.0 KiB 1.0 MB 1.2 MB"},
    {"{{ 10 ** 30 | filesizeformat }}", kFails},
    {"{{ 10 ** 30 | filesizeformat(true) }}", kFails},
    {"{{ 1e27 | filesizeformat ~ ' ' ~ (1e24 | filesizeformat) ~ ' ' ~ (999999 | files"
     "izeformat) }}",
     "1000.0 YB 1000.0 ZB 1000.0 kB"},
    {"{{ 'x' | filesizeformat }}", kFails},
    {"{{ nil | filesizeformat }}", kFails},
    {"{{ 'see https://example.com/a?b=c, www.example.org. and (http://x.de)' | urlize "
     "}}",
     "see <a href=\"https://example.com/a?b=c\" rel=\"noopener\">https://example.com/a"
     "?b=c</a>, <a href=\"https://www.example.org\" rel=\"noopener\">www.example.org</"
     "a>. and (<a href=\"http://x.de\" rel=\"noopener\">http://x.de</a>)"},
    {"{{ 'mail me@example.com or mailto:you@example.org! example.com example.foo a.b@c"
     "' | urlize }}",
     "mail <a href=\"mailto:me@example.com\">me@example.com</a> or mailto:you@example."
     "org! <a href=\"https://example.com\" rel=\"noopener\">example.com</a> example.fo"
     "o a.b@c"},
    {"{{ 'http://192.168.0.1:80/x http://[::1]/y http://[1:2:3:4:5:6:7:8] https://a' |"
     " urlize }}",
     "<a href=\"http://192.168.0.1:80/x\" rel=\"noopener\">http://192.168.0.1:80/x</a>"
     " <a href=\"http://[::1]/y\" rel=\"noopener\">http://[::1]/y</a> <a href=\"http:/"
     "/[1:2:3:4:5:6:7:8]\" rel=\"noopener\">http://[1:2:3:4:5:6:7:8]</a> https://a"},
    {"{{ 'https://example.com/a_(b) <http://example.com/> \"http://example.com\"' | ur"
     "lize }}",
     "<a href=\"https://example.com/a_(b)\" rel=\"noopener\">https://example.com/a_(b)"
     "</a> &lt;<a href=\"http://example.com/\" rel=\"noopener\">http://example.com/</a"
     ">&gt; &#34;http://example.com&#34;"},
    {"{{ 'https://example.com/averylongpath' | urlize(15, true, target='_blank') }}",
     "<a href=\"https://example.com/averylongpath\" rel=\"nofollow noopener\" target="
     "\"_blank\">https://example...</a>"},
    {"{{ 'https://example.com' | urlize(rel='me <x>') }}",
     "<a href=\"https://example.com\" rel=\"&lt;x&gt; me noopener\">https://example.co"
     "m</a>"},
    {"{{ 'tel:+1 ftp://x.y/z' | urlize(extra_schemes=['tel:', 'ftp://']) }}",
     "<a href=\"tel:+1\" rel=\"noopener\">tel:+1</a> <a href=\"ftp://x.y/z\" rel=\"noo"
     "pener\">ftp://x.y/z</a>"},
    {"{{ 'x' | urlize(extra_schemes=['nope']) }}", kFails},
    {"{{ 'EXAMPLE.COM Http://Example.Com www.a.b.museum xn--p1ai.xn--p1ai http://xn--p"
     "1ai' | urlize }}",
     "<a href=\"https://EXAMPLE.COM\" rel=\"noopener\">EXAMPLE.COM</a> <a href=\"https"
     "://Http://Example.Com\" rel=\"noopener\">Http://Example.Com</a> <a href=\"https:"
     "//www.a.b.museum\" rel=\"noopener\">www.a.b.museum</a> xn--p1ai.xn--p1ai <a href"
     "=\"http://xn--p1ai\" rel=\"noopener\">http://xn--p1ai</a>"},
    {"{{ '@a@b a@b.c_d a@b..c a@-b.c' | urlize }}",
     "@a@b <a href=\"mailto:a@b.c_d\">a@b.c_d</a> <a href=\"mailto:a@b..c\">a@b..c</a>"
     " a@-b.c"},
    {"{{ {'class': 'a b', 'id': 5, 'x': nil, 'y': missing, 'title': '\"<&>\\''} | xmla"
     "ttr }}",
     " class=\"a b\" id=\"5\" title=\"&#34;&lt;&amp;&gt;&#39;\""},
    {"{{ {'class': 'a'} | xmlattr(false) }}", "class=\"a\""},
    {"{{ {} | xmlattr ~ '|' }}", "|"},
    {"{{ {'a b': 1} | xmlattr }}", kFails},
    {"{{ {'a': '<' | safe, '<': 1} | xmlattr }}", " a=\"<\" &lt;=\"1\""},
    {"{{ s | xmlattr }}", kFails},
    {"{{ '<a>\\n<b>\\n' | indent('>' | safe) + '<' }}", "<a>\n>&lt;b&gt;\n<"},
    {"{{ '<a>\\n\\n<b>' | indent('>' | safe, blank=true) + '<' }}",
     "&lt;a&gt;\n>\n>&lt;b&gt;&lt;"},
    {"{{ 1 | no.such }}", kFails},
    {"{{ 1 is no.such }}", kFails},
    {"{{ 'a' % missing ~ ('a' % [1]) ~ ('a' % {}) }}", "aaa"},
    {"{{ 'a' % 5 }}", kFails},
    {"{{ 'a' % d.keys() }}", kFails},
    {"a\n{% if yes %}\n  b\n{% endif %}\nc\n", "a\n  b\nc"},
    {"a\n  {%- if yes -%}  \n b {%- endif %}\nc\n\n", "abc\n"},
    {"  {%+ if yes %}x{% endif +%}\ny", "  x\ny"},
    {"{{ 'a' }}\n{{ 'b' -}}\n  c {{- 'd' }}  ", "a\nbcd  "},
    {"x {# comment #} y {#- c -#} z\n  {# own line #}\nq", "x  yz\nq"},
    {"{#- {{ not }} {% parsed %} -#}", ""},
    {"{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  a  {%- endraw -%}  b",
     "{{ x }} {% if %}|ab"},
    {"  {% raw %}\n a {% endraw %}\n b", "\n a  b"},
    {"{% if no %}1{% elif n == 42 %}2{% else %}3{% endif %}", "2"},
    {"{% if no %}1{% elif nil %}2{% else %}3{% endif %}", "3"},
    {"{% if yes: %}colon{% endif %}", "colon"},
    {"{% for x in lst %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last "
     "%},{% endif %}{% endfor %}",
     "1/3:3,2/3:1,3/3:2"},
    {"{% for x in lst %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loo"
     "p.first }}{{ loop.last }} {% endfor %}",
     "032TrueFalse 121FalseFalse 210FalseTrue "},
    {"{% for x in lst %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
     "<3>1 3<1>2 1<2> "},
    {"{% for x in lst %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {"
     "% endfor %}",
     "FalseTrue TrueTrue TrueFalse "},
    {"{% for x in lst %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %"
     "}",
     "aTruebTrueaTrue"},
    {"{% for x in [] %}x{% else %}empty{% endfor %}", "empty"},
    {"{% for x in missing %}x{% else %}empty{% endfor %}", "empty"},
    {"{% for x in nil %}x{% endfor %}", kFails},
    {"{% for x in 5 %}x{% endfor %}", kFails},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
     "b=2;a=1;items=own;x y={'z': [0, 1]};"},
    {"{% for k in d %}{{ k }};{% endfor %}", "b;a;items;x y;"},
    {"{% for (a, b) in nested %}{{ a }}-{{ b }} {% endfor %}", "1-2 3-4 "},
    {"{% for a, b in [[1]] %}{% endfor %}", kFails},
    {"{% for c in u %}[{{ c }}]{% endfor %}", "[a][\303\261][\346\227\245][\360\237\230\200][b]"},
    {"{% for x in lst if x > 1 %}{{ loop.index }}{{ x }} {% endfor %}", "13 22 "},
    {"{% for x in lst if x > 10 %}{{ x }}{% else %}none{% endfor %}", "none"},
    {"{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{"
     "% break %}{% endif %}{{ x }}{% endfor %}",
     "0134"},
    {"{% for x in lst %}{% for y in lst %}{% if y == 1 %}{% break %}{% endif %}{{ x }}"
     "{{ y }} {% endfor %}|{% endfor %}",
     "33 |13 |23 |"},
    {"{% for x in lst %}{% for y in nested %}{{ loop.depth }}{{ loop.index }}{% endfor"
     " %}{{ loop.depth }}{% endfor %}",
     "111211112111121"},
    {"{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "123"},
    {"{% for x in lst %}{% set y = x %}{% endfor %}{{ y is defined }}", "False"},
    {"{% set y = 1 %}{% for x in lst %}{{ y }}{% set y = y + x %}{{ y }} {% endfor %}{"
     "{ y }}",
     "14 12 13 1"},
    {"{% set ns = namespace(t=0) %}{% for x in lst %}{% set ns.t = ns.t + x %}{% endfo"
     "r %}{{ ns.t }}",
     "6"},
    {"{% set ns = namespace() %}{% set ns.a = [1] %}{% set ns.a = ns.a + [2] %}{{ ns.a"
     " }}{{ ns.b is defined }}",
     "[1, 2]False"},
    {"{% set ns = namespace({'q': 1}, r=2) %}{{ ns.q }}{{ ns.r }}{{ ns['q'] }}", "121"},
    {"{% set d.x = 1 %}", kFails},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
    {"{% set a = 1, 2 %}{{ a }}", "(1, 2)"},
    {"{% set x %}block {{ n }}{% endset %}{{ x }}|{{ x | length }}", "block 42|8"},
    {"{% set x | upper | replace('B', 'C') %}block{% endset %}{{ x }}", "CLOCK"},
    {"{% set x %}{% set inner = 1 %}{% endset %}{{ inner is defined }}", "False"},
    {"{% if yes %}{% set z = 5 %}{% endif %}{{ z }}", "5"},
    {"{% macro m(a, b=2, c=a) %}{{ a }},{{ b }},{{ c }}{% endmacro %}{{ m(1) }} {{ m(1"
     ", c=3) }} {{ m(b=9, a=8) }}",
     "1,2,1 1,2,3 8,9,8"},
    {"{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}", "FalseTrue"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", kFails},
    {"{% macro m(a) %}{% endmacro %}{{ m(q=2) }}", kFails},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", kFails},
    {"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "(1, 2){'x': 3}"},
    {"{% macro f(n) %}{% if n > 1 %}{{ n * (f(n - 1) | int) }}{% else %}1{% endif %}{%"
     " endmacro %}{{ f(10) }}",
     "3628800"},
    {"{% macro m() %}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}", "3"},
    {"{% macro m() %}{% set g = 1 %}{{ g }}{% endmacro %}{{ m() }}{{ g is defined }}", "1False"},
    {"{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}in {{ n }}{% endc"
     "all %}",
     "[in 42]"},
    {"{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% c"
     "all(v) each(lst) %}<{{ v }}>{% endcall %}",
     "<3><1><2>"},
    {"{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", kFails},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a') ~ m('b') | upper }}{{ m is callab"
     "le }}",
     "aBTrue"},
    {"{% macro a() %}a{% endmacro %}{% macro b() %}{{ a() }}b{% endmacro %}{{ b() }}", "ab"},
    {"{% filter upper %}abc {{ s }}{% endfilter %}", "ABC HELLO, WORLD"},
    {"{% filter replace('a', 'b') | upper %}abc{% endfilter %}", "BBC"},
    {"{% with x = 1, y = n %}{{ x + y }}{% endwith %}{{ x is defined }}", "43False"},
    {"{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "1False"},
    {"{% generation %}gen {{ n }}{% set gg = 1 %}{% endgeneration %}{{ gg is defined }"
     "}",
     "gen 42False"},
    {"{% print 1, 'a' %}", "1a"},
    {"{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}} }}", "1{'a': {}}"},
    {"{{ '}}' }}{{ '%}' }}{{ \"{{\" }}", "}}%}{{"},
    {"line1\015\nline2\015line3\015\n", "line1\nline2\nline3"},
    {"{{ 'a\015\nb' }}", "a\nb"},
    {"\n\n{{ 1 }}\n\n", "\n\n1\n"},
    {"{% if yes %}\n\n  x\n  {% endif %}\n\ny", "\n  x\n\ny"},
    {"  {{ 1 }}  {% if yes %}  {{ 2 }}  {% endif %}  ", "  1    2    "},
    {"\011{%- set x = 1 %}\n\011{{ x }}", "\0111"},
    {"{%- for m in messages %}\n    {%- if m.content is string %}\n        {{- m.role "
     "+ ': ' + m.content|trim + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n",
     "system: Be brief.\nuser: Gr\303\274\303\237e, \344\270\226\347\225\214! \360\237"
     "\221\213\ntool: <r>'\"&\\</r>\n"},
    {"{% set content = messages[0].content %}{% if content is string %}{{ content }}{%"
     " endif %}",
     "Be brief. "},
    {"{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 "
     "%}{{ index }}{{ m.role }} {% endfor %}",
     "4user 3tool 2assistant 1user 0system "},
    {"{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{%"
     " else %}{% set loop_messages = messages %}{% endif %}{{ loop_messages | length }"
     "}",
     "4"},
    {"{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ r"
     "aise_exception('roles must alternate') }}{% endif %}{% endfor %}",
     kFails},
    {"{% set tools_json = tools | map('tojson') | join('\\n') %}{{ tools_json }}",
     "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d"
     "\303\251j\303\240 \342\200\250 vu\", \"parameters\": {\"type\": \"object\", \"pr"
     "operties\": {\"x\": {\"type\": \"integer\"}}, \"required\": []}}}"},
    {"{% set xs = [] %}{% for m in messages %}{% set xs = xs + [m.role] %}{% endfor %}"
     "{{ xs }}",
     "[]"},
    {"{% set ns = namespace(xs=[]) %}{% for m in messages %}{% set ns.xs = ns.xs + [m."
     "role] %}{% endfor %}{{ ns.xs|join(',') }}",
     "system,user,assistant,tool,user"},
    {"{{ undefined_function('x') }}", kFails},
    {"{{ 1 | nofilter }}", kFails},
    {"{{ 1 is notest }}", kFails},
    {"{% if no %}{{ 1 | nofilter }}{% endif %}ok", "ok"},
    {"{{ (1 | nofilter) if no else 'ok' }}", "ok"},
    {"{% nosuchtag %}", kFails},
    {"{% if yes %}", kFails},
    {"{% endif %}", kFails},
    {"{% for x in lst %}{% endif %}", kFails},
    {"{{ 1 + }}", kFails},
    {"{{ 1", kFails},
    {"{% if", kFails},
    {"{# open", kFails},
    {"{% raw %}open", kFails},
    {"{{ ] }}", kFails},
    {"{{ (1] }}", kFails},
    {"{{ 'open }}", kFails},
    {"{{ 1 2 }}", kFails},
    {"{{ a.1b }}", kFails},
    {"{% set 1 = 2 %}", kFails},
    {"{% set none = 2 %}", kFails},
    {"{% for x lst %}{% endfor %}", kFails},
    {"{% break %}", kFails},
    {"{% macro m(a=1, b) %}{% endmacro %}", kFails},
    {"{{ f(a=1, 2) }}", kFails},
    {"{{ $ }}", kFails},
    {"{{ x is a is b }}", kFails},
    {"plain text only", "plain text only"},
    {"{% set x = 1 -%}\n  \n {{ x }}", "1"},
    {"{{ s -}}   {{ n }}", "Hello, World42"},
    {"{% for x in lst -%}\n {{ x }}\n{%- endfor %}", "312"},
    {"{%- if yes %} a {%- else %} b {%- endif -%} c", " ac"},
    {"{{ (recs | selectattr('on', 'defined') | list)[0].k }}", "b"},
    {"{% set gen = lst | map('string') %}{{ gen | join }}{{ gen | join }}", "312"},
    {"{% for g in recs | groupby('v') %}{{ g.grouper }}{{ g.list | length }}{{ g[0] }}"
     "{% endfor %}",
     "111212313"},
    {"{% for k, group in recs | groupby('k') %}{{ k }}{{ group | length }}{% endfor %}", "A1b1c1"},
    {"{% set a = b = 1 %}", kFails},
    {"{{ loop }}", ""},
    {"{{ s }}{{ nil }}{{ lst }}{{ f }}", "Hello, WorldNone[3, 1, 2]2.5"},
    {"{% set m = messages[0] %}{{ m['role'] ~ m.get('name', '?') }}", "system?"},
    {"{% if tools is not none and tools|length > 0 %}{{ tools[0]['function']['name'] }"
     "}{% endif %}",
     "f"},
    {"{% set x = 5 %}{% macro show() %}{{ x }}{% endmacro %}{% set x = 6 %}{{ show() }"
     "}",
     "6"},
    {"{% for i in range(2) %}{% macro mm() %}{{ i }}{% endmacro %}{{ mm() }}{% endfor "
     "%}",
     "01"},
    {"{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}"
     "{{ outer() }}",
     "i"},
    {"{{ dict(a=1, **{'b': 2}) }}", "{'a': 1, 'b': 2}"},
    {"{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, '"
     "b': 4}) }}",
     "1234"},
    {"{% set x = messages|selectattr('role','equalto','user')|map(attribute='content')"
     "|list %}{{ x|tojson }}",
     "[\"Gr\303\274\303\237e, \344\270\226\347\225\214! \360\237\221\213\\n\", [{\"typ"
     "e\": \"text\", \"text\": \"parts\"}]]"},
    {"{% set x = '<a>' | safe %}{{ x + '<' }}{% set y %}{{ x }}{% endset %}{{ y + '<' "
     "}}{% for c in x %}{{ c + '<' }}{% endfor %}",
     "<a>&lt;<a><<<a<><"},
    {"{% macro m(a) %}{{ a + '<' }}{% endmacro %}{{ m('<' | safe) + '<' }}", "<&lt;<"},
    {"{% set ns = namespace(x='<' | safe) %}{% set ns.x = ns.x + '\"' %}{{ ns.x }}", "<&#34;"},
    {"{% filter safe %}<{% endfilter %}{% filter escape | upper %}<{% endfilter %}", "<&LT;"},
    {"{% for t in none | selectattr('type', 'equalto', 'x') %}x{% else %}none{% endfor"
     " %}",
     "none"},
    {"{% if no %}{{ 1 | no.filter }}{% endif %}ok", "ok"},
    {"{% if no %}{% for x in [] %}{{ 1 | nofilter }}{% endfor %}{% endif %}ok", kFails},
    {"{% if no %}{% for x in [] %}{{ 1 | nofilter if x else 2 }}{% endfor %}{% endif %"
     "}ok",
     "ok"},
    {"{% if no %}{% with %}{{ 1 is notest }}{% endwith %}{% endif %}ok", kFails},
    {"{% if no %}{% for x in [] | nofilter %}{% endfor %}{% endif %}ok", "ok"},
    {"{% if no %}{% filter nofilter %}{% endfilter %}{% endif %}ok", kFails},
    {"{% if no %}{% set y | nofilter %}{% endset %}{% endif %}ok", kFails},
    {"{% if no %}{% macro m(a=1|nofilter) %}{% endmacro %}{% endif %}ok", kFails},
    {"{% if no %}{% macro m() %}{{ 1 | nofilter }}{% endmacro %}{% endif %}ok", kFails},
    {"{% print none[1:], 1[:2] %}{% if none[1:] %}x{% endif %}", kFails},
};
// clang-format on

}  // namespace

std::span<const FeatureCase> more_feature_cases() { return kMoreCases; }

}  // namespace causeway::text::jinja
