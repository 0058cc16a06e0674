//go:build linux

package engine

import (
	"encoding/json"
	"os"
	"testing"
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
		"ETH":          specEth,
		"IPV4":         specIPv4,
		"IPV6":         specIPv6,
		"ESP":          specESP,
		"TCP":          specTCP,
		"UDP":          specUDP,
		"VXLAN_TUNNEL": specVXLAN,
		"GRE":          specGRE,
		"MPLS":         specMPLS,
		"INNER":        specInner,
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
