"""Expressions of methods and functions, and of what is an error or looks like one."""

EXPRESSIONS = r'''
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
'''.strip("\n").split("\n")
