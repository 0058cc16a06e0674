package plot

import (
	"fmt"
	"html/template"
	"image/color"
	"strings"
)

// A Level is the distance of a figure from the median, in the direction that is worse, or the verdict that a pair is
// bad.
type Level uint8

// The levels, from what matters least. Where several pairs share a field, the highest level is shown.
const (
	Missing Level = iota // not measured
	Better2              // by a factor of 1.25 or more
	Better1              // by a factor of 1.05 or more
	Usual                // near the median
	Worse1               // by a factor of 1.05 or more
	Worse2               // by a factor of 1.1 or more
	Worse3               // by a factor of 1.25 or more
	Worse4               // by a factor of 2 or more
	Slow                 // an outlier, as the mesh judged
	Failed               // no figure, because of an error
	levels
)

// Bad reports whether a level is shown in the bad colour.
func (l Level) Bad() bool { return l >= Slow }

// LevelOf returns the level of a figure that is worse than the median by a factor. Below 1 it is better.
func LevelOf(worse float64) Level {
	switch {
	case !Log.Fits(worse):
		return Missing
	case worse >= 2:
		return Worse4
	case worse >= 1.25:
		return Worse3
	case worse >= 1.1:
		return Worse2
	case worse >= 1.05:
		return Worse1
	case worse > 1/1.05:
		return Usual
	case worse > 1/1.25:
		return Better1
	}
	return Better2
}

// colours are seen on white, on black and on paper: what is worse is darker when printed without colours. They are
// laid over the background, so that a picture needs no second set for the dark.
var colours = [levels]color.NRGBA{
	Better2: {0x1f, 0x7a, 0xd1, 0x6b}, Better1: {0x1f, 0x7a, 0xd1, 0x38}, Usual: {0x90, 0x90, 0x90, 0x38},
	Worse1: {0xe0, 0x8a, 0x00, 0x4a}, Worse2: {0xe0, 0x8a, 0x00, 0x66}, Worse3: {0xe0, 0x8a, 0x00, 0x8c},
	Worse4: {0xe0, 0x8a, 0x00, 0xb8}, Slow: {0xd3, 0x2f, 0x2f, 0xff}, Failed: {0xd3, 0x2f, 0x2f, 0xff},
}

// stroke is the cross of a field that failed, and the text on a bad one.
var stroke = color.NRGBA{0xff, 0xff, 0xff, 0xff}

// entry is one of a legend.
type entry struct {
	Level Level
	Says  string
}

// key are the levels that a legend explains, from the best.
var key = []entry{
	{Better2, "better, ×1.25"}, {Better1, "×1.05"}, {Usual, "as the median"}, {Worse1, "worse, ×1.05"}, {Worse2,
		"×1.1"},
	{Worse3, "×1.25"}, {Worse4, "×2"}, {Slow, "slow"}, {Failed, "failed (×)"}, {Missing, "not measured"},
}

// Style is the part of a style sheet that gives the levels their colours, and --bad the bad one.
func Style() template.CSS {
	var b strings.Builder
	bad := colours[Slow]
	fmt.Fprintf(&b, ":root { --level-bad: #%02x%02x%02x; }\n", bad.R, bad.G, bad.B)
	for l := Better2; l < levels; l++ {
		c := colours[l]
		fmt.Fprintf(&b, ".l%d rect, rect.l%d { fill: #%02x%02x%02x; fill-opacity: %.3g; }\n", l, l, c.R, c.G, c.B,
			float64(c.A)/255)
	}
	fmt.Fprintf(&b, ".l%d text, .l%d text { fill: #fff; font-weight: 700; }\n", Slow, Failed)
	fmt.Fprintf(&b, ".l%d rect, rect.l%d { fill: none; stroke: var(--rule); stroke-dasharray: 2 2; }", Missing, Missing)
	return template.CSS(b.String())
}
