"""Expressions of operators, literals, subscripts, tests and conditions."""

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
'''.strip("\n").split("\n")
