package plot

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Pair is one direction between two hosts.
type Pair struct {
	From, To int
	Value    float64 // 0: none
	Level    Level
	Title    string // only small maps have titles
}

// Matrix is a map of the pairs of hosts: a row for each that sends, a column for each that receives. Pairs that are
// not in it were not measured.
type Matrix struct {
	Title string
	Desc  string // for readers who cannot see it
	Unit  string
	Names []string
	Marks []string // for each host, why it is bad: "slow" or "lost"
	Pairs []Pair
}

type field struct {
	X, Y  int
	Level Level
	Text  string
	Title string
}

// heading is the name of a row or column.
type heading struct {
	At   string // a translation
	Text string
	Bad  bool
}

// bar marks the row or column of a host that is bad.
type bar struct{ X, Y, W, H int }

type board struct {
	Matrix
	ID             string
	Width, Height  int
	Side           int // of a field, with the line that divides it from the next
	FieldW, FieldH int
	TextX, TextY   int
	MidX, MidY     int
	X, Y, W, H     int // all fields
	Fields         []field
	Rows, Columns  []heading
	Bars           []bar
	Leaders        []string // lines from names to where they belong
	Key            []entry
	Picture        template.URL // instead of fields
	Step           int          // hosts of a field
	Hosts          int
	Values         string // of a picture, for the script of the page
	Low, High      float64
}

// MostWithText is how many hosts a map has at most whose fields are elements with the figure and a title.
const MostWithText = 16

// Where the fields of a map begin, and how large they are.
const (
	fieldWide, fieldHigh = 64, 30
	letter               = 7.5 // width
	lineHigh             = 13
	slantWide            = 20   // of a line that is turned by 40 degrees
	longestName          = 22   // runes of a host's name next to the fields
	pictureSide          = 840  // about
	mostFields           = 1000 // in a row
	mostValues           = 512  // hosts, whose figures the page has
	barThick             = 6
	leaderLong           = 10
	crossSide            = 6 // of the smallest field with a cross and an edge
	leastBad             = 3 // pixels that a bad pair has
)

// draw lays a map out.
func (m Matrix) draw(id string) (*board, error) {
	n, longest := len(m.Names), 0
	for i := range m.Names {
		longest = max(longest, len([]rune(m.name(i))))
	}
	side := int(letter * float64(longest))
	b := &board{Matrix: m, ID: id, Key: key, X: 60 + side, Y: 64 + side*2/3, Step: 1, Hosts: n}
	w, h := fieldWide, fieldHigh
	if n > MostWithText {
		b.Step = (n + mostFields - 1) / mostFields
		fields := (n + b.Step - 1) / b.Step
		w = min(14, max(1, pictureSide/fields))
		h = w
	}
	b.Side = w
	b.W, b.H = (n+b.Step-1)/b.Step*w, (n+b.Step-1)/b.Step*h
	b.MidX, b.MidY = b.X+b.W/2, b.Y+b.H/2
	b.Width, b.Height = b.X+b.W+20+side, b.Y+b.H+14
	b.headings(w, h)
	if n <= MostWithText {
		b.FieldW, b.FieldH, b.TextX, b.TextY = w-2, h-2, w/2-1, h/2+3
		b.fields(w, h)
		return b, nil
	}
	b.values()
	return b, b.picture(w)
}

// fields draws each pair as an element.
func (b *board) fields(w, h int) {
	at := b.merged()
	for i := range b.Names {
		for k := range b.Names {
			p, ok := at[[2]int{i, k}]
			if i == k && !ok {
				continue
			}
			f := field{X: b.X + k*w + 1, Y: b.Y + i*h + 1, Level: p.Level, Title: cmp.Or(p.Title,
				fmt.Sprintf("%s to %s: not measured", short(b.Names[i]), short(b.Names[k])))}
			switch {
			case p.Level == Failed:
				f.Text = "×"
			case p.Level != Missing:
				f.Text = Number(p.Value)
			}
			b.Fields = append(b.Fields, f)
		}
	}
}

// merged has the worst of the pairs between two hosts.
func (b *board) merged() map[[2]int]Pair {
	at := map[[2]int]Pair{}
	for _, p := range b.Pairs {
		k := [2]int{p.From / b.Step, p.To / b.Step}
		if old, ok := at[k]; !ok || p.Level > old.Level {
			at[k] = p
		}
	}
	return at
}

// headings names rows and columns, as far as names fit: those of bad hosts first.
func (b *board) headings(w, h int) {
	fields := b.W / w
	bad := make([]bool, fields)
	for i, why := range b.Marks {
		if why != "" {
			bad[i/b.Step] = true
		}
	}
	for i := 0; i < fields; {
		n := 1
		for i+n < fields && bad[i+n] == bad[i] {
			n++
		}
		if bad[i] {
			long, wide := max(n*h, leastBad), max(n*w, leastBad)
			b.Bars = append(b.Bars, bar{b.X - barThick - 2, b.Y + i*h - (long-n*h)/2, barThick, long},
				bar{b.X + i*w - (wide-n*w)/2, b.Y - barThick - 2, wide, barThick})
		}
		i += n
	}
	for _, l := range spread(bad, lineHigh, h) {
		y := b.Y + l.at
		b.Rows = append(b.Rows, heading{fmt.Sprintf("translate(%d,%d)", b.X-barThick-leaderLong-4, y+4),
			b.name(l.field), bad[l.field]})
		if own := b.Y + l.field*h + h/2; own != y {
			b.Leaders = append(b.Leaders, fmt.Sprintf("M%d,%dL%d,%d", b.X-barThick-3, own, b.X-barThick-leaderLong, y))
		}
	}
	for _, l := range spread(bad, slantWide, w) {
		x := b.X + l.at
		b.Columns = append(b.Columns, heading{fmt.Sprintf("translate(%d,%d) rotate(-40)", x, b.Y-barThick-leaderLong-4),
			b.name(l.field), bad[l.field]})
		if own := b.X + l.field*w + w/2; own != x {
			b.Leaders = append(b.Leaders, fmt.Sprintf("M%d,%dL%d,%d", own, b.Y-barThick-3, x, b.Y-barThick-leaderLong))
		}
	}
}

