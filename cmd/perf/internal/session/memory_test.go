package session

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// TestPeerMemory bounds what a peer can cost: by its pages, by what a server that just waits takes from it, and by
// both.
func TestPeerMemory(t *testing.T) {
	type end struct {
		size uint64
		qps  int
	}
	for _, tt := range []struct {
		started     end // this end
		asked       wire.Asked
		page, line  int
		slot, total uint64
		ok          bool
	}{
		{end{65536, 1}, wire.Asked{}, 4096, 64, 65536, 131072, true},
		{end{2, 1}, wire.Asked{}, 65536, 128, 65536, 131072, true},
		{end{2, 64}, wire.Asked{}, 256 << 10, 64, 256 << 10, 32 << 20, true},
		{end{2, 16384}, wire.Asked{}, 4096, 64, 4096, 128 << 20, true},     // as many as there may be
		{end{65536, 16384}, wire.Asked{}, 65536, 64, 65536, 2 << 30, true}, // the size is this end's wish
		{end{2, 1024}, wire.Asked{}, 256 << 10, 64, 0, 0, false},
		{end{2, 16384}, wire.Asked{}, 256 << 10, 64, 0, 0, false},

		{end{2, 1}, wire.Asked{QPs: 128, Size: 1 << 20}, 4096, 64, 1 << 20, 256 << 20, true},
		{end{2, 1}, wire.Asked{QPs: 129, Size: 1 << 20}, 4096, 64, 0, 0, false},
		{end{1 << 20, 129}, wire.Asked{QPs: 129, Size: 1 << 20}, 4096, 64, 1 << 20, 258 << 20, true},
		{end{2, 1}, wire.Asked{QPs: 512}, 256 << 10, 64, 256 << 10, 256 << 20, true},
		{end{2, 1}, wire.Asked{QPs: 1000}, 256 << 10, 64, 0, 0, false},
		{end{2, 1}, wire.Asked{QPs: 16384, Size: math.MaxUint64}, 4096, 64, 0, 0, false},
	} {
		p := plan.Plan{Options: plan.Options{Load: plan.Load{Size: tt.started.size},
			Queues: plan.Queues{QPs: tt.started.qps}}}
		_, own, err := areas(&p, 4096, 64)
		if err != nil {
			t.Fatal(err)
		}
		if tt.asked != (wire.Asked{}) {
			p = p.Take(tt.asked)
		}
		slot, total, err := areasWith(wire.Agreed{PageSize: tt.page, CacheLine: tt.line}, &p, own)
		if tt.ok != (err == nil) || slot != tt.slot || total != tt.total {
			t.Errorf("%+v: slot %d, total %d, error %v", tt, slot, total, err)
		}
		var pe *PeerMemoryError
		if !tt.ok && tt.asked.Size < 1<<40 && (!errors.As(err, &pe) || pe.PageSize != tt.page ||
			pe.QPs != p.Queues.QPs ||
			!strings.Contains(err.Error(), "(-q)")) {
			t.Errorf("%+v: error %v, want a *PeerMemoryError", tt, err)
		}
	}
}

// TestPeerMemoryPage: the page names the bound that there is.
func TestPeerMemoryPage(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/rdmaperf/two-hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("at most %d MiB more than it takes alone", mostForPeer>>20)
	if !strings.Contains(string(b), want) {
		t.Errorf("the page does not say %q", want)
	}
}
