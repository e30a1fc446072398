"""Expressions of filters: text, lists, numbers, formats, JSON."""

EXPRESSIONS = r'''
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
'''.strip("\n").split("\n")