// name is that of a row: of its bad host if it has one, else of the first.
func (b *board) name(i int) string {
	host := i * b.Step
	for k := host; k < min(host+b.Step, len(b.Names)); k++ {
		if k < len(b.Marks) && b.Marks[k] != "" {
			host = k
			break
		}
	}
	return b.Matrix.name(host)
}

func (m *Matrix) name(host int) string {
	name := short(m.Names[host])
	if host < len(m.Marks) && m.Marks[host] != "" {
		name += " (" + m.Marks[host] + ")"
	}
	return name
}

// label is where the name of a row or column begins, and which it is.
type label struct{ field, at int }

// spread chooses which fields get a name, and where, so that no name hides another. Names of bad ones come first, and
// are moved on where they are close together.
func spread(bad []bool, room, wide int) []label {
	var out []label
	end := len(bad) * wide
	last := -room
	for i := range bad {
		if bad[i] {
			at := max(i*wide+wide/2, last+room)
			if at > end {
				break
			}
			out = append(out, label{i, at})
			last = at
		}
	}
	marked := out
	apart := (room + wide - 1) / wide
	step := 1 // round steps are easier to count than a name wherever there is room for it
	for _, s := range []int{2, 5, 10, 20, 50, 100, 200, 500} {
		if step >= apart {
			break
		}
		step = s
	}
	for i := 0; i < len(bad); i += step {
		at := i*wide + wide/2
		if !bad[i] && !slices.ContainsFunc(marked, func(l label) bool { return l.at-at < room && at-l.at < room }) {
			out = append(out, label{i, at})
		}
	}
	return out
}

// picture draws all fields as one picture: a page with an element for each pair of 200 hosts would not open.
func (b *board) picture(w int) error {
	palette := append(lists.Map(colours[:], func(c color.NRGBA) color.Color { return c }), stroke)
	m := image.NewPaletted(image.Rect(0, 0, b.W, b.H), palette)
	edge := lists.When(w >= crossSide, 1) // a line between fields
	all := b.merged()
	for _, bad := range []bool{false, true} {
		for k, p := range all {
			if p.Level.Bad() != bad {
				continue
			}
			x0, y0, side := k[1]*w, k[0]*w, w-edge
			if bad && side < leastBad { // over its neighbours, so that it is seen
				x0, y0, side = x0-(leastBad-side)/2, y0-(leastBad-side)/2, leastBad
			}
			for y := range side {
				for x := range side {
					c := uint8(p.Level)
					if p.Level == Failed && w >= crossSide && (x == y || x == side-1-y) {
						c = uint8(levels)
					}
					if at := image.Pt(x0+x, y0+y); at.In(m.Rect) {
						m.SetColorIndex(at.X, at.Y, c)
					}
				}
			}
		}
	}
	var out bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	if err := e.Encode(&out, m); err != nil {
		return err
	}
	b.Picture = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(out.Bytes()))
	return nil
}

// Codes of values that are none.
const (
	noValue     = 0
	failedValue = 65535
	leastValue  = 1
	mostValue   = 65534
)

// values packs all figures for the page's script, which says what is under the pointer: 16 bits for each pair, the
// logarithm between the lowest and the highest.
func (b *board) values() {
	n := len(b.Names)
	if n > mostValues {
		return
	}
	b.Low, b.High = math.Inf(1), 0
	for _, p := range b.Pairs {
		if p.Level != Failed && p.Level != Missing {
			b.Low, b.High = min(b.Low, p.Value), max(b.High, p.Value)
		}
	}
	packed := make([]byte, 2*n*n)
	worst := map[[2]int]Level{}
	for _, p := range b.Pairs {
		k := [2]int{p.From, p.To}
		if p.Level == Missing || p.Level < worst[k] {
			continue
		}
		worst[k] = p.Level
		code := failedValue
		if p.Level != Failed {
			code = leastValue
			if b.High > b.Low {
				code += int(math.Round((mostValue - leastValue) * math.Log(p.Value/b.Low) / math.Log(b.High/b.Low)))
			}
		}
		binary.LittleEndian.PutUint16(packed[2*(p.From*n+p.To):], uint16(code))
	}
	if b.High == 0 {
		b.Low = 0
	}
	b.Values = base64.RawURLEncoding.EncodeToString(packed)
}

func short(name string) string {
	if r := []rune(name); len(r) > longestName {
		return string(r[:longestName-1]) + "…"
	}
	return name
}
