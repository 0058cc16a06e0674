package rdma

import "sync/atomic"

const (
	pageBits = 12
	pageLen  = 1 << pageBits
)

// linkTable finds the connection of a QPN, which has 24 bits. Readers take no lock.
type linkTable struct {
	pages [1 << (24 - pageBits)]atomic.Pointer[linkPage]
}

type linkPage [pageLen]atomic.Pointer[link]

// get returns the connection of a QPN, or nil.
func (t *linkTable) get(qpn uint32) *link {
	p := t.pages[qpn>>pageBits&(1<<(24-pageBits)-1)].Load()
	if p == nil {
		return nil
	}
	return p[qpn&(pageLen-1)].Load()
}

func (t *linkTable) set(qpn uint32, l *link) {
	at := &t.pages[qpn>>pageBits&(1<<(24-pageBits)-1)]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(linkPage))
	}
	at.Load()[qpn&(pageLen-1)].Store(l)
}

// clear forgets l.
func (t *linkTable) clear(l *link) {
	if p := t.pages[l.qpn>>pageBits&(1<<(24-pageBits)-1)].Load(); p != nil {
		p[l.qpn&(pageLen-1)].CompareAndSwap(l, nil)
	}
}
