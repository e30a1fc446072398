"""Templates, one for each feature of the language, with the variables that they see. Each is rendered
by the reference and by the C++ implementation, which must agree; make_feature_cases.py writes the
reference's answers into a C++ test as well."""

CASE = {
    "messages": [
        {"role": "system", "content": "Be brief. "},
        {"role": "user", "content": "Grüße, 世界! 👋\n"},
        {"role": "assistant", "content": None,
         "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None, True]}}}]},
        {"role": "tool", "content": "<r>'\"&\\</r>"},
        {"role": "user", "content": [{"type": "text", "text": "parts"}]},
    ],
    "tools": [{"type": "function", "function": {
        "name": "f", "description": "d\u00e9j\u00e0 \u2028 vu",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": []}}}],
    "extra": {
        "s": "Hello, World", "empty": "", "u": "añ日😀b", "n": 42, "neg": -7, "f": 2.5, "big": 1e22,
        "yes": True, "no": False, "nil": None, "lst": [3, 1, 2], "words": ["pear", "Apple", "fig"],
        "nested": [[1, 2], [3, 4]], "d": {"b": 2, "a": 1, "items": "own", "x y": {"z": [0, 1]}},
        "recs": [{"k": "b", "v": 2, "on": True}, {"k": "A", "v": 1}, {"k": "c", "v": 3, "on": False}],
        "lines": "one\ntwo\r\n\nfour", "spaces": " \t\u3000pad\u00a0 \n",
    },
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "eos_token": "</s>",
}

EXPRESSIONS = r'''
1 + 2 * 3 - 4
7 // 2 ~ ' ' ~ -7 // 2 ~ ' ' ~ 7 % 3 ~ ' ' ~ -7 % 3 ~ ' ' ~ 7 % -3
7 / 2
2 ** 10
2 ** -1
-2 ** 2
2 ** 3 ** 2
7.5 // 2
-7.5 % 2
1e3
1_000 + 0x1F + 0b101 + 0o17
.5
1.0
100000000000000000.0
1e-5
0.0001
123456789.125
big
2 ** 70
1 < 2 < 3
1 < 3 > 2
3 > 2 > 2
1 == 1.0
1 == true
'a' == 'a' != 'b'
'a' < 'b' and 'Z' < 'a'
[1, 2] < [1, 3]
(1, 2) == (1, 2)
[1, 2] == (1, 2)
{'a': 1} == {'a': 1.0}
not 1 == 2
not nil is none
yes and no or n
empty or 'fallback'
s and lst
no or empty
nil
yes
[yes, no, nil, 1, 2.0, 'a\'b', "q\"", 'both\'"', 'x\ny\t\\']
{'a': [1, (2,), ()], 'b': {}}
(1)
(1,)
()
'a' 'b' "c"
'a' ~ 1 ~ nil ~ 2.5 ~ yes
'tab\there \x41\u00e9\U0001F600 \101 \q \\ \' \"'
'ab' * 3
3 * [1, 2]
[1] + [2, 3]
(1,) + (2,)
s[0] ~ s[-1] ~ s[100]
u[1] ~ u[2] ~ u[3] ~ u[-1]
u[1:3]
u[::-1]
u[-2:]
u[:-2]
u[1::2]
s[5:1:-2]
lst[1:]
lst[::-1]
lst[-1]
lst[10] is defined
lst[:10]
lst[2:0:-1]
nested[1][0]
d['a'] ~ d.b
d.items() | list
d['items']
d.keys() | list
d.values() | length
d.get('a') ~ d.get('q') ~ d.get('q', 'dflt')
d['x y'].z[1]
d.missing
d.missing is defined
d.missing.deeper
missing
missing.attr
missing + 1
missing == missing
missing == none
missing is none
missing | default('dd')
empty | default('dd')
empty | default('dd', true)
nil | d('x', boolean=true)
missing | length
missing | list
missing | upper
missing | tojson
missing | join(',')
[missing]
'x' in missing
1 in lst
5 not in lst
'a' in d
'World' in s
'' in s
1 in s
1 in nil
1 in (1, 2)
s is string
n is number and f is number and yes is number
yes is integer
n is integer
f is float
yes is boolean
lst is iterable and s is iterable and d is iterable
n is iterable
lst is sequence ~ s is sequence ~ d is sequence
d is mapping
lst is mapping
nil is none
nil is not none
n is even
n is odd
n is divisibleby 7
n is divisibleby(5)
n is eq 42
n is equalto(42)
n is ==(42)
n is in([42])
n is gt 41
n is lessthan 41
s is lower
'abc' is lower
'ABC' is upper
yes is true
n is true
no is false
namespace is callable
s is callable
s is sameas s
n is defined and missing is undefined
missing is not defined
'upper' is filter
'nope' is filter
'even' is test
'yes' if yes else 'no'
'yes' if no
('yes' if no) is defined
'a' if no else 'b' if no else 'c'
s if s is defined else 'none'
s | upper
s | lower
u | upper
'hello wORLD foo-bar (baz)' | title
'hello wORLD' | capitalize
'éa ßx' | upper
spaces | trim
'xxaxx' | trim('x')
s | length
u | length
lst | length
d | length
lst | count
n | length
lst | join
lst | join(', ')
recs | join('-', attribute='k')
s | join('.')
lst | first
lst | last
s | first ~ s | last
u | last
[] | first
[] | last is defined
lst | list
s | list
d | list
lst | sort
lst | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
recs | sort(attribute='k') | map(attribute='k') | join
recs | sort(attribute='on,k') | list
words | sort | first
lst | min ~ lst | max
words | min
recs | max(attribute='v')
[] | max
lst | sum
recs | sum(attribute='v')
recs | sum('v', 10)
[[1], [2]] | sum(start=[])
lst | reverse | list
s | reverse
[1, 2, 1, 'a', 'A'] | unique | list
recs | map(attribute='k') | list
recs | map(attribute='on') | list
recs | map(attribute='on', default='-') | list
words | map('upper') | join(' ')
words | map('replace', 'p', 'q') | list
words | map('nofilter') | list
lst | select('odd') | list
lst | select('gt', 1) | list
lst | reject('equalto', 1) | list
[0, 1, '', 'a', nil] | select | list
[0, 1, '', 'a', nil] | reject | list
recs | selectattr('on') | map(attribute='k') | list
recs | selectattr('on', 'defined') | list | length
recs | selectattr('k', 'equalto', 'A') | list
recs | rejectattr('v', 'in', [1, 2]) | list
recs | rejectattr('on') | list
lst | select('gt', 100) is defined
(lst | select('gt', 100)) and true
'truthy' if lst | select('gt', 100) else 'falsy'
lst | select('odd') | length
(lst | select('odd'))[0]
recs | groupby('v') | list
d | dictsort
d | dictsort(by='value') 
{'b': 1, 'A': 3, 'c': 2} | dictsort(false, 'value', true)
{'b': 1, 'A': 3} | items | list
missing | items | list
s | replace('l', 'L')
s | replace('l', 'L', 1)
'abc' | replace('', '-')
n | replace('4', 'x')
s | string
n | string
f | string | length
[1, 'a'] | string
'42' | int + 1
'x' | int
'x' | int(-1)
'0x1f' | int(base=16)
'101' | int(0, 2)
3.99 | int
'3.7' | int
' 5 ' | int
'1_000' | int
nil | int
missing | int
'2.5' | float
'abc' | float(1.0)
'1e3' | float
'inf' | float
n | float
-5 | abs
neg | abs
f | abs
2.5 | round
3.5 | round
2.675 | round(2)
2.5 | round(method='ceil')
-2.5 | round(method='floor')
1234.567 | round(-2)
42 | round
42 | round(1)
1.05 | round(1, 'floor')
'<a href="x">&\'</a>' | escape
s | safe
'%s is %d and %.2f, %5s|%-5s|%05d' | format(s, n, f, 'r', 'l', 7)
'%(a)s' | format(a=1)
'%s' % s
'%s-%s' % (1, 'b')
'%d%%' % 50
'%r' % 'q'
'%x' % 255
'%s %s' % (1,)
'%s' % (1, 2)
'{} {}'.format(1, 'b')
'{1} {0} {x} {{}}'.format(1, 2, x=3)
lines | indent
lines | indent(2, true)
lines | indent(width='> ', first=true, blank=true)
lines | wordcount
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3] | batch(2, 0) | list
s | tojson
u | tojson
lines | tojson
'\x00\x1f\x7f</script>' | tojson
u | tojson(ensure_ascii=true)
d | tojson
d | tojson(indent=2)
tools | tojson(indent=4)
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
[1, 2.0, 1e22, nil, yes, [], {}, (1,)] | tojson
[[], {}, [[]]] | tojson(indent=1)
messages | tojson
d.items() | tojson
lst | map('string') | tojson
{1: 2, nil: 3, yes: 4, 1.5: 5} | tojson
s.upper() ~ s.lower() ~ s.title() ~ s.capitalize()
"it's o'neil's" | title ~ "it's o'neil's".title()
s.split(', ')
s.split('l', 1)
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.split(',')[-1]
'abc'.split('')
''.split(',')
''.split()
'a</think>b</think>c'.split('</think>')[-1].lstrip('\n')
'xxabcxx'.strip('x') ~ 'xyabc'.lstrip('yx') ~ 'abcxy'.rstrip('xy')
spaces.strip() ~ '|' ~ spaces.lstrip() ~ '|' ~ spaces.rstrip() ~ '|'
s.startswith('Hello') ~ s.endswith('World') ~ s.startswith(('x', 'H'))
s.startswith('World', 7)
s.startswith('')
s.startswith(n)
s.replace('l', 'L') ~ s.replace('l', 'L', 1)
s.find('o') ~ s.find('zzz') ~ s.rfind('o') ~ u.find('b')
s.find('o', 5) ~ s.find('o', 5, 7)
s.index('W')
s.index('zzz')
s.count('l') ~ s.count('')
'-'.join(words)
'-'.join(lst)
lines.splitlines()
lines.splitlines(true)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.removeprefix('a') ~ 'abc'.removesuffix('c')
'123'.isdigit() ~ ''.isdigit() ~ ' '.isspace() ~ 'AB1'.isupper() ~ 'ab1'.islower()
s.nomethod()
s.__class__
lst.append(4)
lst.index(2) ~ lst.count(1)
lst.index(99)
d.update({})
d.pop('a')
lst.pop()
range(3) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
range(3)[1]
range(100001)
range(1, 2, 0)
dict(a=1, b='x')
dict(d, q=1).q
namespace(a=1).a
strftime_now('%Y-%m-%d %H:%M')
strftime_now('%d %b %Y')
raise_exception('boom: ' ~ n)
messages[0].role ~ messages[0]['content']
messages[2].tool_calls[0].function.arguments.y
messages[2].content is none
messages[-1].content[0].text
messages | length
messages[1:] | length
messages[1].content | trim
tools[0].function.parameters.properties.items() | list
bos_token ~ eos_token
pad_token is defined
documents is none
add_generation_prompt
n + 'a'
'a' + n
nil + 1
lst + 'a'
s - 1
1 / 0
1 // 0
1 % 0
lst < 1
nil < 1
-s
n.foo
n()
s()
nil.foo
nil['foo']
lst.foo
lst['foo'] is defined
{[1]: 2}
{'a': 1, 'a': 2}
[1, 2, 3,]
{'a': 1,}
(1, 2,)
loop is defined
n is defined and n > 40 and n in [41, 42]
messages | map(attribute='role') | unique | join(',')
messages | selectattr('role', 'equalto', 'user') | list | last | tojson
(messages | first).role == 'system' and messages|length > 1
'a' in ['a'] == true
not 'a' in ['b']
1 in [1] and 2 not in [1]
yes is true and no is false or nil
n|string + 'x'
-n|abs
-1|abs
1 if yes else 2 + 3
(n, s)[0]
"%s" % nil
s[:5] + '!' * 2
u.upper()
[1, [2, [3]]] | string
'a\
b'
d|attr('a')
'x'|indent('a')
u|first ~ u|list|length
'abc'|batch(2)|list
{'a':1}|length
[{'a':{'b':1}}]|map(attribute='a.b')|list
[[5,6]]|map(attribute=1)|list
[[5,6]]|map(attribute='1')|list
'a' < 1
[3,'a']|sort
'ß'.upper() is defined
'K' ~ loop
'x' is in 'xyz'
5 is not in [1]
none is none
None is none and True and not False
""|default("e")
d is defined and d.a is defined and d.zz is not defined
'a'.join('xyz')
'abc'[1]
'abc'['x'] is defined
s is string and s|length > 3 and s.startswith('H')
1.5|int ~ 1e2|int
1 ~ 2
true + 1
true ~ false
1 + 1.0
7 % 2.5
1e16
123456789012345678
1e15 + 0.5
-0.0
0.1 + 0.2
3.0 * 2
10 ** 20
10.0 ** 20
(1 / 3)|round(3)
'%.3f' % 1.0005
'%5.1f|%-8d|%+d' % (3.14159, 42, 7)
'%e' % 12345.678
'%g' % 0.00001
'%'
'100%' % ()
none[1:]
nil[1:]
true[:2]
(none[1:]) is defined
[none[1:], (1, 2)[1:]]
{'a': 1}[1:]
'<' + ('<' | safe)
('<' | safe) + '<'
'<' ~ ('<' | safe)
('<' | safe) | list
[('<' | safe)]
('<b>' | safe)[0] + '<'
('<b>' | safe)[::-1] + '<'
('<b>' | safe) | first + '<'
('<b>' | safe) | last + '<'
('<b>' | safe) | reverse + '<'
('<b>' | safe) | title + '<'
('<b>' | safe) | string + '<'
('<b>' | safe) | trim + '<'
('<b>' | safe) | upper + '<'
('<b>\n<' | safe) | indent + '<'
('<b>' | safe) | replace('b', 'c') + '<'
('<b>' | safe) | tojson + '<'
('<%s>' | safe) % '<'
('<%s%s>' | safe) % ('<', '<' | safe)
('<%d>' | safe) % 5 + '<'
('<%s>' | safe) | format('<')
('<{}>' | safe).format('<')
('<{}>' | safe).format('<' | safe)
('<{:5}>' | safe).format('<')
('<{:5}>' | safe).format('<' | safe)
('<%s>' | safe) % ['<']
('<%r>' | safe) % '<'
'<%s>' % ('<' | safe) + '<'
'<%s>' | format('<' | safe) + '<'
('<a>' | safe).replace('a', '<')
('<a>' | safe).join(['<', '>' | safe])
('<a> <' | safe).split() | string
('<a> <' | safe).partition(' ') | string
('<a>' | safe).upper() + '<'
('<a>' | safe).strip('<') + '<'
'<'.join(['<', '>' | safe]) + '<'
['a<', 'b'] | join('<' | safe) + '<'
('<a' | safe) * 2 + '<'
2 * ('<a' | safe) + '<'
'<a>' | e + '<'
'<a>' | e | e
'<a>' | e | forceescape
none | e
('<a>' | safe) is escaped
'<a>' is escaped
('<a>' | safe) is string
('<a>' | safe) == '<a>'
'<' + (d | tojson | safe) + s
'[' ~ (d | tojson | safe) ~ '"<'
('<' | safe) + 5
5 is even
4 is even
1.5 is even
2.0 is even
1.5 is odd
'a' is even
nil | map('upper') | list
0 | select | list
'' | map | list
nil | selectattr | list
nil | map('zork') | list
nil | select('zork') | list
nil | rejectattr('x', 'zork') | list
missing | selectattr('x') | list
{} | reject | list
s | center(20) ~ '|'
s | center(21) ~ '|'
'ab' | center(5) ~ '|' ~ ('abc' | center(6)) ~ '|' ~ ('abc' | center)
n | center(7) ~ '|'
'ab'.center(5, '*') ~ 'abc'.center(6, 'é') ~ 'abc'.center(2)
'abc'.ljust(5) ~ '|' ~ 'abc'.rjust(5, '.') ~ '|'
'abc'.ljust(5, 'xy')
('<' | safe).ljust(3, '<')
('<' | safe).ljust(3) + '<'
'-3'.zfill(5) ~ 'é'.zfill(5) ~ '+'.zfill(3) ~ 'abcd'.zfill(2)
'abc'.encode()
'é'.encode('utf-8')
'é' .encode('ascii', 'ignore') ~ 'é'.encode('ascii', 'replace') ~ 'é'.encode('latin-1')
'é'.encode('ascii')
'日本'.encode() | length
'abc'.encode()[0] ~ 'abc'.encode()[1:] ~ ('abc'.encode() | list)
u.encode().decode()
'abc'.encode() == 'abc'.encode() and 'abc'.encode() != 'abc'
'abc'.encode() is string or 'abc'.encode() is mapping
'abc'.encode() is sequence and 'abc'.encode() is iterable
'abc'.encode() + 'd'.encode()
'abc'.encode() + 'd'
'abc'.encode() | tojson
'a"\'\n\\'.encode()
98 in 'abc'.encode() and 'b'.encode() in 'abc'.encode()
'aé'.encode().hex()
'abc'.encode().nothing
'aBcß'.swapcase() ~ 'abcabc'.rindex('b')
'abc'.isalpha() ~ 'ab1'.isalnum() ~ 'ab1_'.isalnum() ~ ''.isalpha() ~ 'é'.isascii() ~ ''.isascii()
'5'.isdecimal() ~ 'a\n'.isprintable() ~ 'abc'.isprintable()
[1, 2, 3, 4, 5, 6, 7] | slice(3) | list
[1, 2, 3, 4, 5, 6, 7] | slice(3, 'x') | list
'abcd' | slice(2) | list
[] | slice(2, 0) | list
[1] | slice(3) | list
[1] | slice(-1) | list
[1] | slice(0) | list
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
'foo bar baz qux' | truncate(8, leeway=0, end='>')
'foo bar baz qux' | truncate(1)
'日本語テキスト' | truncate(4, true, '…', 0)
lst | truncate(4)
n | truncate
missing | truncate
nil | truncate
'a' * 300 | truncate
('<b> <c> <d>' | safe) | truncate(4, false, '<', 0)
'Hello World!' | urlencode ~ ('a/b?c=d&e' | urlencode) ~ ('日本 ñ' | urlencode)
{'a b': 'c/d', 'é': 1} | urlencode
[['a', 'b'], ('c', 'd e')] | urlencode
['ab', 'cd'] | urlencode
[1] | urlencode
5 | urlencode ~ (nil | urlencode) ~ (missing | urlencode) ~ (2.5 | urlencode)
d | pprint
messages | pprint
tools | pprint
[] | pprint ~ {} | pprint ~ ((1,) | pprint) ~ (nil | pprint) ~ (missing | pprint)
'a' * 100 | pprint
('word ' * 30) | pprint
['word ' * 30, 'line one\nline two\n' * 8, {'k': 'word ' * 30}] | pprint
{2: 'a', 1: 'b', 'c': 1, 'a': 2} | pprint
{'b': {'z': 1, 'y': [1, 2, 3] * 15}, 'a': 'x' * 90} | pprint
((1, 2) * 30,) | pprint
('日本語 ' * 30) | pprint
'abcde' * 30 | pprint
('abcdefg' * 30).encode() | pprint
['abcdefg'.encode() * 2, ('ab' * 60).encode()] | pprint
("it's " * 30) | pprint
('<b>  x</b>\n<i a="b">y &amp; z</i>' | striptags)
'<!-- c > --> a <b' | striptags
'&lt;b&gt; &#65;&#x42; &#150; &#0; &nbsp;x &quot;&apos; &unknown; &amp' | striptags
5 | striptags ~ ('<a>' | safe | striptags)
'a <b>c</b>' | striptags | wordcount
'The quick brown fox jumps over the lazy dog' | wordwrap(10)
'The quick brown fox jumps over the lazy dog' | wordwrap(10, wrapstring='|')
'averyveryverylongword and-hyphenated-words-too x' | wordwrap(8)
'averyveryverylongword and-hyphenated-words-too x' | wordwrap(8, false)
'averyveryverylongword and-hyphenated-words-too x' | wordwrap(8, true, none, false)
'one\ntwo three   four\n\n  five ' | wordwrap(9)
'an em--dash---here and --more 2-3 a-b x-y-z' | wordwrap(5)
'日本語 テキスト テスト' | wordwrap(4)
'a\tb\x0bc d\u00a0e f' | wordwrap(3)
'  leading and   gaps  ' | wordwrap(6)
'x' | wordwrap(0)
'' | wordwrap(0)
('<a> <b>' | safe) | wordwrap(3) + '<'
'a b' | wordwrap(1, wrapstring='<br>' | safe) + '<'
5 | wordwrap
1 | filesizeformat ~ ' ' ~ (0 | filesizeformat) ~ ' ' ~ (999 | filesizeformat) ~ ' ' ~ (-5.5 | filesizeformat)
1000 | filesizeformat ~ ' ' ~ (1024 | filesizeformat(true)) ~ ' ' ~ (1e6 | filesizeformat) ~ ' ' ~ ('1234567' | filesizeformat)
10 ** 30 | filesizeformat
10 ** 30 | filesizeformat(true)
1e27 | filesizeformat ~ ' ' ~ (1e24 | filesizeformat) ~ ' ' ~ (999999 | filesizeformat)
'x' | filesizeformat
nil | filesizeformat
'see https://example.com/a?b=c, www.example.org. and (http://x.de)' | urlize
'mail me@example.com or mailto:you@example.org! example.com example.foo a.b@c' | urlize
'http://192.168.0.1:80/x http://[::1]/y http://[1:2:3:4:5:6:7:8] https://a' | urlize
'https://example.com/a_(b) <http://example.com/> "http://example.com"' | urlize
'https://example.com/averylongpath' | urlize(15, true, target='_blank')
'https://example.com' | urlize(rel='me <x>')
'tel:+1 ftp://x.y/z' | urlize(extra_schemes=['tel:', 'ftp://'])
'x' | urlize(extra_schemes=['nope'])
'EXAMPLE.COM Http://Example.Com www.a.b.museum xn--p1ai.xn--p1ai http://xn--p1ai' | urlize
'@a@b a@b.c_d a@b..c a@-b.c' | urlize
{'class': 'a b', 'id': 5, 'x': nil, 'y': missing, 'title': '"<&>\''} | xmlattr
{'class': 'a'} | xmlattr(false)
{} | xmlattr ~ '|'
{'a b': 1} | xmlattr
{'a': '<' | safe, '<': 1} | xmlattr
s | xmlattr
'<a>\n<b>\n' | indent('>' | safe) + '<'
'<a>\n\n<b>' | indent('>' | safe, blank=true) + '<'
1 | no.such
1 is no.such
'a' % missing ~ ('a' % [1]) ~ ('a' % {})
'a' % 5
'a' % d.keys()
'''.strip("\n").split("\n")

TEMPLATES = [
    "a\n{% if yes %}\n  b\n{% endif %}\nc\n",
    "a\n  {%- if yes -%}  \n b {%- endif %}\nc\n\n",
    "  {%+ if yes %}x{% endif +%}\ny",
    "{{ 'a' }}\n{{ 'b' -}}\n  c {{- 'd' }}  ",
    "x {# comment #} y {#- c -#} z\n  {# own line #}\nq",
    "{#- {{ not }} {% parsed %} -#}",
    "{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  a  {%- endraw -%}  b",
    "  {% raw %}\n a {% endraw %}\n b",
    "{% if no %}1{% elif n == 42 %}2{% else %}3{% endif %}",
    "{% if no %}1{% elif nil %}2{% else %}3{% endif %}",
    "{% if yes: %}colon{% endif %}",
    "{% for x in lst %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in lst %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}",
    "{% for x in lst %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in lst %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in lst %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% for x in [] %}x{% else %}empty{% endfor %}",
    "{% for x in missing %}x{% else %}empty{% endfor %}",
    "{% for x in nil %}x{% endfor %}",
    "{% for x in 5 %}x{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}",
    "{% for (a, b) in nested %}{{ a }}-{{ b }} {% endfor %}",
    "{% for a, b in [[1]] %}{% endfor %}",
    "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for x in lst if x > 1 %}{{ loop.index }}{{ x }} {% endfor %}",
    "{% for x in lst if x > 10 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in lst %}{% for y in lst %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}|{% endfor %}",
    "{% for x in lst %}{% for y in nested %}{{ loop.depth }}{{ loop.index }}{% endfor %}{{ loop.depth }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in lst %}{% set y = x %}{% endfor %}{{ y is defined }}",
    "{% set y = 1 %}{% for x in lst %}{{ y }}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}",
    "{% set ns = namespace(t=0) %}{% for x in lst %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}",
    "{% set ns = namespace() %}{% set ns.a = [1] %}{% set ns.a = ns.a + [2] %}{{ ns.a }}{{ ns.b is defined }}",
    "{% set ns = namespace({'q': 1}, r=2) %}{{ ns.q }}{{ ns.r }}{{ ns['q'] }}",
    "{% set d.x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}block {{ n }}{% endset %}{{ x }}|{{ x | length }}",
    "{% set x | upper | replace('B', 'C') %}block{% endset %}{{ x }}",
    "{% set x %}{% set inner = 1 %}{% endset %}{{ inner is defined }}",
    "{% if yes %}{% set z = 5 %}{% endif %}{{ z }}",
    "{% macro m(a, b=2, c=a) %}{{ a }},{{ b }},{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=9, a=8) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(q=2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro f(n) %}{% if n > 1 %}{{ n * (f(n - 1) | int) }}{% else %}1{% endif %}{% endmacro %}{{ f(10) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}",
    "{% macro m() %}{% set g = 1 %}{{ g }}{% endmacro %}{{ m() }}{{ g is defined }}",
    "{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}in {{ n }}{% endcall %}",
    "{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) each(lst) %}<{{ v }}>{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a') ~ m('b') | upper }}{{ m is callable }}",
    "{% macro a() %}a{% endmacro %}{% macro b() %}{{ a() }}b{% endmacro %}{{ b() }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}abc{% endfilter %}",
    "{% with x = 1, y = n %}{{ x + y }}{% endwith %}{{ x is defined }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% generation %}gen {{ n }}{% set gg = 1 %}{% endgeneration %}{{ gg is defined }}",
    "{% print 1, 'a' %}",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}} }}",
    "{{ '}}' }}{{ '%}' }}{{ \"{{\" }}",
    "line1\r\nline2\rline3\r\n",
    "{{ 'a\r\nb' }}",
    "\n\n{{ 1 }}\n\n",
    "{% if yes %}\n\n  x\n  {% endif %}\n\ny",
    "  {{ 1 }}  {% if yes %}  {{ 2 }}  {% endif %}  ",
    "\t{%- set x = 1 %}\n\t{{ x }}",
    "{%- for m in messages %}\n    {%- if m.content is string %}\n        {{- m.role + ': ' + m.content|trim + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n",
    "{% set content = messages[0].content %}{% if content is string %}{{ content }}{% endif %}",
    "{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{{ index }}{{ m.role }} {% endfor %}",
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ loop_messages | length }}",
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}",
    "{% set tools_json = tools | map('tojson') | join('\\n') %}{{ tools_json }}",
    "{% set xs = [] %}{% for m in messages %}{% set xs = xs + [m.role] %}{% endfor %}{{ xs }}",
    "{% set ns = namespace(xs=[]) %}{% for m in messages %}{% set ns.xs = ns.xs + [m.role] %}{% endfor %}{{ ns.xs|join(',') }}",
    "{{ undefined_function('x') }}",
    "{{ 1 | nofilter }}",
    "{{ 1 is notest }}",
    "{% if no %}{{ 1 | nofilter }}{% endif %}ok",
    "{{ (1 | nofilter) if no else 'ok' }}",
    "{% nosuchtag %}",
    "{% if yes %}",
    "{% endif %}",
    "{% for x in lst %}{% endif %}",
    "{{ 1 + }}",
    "{{ 1",
    "{% if",
    "{# open",
    "{% raw %}open",
    "{{ ] }}",
    "{{ (1] }}",
    "{{ 'open }}",
    "{{ 1 2 }}",
    "{{ a.1b }}",
    "{% set 1 = 2 %}",
    "{% set none = 2 %}",
    "{% for x lst %}{% endfor %}",
    "{% break %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ f(a=1, 2) }}",
    "{{ $ }}",
    "{{ x is a is b }}",
    "plain text only",
    "{% set x = 1 -%}\n  \n {{ x }}",
    "{{ s -}}   {{ n }}",
    "{% for x in lst -%}\n {{ x }}\n{%- endfor %}",
    "{%- if yes %} a {%- else %} b {%- endif -%} c",
    "{{ (recs | selectattr('on', 'defined') | list)[0].k }}",
    "{% set gen = lst | map('string') %}{{ gen | join }}{{ gen | join }}",
    "{% for g in recs | groupby('v') %}{{ g.grouper }}{{ g.list | length }}{{ g[0] }}{% endfor %}",
    "{% for k, group in recs | groupby('k') %}{{ k }}{{ group | length }}{% endfor %}",
    "{% set a = b = 1 %}",
    "{{ loop }}",
    "{{ s }}{{ nil }}{{ lst }}{{ f }}",
    "{% set m = messages[0] %}{{ m['role'] ~ m.get('name', '?') }}",
    "{% if tools is not none and tools|length > 0 %}{{ tools[0]['function']['name'] }}{% endif %}",
    "{% set x = 5 %}{% macro show() %}{{ x }}{% endmacro %}{% set x = 6 %}{{ show() }}",
    "{% for i in range(2) %}{% macro mm() %}{{ i }}{% endmacro %}{{ mm() }}{% endfor %}",
    "{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}",
    "{{ dict(a=1, **{'b': 2}) }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}",
    "{% set x = messages|selectattr('role','equalto','user')|map(attribute='content')|list %}{{ x|tojson }}",
    "{% set x = '<a>' | safe %}{{ x + '<' }}{% set y %}{{ x }}{% endset %}{{ y + '<' }}{% for c in x %}{{ c + '<' }}{% endfor %}",
    "{% macro m(a) %}{{ a + '<' }}{% endmacro %}{{ m('<' | safe) + '<' }}",
    "{% set ns = namespace(x='<' | safe) %}{% set ns.x = ns.x + '\"' %}{{ ns.x }}",
    "{% filter safe %}<{% endfilter %}{% filter escape | upper %}<{% endfilter %}",
    "{% for t in none | selectattr('type', 'equalto', 'x') %}x{% else %}none{% endfor %}",
    "{% if no %}{{ 1 | no.filter }}{% endif %}ok",
    "{% if no %}{% for x in [] %}{{ 1 | nofilter }}{% endfor %}{% endif %}ok",
    "{% if no %}{% for x in [] %}{{ 1 | nofilter if x else 2 }}{% endfor %}{% endif %}ok",
    "{% if no %}{% with %}{{ 1 is notest }}{% endwith %}{% endif %}ok",
    "{% if no %}{% for x in [] | nofilter %}{% endfor %}{% endif %}ok",
    "{% if no %}{% filter nofilter %}{% endfilter %}{% endif %}ok",
    "{% if no %}{% set y | nofilter %}{% endset %}{% endif %}ok",
    "{% if no %}{% macro m(a=1|nofilter) %}{% endmacro %}{% endif %}ok",
    "{% if no %}{% macro m() %}{{ 1 | nofilter }}{% endmacro %}{% endif %}ok",
    "{% print none[1:], 1[:2] %}{% if none[1:] %}x{% endif %}",
]


def sources():
    return ["{{ " + expression + " }}" for expression in EXPRESSIONS] + TEMPLATES
