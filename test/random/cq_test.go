//go:build linux

package random

import (
	"context"
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// hub is a CQ that distributes its completions to their QPs.
type hub struct {
	cq  *ibv.CQ
	mu  sync.Mutex // polling and sorting are one thing: the order of each QP's completions is to be kept
	box map[uint32]*box
	wcs [16]ibv.WC

	least, turns int  // its first size, 0 for not yet known, and pumps that found completions
	fixed        bool // it is not resized: of the entry that ends a ring, libmlx5 counts one more
}

// resizeEvery is how many pumps that found completions come between two resizes.
const resizeEvery = 64

// box holds the completions of a QP.
type box struct{ wcs []ibv.WC }

func (h *hub) add(qpn uint32, b *box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.box[qpn] = b
}

// remove forgets a closed QP. Its number may already be in use again.
func (h *hub) remove(qpn uint32, b *box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.box[qpn] == b {
		delete(h.box, qpn)
	}
	b.wcs = nil
}

// clear discards the completions of a QP that was reset.
func (h *hub) clear(b *box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.wcs = nil
}

// take returns the completions of a QP.
func (h *hub) take(b *box) []ibv.WC {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := b.wcs
	b.wcs = nil
	return w
}

// pump moves completions into the boxes. With a context it waits for one.
func (h *hub) pump(wait context.Context) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait != nil {
		n, err = h.cq.Wait(wait, h.wcs[:])
	} else {
		n, err = h.cq.Poll(h.wcs[:])
	}
	for _, wc := range h.wcs[:n] {
		b := h.box[wc.QPN]
		if b == nil {
			return n, fmt.Errorf("a completion of QP %#x, which is not there: %+v", wc.QPN, wc)
		}
		b.wcs = append(b.wcs, wc)
	}
	if n > 0 && !h.fixed {
		if h.least == 0 {
			h.least = h.cq.Cap().CQE
		}
		if h.turns++; h.turns%resizeEvery == 0 {
			if e := h.cq.Resize(h.least << (h.turns / resizeEvery % 3)); e != nil {
				return n, e
			}
		}
	}
	return n, err
}

// newHub makes a CQ. On the emulated devices' direct data path, three of four have compressed completions, in one of
// the three formats.
func (s *station) newHub(opt *ibv.CQOptions, turn int) (*hub, error) {
	n := s.g.completions()
	formats := []mlx5dv.CQEFormats{0, mlx5dv.CQEHash, mlx5dv.CQEChecksum, mlx5dv.CQEChecksumStride}
	format := formats[(n+turn)%len(formats)]
	var cq *ibv.CQ
	var err error
	if s.p.masked && format != 0 {
		cq, err = mlx5dv.CreateCQ(s.h.dev, n, &mlx5dv.CQOptions{CQOptions: *opt, Compression: format,
			UntriedCompression: true})
	} else {
		format = 0
		cq, err = s.h.dev.CreateCQ(n, opt)
	}
	if err != nil {
		return nil, err
	}
	return &hub{cq: cq, box: make(map[uint32]*box), fixed: s.p.wire || format != 0}, nil
}
