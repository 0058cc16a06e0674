package sockaddr

import (
	"net/netip"
	"slices"
	"testing"
)

// TestLookUp: a link-local address keeps its zone, without which no socket can use it.
func TestLookUp(t *testing.T) {
	for _, tc := range []struct{ network, host, want string }{
		{"ip", "fe80::1%lo", "fe80::1%lo"}, {"ip6", "fe80::1%7", "fe80::1%7"}, {"ip", "10.8.0.1", "10.8.0.1"},
		{"ip6", "10.8.0.1", ""}, {"ip4", "::1", ""}, {"ip", "::ffff:10.8.0.1", "10.8.0.1"},
	} {
		got, err := LookUp(t.Context(), tc.network, tc.host)
		if tc.want == "" {
			if err == nil {
				t.Errorf("%s %s: %v, want an error", tc.network, tc.host, got)
			}
			continue
		}
		if err != nil || !slices.Equal(got, []netip.Addr{netip.MustParseAddr(tc.want)}) {
			t.Errorf("%s %s: %v, %v, want %s", tc.network, tc.host, got, err, tc.want)
		}
	}
}
