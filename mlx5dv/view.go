package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/life"
)

// rawOnly rejects an object whose rings ibv or libmlx5 writes.
func rawOnly(kind string, path ibv.DataPath, why string) error {
	have := "rings that package ibv writes (" + why + "); two writers would overwrite each other"
	switch path {
	case ibv.DataPathRaw:
		return nil
	case ibv.DataPathDirect:
	default:
		have = fmt.Sprintf("rings that libmlx5 writes (%v: %s); it cannot handle completions of what others post", path,
			why)
	}
	return &ibv.UnsupportedError{Feature: "a view of the " + kind,
		Need: "CQs (and an SRQ) made with the option DataPath: ibv.DataPathRaw", Have: have}
}

// view returns what get has of an object whose rings are the caller's: a QP, CQ, SRQ or WQ made with ibv.DataPathRaw.
func view[C any](op, kind, a string, ref life.Ref, dev *ibv.Device, path func() (ibv.DataPath, string),
	get func(lib control.MLX5, h uintptr) (*C, error)) (rings *C, err error) {
	if dev != nil {
		p, why := path()
		if err := rawOnly(kind, p, why); err != nil {
			return nil, opError(op, dev.Name(), err)
		}
	}
	err = onObject(op, kind, a, ref, dev, func(c *call, h uintptr) (err error) {
		rings, err = get(c.lib, h)
		return err
	})
	return rings, err
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
