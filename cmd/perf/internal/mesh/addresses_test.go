package mesh

import (
	"net"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
)

// TestAddresses: hosts with several networks find each other on one that both have; an address that several hosts have
// leads to none of them.
func TestAddresses(t *testing.T) {
	host := func(given, seen string, addrs ...string) *member {
		a := &agent.Remote{Addr: net.ParseIP(seen), Here: net.ParseIP("10.78.1.1")}
		a.Addrs = addrs
		return &member{Host: Host{Name: "n", Addr: given}, agent: a}
	}
	both := host("", "10.78.1.3", "10.78.1.3/24", "10.77.1.3/24", "172.17.0.1/16", "127.0.0.1/8", "nonsense")
	one := host("", "10.77.1.2", "10.77.1.2/24", "172.17.0.1/16")
	given := host("n9", "10.77.1.9", "10.77.1.9/24", "10.78.1.9/24")
	local := host("", "127.0.0.1", "10.1.1.1/24")
	plain := host("", "10.5.0.1")
	m := &coordinator{hosts: []*member{both, one, given, local, plain}, present: []int{0, 1, 2, 3, 4}}
	m.settleHomes()
	for _, tt := range []struct {
		from, to *member
		want     string
	}{
		{one, both, "10.77.1.3 10.78.1.3"},
		{both, one, "10.77.1.2"},
		{given, both, "10.78.1.3 10.77.1.3"},
		{one, given, "n9 10.77.1.9 10.78.1.9"},
		{plain, both, "10.78.1.3 10.77.1.3"},
		{local, local, "127.0.0.1"},
		{one, plain, "10.5.0.1"},
	} {
		if got := strings.ReplaceAll(m.addresses(tt.from, tt.to), "+", " "); got != tt.want {
			t.Errorf("from %v to %v: %s, want %s", tt.from.agent.Addr, tt.to.agent.Addr, got, tt.want)
		}
	}
}
