package session

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

func TestCheckPeer(t *testing.T) {
	v4 := wire.Dest{GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}}
	v6 := wire.Dest{GID: [16]byte{0: 0xfd, 15: 1}}
	for _, tc := range []struct {
		link      ibv.LinkLayer
		flags     uint8
		own, peer wire.Dest
		want      string
	}{
		{ibv.LinkEthernet, 0, v4, v4, ""},
		{ibv.LinkEthernet, 0, v4, v6, "one is IPv4, the other is not"},
		{ibv.LinkEthernet, 0, v4, wire.Dest{}, "uses rdma_cm (-R)"},
		{ibv.LinkInfiniBand, 0, v6, wire.Dest{}, ""}, // there are LIDs
		{ibv.LinkInfiniBand, 1, v6, wire.Dest{}, "sent no GID"},
	} {
		s := &sockets{Session: &Session{port: &ibv.PortAttr{LinkLayer: tc.link, Flags: tc.flags},
			own: []wire.Dest{tc.own}, peer: []wire.Dest{tc.peer}, plan: plan.Plan{}}}
		err := s.checkPeer()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.peer.GID, err, tc.want)
		}
	}
}
