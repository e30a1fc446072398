"""Charts as SVG files, with nothing but Python: lines over a linear or logarithmic axis, and groups
of bars. Made for figures in docs/measurements."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 40, 64
COLOURS = ["#1f6fb4", "#d9541e", "#2a9d4a", "#8e44ad", "#b8860b", "#555555", "#17a2b8", "#c2185b"]


def ticks(top, wanted=5):
    """Round steps from 0 to at least `top`."""
    if top <= 0:
        return [0, 1]
    rough = top / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def number(value):
    return f"{value:g}"


class Canvas:
    def __init__(self, title, y_name):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
        self.text(WIDTH / 2, 22, title, anchor="middle", size=15)
        self.text(16, TOP + self.height() / 2, y_name, anchor="middle", turn=True)

    @staticmethod
    def width():
        return WIDTH - LEFT - RIGHT

    @staticmethod
    def height():
        return HEIGHT - TOP - BOTTOM

    def text(self, x, y, text, anchor="start", size=12, turn=False):
        rotate = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}"{rotate}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour="#dddddd", dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}"{dashes}/>')

    def y_axis(self, top):
        """Draws it; the function from a value to its height."""
        marks = ticks(top)

        def place(value):
            return TOP + self.height() * (1 - value / marks[-1])

        for mark in marks:
            self.line(LEFT, place(mark), LEFT + self.width(), place(mark))
            self.text(LEFT - 6, place(mark) + 4, number(mark), anchor="end")
        return place

    def key(self, index, name):
        y = TOP + 10 + 20 * index
        x = LEFT + self.width() + 14
        self.parts.append(f'<rect x="{x}" y="{y - 9}" width="12" height="12" '
                          f'fill="{COLOURS[index % len(COLOURS)]}"/>')
        self.text(x + 18, y + 1, name)

    def finish(self):
        return "\n".join(self.parts + ["</svg>", ""])


def lines(title, x_name, y_name, series, log_x=False, x_text=number):
    """series: {name: [(x, y), …]}; x > 0 on a logarithmic axis."""
    canvas = Canvas(title, y_name)
    points = [point for values in series.values() for point in values]
    place = canvas.y_axis(max(y for _, y in points))
    scale = math.log2 if log_x else float
    xs = sorted({x for x, _ in points})
    low, high = scale(xs[0]), scale(xs[-1])
    span = (high - low) or 1

    def across(x):
        return LEFT + canvas.width() * (scale(x) - low) / span

    every = max(1, math.ceil(len(xs) / 12))
    for x in xs[::every]:
        canvas.line(across(x), TOP + canvas.height(), across(x), TOP + canvas.height() + 4, "#888888")
        canvas.text(across(x), TOP + canvas.height() + 18, x_text(x), anchor="middle", size=11)
    canvas.text(LEFT + canvas.width() / 2, HEIGHT - 16, x_name, anchor="middle")
    for index, (name, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{place(y):.1f}" for x, y in sorted(values))
        canvas.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                            'stroke-width="2"/>')
        for x, y in values:
            canvas.parts.append(f'<circle cx="{across(x):.1f}" cy="{place(y):.1f}" r="2.5" '
                                f'fill="{colour}"/>')
        canvas.key(index, name)
    return canvas.finish()


def bars(title, y_name, groups, limit=None):
    """groups: {group: {bar: value}}, the same bars in all. limit: (name, value), a dashed line."""
    canvas = Canvas(title, y_name)
    names = list(next(iter(groups.values())))
    values = [value for group in groups.values() for value in group.values()]
    place = canvas.y_axis(max(values + ([limit[1]] if limit else [])))
    each = canvas.width() / len(groups)
    thick = 0.8 * each / len(names)
    floor = TOP + canvas.height()
    for g, (group, members) in enumerate(groups.items()):
        for b, name in enumerate(names):
            x, y = LEFT + each * (g + 0.1) + thick * b, place(members[name])
            canvas.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{thick * 0.92:.1f}" '
                                f'height="{floor - y:.1f}" fill="{COLOURS[b % len(COLOURS)]}"/>')
        for row, word in enumerate(group.split(", ")):
            canvas.text(LEFT + each * (g + 0.5), floor + 16 + 13 * row, word, anchor="middle", size=10)
    for b, name in enumerate(names):
        canvas.key(b, name)
    if limit:
        canvas.line(LEFT, place(limit[1]), LEFT + canvas.width(), place(limit[1]), "#333333", "5 4")
        canvas.text(LEFT + canvas.width() + 14, place(limit[1]) + 4, limit[0], size=11)
    return canvas.finish()
