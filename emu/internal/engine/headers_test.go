//go:build linux

package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// TestSpecs compares the numbers of specs with those of the C headers, in every release that the table has.
func TestSpecs(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/abi/consts.json")
	if err != nil {
		t.Fatal(err)
	}
	var consts map[string]map[string]int
	if err := json.Unmarshal(text, &consts); err != nil {
		t.Fatal(err)
	}
	for name, ours := range map[string]int{
		"ETH":          hca.SpecEth,
		"IPV4":         hca.SpecIPv4,
		"IPV6":         hca.SpecIPv6,
		"ESP":          hca.SpecESP,
		"TCP":          hca.SpecTCP,
		"UDP":          hca.SpecUDP,
		"VXLAN_TUNNEL": hca.SpecVXLAN,
		"GRE":          hca.SpecGRE,
		"MPLS":         hca.SpecMPLS,
		"INNER":        hca.SpecInner,
	} {
		releases := consts["IBV_FLOW_SPEC_"+name]
		if len(releases) == 0 {
			t.Errorf("%s: the table has no such constant", name)
		}
		for release, is := range releases {
			if ours != is {
				t.Errorf("%s: %#x, the headers of %s have %#x", name, ours, release, is)
			}
		}
	}
}

// TestGeneve finds the frame in a tunnel of Geneve, behind its options.
func TestGeneve(t *testing.T) {
	eth := "0200000000020200000000010800"
	ip := func(proto string) string { return "450000540000000040" + proto + "00000a0000010a000002" }
	for _, c := range []struct {
		name, geneve, inner string
		version             uint8
		frame               bool
	}{
		{"Ethernet", "0000655800000100", eth + ip("11") + "1000200000080000", 4, true},
		{"options", "010065580000010001020304", eth + ip("11") + "1000200000080000", 4, true},
		{"IPv4", "0000080000000100", ip("11") + "1000200000080000", 4, false},
		{"nothing known", "0000123400000100", ip("11"), 0, false},
		{"cut off", "3f00655800000100", "", 0, false},
	} {
		var f []byte
		if _, err := fmt.Sscanf(eth+ip("11")+"c00017c100400000"+c.geneve+c.inner, "%x", &f); err != nil {
			t.Fatal(err)
		}
		var h headers
		h.parse(f)
		if in := &h.inner; in.version != c.version || (in.eth != nil) != c.frame || c.version > 0 && in.ports == nil {
			t.Errorf("%s: version %d, Ethernet %v, ports %x", c.name, in.version, in.eth != nil, in.ports)
		}
	}
}
