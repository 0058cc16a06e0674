package hostfacts

import (
	"encoding"
	"fmt"
	"testing"
)

// TestNames: each value of each enumeration has a name, and others print as PortState(17). What is encoded as text is
// decoded to the same value.
func TestNames(t *testing.T) {
	for _, tc := range []struct {
		kind        string
		first, last int
		of          func(int) fmt.Stringer
	}{
		{"NodeType", 1, 7, func(n int) fmt.Stringer { return NodeType(n) }},
		{"PortState", 0, 5, func(n int) fmt.Stringer { return PortState(n) }},
		{"PhysState", 0, 7, func(n int) fmt.Stringer { return PhysState(n) }},
		{"GIDType", -3, 2, func(n int) fmt.Stringer { v := GIDType(n); return &v }},
		{"Scope", 0, 7, func(n int) fmt.Stringer { v := Scope(n); return &v }},
		{"AddressState", 0, 7, func(n int) fmt.Stringer { v := AddressState(n); return &v }},
		{"LinkState", 0, 2, func(n int) fmt.Stringer { v := LinkState(n); return &v }},
	} {
		seen := map[string]bool{}
		for n := tc.first; n <= tc.last+1; n++ {
			v := tc.of(n)
			s, unnamed := v.String(), fmt.Sprintf("%s(%d)", tc.kind, n)
			if (s == unnamed) != (n > tc.last) || seen[s] {
				t.Errorf("%s %d: %s", tc.kind, n, s)
			}
			seen[s] = true
			if to, ok := v.(encoding.TextUnmarshaler); ok {
				b, err := v.(encoding.TextMarshaler).MarshalText()
				other := tc.of(tc.first).(encoding.TextUnmarshaler)
				if err2 := other.UnmarshalText(b); err != nil || err2 != nil || fmt.Sprint(other) != s {
					t.Errorf("%s: %v, %v, %v", s, other, err, err2)
				}
				for _, bad := range []string{"", "nonsense", tc.kind + "(", tc.kind + "(99999999999)",
					tc.kind + "(17) "} {
					if err := to.UnmarshalText([]byte(bad)); err == nil {
						t.Errorf("%s of %q: %v", tc.kind, bad, to)
					}
				}
			}
		}
		if s := tc.of(17).String(); s != tc.kind+"(17)" {
			t.Errorf("%s", s)
		}
	}
	for want, v := range map[string]fmt.Stringer{"unknown": PortUnknown, "ACTIVE": PortActive, "CA": NodeCA,
		"LinkUp": PhysLinkUp} {
		if v.String() != want {
			t.Errorf("%v, want %s", v, want)
		}
	}
}
