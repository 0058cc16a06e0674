package session

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/memory"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

const mostRooms = 16

type shelfKey struct{}

// With returns a context whose sessions use the shelf.
func (h *Shelf) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, shelfKey{}, h)
}

// take gives the shelf to a session whose test is simple enough.
func (s *Session) takeShelf() {
	h, _ := s.ctx.Value(shelfKey{}).(*Shelf)
	if p := &s.plan; h == nil || p.Queues.MRPerQP || p.ByCM() || p.Memory != (plan.Memory{}) || p.Link.DualPort {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.used {
		h.used, s.shelf = true, h
	}
}

// open opens a device, or takes the one that is open.
func (s *Session) open(device string) (*ibv.Device, error) {
	s.takeShelf()
	h := s.shelf
	if h == nil {
		return ibv.Open(device)
	}
	if h.dev != nil && h.name == device {
		return h.dev, nil
	}
	if err := h.clear(); err != nil {
		return nil, err
	}
	dev, err := ibv.Open(device)
	if err == nil {
		h.dev, h.name, h.tried = dev, device, map[trial]bool{}
		h.mem, h.gids = map[room]*memory.Memory{}, map[uint8]int{}
	}
	return dev, err
}

// allocPD makes a PD, or takes the one that is there.
func (s *Session) allocPD() (*ibv.PD, error) {
	h := s.shelf
	if h == nil {
		return s.dev.AllocPD()
	}
	if h.pd == nil {
		var err error
		if h.pd, err = h.dev.AllocPD(); err != nil {
			return nil, err
		}
	}
	return h.pd, nil
}

func (s *Session) newMemory(r room) (*memory.Memory, error) {
	return memory.Open(s.pd, int(r.size), r.access, &s.plan.Memory, r.node)
}

// shelved returns memory from the shelf, and makes it if there is none.
func (s *Session) shelved(r room) (*memory.Memory, error) {
	h := s.shelf
	if m := h.mem[r]; m != nil {
		return m, nil
	}
	var full error
	if len(h.mem) >= mostRooms {
		full = closeEach(slices.Collect(maps.Values(h.mem))...)
		clear(h.mem)
	}
	m, err := s.newMemory(r)
	if err == nil {
		h.mem[r] = m
	}
	return m, errors.Join(full, err)
}

// auto reports whether the session has the best GID of its port, which is the same for all.
func (s *Session) auto() bool {
	p := &s.plan
	return s.shelf != nil && p.Link.GIDIndex == plan.Auto && !p.Link.GIDv6 && p.Link.PKeyIndex == 0 &&
		p.Transport != wire.RawEth &&
		s.port.GRHRequired()
}

// takeGID takes the GID that an earlier session has chosen, if there was one.
func (s *Session) takeGID() bool {
	if !s.auto() {
		return false
	}
	index, known := s.shelf.gids[s.plan.Link.IBPort]
	if known {
		s.plan.Link.GIDIndex = index
	}
	return known
}

// keepGID remembers it.
func (s *Session) keepGID() error {
	if !s.auto() {
		return nil
	}
	best, err := s.dev.BestGID(s.plan.Link.IBPort)
	if err == nil {
		s.shelf.gids[s.plan.Link.IBPort], s.plan.Link.GIDIndex = best.Index, best.Index
	}
	return err
}

// giveBack leaves the device and memory on the shelf. After anything that went wrong it is cleared.
func (s *Session) giveBack(err error) error {
	h := s.shelf
	s.shelf, s.dev, s.pd, s.mrs = nil, nil, nil, nil
	if err != nil {
		err = errors.Join(err, h.clear())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = false
	return err
}

func (h *Shelf) clear() error {
	err := errors.Join(closeEach(slices.Collect(maps.Values(h.mem))...), closeEach(h.pd), closeEach(h.dev))
	h.mem, h.pd, h.dev = nil, nil, nil
	return err
}

// Device returns the device that is open, or nil.
func (h *Shelf) Device() *ibv.Device {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dev
}

// Close closes what is on the shelf. No session may have it; after a failed test this makes the next one begin anew.
func (h *Shelf) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used {
		return errors.New("a session uses the shelf")
	}
	return h.clear()
}

// tries reports whether the device has to show that it makes such queue pairs.
func (s *Session) tries() bool {
	h := s.shelf
	if h == nil {
		return true
	}
	p := &s.plan
	t := trial{p.Queues.QPs, p.Queues.TxDepth, p.Queues.RxDepth, p.Queues.Inline, p.Verb, p.Transport}
	if h.tried[t] {
		return false
	}
	h.tried[t] = true
	return true
}
