package session

import (
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/netview"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// TestForeignReadsOnce: the addresses of this network namespace are read for the first entry only.
func TestForeignReadsOnce(t *testing.T) {
	view := newHere([]ibv.GIDEntry{{Port: 1, Index: 3, Type: ibv.GIDTypeRoCEv2, Netdev: "lo"}})
	again := testing.AllocsPerRun(10, func() { view.foreign(1, 3) }) // it runs once before it counts
	if read := testing.AllocsPerRun(10, func() { netview.New(sysfs.DefaultRoot()) }); again >= read {
		t.Errorf("another entry takes %v allocations, as many as the addresses: %v", again, read)
	}
}
