package link

import (
	"math/rand/v2"
	"testing"
)

// has counts the table's pages.
func (t *linkTable) has() (n int) {
	for i := range t.pages {
		if t.pages[i].Load() != nil {
			n++
		}
	}
	return n
}

// TestLinkTable compares random changes with a map.
func TestLinkTable(t *testing.T) {
	var table linkTable
	rnd := rand.New(rand.NewPCG(1, 1))
	model := map[uint32]*Link{}
	qpns := []uint32{0, 1, pageLen - 1, pageLen, pageLen + 1, 5 * pageLen, 1<<24 - 1}
	for range 20000 {
		qpn := qpns[rnd.IntN(len(qpns))]
		switch l := model[qpn]; {
		case l == nil || rnd.IntN(4) == 0: // the QPN is used again before the last user is forgotten
			n := &Link{QPN: qpn}
			table.set(qpn, n)
			model[qpn] = n
			if l != nil {
				table.clear(l)
			}
		default:
			table.clear(l)
			table.clear(l)
			delete(model, qpn)
		}
		for _, q := range qpns {
			if got := table.get(q); got != model[q] {
				t.Fatalf("QPN %#x: %p, want %p", q, got, model[q])
			}
		}
		pages := map[int]bool{}
		for q := range model {
			pages[pageOf(q)] = true
		}
		if n := table.has(); n > len(pages)+1 {
			t.Fatalf("%d pages for connections in %d", n, len(pages))
		}
	}
}

// TestLinkTable_Flat: connections that come and go take no memory, though each has another QPN.
func TestLinkTable_Flat(t *testing.T) {
	var table linkTable
	stays := &Link{QPN: 7}
	table.set(stays.QPN, stays)
	for qpn := uint32(pageLen); qpn < 1<<24; qpn += 100 {
		l := &Link{QPN: qpn}
		table.set(qpn, l)
		if table.get(qpn) != l {
			t.Fatalf("QPN %#x is not found", qpn)
		}
		table.clear(l)
	}
	if n := table.has(); n != 2 {
		t.Errorf("%d pages, want that of the open connection and one", n)
	}
	if table.get(stays.QPN) != stays {
		t.Error("the open connection is not found")
	}
}
