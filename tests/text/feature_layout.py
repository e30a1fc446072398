"""Expressions of filters that lay text out, of bytes, and of filters for the web."""

EXPRESSIONS = r'''
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
