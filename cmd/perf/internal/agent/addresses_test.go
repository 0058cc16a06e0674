package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestAddresses: an interface with hundreds of addresses takes no other one's place.
func TestAddresses(t *testing.T) {
	many := ""
	for i := range 500 {
		many += fmt.Sprintf(" 10.96.%d.%d/32", i/250, i%250+1)
	}
	for _, tt := range []struct {
		interfaces []string
		want       string // the first ones
		of         int
	}{
		{[]string{"127.0.0.1/8 ::1/128"}, "127.0.0.1/8 ::1/128", 2},
		{[]string{"127.0.0.1/8", "fe80::1/64 10.0.0.1/24 fd00::1/64", "10.1.0.1/24"},
			"10.0.0.1/24 10.1.0.1/24 fd00::1/64", 3},
		{[]string{"127.0.0.1/8", many, "10.0.0.1/24", "10.1.0.1/24 10.1.0.2/24"},
			"10.96.0.1/32 10.0.0.1/24 10.1.0.1/24 10.96.0.2/32 10.1.0.2/24 10.96.0.3/32", MostAddresses},
		{nil, "", 0},
	} {
		var interfaces [][]netip.Prefix
		for _, i := range tt.interfaces {
			var list []netip.Prefix
			for _, a := range strings.Fields(i) {
				list = append(list, netip.MustParsePrefix(a))
			}
			interfaces = append(interfaces, list)
		}
		var got []string
		for _, p := range choose(interfaces) {
			got = append(got, p.String())
		}
		if want := strings.Fields(tt.want); len(got) != tt.of || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%.100q: %d addresses %q, want %d, first %q", tt.interfaces, len(got), got, tt.of, want)
		}
	}
	list, err := Addresses()
	if err != nil || len(list) == 0 {
		t.Errorf("this host: %v, %v", list, err)
	}
}
