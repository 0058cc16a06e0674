package ibv

import (
	_ "embed"
	"strings"
	"testing"
)

//go:embed testdata/transitions.txt
var transitionsText string

// tableRow is a line of testdata/transitions.txt.
type tableRow struct{ required, optional string }

func readTransitions(t *testing.T) map[string]tableRow {
	t.Helper()
	rows := make(map[string]tableRow)
	for line := range strings.Lines(transitionsText) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		if len(f) != 5 {
			t.Fatalf("line %q", line)
		}
		rows[strings.Join(f[:3], " ")] = tableRow{f[3], f[4]}
	}
	return rows
}

// noState prints a mask without State, "-" if that leaves none.
func noState(m QPAttrMask) string {
	if m &^= MaskState; m == 0 {
		return "-"
	}
	return m.String()
}

// Every type, from every state to every state, against a table that was written
// down apart from the code.
func TestTransitions(t *testing.T) {
	rows := readTransitions(t)
	used := 0
	for _, typ := range []QPType{RC, UC, UD, RawPacket, XRCSend, XRCRecv, Driver, 0, 77} {
		for from := StateReset; from <= StateUnknown+1; from++ {
			for to := StateReset; to <= StateUnknown+1; to++ {
				name := typ.String() + " " + from.String() + " " + to.String()
				row, legal := rows[name]
				switch {
				case legal:
					used++
				case !hasTransitions(typ) || from > StateErr:
				case to == StateReset, to == StateErr && from != StateReset:
					legal, row = true, tableRow{"-", "-"}
				}
				required, optional, ok := RequiredAttrs(typ, from, to)
				if ok != legal {
					t.Errorf("%s: legal is %v, want %v", name, ok, legal)
					continue
				}
				if !ok {
					if required != 0 || optional != 0 {
						t.Errorf("%s is illegal and has attributes %v, %v", name, required, optional)
					}
					missing, superfluous, legal := checkTransition(typ, from, to, MaskState|MaskPort)
					if missing != 0 || superfluous != 0 || legal != !hasTransitions(typ) {
						t.Errorf("%s: checkTransition says %v, %v, %v", name, missing, superfluous, legal)
					}
					continue
				}
				if noState(required) != row.required || noState(optional) != row.optional {
					t.Errorf("%s: required %s, optional %s; want %s, %s", name, noState(required), noState(optional),
						row.required, row.optional)
				}
				if required&optional != 0 {
					t.Errorf("%s: %v is required and optional", name, required&optional)
				}
				if stays := from == to; required&MaskState == 0 != stays || optional&MaskState == 0 == stays {
					t.Errorf("%s: State is in required %v, optional %v", name, required, optional)
				}
				checkMasks(t, name, typ, from, to, required, optional)
			}
		}
	}
	if used != len(rows) || used < 50 {
		t.Errorf("%d of %d rows used", used, len(rows))
	}
}

// checkMasks leaves out and adds each bit in turn.
func checkMasks(t *testing.T, name string, typ QPType, from, to QPState, required, optional QPAttrMask) {
	for _, mask := range []QPAttrMask{required, required | optional} {
		if m, s, ok := checkTransition(typ, from, to, mask); m != 0 || s != 0 || !ok {
			t.Errorf("%s with %v: missing %v, superfluous %v, legal %v", name, mask, m, s, ok)
		}
	}
	for i := range 32 {
		bit := QPAttrMask(1) << i
		m, s, ok := checkTransition(typ, from, to, required^bit)
		wantM, wantS := QPAttrMask(0), QPAttrMask(0)
		switch {
		case required&bit != 0:
			wantM = bit
		case optional&bit == 0:
			wantS = bit
		}
		if m != wantM || s != wantS || !ok {
			t.Errorf("%s with %v: missing %v, superfluous %v; want %v, %v", name, required^bit, m, s, wantM, wantS)
		}
	}
}

func TestNextStates(t *testing.T) {
	for _, tt := range []struct {
		typ  QPType
		from QPState
		want string
	}{
		{RC, StateReset, "INIT"},
		{RC, StateInit, "RESET, RTR, ERR"},
		{RC, StateRTS, "RESET, SQD, ERR"},
		{UD, StateSQE, "RESET, RTS, ERR"},
		{RC, StateErr, "RESET"},
		{RC, StateUnknown, "no known state"},
		{Driver, StateReset, "no known state"},
	} {
		if got := nextStates(tt.typ, tt.from); got != tt.want {
			t.Errorf("%v %v: %q, want %q", tt.typ, tt.from, got, tt.want)
		}
	}
}
