package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// rawOnly refuses an object whose rings somebody else writes.
func rawOnly(kind string, path ibv.DataPath, why string) error {
	switch path {
	case ibv.DataPathRaw:
		return nil
	case ibv.DataPathDirect:
		return &ibv.UnsupportedError{Feature: "a view of the " + kind,
			Need: "CQs (and an SRQ) made with the option DataPath: ibv.DataPathRaw",
			Have: "rings that package ibv writes itself (" + why + "); two writers would overwrite each other"}
	}
	return &ibv.UnsupportedError{Feature: "a view of the " + kind,
		Need: "CQs (and an SRQ) made with the option DataPath: ibv.DataPathRaw",
		Have: fmt.Sprintf("rings that libmlx5 writes (%v: %s), which knows of no completion of what others post", path,
			why)}
}

// Ring is a queue of work requests in memory that libmlx5 has allocated and the device
// reads. It is gone when the object is closed.
type Ring struct {
	Buf    []byte // all of it
	Stride uint32 // bytes of an entry: 64 for sends, whose WQEs take one entry or more
	Count  uint32 // entries, a power of two; 0 for a queue that is not there
}

// Entry is the memory of entry i of a free-running count.
func (r *Ring) Entry(i uint32) []byte {
	if r.Count == 0 {
		return nil
	}
	at := uint64(i&(r.Count-1)) * uint64(r.Stride)
	return r.Buf[at : at+uint64(r.Stride)]
}
