//go:build linux

package posts

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_PostsRaw checks that raw packet QPs are refused: by the direct data path before anything is created, and
// otherwise by the emulated adapter, which has no Ethernet.
func TestRXE_PostsRaw(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("compares the two data paths: runs on the emulated device only")
	}
	tab := newTable(t, rxe)
	defer tab.close()
	h := tab.hosts[0]
	for _, path := range []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps} {
		cq, err := h.dev.CreateCQ(16, &ibv.CQOptions{DataPath: path})
		tab.must(err)
		var ue *ibv.UnsupportedError
		_, err = h.pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket})
		if !errors.Is(err, ibv.ErrNotSupported) || errors.As(err, &ue) != (path == ibv.DataPathDirect) {
			t.Errorf("a raw packet QP with %v: %v", path, err)
		}
		tab.must(cq.Close())
	}
}
