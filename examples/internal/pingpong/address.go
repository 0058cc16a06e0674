package pingpong

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// AddressOf is the way from our queue pair to the peer, for an address handle.
// Connected queue pairs do not need it: Connect does the same inside.
func AddressOf(dev *ibv.Context, o *Options, mine, peer ibv.Endpoint) (*ibv.AHAttr, error) {
	a := &ibv.AHAttr{Port: o.Port, DLID: peer.LID, SL: o.SL}
	if peer.GID.IsZero() {
		return a, nil
	}
	index := o.GID
	if index == ibv.BestGID {
		var err error
		if index, err = indexOf(dev, o.Port, mine.GID); err != nil {
			return nil, err
		}
	}
	a.Global, a.DGID, a.SGIDIndex, a.HopLimit = true, peer.GID, uint8(index), 64
	return a, nil
}

// indexOf finds a GID in the table. On RoCE it may be there twice, for versions
// 1 and 2: the newer one counts.
func indexOf(dev *ibv.Context, port uint8, gid ibv.GID) (int, error) {
	table, err := dev.GIDTable()
	if err != nil {
		return 0, err
	}
	found := -1
	var version ibv.GIDType
	for _, e := range table {
		if e.Port == port && e.GID == gid && (found < 0 || e.Type > version) {
			found, version = e.Index, e.Type
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("port %d of %s has lost its GID %v", port, dev.Name(), gid)
	}
	return found, nil
}
