package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// TestPeerMemory bounds what a peer's pages can cost.
func TestPeerMemory(t *testing.T) {
	for _, tt := range []struct {
		size        uint64
		qps         int
		page, line  int
		slot, total uint64
		ok          bool
	}{
		{65536, 1, 4096, 64, 65536, 131072, true},
		{2, 1, 65536, 128, 65536, 131072, true},
		{2, 64, 256 << 10, 64, 256 << 10, 32 << 20, true},
		{2, 16384, 4096, 64, 4096, 128 << 20, true},     // as many as there may be
		{65536, 16384, 65536, 64, 65536, 2 << 30, true}, // the size is this end's wish
		{2, 1024, 256 << 10, 64, 0, 0, false},
		{2, 16384, 256 << 10, 64, 0, 0, false},
	} {
		p := &plan.Plan{Options: plan.Options{Size: tt.size, QPs: tt.qps}}
		slot, total, err := areas(p, 4096, wire.Agreed{PageSize: tt.page, CacheLine: tt.line})
		if tt.ok != (err == nil) || slot != tt.slot || total != tt.total {
			t.Errorf("%+v: slot %d, total %d, error %v", tt, slot, total, err)
		}
		var pe *PeerMemoryError
		if !tt.ok && (!errors.As(err, &pe) || pe.PageSize != tt.page || pe.QPs != tt.qps ||
			!strings.Contains(err.Error(), "(-q)")) {
			t.Errorf("%+v: error %v, want a *PeerMemoryError", tt, err)
		}
	}
}
