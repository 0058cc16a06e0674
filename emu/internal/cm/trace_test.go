//go:build linux

package cm

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTrace(t *testing.T) {
	s := world(t)
	var got []Record
	s.Trace = func(r Record) { got = append(got, r) }
	p := newProg(t, s, "p")
	i := p.create(1, psTCP)
	cmd(p, 10, idOnly{i}, 0)
	p.must(cmd(p, 3, resolveIP{Dst: sockaddr("10.0.0.1:7000"), ID: i}, 0))
	want := []Record{{TID: 1, Name: "CM_CREATE_ID"}, {TID: 1, Name: "CM_DISCONNECT", Errno: unix.EINVAL},
		{Name: "EVENT ADDR_RESOLVED"}, {TID: 1, Name: "CM_RESOLVE_IP"}}
	if !slices.Equal(got, want) {
		t.Errorf("trace %+v, want %+v", got, want)
	}
}
