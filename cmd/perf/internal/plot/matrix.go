package plot

import "fmt"

// Steps is the number of colours of a heat map.
const Steps = 9

// Cell is a field of a heat map.
type Cell struct {
	Value  float64 // 0: none
	Marked bool    // is an outlier
	Failed bool
	Title  string
}

// Matrix is a heat map: a row for each that sends, a column for each that receives.
type Matrix struct {
	Title string
	Desc  string
	Unit  string
	Names []string
	Cells [][]Cell
}

type field struct {
	X, Y  int
	Class string
	Text  string
	Title string
}

type heading struct {
	At   string
	Text string
}

type step struct {
	X     int
	Class string
}

type board struct {
	Matrix
	ID             string
	Width, Height  int
	Side, High     int
	TextX, TextY   int
	MidX, MidY     int
	Fields         []field
	Rows, Columns  []heading
	Steps          []step
	KeyY, KeyTextY int
	KeyX, KeyEnd   int
	Max            string
}

// Where the fields of a heat map begin, and how large they are.
const (
	fieldWide        = 64
	fieldHigh        = 30
	letter           = 7.5 // width
	small            = 14  // a field without text
	mostWithText     = 16  // hosts
	longestName      = 22  // runes of a host's name next to the fields
	keyWide, keyHigh = 22, 60
)

// draw lays a heat map out. Its colours begin at 0, so that small differences look small.
func (m Matrix) draw(id string) *board {
	w, h := fieldWide, fieldHigh
	if len(m.Names) > mostWithText {
		w, h = small, small
	}
	n, longest := len(m.Names), 0
	for _, name := range m.Names {
		longest = max(longest, len([]rune(short(name))))
	}
	side := int(letter * float64(longest))
	boardLeft, boardTop := 40+side, 44+side*2/3
	b := &board{Matrix: m, ID: id, Side: w - 2, High: h - 2, TextX: w/2 - 1, TextY: h/2 + 3, MidX: boardLeft + n*w/2,
		MidY: boardTop + n*h/2, KeyX: boardLeft, Width: max(boardLeft+n*w+20+side, 520),
		Height: boardTop + n*h + keyHigh, KeyY: boardTop + n*h + 16, KeyTextY: boardTop + n*h + 46,
		KeyEnd: boardLeft + Steps*keyWide}
	top := 0.0
	for _, row := range m.Cells {
		for _, c := range row {
			if Log.fits(c.Value) {
				top = max(top, c.Value)
			}
		}
	}
	for i := range Steps {
		b.Steps = append(b.Steps, step{boardLeft + i*keyWide, fmt.Sprintf("h%d", i)})
	}
	b.Max = Number(top)
	for i, name := range m.Names {
		name = short(name)
		b.Rows = append(b.Rows, heading{fmt.Sprintf("translate(%d,%d)", boardLeft-8, boardTop+i*h+h/2+4), name})
		above := fmt.Sprintf("translate(%d,%d) rotate(-40)", boardLeft+i*w+w/2, boardTop-8)
		b.Columns = append(b.Columns, heading{above, name})
		for k, c := range m.Cells[i] {
			f := field{X: boardLeft + k*w + 1, Y: boardTop + i*h + 1, Title: c.Title}
			switch {
			case i == k:
				continue
			case c.Failed:
				f.Class, f.Text = "failed", "×"
			case !Log.fits(c.Value):
				f.Class = "none"
			default:
				f.Class = fmt.Sprintf("h%d", min(int(c.Value/top*Steps), Steps-1))
				f.Text = Number(c.Value)
			}
			if c.Marked {
				f.Class += " slow"
			}
			if w == small {
				f.Text = ""
			}
			b.Fields = append(b.Fields, f)
		}
	}
	return b
}

func short(name string) string {
	if r := []rune(name); len(r) > longestName {
		return string(r[:longestName-1]) + "…"
	}
	return name
}
