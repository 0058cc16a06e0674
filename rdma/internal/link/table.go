package link

import (
	"sync"
	"sync/atomic"
)

const (
	pageBits  = 12
	pageLen   = 1 << pageBits
	linkPages = 1 << (24 - pageBits)
)

// linkTable finds the connection of a QPN, which has 24 bits. Readers take no lock.
type linkTable struct {
	pages [linkPages]atomic.Pointer[linkPage]

	mu    sync.Mutex // held to change a page
	empty int        // a page that may be empty: it is kept, as QPNs often follow each other
}

type linkPage struct {
	links [pageLen]atomic.Pointer[Link]
	used  int // under linkTable.mu
}

func pageOf(qpn uint32) int { return int(qpn >> pageBits & (linkPages - 1)) }

// get returns the connection of a QPN, or nil.
func (t *linkTable) get(qpn uint32) *Link {
	p := t.pages[pageOf(qpn)].Load()
	if p == nil {
		return nil
	}
	return p.links[qpn&(pageLen-1)].Load()
}

func (t *linkTable) set(qpn uint32, l *Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := &t.pages[pageOf(qpn)]
	if at.Load() == nil {
		at.Store(new(linkPage))
	}
	p := at.Load()
	if p.links[qpn&(pageLen-1)].Swap(l) == nil {
		p.used++
	}
}

// clear forgets l. Of the pages without a connection one is kept.
func (t *linkTable) clear(l *Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := pageOf(l.QPN)
	p := t.pages[n].Load()
	if p == nil || !p.links[l.QPN&(pageLen-1)].CompareAndSwap(l, nil) {
		return
	}
	if p.used--; p.used > 0 || n == t.empty {
		return
	}
	if last := t.pages[t.empty].Load(); last != nil && last.used == 0 {
		t.pages[t.empty].Store(nil)
	}
	t.empty = n
}
