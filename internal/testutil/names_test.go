package testutil

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	a, b, six := netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	Names(t, map[string][]netip.Addr{"two.test": {a, b}, "both.test": {six, a}})
	for name, want := range map[string][]string{
		"two.test": {"127.0.0.9", "127.0.0.1"}, "both.test": {"::1", "127.0.0.9"},
	} {
		got, err := net.DefaultResolver.LookupHost(t.Context(), name)
		if name == "both.test" { // which comes first depends on the host's routes
			slices.Sort(got)
			slices.Sort(want)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	var dns *net.DNSError
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "other.test"); !errors.As(err, &dns) || !dns.IsNotFound {
		t.Errorf("another name: %v", err)
	}
}
