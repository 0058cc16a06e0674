package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// rawOnly rejects an object whose rings ibv or libmlx5 writes.
func rawOnly(kind string, path ibv.DataPath, why string) error {
	switch path {
	case ibv.DataPathRaw:
		return nil
	case ibv.DataPathDirect:
		return &ibv.UnsupportedError{Feature: "a view of the " + kind,
			Need: "CQs (and an SRQ) made with the option DataPath: ibv.DataPathRaw",
			Have: "rings that package ibv writes (" + why + "); two writers would overwrite each other"}
	}
	return &ibv.UnsupportedError{Feature: "a view of the " + kind,
		Need: "CQs (and an SRQ) made with the option DataPath: ibv.DataPathRaw",
		Have: fmt.Sprintf("rings that libmlx5 writes (%v: %s); it cannot handle completions of what others post", path,
			why)}
}

// Ring is a queue of work requests in memory that libmlx5 allocated and the device reads. The
// memory is freed when the object is closed.
type Ring struct {
	Buf    []byte // the whole ring
	Stride uint32 // bytes of an entry: 64 for sends, whose WQEs take one or more entries
	Count  uint32 // entries, a power of two; 0 if there is no such queue
}

// Entry returns the memory of the entry for i, a free-running index.
func (r *Ring) Entry(i uint32) []byte {
	if r.Count == 0 {
		return nil
	}
	at := uint64(i&(r.Count-1)) * uint64(r.Stride)
	return r.Buf[at : at+uint64(r.Stride)]
}
