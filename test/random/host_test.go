//go:build linux

package random

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const patience = testutil.Patience

// host is one end of a program: an open device.
type host struct {
	dev    *ibv.Device
	shared *hub
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	cond   *sync.Cond
	events map[event]int
	failed error
}

// event is an asynchronous event of a QP or an SRQ.
type event struct {
	typ ibv.AsyncEventType
	of  any
}

func newHost(p *program, dev string) (*host, error) {
	d, err := ibv.Open(dev)
	if err != nil {
		return nil, err
	}
	h := &host{dev: d, done: make(chan struct{}), events: make(map[event]int)}
	h.cond = sync.NewCond(&h.mu)
	n := 0
	for _, g := range p.groups {
		if g.shared {
			n += g.completions()
		}
	}
	if n > 0 {
		cq, err := d.CreateCQ(n, nil)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		h.shared = &hub{cq: cq, box: make(map[uint32]*box)}
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	go h.listen(ctx)
	return h, nil
}

// completions returns the maximum number of completions that a group can have in one CQ.
func (g *group) completions() int {
	n := g.srqWR
	for _, l := range g.links {
		n += 8*l.opt.MaxSendWR + 2*l.opt.MaxRecvWR + 64
	}
	return n
}

func (h *host) listen(ctx context.Context) {
	defer close(h.done)
	for {
		ev, err := h.dev.AsyncEvent(ctx)
		h.mu.Lock()
		switch {
		case err != nil:
			if ctx.Err() == nil {
				h.failed = err
			}
		case ev.QP != nil:
			h.events[event{ev.Type, ev.QP}]++
		case ev.SRQ != nil:
			h.events[event{ev.Type, ev.SRQ}]++
		default:
			h.events[event{ev.Type, nil}]++
		}
		h.cond.Broadcast()
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits for an event, which must come.
func (h *host) expect(typ ibv.AsyncEventType, of any) error {
	late := time.AfterFunc(patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failed = errors.Join(h.failed, fmt.Errorf("no %v of %v", typ, of))
		h.cond.Broadcast()
	})
	defer late.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.events[event{typ, of}] == 0 && h.failed == nil {
		h.cond.Wait()
	}
	h.events[event{typ, of}]--
	return h.failed
}

// close ends the program at this end. It fails if an event is left.
func (h *host) close(emulated bool) error {
	h.stop()
	<-h.done
	err := h.failed
	for ev, n := range h.events {
		if n != 0 && (emulated || ev.typ == ibv.EventSRQLimitReached) {
			err = errors.Join(err, fmt.Errorf("%d events %v of %v that were not expected", n, ev.typ, ev.of))
		}
	}
	if h.shared != nil {
		err = errors.Join(err, h.shared.cq.Close())
	}
	return errors.Join(err, h.dev.Close())
}
