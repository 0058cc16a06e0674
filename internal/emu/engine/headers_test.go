//go:build linux

package engine

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// TestSpecs compares the numbers of specs with those that the verbs of this module pass.
func TestSpecs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ours, is int
	}{
		{"ETH", specEth, abi.IBV_FLOW_SPEC_ETH},
		{"IPV4", specIPv4, abi.IBV_FLOW_SPEC_IPV4},
		{"IPV6", specIPv6, abi.IBV_FLOW_SPEC_IPV6},
		{"ESP", specESP, abi.IBV_FLOW_SPEC_ESP},
		{"TCP", specTCP, abi.IBV_FLOW_SPEC_TCP},
		{"UDP", specUDP, abi.IBV_FLOW_SPEC_UDP},
		{"VXLAN_TUNNEL", specVXLAN, abi.IBV_FLOW_SPEC_VXLAN_TUNNEL},
		{"GRE", specGRE, abi.IBV_FLOW_SPEC_GRE},
		{"MPLS", specMPLS, abi.IBV_FLOW_SPEC_MPLS},
		{"INNER", specInner, abi.IBV_FLOW_SPEC_INNER},
	} {
		if tt.ours != tt.is {
			t.Errorf("%s: %#x, the verbs have %#x", tt.name, tt.ours, tt.is)
		}
	}
}
