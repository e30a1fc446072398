"""Expressions of safe text, which stays as it is where other text is escaped."""

EXPRESSIONS = r'''
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
'''.strip("\n").split("\n")
